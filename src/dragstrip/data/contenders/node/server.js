"use strict";
// node server.js PORT WORKERS MARK: both workloads, as one would write them with node:http alone.
const http = require("node:http");
const cluster = require("node:cluster");

const [port, workers] = process.argv.slice(2, 4).map(Number);
const mark = process.argv[4];
const HELLO = "hello world\n";

function answer(response, status, type, body) {
  response.writeHead(status, { "Content-Type": type, "Content-Length": Buffer.byteLength(body) });
  response.end(body);
}

function handle(request, response) {
  if (request.url === "/") return answer(response, 200, "text/plain", HELLO);
  const [path, query] = request.url.split("?", 2);
  if (path !== "/multiply") return answer(response, 404, "text/plain", "not found\n");
  const given = new URLSearchParams(query);
  const a = Number.parseInt(given.get("a"), 10);
  const b = Number.parseInt(given.get("b"), 10);
  if (Number.isNaN(a) || Number.isNaN(b)) return answer(response, 400, "text/plain", "a and b must be numbers\n");
  answer(
    response,
    200,
    "text/html",
    `<html><body><p>Hello ${mark}!</p><p>PATH=${path}</p><p>RESULT: ${a}*${b}=${a * b}</p></body></html>\n`,
  );
}

function serve() {
  const server = http.createServer({ keepAliveTimeout: 75000 }, handle);
  server.listen({ host: "127.0.0.1", port, backlog: 4096 });
  process.on("SIGTERM", () => {
    server.close(() => process.exit(0));
    server.closeAllConnections();
  });
}

function supervise() {
  let stopping = false;
  for (let i = 0; i < workers; i += 1) cluster.fork();
  process.on("SIGTERM", () => {
    stopping = true;
    for (const worker of Object.values(cluster.workers)) worker.process.kill("SIGTERM");
  });
  cluster.on("exit", (worker, code, signal) => {
    if (stopping) return;
    // Fewer workers than told would be measured as if nothing had happened.
    console.error(`worker ${worker.process.pid} ended (${signal || code})`);
    process.exit(1);
  });
}

if (workers > 1 && cluster.isPrimary) supervise();
else serve();
