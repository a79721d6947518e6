"""An asyncio server that burns a set share more CPU for each request than it needs: server.py PORT [SHARE [ADDRESS]]

Its own cost per request is measured as it runs, the burnt time taken out. Standard library only.
"""

from __future__ import annotations

import asyncio
import sys
import time

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\nhello world\n"
CLOSING = ANSWER.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"

#: Requests between two readings of the server's own cost, and seconds that are burnt at once.
GAUGE_EVERY, AT_ONCE_S = 256, 20e-6


class Burner:
    """Burns a share of the process's own CPU time."""

    def __init__(self, share: float) -> None:
        self.share, self.seen = share, 0
        self.due = self.burnt = self.per_request = 0.0
        self.before = time.process_time()

    def burn(self) -> None:
        """Called for each request."""
        self.seen += 1
        if self.seen % GAUGE_EVERY == 0:
            now = time.process_time()
            self.per_request = max(now - self.before - self.burnt, 0.0) * self.share / GAUGE_EVERY
            self.before, self.burnt = now, 0.0
        self.due += self.per_request
        if self.due >= AT_ONCE_S:
            start = now = time.process_time()
            while now < start + self.due:
                now = time.process_time()
            self.burnt += now - start
            self.due -= now - start


class Connection(asyncio.Protocol):
    """One connection's requests, one after the other."""

    def __init__(self, burner: Burner) -> None:
        self.burner, self.held = burner, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.held += data
        while b"\r\n\r\n" in self.held:
            head, _, self.held = self.held.partition(b"\r\n\r\n")
            self.burner.burn()
            close = b"connection: close" in head.lower() or head.split(b"\r\n", 1)[0].endswith(b"HTTP/1.0")
            found = CLOSING if close else ANSWER
            self.transport.write(found if head.split(b" ")[1:2] == [b"/"] else NOT_FOUND)
            if close:
                self.transport.close()


async def main() -> None:
    """Serves until killed."""
    burner = Burner(float(sys.argv[2]) if len(sys.argv) > 2 else 0.0)
    address = sys.argv[3] if len(sys.argv) > 3 else "127.0.0.1"
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(burner), address, int(sys.argv[1]), backlog=4096)
    async with server:
        await server.serve_forever()


asyncio.run(main())
