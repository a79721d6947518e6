"""A framework as TechEmpower's suite has them, made for the tests of Dragstrip."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = os.environ["NAME"]

    def do_GET(self):
        is_json = self.path.startswith("/api/v1/greet.json")
        body = json.dumps({"message": "Hello, World!"}).encode() if is_json else b"Hello, World!"
        self.send_response(200 if is_json or self.path == "/text/hello" else 404)
        self.send_header("Content-Type", "application/json" if is_json else "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 1024


Server(("0.0.0.0", 9000), Handler).serve_forever()
