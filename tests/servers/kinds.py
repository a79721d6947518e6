"""Servers that respond in a correct or incorrect way of their own, with a log: ``kinds.py PORT KIND``.

A server logs a word for each response that it has sent whole, and for each request that it ended otherwise. Standard
library only.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

#: No request before this one is answered otherwise: among them are the reference requests, before the load.
FIRST = 8

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"
FAULT = b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno"


class Log:
    """What a server did, by words: ``right``, ``failing`` and ``cut``."""

    def __init__(self) -> None:
        self.lock, self.words = threading.Lock(), list[str]()

    def number(self) -> int:
        """The next request's, from 0 on."""
        with self.lock:
            self.words.append("asked")
            return len(self.words) - 1

    def ends(self, number: int, word: str) -> None:
        with self.lock:
            self.words[number] = word

    def counts(self) -> Counter[str]:
        with self.lock:
            return Counter(self.words)

    def total(self) -> int:
        return len(self.words)


#: One request: the connection, and its number. The word for the log; "close" behind it ends the connection.
Reply = Callable[[socket.socket, int], str]


def sends(response: bytes, word: str = "right") -> Reply:
    def reply(stream: socket.socket, _number: int) -> str:
        stream.sendall(response)
        return word

    return reply


def sometimes(other: Reply, every: int = 10) -> Reply:
    """Every tenth in another way."""

    def reply(stream: socket.socket, number: int) -> str:
        return (other if number >= FIRST and number % every == every - 1 else sends(OK))(stream, number)

    return reply


def in_pieces(response: bytes, size: int, pause_s: float = 0.0) -> Reply:
    def reply(stream: socket.socket, _number: int) -> str:
        for at in range(0, len(response), size):
            stream.sendall(response[at : at + size])
            time.sleep(pause_s)
        return "right"

    return reply


def resets(before: bytes = b"") -> Reply:
    def reply(stream: socket.socket, _number: int) -> str:
        stream.sendall(before)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return "cut close"

    return reply


def late(stream: socket.socket, _number: int) -> str:
    time.sleep(0.02)
    stream.sendall(OK)
    return "right"


@dataclass(frozen=True)
class Kind:
    """A kind of server.

    Args:
        body: bytes of each request's body, which are read before the reply.
        limit: requests of a connection, after which it is closed without a word; 0: any number.
    """

    reply: Reply
    body: int = 0
    limit: int = 0

    def serve(self, stream: socket.socket, log: Log) -> None:
        """One connection to its end. ``GET /served`` is not counted, and says how many requests were."""
        pending, served = bytearray(), 0
        while (head := whole(stream, pending)) is not None:
            if head.startswith(b"GET /served "):
                text = b"served %d\n" % log.total()
                stream.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
                return
            number = log.number()
            while len(pending) < self.body:
                pending += stream.recv(1 << 16)
            del pending[: self.body]
            word, *closes = self.reply(stream, number).split()
            log.ends(number, word)
            served += 1
            if closes or served == self.limit or b"connection: close" in head.lower() or b" HTTP/1.0\r\n" in head:
                return


def whole(stream: socket.socket, pending: bytearray) -> bytes | None:
    """The next request's head; None at the connection's end."""
    while b"\r\n\r\n" not in pending:
        piece = stream.recv(65536)
        if not piece:
            return None
        pending += piece
    head, _, _ = bytes(pending).partition(b"\r\n\r\n")
    del pending[: len(head) + 4]
    return head + b"\r\n"


def ok(*lines: str, body: bytes = b"ok", status: str = "HTTP/1.1 200 OK") -> bytes:
    return "\r\n".join([status, "Content-Type: text/plain", *lines, "\r\n"]).encode() + body


#: Those whose responses are all correct and have the body "ok".
RIGHT = {
    "right": Kind(sends(OK)),
    "chunked": Kind(sends(ok("Transfer-Encoding: chunked", body=b"1\r\no\r\n1\r\nk\r\n0\r\n\r\n"))),
    "trailers": Kind(sends(ok("Transfer-Encoding: chunked", body=b"2\r\nok\r\n0\r\nX-A: b\r\n\r\n"))),
    "until the end": Kind(sends(ok("Connection: close"), "right close")),
    "HTTP/1.0, until the end": Kind(sends(ok(status="HTTP/1.0 200 OK"), "right close")),
    "closes, and says so": Kind(sends(ok("Connection: close", "Content-Length: 2"), "right close")),
    "a limit of ten": Kind(sends(OK), limit=10),
    "folded header": Kind(sends(ok("X-A: one,", "  two", "Content-Length: 2"))),
    "odd case": Kind(sends(ok("cOnTeNt-lEnGtH:2"))),
    "no reason": Kind(sends(ok("Content-Length: 2", status="HTTP/1.1 200"))),
    "a header twice": Kind(sends(ok("Server: a", "Server: b", "Content-Length: 2", "Content-Length: 2"))),
    "interim head": Kind(sends(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK)),
    "byte for byte": Kind(in_pieces(OK, 1)),
    "late": Kind(late),
    "head and body apart": Kind(in_pieces(OK, len(OK) - 2, 0.001)),
}
KINDS = RIGHT | {
    "no content": Kind(sends(b"HTTP/1.1 204 No Content\r\n\r\n")),
    "large": Kind(sends(ok("Content-Length: 300000", body=b"x" * 300_000))),
    "upload": Kind(sends(OK), body=200_000),
    "upload, not read": Kind(sends(OK, "cut close")),
    "errors": Kind(sometimes(sends(FAULT, "failing"))),
    "too many requests": Kind(
        sometimes(sends(b"HTTP/1.1 429 No\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n", "failing"), 5)
    ),
    "wrong bodies": Kind(sometimes(sends(OK[:-1] + b"x", "failing"), 7)),
    "wrong length": Kind(sometimes(sends(ok("Content-Length: 3", body=b"ok!"), "failing"), 7)),
    "no response": Kind(sometimes(sends(b"", "cut close"), 9)),
    "half a head": Kind(sometimes(sends(OK[:20], "cut close"), 9)),
    "half a body": Kind(sometimes(sends(OK[:-1], "cut close"), 9)),
    "a reset": Kind(sometimes(resets(), 9)),
    "a reset in the body": Kind(sometimes(resets(OK[:-1]), 9)),
    "not HTTP": Kind(sometimes(sends(b"220 ready\r\n\r\n", "failing close"), 9)),
}


def main() -> None:
    """Serves until it is ended."""
    kind, log = KINDS[sys.argv[2]], Log()
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=1024)

    def serve(stream: socket.socket) -> None:
        with stream, contextlib.suppress(OSError):
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            kind.serve(stream, log)

    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


if __name__ == "__main__":
    main()
