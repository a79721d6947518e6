// A Node server that burns a set share more CPU for each request than it needs: node server.js PORT [SHARE [ADDRESS]]
// Its own cost per request is measured as it runs, the burnt time taken out.
'use strict';
const http = require('http');
const [port, share] = [Number(process.argv[2]), Number(process.argv[3] || 0)];
const GAUGE_EVERY = 512;
let seen = 0, burnt = 0, perRequest = 0, before = process.cpuUsage();
function burn() {
  if (share <= 0) return;
  if (++seen % GAUGE_EVERY === 0) {
    const spent = process.cpuUsage(before);
    const own = Math.max((spent.user + spent.system) / 1e6 - burnt, 0);
    perRequest = own * share / GAUGE_EVERY;
    burnt = 0;
    before = process.cpuUsage();
  }
  const start = process.hrtime.bigint(), until = start + BigInt(Math.round(perRequest * 1e9));
  let now = start;
  while (now < until) now = process.hrtime.bigint();
  burnt += Number(now - start) / 1e9;
}
http.createServer((request, response) => {
  burn();
  response.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Length': 12 });
  response.end('hello world\n');
}).listen(port, process.argv[4] || '127.0.0.1', 4096);
