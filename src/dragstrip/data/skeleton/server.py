"""server.py PORT MARK GREETING ADDRESS: both workloads in Python's asyncio. TODO: replace it with your own server."""

import asyncio
import sys
from urllib.parse import parse_qs, urlsplit

PORT, MARK, GREETING, ADDRESS = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]


def answer(target):
    """Status, content type and body: what `dragstrip verify` compares byte for byte."""
    url = urlsplit(target)
    if url.path == "/":
        return "200 OK", "text/plain", f"{GREETING}\n"
    if url.path == "/multiply":
        query = parse_qs(url.query)
        try:
            a, b = int(query["a"][0]), int(query["b"][0])
        except (KeyError, ValueError):
            return "400 Bad Request", "text/plain", "a and b must be whole numbers\n"
        page = f"<p>Hello {MARK}!</p><p>PATH={url.path}</p><p>RESULT: {a}*{b}={a * b}</p>"
        return "200 OK", "text/html", f"<html><body>{page}</body></html>\n"
    return "404 Not Found", "text/plain", "not found\n"


async def serve(reader, writer):
    """One connection: request after request, until one requests its end."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            method, target, version = head.split("\r\n", 1)[0].split(" ")
            wish = "close" if "\r\nconnection: close" in head.lower() else ""
            keep = not wish and version == "HTTP/1.1"
            status, kind, body = answer(target)
            told = "" if keep else "Connection: close\r\n"
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{told}\r\n{body}".encode()
            )
            await writer.drain()
            if not keep:
                break
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ValueError):
        pass
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(serve, ADDRESS, PORT, backlog=1024)
    async with server:
        await server.serve_forever()


asyncio.run(main())
