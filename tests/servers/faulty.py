"""A server that goes wrong as told: ``faulty.py FAULT [AFTER] [BODY]``; standard library only.

It serves BODY (``hello world``) rightly on a free port of 127.0.0.1, prints ``port N``, and from its
request number AFTER (0) on has the FAULT, which it prints once with the word ``fault``. One thread.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
from collections.abc import Callable

FAULTS = ("none", "close", "reset", "stall", "garbage", "truncate", "status", "body", "length", "twice", "drip", "die")


class Faulty:
    """One server: its fault, when it begins, and how many requests it has seen."""

    def __init__(self, fault: str, after: int, body: bytes) -> None:
        if fault not in FAULTS:
            raise SystemExit(f"faulty.py: fault {fault!r} is unknown; choose among {', '.join(FAULTS)}")
        self.fault, self.after, self.body = fault, after, body
        self.seen = 0
        self.told = False

    def answer(self, status: str = "200 OK", body: bytes | None = None, length: int | None = None) -> bytes:
        """A whole answer; ``length`` is what its head claims."""
        body = self.body if body is None else body
        length = len(body) if length is None else length
        return f"HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n".encode() + body

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one connection's requests until it or the fault ends it."""
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                self.seen += 1
                if self.fault == "none" or self.seen <= self.after:
                    writer.write(self.answer())
                    continue
                if not self.told:
                    self.told = True
                    print("fault", flush=True)
                if not await self.go_wrong(writer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    async def go_wrong(self, writer: asyncio.StreamWriter) -> bool:
        """Does what it was ordered to do; returns whether the connection goes on."""
        lies: dict[str, Callable[[], bytes]] = {
            "garbage": lambda: b"\x00\xff garbage\r\n\r\n",
            "status": lambda: self.answer("500 Internal Server Error"),
            "body": lambda: self.answer(body=self.body[:-1] + b"!"),
            "length": lambda: self.answer(body=self.body + b"!"),
            "twice": lambda: self.answer() + self.answer(),
        }
        if self.fault in lies:
            writer.write(lies[self.fault]())
            return True
        if self.fault == "drip":
            for byte in self.answer():
                writer.write(bytes([byte]))
                await asyncio.sleep(0)
            return True
        if self.fault == "stall":
            await asyncio.Event().wait()
        if self.fault == "die":
            os._exit(7)
        if self.fault == "truncate":
            writer.write(self.answer()[:-3])
        if self.fault == "reset":
            reset = struct.pack("ii", 1, 0)  # linger for no time: closing sends RST
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        return False


async def main() -> None:
    """Serves until killed."""
    words = sys.argv[1:]
    body = words[2].encode() if len(words) > 2 else b"hello world"
    faulty = Faulty(words[0], int(words[1]) if len(words) > 1 else 0, body)
    server = await asyncio.start_server(faulty.serve, "127.0.0.1", 0, backlog=1024)
    print(f"port {server.sockets[0].getsockname()[1]}", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
