"""Workloads of messages over WebSocket (RFC 6455): one message at a time on connections that are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dragstrip.contender.template import names_in
from dragstrip.errors import BadUsage
from dragstrip.workload.exchange import WEBSOCKET, request_bytes
from dragstrip.workload.fields import RequestKind, TrafficFields
from dragstrip.workload.kinds.http import HttpExchanges, Sent

#: The status of a connection that has become WebSocket's; it stands for every message.
SWITCHED = 101

#: Keys of a response that a message has not.
_NOT_OF_MESSAGES = ("status", "content_type", "headers", "encodings", "check")


@dataclass(frozen=True, slots=True)
class WebSocketMessages(HttpExchanges):
    """A workload whose requests and responses are messages; a connection begins with an upgrade of HTTP/1.1."""

    over_http: ClassVar[bool] = False

    def check(self, request: RequestKind) -> None:
        """Messages go over connections that are kept, one at a time, and have nothing of HTTP but the upgrade."""
        source, fields, at = self.source, request.request, (*request.at, "answer")
        if not fields.message:
            raise source.bad(
                request.asked_at("message"), "is missing, but another request has it", "give it to all or none"
            )
        if fields.method != "GET" or fields.framing != "length":
            key = "framing" if fields.method == "GET" else "method"
            raise source.bad(request.asked_at(key), "has no effect on a message over WebSocket", "leave it out")
        if given := next((name for name in _NOT_OF_MESSAGES if name in request.answer.model_fields_set), None):
            raise source.bad((*at, given), "is of HTTP, and the response is a message over WebSocket", "leave it out")
        compare = request.answer.compare
        if compare not in ("bytes", "echo"):
            raise source.bad((*at, "compare"), f"given {compare!r} for a message", 'give "bytes" or "echo"')
        usual = TrafficFields()
        for name in ("pipelining", "keepalive", "requests_per_connection", "http"):
            if getattr(self.traffic, name) != getattr(usual, name):
                raise source.bad(
                    ("load", name),
                    "does not suit WebSocket: connections are kept, with one message at a time",
                    "leave it out",
                )
        first = self.requests[0].request
        if first.path != fields.path or first.headers != fields.headers:
            raise source.bad(request.asked_at("path"), "differs from the first request's", "open all connections alike")
        if names_in(fields.path) or any(map(names_in, fields.headers.values())):
            raise source.bad(request.asked_at("path"), "has a value that varies", "let only the message vary")

    def message_type(self, request: RequestKind, filled: str) -> str:
        if filled not in ("text", "binary"):
            raise self.source.bad(request.asked_at("message"), f"becomes {filled!r}", "give text or binary")
        return filled

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
        """The head of the upgrade, which has no body, and then the message."""
        head = request_bytes(request.request.method, path, http, headers, [], None, chunked=False, host=host)
        return Sent(head + (body or b""), SWITCHED, WEBSOCKET)

    def refuse_load(self, *, http: str, keepalive: bool, open_loop: bool, framed: str | None) -> None:
        """WebSocket begins with an upgrade of HTTP/1.1, and keeps its connections."""
        given = "--no-keepalive" if not keepalive else "" if http == "1.1" else f"--http {http}"
        if given or framed:
            raise BadUsage(
                f"workload {self.name} is sent over WebSocket, which needs HTTP/1.1 and connections that are kept; "
                f"leave {given or f'HTTP/2 of {framed}'} out"
            )
