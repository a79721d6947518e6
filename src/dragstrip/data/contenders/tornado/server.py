"""python server.py PORT WORKERS MARK DATA ADDRESS: all workloads, as Tornado's own documentation would write them."""

import asyncio
import json
import logging
import os
import signal
import sys
from pathlib import Path

import tornado.httpserver
import tornado.netutil
import tornado.process
import tornado.web

CONNECTIONS = int(os.environ.get("DATABASE_CONNECTIONS", "0"))
if CONNECTIONS:
    import asyncpg

PORT, WORKERS, MARK, DATA = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
ADDRESS = sys.argv[5]


class Hello(tornado.web.RequestHandler):
    def get(self):
        self.set_header("Content-Type", "text/plain")
        self.write("hello world\n")


def items():
    """What the workload json is about; there are none at the others."""
    file = DATA / "items.json"
    return json.loads(file.read_text()) if file.exists() else []


ITEMS = items()


class Handler(tornado.web.RequestHandler):
    def numbers(self, *names):
        """The whole numbers of the query, by their names."""
        try:
            return [int(self.get_query_argument(name)) for name in names]
        except ValueError:
            raise tornado.web.HTTPError(400) from None


class Multiply(Handler):
    def get(self):
        a, b = self.numbers("a", "b")
        self.set_header("Content-Type", "text/html")
        self.write(
            f"<html><body><p>Hello {MARK}!</p><p>PATH={self.request.path}</p>"
            f"<p>RESULT: {a}*{b}={a * b}</p></body></html>\n"
        )


class Json(Handler):
    def get(self):
        n, m = self.numbers("n", "m")
        some = [item | {"total": item["price"] * item["quantity"] * m} for item in ITEMS[:n]]
        self.write({"items": some, "count": len(some)})


class Sum(Handler):
    def post(self):
        a, b = self.numbers("a", "b")
        try:
            c = int(self.request.body)
        except ValueError:
            raise tornado.web.HTTPError(400) from None
        self.set_header("Content-Type", "text/plain")
        self.write(str(a + b + c))


class Delay(tornado.web.RequestHandler):
    async def get(self, milliseconds):
        await asyncio.sleep(int(milliseconds) / 1000)
        self.set_header("Content-Type", "text/plain")
        self.write("ok")


ROWS, ROW = 10_000, "SELECT id, n FROM rows WHERE id = $1"


class Db(Handler):
    def initialize(self, pool):
        self.pool = pool

    async def get(self):
        (number,) = self.numbers("id")
        self.answer(dict(await self.pool.fetchrow(ROW, number)))

    def answer(self, found):
        self.set_header("Content-Type", "application/json")
        self.write(json.dumps(found, separators=(",", ":")))


class Queries(Db):
    async def get(self):
        first, count = self.numbers("id", "n")
        async with self.pool.acquire() as connection:
            rows = [await connection.fetchrow(ROW, (first - 1 + i) % ROWS + 1) for i in range(count)]
        self.answer([dict(row) for row in rows])


async def database_routes():
    connections = max(CONNECTIONS // WORKERS, 1)
    pool = await asyncpg.create_pool(min_size=connections, max_size=connections)  # the rest: PGHOST and its like
    return [("/db", Db, {"pool": pool}), ("/queries", Queries, {"pool": pool})]


async def serve(sockets):
    logging.getLogger("tornado.access").disabled = True
    files = {"path": DATA / "static"}
    routes = [
        ("/", Hello),
        ("/multiply", Multiply),
        ("/json", Json),
        ("/sum", Sum),
        (r"/delay/(\d{1,5})", Delay),
        ("/static/(.*)", tornado.web.StaticFileHandler, files),
    ]
    application = tornado.web.Application(routes + (await database_routes() if CONNECTIONS else []))
    tornado.httpserver.HTTPServer(application).add_sockets(sockets)
    await asyncio.Event().wait()


def end_all(signum, frame):
    """The first process takes its forks along: they share the process group it leads."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.killpg(0, signal.SIGTERM)


def main():
    sockets = tornado.netutil.bind_sockets(PORT, ADDRESS, backlog=1024)
    if WORKERS > 1:
        if os.getpgrp() == os.getpid():
            signal.signal(signal.SIGTERM, end_all)
        tornado.process.fork_processes(WORKERS)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    asyncio.run(serve(sockets))


main()
