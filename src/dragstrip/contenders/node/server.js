"use strict";
// node server.js PORT WORKERS: both workloads, as one would write them with node:http alone.
const http = require("node:http");
const cluster = require("node:cluster");
const mark = require("./mark.json");

const port = Number(process.argv[2]);
const workers = Number(process.argv[3]);
const HELLO = "hello world\n";

function answer(response, type, body) {
  response.writeHead(200, { "Content-Type": type, "Content-Length": Buffer.byteLength(body) });
  response.end(body);
}

function handle(request, response) {
  if (request.url === "/") return answer(response, "text/plain", HELLO);
  const url = new URL(request.url, "http://localhost");
  if (url.pathname !== "/multiply") {
    response.writeHead(404, { "Content-Length": 0 });
    return response.end();
  }
  const a = Number(url.searchParams.get("a"));
  const b = Number(url.searchParams.get("b"));
  answer(
    response,
    "text/html",
    `<html><body><p>Hello ${mark}!</p><p>PATH=${url.pathname}</p><p>RESULT: ${a}*${b}=${a * b}</p></body></html>\n`,
  );
}

function serve() {
  const server = http.createServer({ keepAliveTimeout: 75000 }, handle);
  server.maxRequestsPerSocket = 0;
  server.listen({ host: "127.0.0.1", port, backlog: 4096 });
  process.on("SIGTERM", () => {
    server.close(() => process.exit(0));
    server.closeAllConnections();
  });
}

if (workers > 1 && cluster.isPrimary) {
  for (let i = 0; i < workers; i += 1) cluster.fork();
  process.on("SIGTERM", () => {
    for (const worker of Object.values(cluster.workers)) worker.process.kill("SIGTERM");
    process.exit(0);
  });
} else {
  serve();
}
