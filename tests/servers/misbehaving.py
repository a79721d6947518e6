"""A small HTTP server with one planted fault, for races. Standard library only.

usage: misbehaving.py PORT FAULT [FILE [COUNT]]; PORT may be the path of a unix socket, too

FAULT: none, wrong-byte (the body differs by one byte), fast-500, never (starts, never listens),
forgets (every 500th request, whose connection it keeps open), exits (ends at once),
slow (spends 300 µs of CPU time on each answer),
restless (works while idle, and keeps 32 MiB for ever after each pause),
counts (says at /served how many it has answered), lies (says a tenth fewer),
holds (answers the first request alone, and lets every later one wait for ever),
hostile (right answers, with headers that attack a terminal and a page),
crashes (by SIGSEGV, after as many answers as the last word says, in its first launch, too),
daemonizes (serves in the background), six (listens on ::1 alone), sleeps (for as many seconds, then serves),
dies (lives through its first launch, which makes FILE; ends after COUNT answers of any later one, or, where COUNT is
"block", a few answers after its third pause: a warm-up has none, and before each block there is one).
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
import threading
import time
from pathlib import Path

BODY = b"hello world\n"
#: Longer without a request is a pause: others have their turn, between two blocks.
PAUSE_S = 0.05


# No ESC: the engine takes a control character in a header for no answer at all. 0x9B means the same to a terminal.
HOSTILE = b'Server: <script>alert(1)</script>\x9b2J\x9d0;owned\x9c\r\nX-Evil: "><svg onload=alert(3)>\r\n'


def answer(status: str, body: bytes, close: bool) -> bytes:
    tail = b"Connection: close\r\n" if close else b""
    tail += HOSTILE if "hostile" in sys.argv else b""
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n".encode()
    return head + tail + b"\r\n" + body


def fidget() -> None:
    """Works for a third of the time, whoever asks."""
    while True:
        until = time.monotonic() + 0.005
        while time.monotonic() < until:
            pass
        time.sleep(0.01)


def serve(port: str, fault: str) -> None:
    if fault == "six":
        listener = socket.create_server(("::1", int(port)), family=socket.AF_INET6)
    elif port.isdecimal():
        listener = socket.create_server(("127.0.0.1", int(port)), backlog=1024)
    else:
        listener = socket.create_server(port, family=socket.AF_UNIX, backlog=1024)
    listener.setblocking(False)
    ready = selectors.DefaultSelector()
    ready.register(listener, selectors.EVENT_READ)
    served = 0
    kept: list[bytes] = []
    forgotten: list[socket.socket] = []
    if fault == "restless":
        threading.Thread(target=fidget, daemon=True).start()
    mortal = fault == "dies" and Path(sys.argv[3]).exists()
    if fault == "dies":
        Path(sys.argv[3]).touch()
    in_block = mortal and sys.argv[4] == "block"
    last = int(sys.argv[4]) if mortal and not in_block else 0
    pauses, latest = 0, time.monotonic()
    while True:
        events = ready.select()
        if time.monotonic() - latest > PAUSE_S:
            pauses += 1
            last = served + 5 if in_block and pauses == 3 else last
            if fault == "restless":
                kept.append(b"\x01" * 2**25)
        latest = time.monotonic()
        for key, _ in events:
            if key.fileobj is listener:
                connection, _ = listener.accept()
                if port.isdecimal():
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                ready.register(connection, selectors.EVENT_READ)
                continue
            connection = key.fileobj
            try:
                request = connection.recv(65536)
            except ConnectionError:
                request = b""
            if not request:
                ready.unregister(connection)
                connection.close()
                continue
            # HTTP/1.0 it never keeps alive, asked or not.
            if (fault == "forgets" and served % 500 == 499) or (fault == "holds" and served):
                served += 1
                kept.append(request)
                ready.unregister(connection)
                forgotten.append(connection)
                continue
            close = b"connection: close" in request.lower() or b" HTTP/1.0\r\n" in request
            if fault == "slow":
                until = time.thread_time_ns() + 300_000
                while time.thread_time_ns() < until:
                    pass
            status = "500 Internal Server Error" if fault == "fast-500" else "200 OK"
            body = b"hello worle\n" if fault == "wrong-byte" else BODY
            if request.startswith(b"GET /served "):
                body = f"served {served * 9 // 10 if fault == 'lies' else served}\n".encode()
            try:
                connection.sendall(answer(status, body, close))
            except ConnectionError:
                close = True
            served += 1
            if close:
                ready.unregister(connection)
                connection.close()
            if fault == "crashes" and served >= int(sys.argv[-1]):
                print("misbehaving: dying now, by a crash", file=sys.stderr, flush=True)
                os.kill(os.getpid(), signal.SIGSEGV)
            if mortal and last and served >= last:
                sys.stderr.write("misbehaving: dying now, as told\n")
                sys.stderr.flush()
                os._exit(9)


def main() -> None:
    port, fault = sys.argv[1], sys.argv[2]
    if fault == "exits":
        sys.exit("misbehaving: no configuration found")
    if fault == "never":
        time.sleep(600)
    if fault == "daemonizes" and os.fork():
        time.sleep(0.2)  # as one that waits until its child is up
        os._exit(0)
    if fault == "sleeps":
        time.sleep(float(sys.argv[-1]))
    serve(port, fault)


if __name__ == "__main__":
    main()
