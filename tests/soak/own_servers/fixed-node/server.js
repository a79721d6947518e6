import http from 'node:http'
http.createServer((req, res) => {
  res.setHeader('Content-Type', 'text/html; charset=utf-8')
  res.end('<h1>Hello</h1>')
}).listen(3000)
