"""Sends messages over WebSocket and reads those that come back, within deadlines and caps; like ``http2``.

The wsproto library implements the protocol (RFC 6455): strict, without I/O, and independent of the load engine.
"""

from __future__ import annotations

import re
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from types import MappingProxyType

from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Message,
    Ping,
    RejectConnection,
    Request,
    TextMessage,
)
from wsproto.utilities import RemoteProtocolError

from dragstrip import parity
from dragstrip.scrutiny.reader import (
    PIECES_S,
    QUOTED,
    RESPONSE_S,
    SPARE_BYTES,
    Deadline,
    EndedError,
    LateError,
    Response,
    ResponseError,
    quoted,
    read_response,
)
from dragstrip.scrutiny.session import CLOSE_S, Session
from dragstrip.workload import Exchange

#: The version of responses.
VERSION = "WebSocket"

#: Requests that a server must refuse: what they lack, and the fields that they have in addition to the upgrade's head.
BAD_UPGRADES = {
    "a GET request without an upgrade": b"",
    "an upgrade to version 12": (
        b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        b"Sec-WebSocket-Version: 12\r\n"
    ),
}

#: The code of an orderly end (RFC 6455, 7.4.1).
_DONE = 1000


#: States after a server's close frame.
_CLOSED_BY_SERVER = (ConnectionState.REMOTE_CLOSING, ConnectionState.CLOSED)


def refuses_bad_upgrades(connect: Callable[[], socket.socket], exchange: Exchange, deadline: Deadline) -> None:
    """Sends requests that a server must not upgrade; it may close the connection instead of a response."""
    for name, fields in BAD_UPGRADES.items():
        request = exchange.head.removesuffix(b"\r\n") + fields + b"\r\n"
        with connect() as sock:
            try:
                response = read_response(sock, request, body_bytes=SPARE_BYTES, deadline=Deadline(RESPONSE_S, deadline))
            except EndedError:
                continue
            except ResponseError as error:
                raise type(error)(f"{name}: {error}") from error
        if not 400 <= response.status < 500:
            raise ResponseError(f"{name}: sent status {response.status}; expected 400 to 499")


class WebSocketSession(Session):
    """WebSocket over a connected socket, one message after the other; the upgrade precedes the first one."""

    in_pieces, has_heads = True, False
    framing = parity.Framing.MESSAGES
    trials = MappingProxyType({"with a bad upgrade": refuses_bad_upgrades})

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a message must not wait for a pong before it
        self._ws = WSConnection(ConnectionType.CLIENT)
        self._events: deque[Event] = deque()
        self._head = b""

    @staticmethod
    def compared(names: str, bodies: str) -> str:
        return f"every message: its type, {bodies.removesuffix(' of the body')}"

    def fetch(
        self, exchange: Exchange, *, body_bytes: int, deadline: Deadline, pieces: Sequence[bytes] = ()
    ) -> Response:
        """Sends a message and reads the next one.

        Args:
            body_bytes, deadline: as in ``read_response``.
            pieces: if there are any, the message is sent in two TCP segments.

        Raises:
            ResponseError: the connection is not upgraded, no valid message came, or it wasn't complete in time.
            OSError: the connection failed before any byte came.
        """
        began_ns = time.monotonic_ns()
        if self._ws.state is ConnectionState.CONNECTING:
            self._upgrade(exchange, deadline)
        message = BytesMessage(exchange.sends) if exchange.message == "binary" else TextMessage(exchange.sends.decode())
        frame = self._ws.send(message)
        self._send(frame[:3] if pieces else frame, deadline)
        if pieces:
            time.sleep(PIECES_S)  # so that each piece is its own segment, and read alone
            self._send(frame[3:], deadline)
        body, cut, event = bytearray(), "", self._message(deadline)
        kind = "text" if isinstance(event, TextMessage) else "binary"
        while True:
            body += event.data.encode() if isinstance(event.data, str) else event.data
            if len(body) > body_bytes + SPARE_BYTES:
                cut = f"sends a message of more than {body_bytes + SPARE_BYTES:,} bytes"
                del body[QUOTED:]
            if cut or event.message_finished:
                break
            event = self._message(deadline)
        more = next((event.data for event in self._events if isinstance(event, Message)), None)
        fields = [line.partition(b":") for line in self._head.split(b"\r\n")[1:] if line]
        return Response(
            status=101,
            version=VERSION,
            headers=tuple((name.decode("latin-1"), value.strip().decode("latin-1")) for name, _, value in fields),
            head_bytes=len(self._head),
            wire_bytes=len(body),
            body=bytes(body),
            closes=False,
            cut=cut,
            surplus=b"" if more is None else (more.encode() if isinstance(more, str) else bytes(more)) or b"\0",
            took_ns=time.monotonic_ns() - began_ns,
            message=kind,
        )

    def end(self, exchange: Exchange, deadline: Deadline) -> None:
        """Closes the connection in order.

        Raises:
            ResponseError: the server does not answer the close frame in time.
        """
        deadline = Deadline(CLOSE_S, deadline)
        self._send(self._ws.send(CloseConnection(code=_DONE)), deadline)
        while not isinstance(event := self._next(deadline, "a close frame as the answer to one"), CloseConnection):
            if isinstance(event, Message):
                raise ResponseError("sent a message without a request; expected a close frame as the answer to one")

    def _upgrade(self, exchange: Exchange, deadline: Deadline) -> None:
        line, *fields = exchange.head.rstrip().split(b"\r\n")
        named = [(name, value.strip()) for name, _, value in (field.partition(b":") for field in fields)]
        host = next(value for name, value in named if name == b"Host").decode()
        others = [(name, value) for name, value in named if name != b"Host"]
        request = Request(host=host, target=line.split(b" ")[1].decode(), extra_headers=others)
        self._send(self._ws.send(request), deadline)
        event = self._next(deadline, "the response to an upgrade")
        if isinstance(event, RejectConnection):
            raise ResponseError(f"{exchange.path} sent status {event.status_code}; expected 101, the upgrade")
        assert isinstance(event, AcceptConnection)

    def _message(self, deadline: Deadline) -> TextMessage | BytesMessage:
        """The next message, or the next part of one."""
        while True:
            event = self._next(deadline, "a message")
            if isinstance(event, TextMessage | BytesMessage):
                return event
            if isinstance(event, CloseConnection):
                reason = f", {quoted(event.reason.encode())}" if event.reason else ""
                raise ResponseError(f"closed the connection with code {event.code}{reason}; expected a message")
            if isinstance(event, Ping):
                self._send(self._ws.send(event.response()), deadline)

    def _send(self, bytes_: bytes, deadline: Deadline) -> None:
        deadline.lend(self.sock)
        try:
            self.sock.sendall(bytes_)
        except TimeoutError:
            raise LateError(
                f"did not read the message within {deadline.text()}; expected it to read the message"
            ) from None
        except (BrokenPipeError, ConnectionResetError):
            pass  # it may have responded before it closed

    def _next(self, deadline: Deadline, wanted: str) -> Event:
        """The next event; ``wanted``: what it should be, for messages."""
        while not self._events:
            late = f"did not send {wanted} within {deadline.text()}; expected it in that time"
            if deadline.left_s() <= 0:
                raise LateError(late)
            deadline.lend(self.sock)
            try:
                piece = self.sock.recv(1 << 16)
            except TimeoutError:
                raise LateError(late) from None
            except ConnectionResetError as error:
                raise ResponseError(f"reset the connection (RST); expected {wanted}") from error
            if not piece:
                raise ResponseError(f"closed the connection; expected {wanted}")
            self._receive(piece)
        return self._events.popleft()

    def _receive(self, piece: bytes) -> None:
        opening = self._ws.state is ConnectionState.CONNECTING
        if opening:
            self._head += piece
        try:
            self._ws.receive_data(piece)
            for event in self._ws.events():
                # wsproto reports invalid frames as if the server had closed the connection.
                if isinstance(event, CloseConnection) and self._ws.state not in _CLOSED_BY_SERVER:
                    raise RemoteProtocolError(event.reason or "an invalid frame")
                self._events.append(event)
        except RemoteProtocolError as error:
            if opening:
                raise ResponseError(
                    f"fails the upgrade to WebSocket ({error}); expected status 101 with the proof that it has read "
                    "Sec-WebSocket-Key (RFC 6455, 4.2.2)"
                ) from error
            raise ResponseError(f"breaks WebSocket ({error}); expected valid frames (RFC 6455)") from error
        if opening and (end := re.search(rb"\r\n\r\n", self._head)):
            self._head = self._head[: end.end()]
