"""Workloads of HTTP exchanges, and what every other kind of workload may replace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dragstrip.contender import Source
from dragstrip.errors import BadUsage
from dragstrip.workload.exchange import connection_words, request_bytes
from dragstrip.workload.fields import RequestKind, TrafficFields


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as it is sent: its bytes, the status of its correct response, and ``http`` as in ``Exchange``."""

    request: bytes
    status: int
    http: str


@dataclass(frozen=True, slots=True)
class HttpExchanges:
    """A workload whose requests are HTTP's, each with one response; a further kind is a subclass.

    Args:
        name, source: of the workload. traffic: how its requests are sent. requests: all of them.
    """

    name: str
    source: Source
    traffic: TrafficFields
    requests: tuple[RequestKind, ...]

    #: Whether responses are HTTP's, with a content type; scrutiny then tries what a server does with connections.
    over_http: ClassVar[bool] = True

    def check(self, request: RequestKind) -> None:
        """Refuses what a request of this kind can't have.

        Raises:
            BadDefinition: names file, line, field and remedy.
        """

    def message_type(self, _request: RequestKind, _filled: str) -> str:
        """``Exchange.message``, from the request's template ``message`` as it is filled.

        Raises:
            BadDefinition: it is not a valid type.
        """
        return ""

    def sent(
        self,
        request: RequestKind,
        path: str,
        http: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        chunked: bool,
        keepalive: bool,
        host: str,
    ) -> Sent:
        """The request as it is sent.

        Args:
            path, headers, body: as they are filled. http: the version of HTTP. keepalive: as in ``Asking.exchanges``.
            chunked: the body is sent in chunks. host: of the Host header.

        Raises:
            BadUsage: this version can't send it.
        """
        if chunked and http == "1.0":
            raise self._chunks_refused()
        words = connection_words(http, keepalive)
        bytes_ = request_bytes(request.request.method, path, http, headers, words, body, chunked=chunked, host=host)
        return Sent(bytes_, request.answer.status, http)

    def refuse_load(self, *, http: str, keepalive: bool, open_loop: bool, framed: str | None) -> None:
        """Refuses a load that requests of this kind can't have.

        Args:
            http: the race's version. keepalive: connections are kept. open_loop: requests leave by the clock.
            framed: a contender that is raced over HTTP/2; None: no contender is.

        Raises:
            BadUsage: names the workload, the reason and what to do.
        """
        chunked = any(request.request.framing == "chunked" for request in self.requests)
        pipelining = self.traffic.pipelining
        if http == "1.0" and chunked:
            raise self._chunks_refused()
        if framed and (pipelining > 1 or chunked):
            raise BadUsage(
                f"workload {self.name} has pipelining or chunks, which are HTTP/1.1's, and {framed} is raced over "
                "HTTP/2; use another workload"
            )
        if pipelining > 1 and (open_loop or not keepalive):
            option = "a new connection for each" if not keepalive else "a rate"
            raise BadUsage(
                f"workload {self.name} sends {pipelining} requests at once on a connection, which can't be "
                f"done with {option}; leave it out, or use another workload"
            )

    def _chunks_refused(self) -> BadUsage:
        """Why bodies in chunks are not sent over HTTP/1.0 (RFC 9112, 6.1)."""
        return BadUsage(
            f"workload {self.name} sends chunked bodies, which HTTP/1.0 does not support; leave --http 1.0 out"
        )
