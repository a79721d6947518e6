"""A server that misbehaves as told: ``rogue.py PORT MODE [AFTER] [tls=PEM]``; over sockets, standard library only.

From request number AFTER (0) on it does what MODE says; before, and in MODE "right", it gives the right answers of the
workload hello. PORT 0 takes a free one and prints ``port N``. ``MODES`` has all; each is a function of the connection.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

BODY = b"hello world\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
JUNK = b"x" * 65536

#: What a mode does with one request: pieces to send; afterwards the connection is closed, or kept if it ends with KEEP.
KEEP = b"keep"
Pieces = Iterator[bytes]
Mode = Callable[[socket.socket, bool], Pieces]


def right(close: bool, head: bytes = HEAD, body: bytes = BODY) -> bytes:
    """A whole answer, saying that it closes where it was asked to."""
    return head + (b"Connection: close\r\n" if close else b"") + b"Content-Length: %d\r\n\r\n" % len(body) + body


def plain(head: bytes, body: bytes = b"", *, keep: bool = True) -> Mode:
    """Always these bytes; the connection is kept unless its end was asked for."""

    def mode(_sock: socket.socket, close: bool) -> Pieces:
        yield head + body
        if keep and not close:
            yield KEEP

    return mode


def stuck(head: bytes) -> Mode:
    """These bytes, and then nothing more for ever."""

    def mode(_sock: socket.socket, _close: bool) -> Pieces:
        yield head
        threading.Event().wait()

    return mode


def endless(head: bytes, piece: bytes = JUNK) -> Mode:
    """The same piece for ever behind a head."""

    def mode(_sock: socket.socket, _close: bool) -> Pieces:
        yield head
        yield from itertools.repeat(piece)

    return mode


def dripping(before: bytes, rest: bytes) -> Mode:
    """A byte a second."""

    def mode(_sock: socket.socket, _close: bool) -> Pieces:
        yield before
        for byte in rest:
            yield bytes([byte])
            time.sleep(1)

    return mode


def resetting(before: bytes) -> Mode:
    """RST behind these bytes."""

    def mode(sock: socket.socket, _close: bool) -> Pieces:
        yield before
        time.sleep(0.05)  # else what was sent is lost with the connection
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return mode


def lying(sock: socket.socket, _close: bool) -> Pieces:
    """Says that it keeps the connection, and closes it."""
    yield HEAD + b"Connection: keep-alive\r\nContent-Length: 12\r\n\r\n" + BODY


def first_only(_sock: socket.socket, _close: bool) -> Pieces:
    """Closes after the first answer and says so: slow, not wrong."""
    yield right(close=True)


def never_closing(_sock: socket.socket, close: bool) -> Pieces:
    """Answers right and keeps the connection, asked to close or not."""
    yield right(close=close)
    yield KEEP


def dying(_sock: socket.socket, _close: bool) -> Pieces:
    """Ends its process."""
    sys.stderr.write("rogue: dying now, as told\n")
    sys.stderr.flush()
    os._exit(9)
    yield b""


def freezing(_sock: socket.socket, _close: bool) -> Pieces:
    """Stops itself; only SIGCONT or SIGKILL gets it out of that."""
    os.kill(os.getpid(), signal.SIGSTOP)
    yield KEEP


def early(_sock: socket.socket, close: bool) -> Pieces:
    """A correct response, and a moment later an unrequested one."""
    yield right(close)
    time.sleep(0.003)
    yield right(close)
    if not close:
        yield KEEP


def hogging(_sock: socket.socket, close: bool) -> Pieces:
    """Right answers, while it takes 256 KiB of memory for each and up to 400 MB in all."""
    if len(HOARD) < 1600:
        HOARD.append(bytearray(os.urandom(4096) * 64))
    yield right(close)
    if not close:
        yield KEEP


HOARD: list[bytearray] = []
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
CHUNK = b"c\r\nhello world\n\r\n"


def length(text: bytes) -> bytes:
    return HEAD + b"Content-Length: " + text + b"\r\n\r\n"


MODES: dict[str, Mode] = {
    "endless-body": endless(length(b"4611686018427387904")),
    "endless-chunked": endless(CHUNKED, b"10000\r\n" + JUNK + b"\r\n"),
    "endless-until-close": endless(HEAD + b"\r\n"),
    "endless-status-500": endless(b"HTTP/1.1 500 Oops\r\nContent-Type: text/plain\r\n\r\n"),
    "endless-head": endless(HEAD, b"X-More: and more\r\n" * 1000),
    "endless-header-line": endless(HEAD + b"X-Long: "),
    "many-headers": plain(HEAD + b"X: y\r\n" * 100_000 + b"Content-Length: 12\r\n\r\n", BODY),
    "many-short-headers": plain(HEAD + b"X: y\r\n" * 1000 + b"Content-Length: 12\r\n\r\n", BODY),
    "endless-100-continue": endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    "endless-trailers": endless(CHUNKED + CHUNK + b"0\r\n", b"X-More: and more\r\n" * 1000),
    "extension-flood": endless(CHUNKED + b"c;", b"e" * 65536),
    "tiny-chunks": endless(CHUNKED, (b"1;" + b"e" * 3000 + b"\r\nx\r\n") * 20),
    "drip": dripping(b"", right(close=False)),
    "drip-body": dripping(length(b"12"), BODY),
    "silent": stuck(b""),
    "stuck-in-head": stuck(HEAD),
    "stuck-in-body": stuck(length(b"12") + BODY[:5]),
    "head-without-body": stuck(length(b"12")),
    "accept-close": plain(b"", keep=False),
    "reset": resetting(b""),
    "reset-in-head": resetting(HEAD),
    "reset-in-body": resetting(length(b"12") + BODY[:5]),
    "huge-length": stuck(length(b"9223372036854775807") + BODY),
    "larger-length": stuck(length(b"99999999999999999999999999") + BODY),
    "negative-length": plain(length(b"-12"), BODY),
    "plus-length": plain(length(b"+12"), BODY),
    "blank-in-length": plain(length(b"1 2"), BODY),
    "two-lengths": plain(HEAD + b"Content-Length: 13\r\n" + b"Content-Length: 12\r\n\r\n", BODY),
    "length-and-chunked": plain(
        HEAD + b"Content-Length: 12\r\nTransfer-Encoding: chunked\r\n\r\n", CHUNK + b"0\r\n\r\n"
    ),
    "huge-chunk": plain(CHUNKED, b"fffffffffffffffffffffffff\r\nhello world\n\r\n0\r\n\r\n"),
    "negative-chunk": plain(CHUNKED, b"-c\r\nhello world\n\r\n0\r\n\r\n"),
    "wrong-status": plain(b"HTTP/1.1 500 Oops\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\n", BODY),
    "redirect": plain(b"HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n"),
    "204-with-body": plain(b"HTTP/1.1 204 None\r\nContent-Length: 12\r\n\r\n", BODY),
    "304-with-body": plain(b"HTTP/1.1 304 Same\r\nContent-Length: 12\r\n\r\n", BODY),
    "switches-protocols": plain(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"),
    "wrong-body": plain(length(b"12"), b"hello worle\n"),
    "wrong-type": plain(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 12\r\n\r\n", BODY),
    "short-body": plain(length(b"12"), BODY[:-1], keep=False),
    "extra-bytes": plain(length(b"12"), BODY + b"junk"),
    "two-answers": plain(right(close=False), right(close=False)),
    "answers-early": early,
    "http-0.9": plain(BODY, keep=False),
    "http-2": plain(b"\x00\x00\x12\x04\x00\x00\x00\x00\x00" + b"\x00" * 18),
    "binary": plain(bytes(range(256)) * 4),
    "no-colon": plain(HEAD + b"this is no header\r\nContent-Length: 12\r\n\r\n", BODY),
    "nul-in-header": plain(HEAD + b"X-Nul: a\x00b\r\nContent-Length: 12\r\n\r\n", BODY),
    "control-in-reason": plain(b"HTTP/1.1 200 O\x07K\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\n", BODY),
    "gzip": plain(HEAD + b"Content-Encoding: gzip\r\nContent-Length: 12\r\n\r\n", BODY),
    "keeps-and-closes": lying,
    "never-closes": never_closing,
    "dies": dying,
    "freezes": freezing,
    # Odd, and right:
    "right": plain(right(close=False)),
    "odd-case": plain(b"HTTP/1.1 200 OK\r\ncOnTeNt-TyPe: Text/Plain\r\ncontent-length:12\r\n\r\n", BODY),
    "odd-reason": plain("HTTP/1.1 200 Ökö 🙂\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\n".encode(), BODY),
    "no-reason": plain(b"HTTP/1.1 200\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\n", BODY),
    "chunked": plain(CHUNKED, CHUNK + b"0\r\n\r\n"),
    "closes-after-first": first_only,
    "doubled-headers": plain(
        HEAD + b"Content-Length: 12\r\nServer: a\r\nServer: b\r\nContent-Length: 12\r\n\r\n", BODY
    ),
    "memory-hog": hogging,
}


class Rogue:
    """One server: what it does, from which request on."""

    def __init__(self, mode: str, after: int) -> None:
        self.mode, self.after = MODES[mode], after
        self.numbers = itertools.count()

    def serve(self, sock: socket.socket) -> None:
        """One connection to its end."""
        with sock, suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while request := sock.recv(65536):
                close = b"connection: close" in request.lower() or b" HTTP/1.0\r\n" in request
                mode = self.mode if next(self.numbers) >= self.after else MODES["right"]
                kept = False
                for piece in mode(sock, close):
                    kept = piece is KEEP
                    if not kept:
                        sock.sendall(piece)
                if not kept:
                    return


def main() -> None:
    """Serves until it is ended."""
    from listening import serve_all  # beside this program

    port, mode = int(sys.argv[1]), sys.argv[2]
    after = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    if mode == "exits":
        sys.exit("rogue: no configuration found")
    if mode == "never-listens":
        threading.Event().wait()
    listener = socket.create_server(("127.0.0.1", port), backlog=0 if mode == "never-accepts" else 1024)
    print(f"port {listener.getsockname()[1]}", flush=True)
    if mode == "never-accepts":
        fillers = [socket.create_connection(listener.getsockname()) for _ in range(1)]
        threading.Event().wait()
        del fillers
    serve_all(listener, Rogue(mode, after).serve, sys.argv, "http/1.1")


if __name__ == "__main__":
    main()
