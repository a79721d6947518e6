// bun server.js PORT MARK DATA ADDRESS, or deno run server.js the same: every workload by each one's own server. DATA is the
// folder of items.json and static/.
import { existsSync, readFileSync } from "node:fs";
import process from "node:process";

const isBun = typeof Bun !== "undefined";
const [port, mark, data, address] = isBun ? Bun.argv.slice(2) : Deno.args;
const FILE = `${data}/items.json`;
// Only the workload `json` provides it.
const ITEMS = existsSync(FILE) ? JSON.parse(readFileSync(FILE, "utf8")) : [];
// Another module in each of the two; only workloads that ask a database have it.
const connections = Number(process.env.DATABASE_CONNECTIONS || 0);
const database = connections ? (await import("./database.js")).database(connections) : {};

function answer(status, type, body) {
  return new Response(body, { status, headers: { "Content-Type": type } });
}

function multiply(url) {
  const a = Number.parseInt(url.searchParams.get("a"), 10);
  const b = Number.parseInt(url.searchParams.get("b"), 10);
  if (Number.isNaN(a) || Number.isNaN(b)) return answer(400, "text/plain", "a and b must be numbers\n");
  return answer(
    200,
    "text/html",
    `<html><body><p>Hello ${mark}!</p><p>PATH=${url.pathname}</p><p>RESULT: ${a}*${b}=${a * b}</p></body></html>\n`,
  );
}

function json(url) {
  const n = Number.parseInt(url.searchParams.get("n"), 10);
  const m = Number.parseInt(url.searchParams.get("m"), 10);
  if (Number.isNaN(n) || Number.isNaN(m)) return answer(400, "text/plain", "n and m must be numbers\n");
  const items = ITEMS.slice(0, n).map((item) => ({ ...item, total: item.price * item.quantity * m }));
  return Response.json({ items, count: n });
}

async function rows(url) {
  const [id, n] = ["id", "n"].map((name) => Number.parseInt(url.searchParams.get(name), 10));
  return Response.json(await database[url.pathname]({ id, n }));
}

async function sum(url, request) {
  const a = Number.parseInt(url.searchParams.get("a"), 10);
  const b = Number.parseInt(url.searchParams.get("b"), 10);
  const total = a + b + Number.parseInt(await request.text(), 10);
  if (Number.isNaN(total)) return answer(400, "text/plain", "a, b and the body must be numbers\n");
  return answer(200, "text/plain", String(total));
}

function delay(ms) {
  return new Promise((resolve) => setTimeout(() => resolve(answer(200, "text/plain", "ok")), ms));
}

async function bunFile(name) {
  const file = Bun.file(`${data}/static/${name}`);
  return (await file.exists()) ? new Response(file) : answer(404, "text/plain", "not found\n");
}

async function denoFile(name) {
  try {
    const file = await Deno.open(`${data}/static/${name}`, { read: true });
    const { size } = await file.stat();
    const headers = { "Content-Type": "application/octet-stream", "Content-Length": String(size) };
    return new Response(file.readable, { headers });
  } catch {
    return answer(404, "text/plain", "not found\n");
  }
}

const sendFile = isBun ? bunFile : denoFile;

function handle(request) {
  const url = new URL(request.url);
  if (url.pathname === "/") return answer(200, "text/plain", "hello world\n");
  if (url.pathname === "/multiply") return multiply(url);
  if (database[url.pathname]) return rows(url);
  if (url.pathname === "/json") return json(url);
  if (url.pathname === "/sum") return sum(url, request);
  if (/^\/delay\/\d+$/.test(url.pathname)) return delay(Number(url.pathname.slice(7)));
  if (/^\/static\/[\w.-]+$/.test(url.pathname)) return sendFile(url.pathname.slice(8));
  return answer(404, "text/plain", "not found\n");
}

if (isBun) Bun.serve({ hostname: address, port: Number(port), idleTimeout: 75, fetch: handle });
else Deno.serve({ hostname: address, port: Number(port), onListen() {} }, handle);
