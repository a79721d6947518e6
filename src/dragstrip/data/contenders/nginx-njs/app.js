// Every workload for njs: return() sends the body with its length.
function hello(r) {
  r.headersOut["Content-Type"] = "text/plain";
  r.return(200, "hello world\n");
}

function multiply(r) {
  const a = parseInt(r.args.a, 10);
  const b = parseInt(r.args.b, 10);
  if (isNaN(a) || isNaN(b)) {
    r.return(400);
    return;
  }
  r.headersOut["Content-Type"] = "text/html";
  r.return(200, `<html><body><p>Hello {{ mark }}!</p><p>PATH=${r.uri}</p><p>RESULT: ${a}*${b}=${a * b}</p></body></html>\n`);
}

function json(r) {
  const n = parseInt(r.args.n, 10);
  const m = parseInt(r.args.m, 10);
  if (isNaN(n) || isNaN(m)) {
    r.return(400);
    return;
  }
  const chosen = [];
  for (let i = 0; i < n; i++) { // what is preloaded has no methods of an array
    const item = items[i];
    chosen.push(Object.assign({}, item, { total: item.price * item.quantity * m }));
  }
  r.headersOut["Content-Type"] = "application/json";
  r.return(200, JSON.stringify({ items: chosen, count: n }));
}

function sum(r) {
  const total = parseInt(r.args.a, 10) + parseInt(r.args.b, 10) + parseInt(r.requestText, 10);
  if (isNaN(total)) {
    r.return(400);
    return;
  }
  r.headersOut["Content-Type"] = "text/plain";
  r.return(200, String(total));
}

function delay(r) {
  // nginx counts whole milliseconds, so that a timer may end up to one too early.
  setTimeout(() => {
    r.headersOut["Content-Type"] = "text/plain";
    r.return(200, "ok");
  }, parseInt(r.uri.slice(7), 10) + 1);
}

export default { hello, multiply, json, sum, delay };
