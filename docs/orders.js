// A server of one's own, for README's pictures: `PORT=3000 node docs/orders.js` creates orders; a number makes it slower.
const { createServer } = require("node:http");

const work = Number(process.argv[2] ?? 0);
let created = 0;

createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    const order = JSON.parse(Buffer.concat(parts).toString() || "{}");
    for (let times = 0; times < work; times += 1) JSON.stringify(Array.from({ length: 50 }, (_, at) => at));
    const body = JSON.stringify({ ...order, id: 42, state: "created", number: (created += 1), at: Date.now() });
    response.writeHead(201, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) });
    response.end(body);
  });
}).listen(Number(process.env.PORT), "127.0.0.1");
