"""A server for tests/soak/why.py: `server PORT` serves, `server time LOOPS` measures planted()."""

import asyncio
import sys
import time

RESPONSE = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n{"id":1}'
LOOPS = 0
kept = 0


def planted(loops: int) -> None:
    global kept
    total = kept
    for at in range(loops):
        total = (total * 31 ^ at) & 0xFFFF
    kept = total


class Server(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.held = b""

    def data_received(self, data: bytes) -> None:
        *requests, self.held = (self.held + data).split(b"\r\n\r\n")
        for request in requests:
            planted(LOOPS)
            self.transport.write(RESPONSE)
            if b"connection: close" in request.lower():
                self.transport.close()


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", int(sys.argv[1]), backlog=4096)
    await server.serve_forever()


if sys.argv[1] == "time":
    loops = int(sys.argv[2])
    calls = 4_000_000 // (loops + 20)
    begun = time.process_time()
    for _ in range(calls):
        planted(loops)
    print(f"{1e6 * (time.process_time() - begun) / calls:.6f}")
else:
    asyncio.run(main())
