import http from 'node:http'
const body = JSON.stringify({ hello: 'world' })
http.createServer((req, res) => {
  res.writeHead(200, { 'Content-Type': 'application/json' })
  res.end(body)
}).listen(process.env.PORT || 3000)
