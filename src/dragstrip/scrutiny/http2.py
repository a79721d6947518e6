"""Reads one response over HTTP/2, within one deadline and one cap; the counterpart of ``reader``.

The h2 library implements the protocol (RFC 9113): strict, without I/O, and independent of the load engine.
"""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections.abc import Sequence
from dataclasses import replace

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from h2.exceptions import ProtocolError

from dragstrip import parity
from dragstrip.scrutiny.reader import SPARE_BYTES, Deadline, LateError, Response, ResponseError, quoted
from dragstrip.scrutiny.session import Session
from dragstrip.workload import Exchange

#: The version of responses.
VERSION = "HTTP/2"

#: Fields of an HTTP/1 connection, and Host, which ``:authority`` replaces (RFC 9113, 8.2.2 and 8.3.1).
_LEFT_OUT = {"connection", "host", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"}


#: Three digits (RFC 9110, 15).
_STATUS = re.compile("[1-9][0-9]{2}")


class Http2Session(Session):
    """HTTP/2 over a connected socket, one request after the other.

    Args:
        scheme: "http" (prior knowledge, RFC 9113, 3.3) or "https", after ALPN agreed on "h2"; "": by the socket's type.
    """

    framing = parity.Framing.FRAMES

    def __init__(self, sock: socket.socket, scheme: str = "") -> None:
        super().__init__(sock)
        self.scheme = scheme or ("https" if isinstance(sock, ssl.SSLSocket) else "http")
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="latin-1"))
        self.h2.initiate_connection()

    def fetch(
        self, exchange: Exchange, *, body_bytes: int, deadline: Deadline, pieces: Sequence[bytes] = ()
    ) -> Response:
        return self.ask(exchange.request, body_bytes=body_bytes, deadline=deadline)

    def ask(self, request: bytes, *, body_bytes: int, deadline: Deadline) -> Response:
        """Sends a request and reads its whole response.

        Args:
            request: head and body in the form of HTTP/1.1, as the engine takes them.
            body_bytes, deadline: as in ``read_response``.

        Raises:
            ResponseError: the response is not HTTP/2, or it wasn't complete in time.
            OSError: the connection failed before any byte came.
        """
        began_ns = time.monotonic_ns()
        response = _FramesReading(self, request, body_bytes, deadline).response()
        return replace(response, took_ns=time.monotonic_ns() - began_ns)


class _FramesReading:
    """One response while it arrives."""

    def __init__(self, session: Http2Session, request: bytes, body_bytes: int, deadline: Deadline) -> None:
        self._sock, self._deadline, self._most_bytes = session.sock, deadline, body_bytes + SPARE_BYTES
        head, _, self._unsent = request.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        fields = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        authority = [(":authority", value) for name, value in fields if name == "host"]
        self._fields = [
            (":method", method),
            (":scheme", session.scheme),
            (":path", path),
            *authority,
            *((name, value) for name, value in fields if name not in _LEFT_OUT),
        ]
        self._h2 = session.h2
        self._stream = self._h2.get_next_available_stream_id()
        self._first = b""
        self._wire_bytes = 0
        self._headers: tuple[tuple[str, str], ...] = ()
        self._status = 0
        self._body = bytearray()
        self._cut = ""
        self._ended = False

    def response(self) -> Response:
        """Sends, then reads until the response is complete, or known to be too long.

        Raises:
            ResponseError: see ``Http2Session.ask``.
        """
        self._h2.send_headers(self._stream, self._fields, end_stream=not self._unsent)
        try:
            while not (self._ended or self._cut):
                self._send()
                for event in self._h2.receive_data(self._piece()):
                    self._take(event)
            self._send()
        except ProtocolError as error:
            raise ResponseError(f"breaks HTTP/2 ({error}); expected valid frames (RFC 9113)") from error
        head_bytes = sum(len(name) + len(value) for name, value in self._headers)
        return Response(
            status=self._status,
            version=VERSION,
            headers=tuple((name, value) for name, value in self._headers if not name.startswith(":")),
            head_bytes=head_bytes,
            wire_bytes=self._wire_bytes,
            body=bytes(self._body),
            closes=False,
            cut=self._cut,
        )

    def _send(self) -> None:
        """Sends all pending frames, and as much of the body as the server's windows allow."""
        while self._unsent and not self._ended:
            room = min(self._h2.local_flow_control_window(self._stream), self._h2.max_outbound_frame_size)
            if room <= 0:
                break
            piece, self._unsent = self._unsent[:room], self._unsent[room:]
            self._h2.send_data(self._stream, piece, end_stream=not self._unsent)
        self._deadline.lend(self._sock)
        try:
            self._sock.sendall(self._h2.data_to_send())
        except TimeoutError:
            raise LateError(
                f"did not read the request within {self._deadline.text()}; expected it to read the request"
            ) from None
        except (BrokenPipeError, ConnectionResetError):
            pass  # it may have responded before it closed

    def _piece(self) -> bytes:
        """The next bytes that arrive."""
        late = f"did not complete its response within {self._deadline.text()}; expected a whole one in that time"
        if self._deadline.left_s() <= 0:
            raise LateError(late)
        self._deadline.lend(self._sock)
        try:
            piece = self._sock.recv(1 << 16)
        except TimeoutError:
            raise LateError(late) from None
        except ConnectionResetError as error:
            raise ResponseError("reset the connection before its response was complete") from error
        if not piece:
            raise ResponseError("closed the connection before its response was complete; expected a complete one")
        self._first = self._first or piece
        if self._first.startswith(b"HTTP/1."):
            raise ResponseError(f"responds in HTTP/1, {quoted(self._first)}; expected HTTP/2")
        self._wire_bytes += len(piece)
        return piece

    def _take(self, event: Event) -> None:
        if isinstance(event, ResponseReceived):
            self._headers = tuple((str(name), str(value)) for name, value in event.headers or ())
            status = dict(self._headers)[":status"]
            if not _STATUS.fullmatch(status):
                raise ResponseError(f"sends the status {quoted(status.encode())}; expected three digits, like 200")
            self._status = int(status)
        elif isinstance(event, DataReceived):
            self._body += event.data or b""
            self._h2.acknowledge_received_data(event.flow_controlled_length or 0, self._stream)
            if len(self._body) > self._most_bytes:
                self._cut = f"sends a body of more than {self._most_bytes:,} bytes"
                del self._body[80:]
        elif isinstance(event, StreamEnded):
            self._ended = True
        elif isinstance(event, StreamReset) and not self._ended:
            raise ResponseError(f"reset the stream ({_name(event.error_code)}); expected a response")
        elif isinstance(event, ConnectionTerminated) and event.error_code != ErrorCodes.NO_ERROR:
            raise ResponseError(f"ended the connection ({_name(event.error_code)}); expected a response")


def _name(code: ErrorCodes | int | None) -> str:
    return code.name if isinstance(code, ErrorCodes) else f"code {code}"
