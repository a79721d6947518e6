"""A server as people have them: ``own.py WHERE [HOST]``, where WHERE is ``PORT`` (the variable), or a port's number.

It answers every request with the workload ``hello``'s response. Further words: ``later=SECONDS`` before it listens,
``beside=PORT`` also listens there and answers 404, as for metrics, and ``note=FILE`` gets its environment as JSON.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Hello(BaseHTTPRequestHandler):
    """Says hello over connections that are kept."""

    protocol_version = "HTTP/1.1"
    #: Head and body leave together: as two small segments they would wait for the client's delayed acknowledgement.
    wbufsize = 65536
    status = 200

    def do_GET(self) -> None:
        body = b"hello world\n"
        self.send_response(self.status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


class Metrics(Hello):
    """What most monitoring would see at this server."""

    status = 404


def listening(host: str, port: int, handler: type[Hello]) -> ThreadingHTTPServer:
    """A server at an address of either family."""

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        daemon_threads, request_queue_size = True, 1024

    return Server((host, port), handler)


def main(where: str, *words: str) -> None:
    """Serves until a signal ends it."""
    options = dict(word.split("=", 1) for word in words if "=" in word)
    host = next((word for word in words if "=" not in word), "127.0.0.1")
    if "note" in options:
        Path(options["note"]).write_text(json.dumps({**os.environ, "folder": str(Path.cwd())}), encoding="utf-8")
    if "beside" in options:
        beside = listening("127.0.0.1", int(options["beside"]), Metrics)
        threading.Thread(target=beside.serve_forever, daemon=True).start()
    time.sleep(float(options.get("later", 0)))
    listening(host, int(os.environ["PORT"] if where == "PORT" else where), Hello).serve_forever()


main(*sys.argv[1:])
