"""The register of sessions: which protocol sends an exchange in scrutineering."""

from __future__ import annotations

import socket
from types import MappingProxyType

from dragstrip.scrutiny.http1 import Http1Session
from dragstrip.scrutiny.http2 import Http2Session
from dragstrip.scrutiny.session import Session
from dragstrip.scrutiny.websocket import WebSocketSession
from dragstrip.workload import HTTP2, WEBSOCKET, Exchange

#: By ``Exchange.http``; every other exchange is HTTP/1's.
SESSIONS = MappingProxyType({HTTP2: Http2Session, WEBSOCKET: WebSocketSession})


def session_for(exchange: Exchange) -> type[Session]:
    """The class of session that sends this exchange."""
    return SESSIONS.get(exchange.http, Http1Session)


def session_over(sock: socket.socket, exchange: Exchange) -> Session:
    """A session for this exchange over a new connection."""
    return session_for(exchange)(sock)
