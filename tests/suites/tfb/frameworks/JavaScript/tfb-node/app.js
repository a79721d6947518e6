// A framework as TechEmpower's suite has them, made for the tests of Dragstrip.
const http = require('http');
const spaces = process.argv[3] === 'spaced json' ? 2 : 0;

http.createServer((request, response) => {
  const json = request.url === '/json';
  const body = json ? JSON.stringify({ message: 'Hello, World!' }, null, spaces) : 'Hello, World!';
  response.setHeader('Server', 'node');
  response.setHeader('Content-Type', json ? 'application/json' : 'text/plain');
  response.setHeader('Content-Length', body.length);
  response.end(body);
}).listen(3000);
