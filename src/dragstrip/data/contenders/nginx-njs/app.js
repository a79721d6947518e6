// Both workloads for njs: return() sends the body with its length.
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

export default { hello, multiply };
