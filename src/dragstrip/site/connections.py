"""Connections of the local page: bounded in number, and ended when a client takes too long to send or to read."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

#: Maximum of open connections (one more ends the connection that has waited longest for its request), and of
#: connections waiting to be accepted.
MAX_CONNECTIONS, BACKLOG = 128, 128

#: Seconds for a whole request, from the connection's start or the previous response; a browser needs milliseconds.
REQUEST_S = 3.0

#: Seconds after which a client that has stopped reading is disconnected.
READ_S = 20.0


class Bounded(H11Protocol):
    """One connection. uvicorn's own limits do not cover a request that is never completed."""

    #: Every connection without a whole request; the oldest first.
    waiting: ClassVar[dict[Bounded, None]] = {}

    _request_by: asyncio.TimerHandle | None = None
    _read_by: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Ends the longest wait if there are too many connections, or this one if none waits."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            ended = next(iter(self.waiting), self)
            ended._await_nothing()
            ended.transport.abort()
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the timers."""
        self._await_nothing()
        _cancel(self._read_by)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Ends the wait when a request is complete; a part of a request does not lengthen the wait."""
        super().data_received(data)
        if self._responds():
            self._await_nothing()

    def on_response_complete(self) -> None:
        """Gives the next request, or the client's closing of the connection, as much time as the first request."""
        super().on_response_complete()
        if not self._responds():
            self._await_request()

    def pause_writing(self) -> None:
        """Starts a timer, because the client reads too slowly."""
        super().pause_writing()
        self._read_by = self.loop.call_later(READ_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Ends the timer, because the client reads again."""
        super().resume_writing()
        _cancel(self._read_by)

    def _responds(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _await_request(self) -> None:
        self._await_nothing()
        self.waiting[self] = None
        self._request_by = self.loop.call_later(REQUEST_S, self.transport.abort)

    def _await_nothing(self) -> None:
        self.waiting.pop(self, None)
        _cancel(self._request_by)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
