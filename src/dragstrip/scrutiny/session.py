"""How scrutineering sends requests over a connection: a session, with a class for each protocol.

HTTP/1 is here, the module of any other protocol is imported when it is used.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import ClassVar, TypeAlias, cast

from dragstrip import parity
from dragstrip.scrutiny.reader import Deadline, Response, ResponseError, quoted, read_response
from dragstrip.workload import HTTP2, WEBSOCKET, Exchange

#: Seconds after a complete response within which a server must close the connection, or answer its end.
CLOSE_S = 2.0

#: A further check of a server: opens connections, sends what differs from the exchange, ends by the deadline; raises
#: OSError or ResponseError.
SessionTrial: TypeAlias = Callable[[Callable[[], socket.socket], Exchange, Deadline], None]


class Session:
    """One request after the other over a connected socket; a subclass for each protocol."""

    #: Whether a request can be sent in several TCP segments, and its body in chunks or without its end.
    in_pieces: ClassVar[bool] = False
    has_chunks: ClassVar[bool] = False
    #: Whether a request can ask the server to close the connection.
    closes: ClassVar[bool] = False
    #: Whether each response has a head, which the engine compares with reference heads.
    has_heads: ClassVar[bool] = True
    #: How the end of a body is known that has no field in the head for it.
    framing: ClassVar[parity.Framing]
    #: Further checks, by the way in which requests are then sent, in words.
    trials: ClassVar[Mapping[str, SessionTrial]] = MappingProxyType({})

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    @staticmethod
    def compared(names: str, bodies: str) -> str:
        """What the engine compares under load, for the parity sheet.

        Args:
            names: of the headers whose values are compared. bodies: what is compared of bodies.
        """
        return f"every response: status line, names of headers, values of {names}; {bodies}"

    def fetch(
        self, exchange: Exchange, *, body_bytes: int, deadline: Deadline, pieces: Sequence[bytes] = ()
    ) -> Response:
        """Sends one request and reads its whole response.

        Args:
            body_bytes, deadline, pieces: as in ``read_response``.

        Raises:
            ResponseError: the response is not valid, or it wasn't complete in time.
            OSError: the connection failed before any byte came.
        """
        raise NotImplementedError

    def refuse_unasked(self, asked: int) -> None:
        """Refuses data that arrived between a response and the next request.

        Args:
            asked: responses so far.
        """

    def end(self, exchange: Exchange, deadline: Deadline) -> None:
        """Checks the end of a connection after the response to ``exchange``, which asked for the end if it could.

        Raises:
            ResponseError: the server does not end it in order.
        """


class Http1Session(Session):
    """HTTP/1 over a connected socket."""

    in_pieces = has_chunks = closes = True
    framing = parity.Framing.UNTIL_CLOSE

    def fetch(
        self, exchange: Exchange, *, body_bytes: int, deadline: Deadline, pieces: Sequence[bytes] = ()
    ) -> Response:
        return read_response(self.sock, exchange.request, body_bytes=body_bytes, deadline=deadline, pieces=pieces)

    def refuse_unasked(self, asked: int) -> None:
        self.sock.setblocking(False)
        try:
            # Encrypted bytes can't be peeked at; without a fault there are none.
            early = self.sock.recv(1 << 12, 0 if isinstance(self.sock, ssl.SSLSocket) else socket.MSG_PEEK)
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        if early:
            raise ResponseError(f"sent unrequested data, {quoted(early)}; expected one response per request")
        raise closed_unsaid(asked)

    def end(self, exchange: Exchange, deadline: Deadline) -> None:
        """Checks that the server closes the connection, and sends nothing after its response."""
        Deadline(CLOSE_S, deadline).lend(self.sock)
        try:
            more = self.sock.recv(1 << 12)
        except TimeoutError:
            raise ResponseError(
                f"asked to close ('Connection: close'), it did not close within {CLOSE_S:g} s of its response; "
                "expected it to close the connection"
            ) from None
        except ConnectionResetError as error:
            raise ResponseError(
                "asked to close, it reset the connection (RST) after its response, which may destroy the response on "
                "its way; expected an orderly close"
            ) from error
        if more:
            raise ResponseError(
                f"{exchange.path}: bytes follow the complete response, {quoted(more)}; expected nothing more"
            )


def closed_unsaid(asked: int, or_else: str = "") -> ResponseError:
    """That the server closed a connection unannounced.

    Args:
        asked: responses before. or_else: further words on when.
    """
    responses = "a response" if asked == 1 else f"{asked:,} responses"
    return ResponseError(
        f"closed the connection after {responses} without announcing it{or_else}; expected "
        "'Connection: close' in the last one"
    )


#: Module and class of a session by ``Exchange.http``; every other exchange is HTTP/1's.
SESSIONS = MappingProxyType(
    {
        HTTP2: ("dragstrip.scrutiny.http2", "Http2Session"),
        WEBSOCKET: ("dragstrip.scrutiny.websocket", "WebSocketSession"),
    }
)


def session_for(exchange: Exchange) -> type[Session]:
    """The class of session that sends this exchange."""
    if exchange.http not in SESSIONS:
        return Http1Session
    module, name = SESSIONS[exchange.http]
    return cast(type[Session], getattr(import_module(module), name))


def session_over(sock: socket.socket, exchange: Exchange) -> Session:
    """A session for this exchange over a new connection."""
    return session_for(exchange)(sock)
