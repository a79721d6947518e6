"""python server.py PORT WORKERS MARK: both workloads, as Tornado's own documentation would write them."""

import asyncio
import logging
import os
import signal
import sys

import tornado.httpserver
import tornado.netutil
import tornado.process
import tornado.web

PORT, WORKERS, MARK = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]


class Hello(tornado.web.RequestHandler):
    def get(self):
        self.set_header("Content-Type", "text/plain")
        self.write("hello world\n")


class Multiply(tornado.web.RequestHandler):
    def get(self):
        try:
            a, b = int(self.get_argument("a")), int(self.get_argument("b"))
        except ValueError:
            raise tornado.web.HTTPError(400) from None
        self.set_header("Content-Type", "text/html")
        self.write(
            f"<html><body><p>Hello {MARK}!</p><p>PATH={self.request.path}</p>"
            f"<p>RESULT: {a}*{b}={a * b}</p></body></html>\n"
        )


async def serve(sockets):
    logging.getLogger("tornado.access").disabled = True
    application = tornado.web.Application([("/", Hello), ("/multiply", Multiply)])
    tornado.httpserver.HTTPServer(application).add_sockets(sockets)
    await asyncio.Event().wait()


def end_all(signum, frame):
    """The first process takes its forks along: they share the process group it leads."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.killpg(0, signal.SIGTERM)


def main():
    sockets = tornado.netutil.bind_sockets(PORT, "127.0.0.1", backlog=1024)
    if WORKERS > 1:
        if os.getpgrp() == os.getpid():
            signal.signal(signal.SIGTERM, end_all)
        tornado.process.fork_processes(WORKERS)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    asyncio.run(serve(sockets))


main()
