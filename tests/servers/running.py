"""A server that a user has started: running.py HOST BODY [work=N] [pem=FILE] [workers=N]. It prints its port.

It responds with BODY at /users?x=1 and at /v2/users, whatever the Host; everywhere else with 404. ``work``: rounds of
CPU work for each response. ``workers``: processes that it forks, which share its socket.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import sys

HOST, BODY, *MORE = sys.argv[1:]
OPTIONS = dict(word.split("=", 1) for word in MORE)


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            known = head.split()[1] in (b"/users?x=1", b"/v2/users")
            sum(range(int(OPTIONS.get("work", "0"))))
            body = BODY.encode() if known else b"unknown"
            closing = b"Connection: close\r\n" if b"connection: close" in head.lower() else b""
            first = b"HTTP/1.1 200 OK" if known else b"HTTP/1.1 404 Not Found"
            words = b"%b\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n%b\r\n%b"
            writer.write(words % (first, len(body), closing, body))
            if closing:
                await writer.drain()
                writer.close()
                return
    except (OSError, asyncio.IncompleteReadError):
        writer.close()


async def main(listener: socket.socket, context: ssl.SSLContext | None) -> None:
    server = await asyncio.start_server(serve, sock=listener, ssl=context)
    await server.serve_forever()


made = socket.create_server((HOST, 0), family=socket.AF_INET6 if ":" in HOST else socket.AF_INET, backlog=4096)
context = None
if "pem" in OPTIONS:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(OPTIONS["pem"])
print(made.getsockname()[1], flush=True)
for _ in range(int(OPTIONS.get("workers", "0"))):
    if os.fork() == 0:
        break
asyncio.run(main(made, context))
