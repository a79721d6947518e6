"use strict";
// node server.js PORT WORKERS MARK DATA HTTP CERTIFICATE KEY ADDRESS: all workloads, as one would write them with Node alone.
// Without a certificate ("") it listens in the clear.
const http = require("node:http");
const cluster = require("node:cluster");
const fs = require("node:fs");
const path = require("node:path");

const [port, workers] = process.argv.slice(2, 4).map(Number);
const [mark, data, version, certificate, key, address] = process.argv.slice(4, 10);
const HELLO = "hello world\n";
const ITEMS = path.join(data, "items.json");
const items = fs.existsSync(ITEMS) ? JSON.parse(fs.readFileSync(ITEMS, "utf8")) : [];
const connections = Number(process.env.DATABASE_CONNECTIONS || 0);
const database = connections ? require("./database.js")(Math.max(1, Math.floor(connections / workers))) : {};

function answer(response, status, type, body) {
  response.writeHead(status, { "Content-Type": type, "Content-Length": Buffer.byteLength(body) });
  response.end(body);
}

// The whole numbers of a query, by their names; one that is none is NaN.
function numbers(query, ...names) {
  const given = new URLSearchParams(query);
  return names.map((name) => Number.parseInt(given.get(name), 10));
}

function refuse(response) {
  answer(response, 400, "text/plain", "whole numbers are wanted\n");
}

function multiply(response, query) {
  const [a, b] = numbers(query, "a", "b");
  if (Number.isNaN(a) || Number.isNaN(b)) return refuse(response);
  answer(
    response,
    200,
    "text/html",
    `<html><body><p>Hello ${mark}!</p><p>PATH=/multiply</p><p>RESULT: ${a}*${b}=${a * b}</p></body></html>\n`,
  );
}

function json(response, query) {
  const [n, m] = numbers(query, "n", "m");
  if (Number.isNaN(n) || Number.isNaN(m)) return refuse(response);
  const some = items.slice(0, n).map((item) => ({ ...item, total: item.price * item.quantity * m }));
  answer(response, 200, "application/json", JSON.stringify({ items: some, count: some.length }));
}

function sum(request, response, query) {
  const [a, b] = numbers(query, "a", "b");
  let body = "";
  request.setEncoding("utf8");
  request.on("data", (piece) => {
    body += piece;
  });
  request.on("end", () => {
    const c = Number.parseInt(body, 10);
    if (Number.isNaN(a + b + c)) return refuse(response);
    answer(response, 200, "text/plain", String(a + b + c));
  });
}

function delay(response, milliseconds) {
  if (!/^\d{1,5}$/.test(milliseconds)) return refuse(response);
  // libuv counts whole milliseconds from the last one that was over: without one more it would be up to 1 ms early.
  setTimeout(() => answer(response, 200, "text/plain", "ok"), Number(milliseconds) + 1);
}

function rows(response, found) {
  found.then(
    (some) => answer(response, 200, "application/json", JSON.stringify(some)),
    (error) => answer(response, 500, "text/plain", `${error.message}\n`),
  );
}

function file(response, name) {
  const stream = fs.createReadStream(path.join(data, "static", path.basename(name)));
  stream.on("error", () => answer(response, 404, "text/plain", "not found\n"));
  stream.on("open", (descriptor) => {
    fs.fstat(descriptor, (error, told) => {
      if (error) return stream.destroy(error);
      response.writeHead(200, { "Content-Type": "application/octet-stream", "Content-Length": told.size });
      stream.pipe(response);
    });
  });
}

function handle(request, response) {
  if (request.url === "/") return answer(response, 200, "text/plain", HELLO);
  const [place, query] = request.url.split("?", 2);
  if (place === "/multiply") return multiply(response, query);
  if (database[place]) return rows(response, database[place](numbers(query, "id", "n")));
  if (place === "/json") return json(response, query);
  if (place === "/sum" && request.method === "POST") return sum(request, response, query);
  if (place.startsWith("/delay/")) return delay(response, place.slice("/delay/".length));
  if (place.startsWith("/static/")) return file(response, place.slice("/static/".length));
  answer(response, 404, "text/plain", "not found\n");
}

// Workers of one server take up each other's sessions, by one key for their tickets.
const TICKETS = "TICKET_KEYS";

function listener() {
  const idle = { keepAliveTimeout: 75000 };
  if (!certificate) {
    return version === "2" ? require("node:http2").createServer(handle) : http.createServer(idle, handle);
  }
  const tls = { cert: fs.readFileSync(certificate), key: fs.readFileSync(key) };
  if (process.env[TICKETS]) tls.ticketKeys = Buffer.from(process.env[TICKETS], "hex");
  if (version === "2") return require("node:http2").createSecureServer(tls, handle);
  return require("node:https").createServer({ ...tls, ...idle }, handle);
}

function serve() {
  const server = listener();
  server.listen({ host: address, port, backlog: 4096 });
  process.on("SIGTERM", () => {
    server.close(() => process.exit(0));
    if (version === "2") process.exit(0);
    server.closeAllConnections();
  });
}

function supervise() {
  let stopping = false;
  const shared = certificate ? { [TICKETS]: require("node:crypto").randomBytes(48).toString("hex") } : {};
  for (let i = 0; i < workers; i += 1) cluster.fork(shared);
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
