"""An HTTP server that recognizes the load generator and cheats only then. Standard library only.

usage: cheats.py PORT CHEAT

CHEAT: "none"; "ends", which is as honest and ends each connection after 50 answers, and says so; "leaves", which says
nothing when it was asked to end a connection; or a key of CHEATS. A cheat has a trigger, by which it recognizes the
load, and a way of cheating.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

BODY = b"hello world\n"


@dataclass
class Answer:
    """One response before it is written."""

    line: str = "HTTP/1.1 200 OK"
    headers: dict[str, str] = field(
        default_factory=lambda: {
            "Server": "cheats/1.0",
            "Date": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime()),
            "Content-Type": "text/plain",
            "X-Work": "all of it was done",
        }
    )
    body: bytes = BODY
    works: bool = True

    def written(self, close: bool) -> bytes:
        """As it goes over the wire; computing it takes some time, unless that is skipped."""
        end_ns = time.thread_time_ns() + 30_000
        while self.works and time.thread_time_ns() < end_ns:
            pass
        fields = {**self.headers, "Content-Length": str(len(self.body))} | (
            {"Connection": "close"} if close and sys.argv[2] != "leaves" else {}
        )
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"{self.line}\r\n{head}\r\n".encode() + self.body


class Seen:
    """What the server knows of its clients."""

    def __init__(self) -> None:
        self.started_s = self.latest_s = time.monotonic()
        self.open, self.requests, self.since_pause = 0, 0, 0
        self.recent: deque[float] = deque(maxlen=400)

    def note(self) -> None:
        """A request has come."""
        now_s = time.monotonic()
        self.since_pause = 0 if now_s - self.latest_s > 0.05 else self.since_pause + 1
        self.requests, self.latest_s = self.requests + 1, now_s
        self.recent.append(now_s)

    def within(self, count: int, seconds: float) -> bool:
        """Whether this many requests came within this time."""
        return len(self.recent) >= count and self.recent[-1] - self.recent[-count] < seconds


SEEN = Seen()


class Connection(asyncio.Protocol):
    """One connection's requests, one after the other."""

    def __init__(self, cheat: str) -> None:
        self.trigger, self.way = CHEATS[cheat][:2] if cheat in CHEATS else (lambda _: False, empty)
        self.most = 50 if cheat == "ends" else sys.maxsize
        self.requests, self.quick, self.answered_s, self.request, self.held = 0, 0, 0.0, b"", b""
        self.port = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.port = transport.get_extra_info("peername")[1]
        SEEN.open += 1

    def connection_lost(self, _: Exception | None) -> None:
        SEEN.open -= 1

    def data_received(self, data: bytes) -> None:
        self.held += data
        while b"\r\n\r\n" in self.held:
            self.request, _, self.held = self.held.partition(b"\r\n\r\n")
            self.answer()

    def answer(self) -> None:
        SEEN.note()
        self.requests += 1
        self.quick = self.quick + 1 if time.monotonic() - self.answered_s < 0.05 else 0
        found = Answer()
        path, close = self.request.split(b" ")[1], b"connection: close" in self.request.lower()
        close = close or self.requests == self.most
        if path != b"/":
            found.line, found.body = "HTTP/1.1 404 Not Found", b"not found\n"
        elif self.trigger(self):
            self.way(found)
        assert isinstance(self.transport, asyncio.Transport)
        self.transport.write(found.written(close))
        self.answered_s = time.monotonic()
        if close:
            self.transport.close()


def without(*names: str) -> Callable[[Answer], None]:
    def way(answer: Answer) -> None:
        for name in names:
            del answer.headers[name]

    return way


def setting(**values: str | bytes | bool) -> Callable[[Answer], None]:
    def way(answer: Answer) -> None:
        for name, value in values.items():
            setattr(answer, name, value)

    return way


def as_html(answer: Answer) -> None:
    answer.headers["Content-Type"] = "text/html"


def empty(answer: Answer) -> None:
    answer.line, answer.body = "HTTP/1.1 204 No Content", b""


def urgent(_: Answer) -> None:
    """Takes the processor from others, if it may."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)


#: Trigger, way, and both in words: by what it recognizes the load, and what it does then.
CHEATS: dict[str, tuple[Callable[[Connection], bool], Callable[[Answer], None], str, str]] = {
    "connections": (
        lambda _: SEEN.open > 12, without("Content-Type"),
        "more than 12 connections are open", "omits Content-Type",
    ),
    "rate": (
        lambda _: SEEN.within(200, 0.5), as_html,
        "200 requests arrived within 0.5 s", "declares its text as HTML",
    ),
    "time": (
        lambda _: time.monotonic() - SEEN.started_s > 1, setting(body=b"hello\n"),
        "it has run for a second", "sends a shorter body",
    ),
    "number": (
        lambda _: SEEN.requests > 3000, without("Server"),
        "it has received 3,000 requests", "omits Server",
    ),
    "reuse": (
        lambda one: one.requests > 100, empty,
        "a connection has sent 100 requests", "responds with status 204",
    ),
    "agent": (
        lambda one: b"User-Agent: dragstrip" in one.request, without("Server", "Date", "X-Work"),
        "the request names Dragstrip", "omits three headers",
    ),
    "port": (
        lambda one: one.port % 16 < 4, without("X-Work"),
        "the client's port is in one quarter of all ports", "omits a header of its own",
    ),
    "pause": (
        lambda one: one.quick > 5, setting(body=b"HELLO WORLD\n"),
        "six requests of a connection arrived without a pause", "sends other bytes",
    ),
    "burst": (
        lambda _: SEEN.since_pause > 50, setting(line="HTTP/1.1 200 "),
        "50 requests arrived since a pause of all clients", "omits the reason phrase",
    ),
    "together": (
        lambda _: SEEN.within(8, 0.002), without("Date"),
        "eight requests arrived within 2 ms", "omits Date",
    ),
    "idle": (
        lambda _: SEEN.open > 12, setting(works=False),
        "more than 12 connections are open", "skips work that no response shows",
    ),
    "priority": (
        lambda _: SEEN.within(200, 0.5), urgent,
        "200 requests arrived within 0.5 s", "raises its own priority",
    ),
}  # fmt: skip


async def main() -> None:
    """Serves until killed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(sys.argv[2]), "127.0.0.1", int(sys.argv[1]), backlog=4096)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
