// bun server.js PORT MARK, or deno run server.js PORT MARK: both workloads by each one's own server.
const [port, mark] = typeof Bun === "undefined" ? Deno.args : Bun.argv.slice(2);

function answer(status, type, body) {
  return new Response(body, { status, headers: { "Content-Type": type } });
}

function handle(request) {
  const url = new URL(request.url);
  if (url.pathname === "/") return answer(200, "text/plain", "hello world\n");
  if (url.pathname !== "/multiply") return answer(404, "text/plain", "not found\n");
  const a = Number.parseInt(url.searchParams.get("a"), 10);
  const b = Number.parseInt(url.searchParams.get("b"), 10);
  if (Number.isNaN(a) || Number.isNaN(b)) return answer(400, "text/plain", "a and b must be numbers\n");
  return answer(
    200,
    "text/html",
    `<html><body><p>Hello ${mark}!</p><p>PATH=${url.pathname}</p><p>RESULT: ${a}*${b}=${a * b}</p></body></html>\n`,
  );
}

if (typeof Bun === "undefined") Deno.serve({ hostname: "127.0.0.1", port: Number(port), onListen() {} }, handle);
else Bun.serve({ hostname: "127.0.0.1", port: Number(port), idleTimeout: 75, fetch: handle });
