"""A small HTTP server that answers every shipped workload, with one planted fault. Standard library only.

usage: workloads.py PORT DATA [FAULT [PLACE]]

FAULT: none; or one that cheats: cached (an answer of /json is kept by its first number alone), kept (answers from the
files of its first launch, which it keeps in the folder PLACE), early (responds at once, not after 15 ms), unchunked
(reads no body without a length), pool (adds right only where the numbers are as small as under load), blanks (JSON in
a form of its own), changing (JSON in one form and then in another). Or one that is right and slow: slow-hello,
slow-json (computes for half a millisecond before it answers that).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

PORT, DATA = int(sys.argv[1]), Path(sys.argv[2])
FAULT = sys.argv[3] if len(sys.argv) > 3 else "none"
Answer = tuple[str, str, bytes]
CACHE: dict[str, bytes] = {}
turns = itertools.count()


def folder() -> Path:
    """Where its files lie: this launch's folder, or what it kept of its first one."""
    if FAULT != "kept":
        return DATA
    place = Path(sys.argv[4]) / "kept"
    if not place.exists():
        shutil.copytree(DATA, place)
    return place


FILES = folder()


def compute(what: str) -> None:
    """For half a millisecond of this thread's own CPU time, where it is to be slow at that."""
    end_s = time.thread_time() + 0.0005
    while f"slow-{what}" == FAULT and time.thread_time() < end_s:
        pass


def as_json(n: int, m: int) -> bytes:
    rows = json.loads((FILES / "items.json").read_text())
    items = [row | {"total": row["price"] * row["quantity"] * m} for row in rows[:n]]
    blanks = FAULT == "blanks" or (FAULT == "changing" and next(turns) % 2)
    made = json.dumps({"items": items, "count": n}, separators=None if blanks else (",", ":")).encode()
    return CACHE.setdefault(str(n), made) if FAULT == "cached" else made


async def answer(method: str, target: str, body: bytes) -> Answer:
    """Status, content type and body."""
    url = urlsplit(target)
    given = {name: int(values[0]) for name, values in parse_qs(url.query).items()}
    if url.path == "/":
        compute("hello")
        return "200 OK", "text/plain", b"hello world\n"
    if url.path == "/json":
        compute("json")
        return "200 OK", "application/json", as_json(given["n"], given["m"])
    if url.path == "/sum" and method == "POST":
        a, b, c = given["a"], given["b"], int(body or b"0")
        small = max(a, b, c) < 1000
        return "200 OK", "text/plain", str(a + b + c if small or FAULT != "pool" else 0).encode()
    if url.path == "/delay/15":
        if FAULT != "early":
            await asyncio.sleep(0.015)
        return "200 OK", "text/plain", b"ok"
    file = FILES / url.path.removeprefix("/")
    if url.path.startswith("/static/") and file.is_file():
        return "200 OK", "application/octet-stream", file.read_bytes()
    return "404 Not Found", "text/plain", b"not found\n"


async def body_of(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding") != "chunked":
        return await reader.readexactly(int(headers.get("content-length", 0)))
    body = b""
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readuntil(b"\r\n")
    return b"" if FAULT == "unchunked" else body


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection's requests, one after the other."""
    try:
        while True:
            first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
            method, target, version = first.split(" ")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            close = version == "HTTP/1.0" or headers.get("connection") == "close"
            status, kind, body = await answer(method, target, await body_of(reader, headers))
            head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            whole = (head + ("Connection: close\r\n" if close else "") + "\r\n").encode() + body
            writer.write(whole)
            await writer.drain()
            if close:
                break
    except (asyncio.IncompleteReadError, ConnectionError, ValueError, KeyError):
        pass
    writer.close()


async def main() -> None:
    """Serves until killed."""
    server = await asyncio.start_server(serve, "127.0.0.1", PORT, backlog=4096)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
