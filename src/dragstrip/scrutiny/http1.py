"""Sends requests over HTTP/1, and checks what a server does with the connection between and after responses."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence

from dragstrip import parity
from dragstrip.scrutiny.reader import Deadline, Response, ResponseError, quoted, read_response
from dragstrip.scrutiny.session import CLOSE_S, Session
from dragstrip.workload import Exchange


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
