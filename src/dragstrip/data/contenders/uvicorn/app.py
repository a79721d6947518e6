"""Every workload as a plain ASGI application; MARK and DATA, the folder of items.json, come from the environment."""

import asyncio
import json
import os
from pathlib import Path
from urllib.parse import parse_qs

MARK = os.environ["MARK"]
FILE = Path(os.environ["DATA"], "items.json")
ITEMS = json.loads(FILE.read_bytes()) if FILE.exists() else []  # only the workload `json` provides it
CONNECTIONS = int(os.environ.get("DATABASE_CONNECTIONS", "0")) // int(os.environ.get("WORKERS", "1"))
ROWS, ROW = 10_000, "SELECT id, n FROM rows WHERE id = $1"
pool, opening = None, asyncio.Lock()


def multiply(path, query):
    given = parse_qs(query.decode())
    try:
        a, b = int(given["a"][0]), int(given["b"][0])
    except (KeyError, ValueError):
        return 400, b"text/plain", b"a and b must be whole numbers\n"
    body = f"<html><body><p>Hello {MARK}!</p><p>PATH={path}</p><p>RESULT: {a}*{b}={a * b}</p></body></html>\n"
    return 200, b"text/html", body.encode()


def document(query):
    given = parse_qs(query.decode())
    try:
        n, m = int(given["n"][0]), int(given["m"][0])
    except (KeyError, ValueError):
        return 400, b"text/plain", b"n and m must be whole numbers\n"
    items = [{**item, "total": item["price"] * item["quantity"] * m} for item in ITEMS[:n]]
    body = json.dumps({"items": items, "count": n}, separators=(",", ":"))
    return 200, b"application/json", body.encode()


async def read_body(receive):
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


def add(query, text):
    given = parse_qs(query.decode())
    try:
        total = int(given["a"][0]) + int(given["b"][0]) + int(text)
    except (KeyError, ValueError):
        return 400, b"text/plain", b"a, b and the body must be whole numbers\n"
    return 200, b"text/plain", str(total).encode()


async def delay(path):
    # uvloop counts whole milliseconds, so that a timer may end up to one too early.
    await asyncio.sleep((int(path.removeprefix("/delay/")) + 1) / 1000)
    return 200, b"text/plain", b"ok"


async def database():
    """The pool, opened by the first request: this worker's share of the server's connections."""
    global pool
    async with opening:
        if pool is None:
            import asyncpg

            pool = await asyncpg.create_pool(min_size=1, max_size=max(CONNECTIONS, 1))
    return pool


async def db(query):
    row = await (pool or await database()).fetchrow(ROW, int(parse_qs(query.decode())["id"][0]))
    return 200, b"application/json", json.dumps(dict(row), separators=(",", ":")).encode()


async def queries(query):
    given = parse_qs(query.decode())
    first, count = int(given["id"][0]), int(given["n"][0])
    async with (pool or await database()).acquire() as connection:
        rows = [await connection.fetchrow(ROW, (first - 1 + i) % ROWS + 1) for i in range(count)]
    return 200, b"application/json", json.dumps([dict(row) for row in rows], separators=(",", ":")).encode()


async def application(scope, receive, send):
    path = scope["path"]
    if path == "/":
        status, kind, body = 200, b"text/plain", b"hello world\n"
    elif path == "/multiply":
        status, kind, body = multiply(path, scope["query_string"])
    elif path == "/json":
        status, kind, body = document(scope["query_string"])
    elif path == "/sum":
        status, kind, body = add(scope["query_string"], await read_body(receive))
    elif path.startswith("/delay/"):
        status, kind, body = await delay(path)
    elif path == "/db":
        status, kind, body = await db(scope["query_string"])
    elif path == "/queries":
        status, kind, body = await queries(scope["query_string"])
    else:
        status, kind, body = 404, b"text/plain", b"not found\n"
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
