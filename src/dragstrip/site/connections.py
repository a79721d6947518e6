"""Connections of the local page: bounded in number, and ended when a client takes too long to send or to read."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

#: Open at once; one more ends the one that has waited longest for its request. Connections to be accepted at a time.
MAX_CONNECTIONS, BACKLOG = 128, 128

#: Seconds for a whole request, from the connection's start or from the response before; a browser needs milliseconds.
REQUEST_S = 3.0

#: Seconds for a client that has stopped reading to read on.
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
        """It waits for nothing any more."""
        self._await_nothing()
        _cancel(self._read_by)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A whole request ends the wait; a part of one does not lengthen it."""
        super().data_received(data)
        if self._responds():
            self._await_nothing()

    def on_response_complete(self) -> None:
        """The next request has as much time as the first; so has the end of a connection that is closed."""
        super().on_response_complete()
        if not self._responds():
            self._await_request()

    def pause_writing(self) -> None:
        """The client reads too slowly."""
        super().pause_writing()
        self._read_by = self.loop.call_later(READ_S, self.transport.abort)

    def resume_writing(self) -> None:
        """It reads on."""
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
