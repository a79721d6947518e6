"""An HTTP/2 server that floods: ``floods.py PORT MODE [AFTER] [tls=PEM]``; standard library only.

Up to response number AFTER (0) it is correct, then it does what MODE says. PORT 0 takes a free one and prints
``port N``. Requests are not read beyond their frames: the engine sends one per HEADERS frame.
"""

from __future__ import annotations

import itertools
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS, PADDED = 1, 4, 8
BODY = b"hello world\n"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """RFC 9113, 4.1."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def right(stream: int) -> bytes:
    """A whole response: status 200 is entry 8 of HPACK's static table."""
    return frame(HEADERS, END_HEADERS, stream, b"\x88") + frame(DATA, END_STREAM, stream, BODY)


def forever(
    make: Callable[[int], bytes], *, head: bool = False, ends: bool = False
) -> Callable[[int], Iterator[bytes]]:
    """The same frames without end, behind nothing, a head, or a whole response."""

    def mode(stream: int) -> Iterator[bytes]:
        if head:
            yield frame(HEADERS, END_HEADERS, stream, b"\x88")
        if ends:
            yield right(stream)
        yield from itertools.repeat(make(stream))

    return mode


def stuck(*parts: Callable[[int], bytes]) -> Callable[[int], Iterator[bytes]]:
    """These frames, and then nothing more."""

    def mode(stream: int) -> Iterator[bytes]:
        yield from (part(stream) for part in parts)
        threading.Event().wait()

    return mode


MODES: dict[str, Callable[[int], Iterator[bytes]]] = {
    "data": forever(lambda stream: frame(DATA, 0, stream, b"x" * 16384), head=True),
    "empty-data": forever(lambda stream: frame(DATA, 0, stream) * 500, head=True),
    "padding": forever(lambda stream: frame(DATA, PADDED, stream, b"\xc8" + bytes(200)) * 50, head=True),
    "interim-heads": forever(lambda stream: frame(HEADERS, END_HEADERS, stream, b"\x08\x03103") * 200),
    "continuations": forever(lambda stream: frame(CONTINUATION, 0, stream, b"\x00\x01x\x01y" * 100)),
    "trailers": forever(
        lambda stream: frame(HEADERS, END_HEADERS | END_STREAM, stream, b"\x00\x01x\x01y") * 200, ends=True
    ),
    "unknown-frames": forever(lambda stream: frame(77, 255, stream, b"\x01" * 500) * 20, ends=True),
    "pings": forever(lambda _: frame(PING, 0, 0, bytes(8)) * 500),
    "settings": forever(lambda _: frame(SETTINGS, 0, 0) * 500),
    "window-updates": forever(lambda _: frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1") * 500),
    "resets": forever(lambda stream: frame(RESET, 0, stream, b"\0\0\0\7") * 500),
    "silent": stuck(),
    "stuck-in-head": stuck(lambda stream: frame(HEADERS, 0, stream, b"\x88")),
    "stuck-in-body": stuck(lambda stream: frame(HEADERS, END_HEADERS, stream, b"\x88")),
    "stuck-in-frame": stuck(lambda stream: frame(DATA, 0, stream, BODY)[:11]),
    "goaway": stuck(lambda stream: frame(GOAWAY, 0, 0, struct.pack(">II", stream, 0))),
}


class Floods:
    """What it does, from which response on."""

    def __init__(self, mode: str, after: int) -> None:
        self.mode, self.after, self.numbers = MODES[mode], after, itertools.count()

    def serve(self, sock: socket.socket) -> None:
        """One connection to its end."""
        with sock, suppress(OSError, EOFError), sock.makefile("rb") as read:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            read.read(24)
            sock.sendall(frame(SETTINGS, 0, 0))
            while len(head := read.read(9)) == 9:
                length, kind, flags, stream = int.from_bytes(head[:3], "big"), *struct.unpack(">BBI", head[3:])
                read.read(length)
                if kind == SETTINGS and not flags & 1:
                    sock.sendall(frame(SETTINGS, 1, 0))
                elif kind == HEADERS and next(self.numbers) < self.after:
                    sock.sendall(right(stream))
                elif kind == HEADERS:
                    for piece in self.mode(stream):
                        sock.sendall(piece)


def main() -> None:
    """Serves until it is ended."""
    from listening import serve_all  # beside this program

    floods = Floods(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=1024)
    print(f"port {listener.getsockname()[1]}", flush=True)
    serve_all(listener, floods.serve, sys.argv, "h2")


if __name__ == "__main__":
    main()
