"""How scrutineering sends requests over a connection: a session, with a class for each protocol."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, TypeAlias

from dragstrip import parity
from dragstrip.scrutiny.reader import Deadline, Response
from dragstrip.workload import Exchange

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
