"""python server.py PORT MARK: both workloads, as Tornado's own documentation would write them."""

import asyncio
import logging
import sys

import tornado.web

PORT, MARK = int(sys.argv[1]), sys.argv[2]


class Hello(tornado.web.RequestHandler):
    def get(self):
        self.set_header("Content-Type", "text/plain")
        self.write("hello world\n")


class Multiply(tornado.web.RequestHandler):
    def get(self):
        a, b = int(self.get_argument("a")), int(self.get_argument("b"))
        self.set_header("Content-Type", "text/html")
        self.write(
            f"<html><body><p>Hello {MARK}!</p><p>PATH={self.request.path}</p>"
            f"<p>RESULT: {a}*{b}={a * b}</p></body></html>\n"
        )


async def main():
    logging.getLogger("tornado.access").disabled = True
    application = tornado.web.Application([("/", Hello), ("/multiply", Multiply)])
    application.listen(PORT, "127.0.0.1", backlog=1024)
    await asyncio.Event().wait()


asyncio.run(main())
