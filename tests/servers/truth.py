"""A server of planted latencies: ``truth.py [--every N --delay-ms M] [--stall-at K --stall-ms S]``; prints ``port P``.

Every Nth answer comes M ms later than it could, those of other connections meanwhile not; at request number K the
whole server stands still for S ms. Standard library only.
"""

from __future__ import annotations

import argparse
import asyncio
import time

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ntruth"


async def main() -> None:
    """Serves until it is ended."""
    words = argparse.ArgumentParser()
    for name in ("--every", "--delay-ms", "--stall-at", "--stall-ms"):
        words.add_argument(name, type=int, default=0)
    told = words.parse_args()
    seen = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                seen += 1
                if seen == told.stall_at:
                    time.sleep(told.stall_ms / 1000)
                if told.every and seen % told.every == 0:
                    await asyncio.sleep(told.delay_ms / 1000)
                writer.write(ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024)
    print(f"port {server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
