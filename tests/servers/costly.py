"""A small server that can do one more thing for each response: costly.py PORT [write]."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import cast

RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\nhello world\n"
NULL = os.open(os.devnull, os.O_WRONLY)
MORE = sys.argv[2] if len(sys.argv) > 2 else ""


class Costly(asyncio.Protocol):
    """Sends the same response to every request."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.held = b""

    def data_received(self, data: bytes) -> None:
        *requests, self.held = (self.held + data).split(b"\r\n\r\n")
        for request in requests:
            if MORE == "write":
                os.write(NULL, b"x")
            self.transport.write(RESPONSE)
            if b"connection: close" in request.lower():
                self.transport.close()


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Costly, "127.0.0.1", int(sys.argv[1]), backlog=4096)
    await server.serve_forever()


asyncio.run(main())
