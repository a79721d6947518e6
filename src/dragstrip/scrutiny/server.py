"""How scrutineering reaches a contender's server: its address, and TLS if it needs that."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from dragstrip import parity
from dragstrip.image import within
from dragstrip.scrutiny.http2 import ALPN
from dragstrip.scrutiny.reader import RESPONSE_S, Deadline, LateError, ResponseError
from dragstrip.workload import HOST, HTTP2

#: TLS 1.2's suites that the engine offers, in its order; the suites of TLS 1.3 are the same in both.
SUITES = "ECDHE+AESGCM:ECDHE+CHACHA20"


class Encryption:
    """How one contender is reached over TLS: with OpenSSL (Python's ssl), with the engine's offer but without its code.

    Args:
        cacert: the authority that must have signed its certificate, which is for 127.0.0.1.
        http: the version to agree on by ALPN: "2", or any HTTP/1.
    """

    def __init__(self, cacert: Path, http: str) -> None:
        self.cacert, self._framed = cacert, http == HTTP2
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.load_verify_locations(cacert)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._context.set_ciphers(SUITES)
        self._context.set_alpn_protocols([ALPN if self._framed else "http/1.1"])

    def over(self, sock: socket.socket, session: ssl.SSLSession | None = None) -> ssl.SSLSocket:
        """The same connection, encrypted; its timeout counts for each step of the handshake.

        Args:
            session: a session to resume.

        Raises:
            OSError: the handshake failed. LateError: it took too long. ResponseError: the server did not agree to h2.
        """
        try:
            encrypted = self._context.wrap_socket(sock, server_hostname=HOST, session=session)
        except TimeoutError as error:
            raise LateError(
                "TLS fails (no reply to the handshake); expected a handshake with the race's certificate"
            ) from error
        agreed = encrypted.selected_alpn_protocol()
        if self._framed and agreed != ALPN:
            encrypted.close()
            raise ResponseError(
                f"agrees to {agreed or 'no protocol'} by ALPN, although only HTTP/2 (h2) was offered; expected h2"
            )
        return encrypted


def facts_of(encrypted: ssl.SSLSocket) -> dict[str, parity.Fact]:
    """The agreed TLS version and cipher suite, for the parity sheet."""
    suite = encrypted.cipher()
    return {parity.TLS_VERSION: encrypted.version() or "unknown", parity.CIPHER_SUITE: suite[0] if suite else "unknown"}


@dataclass(frozen=True, slots=True)
class Server:
    """Where a server listens; ``tls`` is None without encryption. The host "unix:PATH" has no port.

    Args:
        namespace: of the network that has this address, as a container has; None: this process's own.
    """

    host: str
    port: int
    tls: Encryption | None = None
    namespace: Path | None = None

    def connect(self, deadline: Deadline | None = None, session: ssl.SSLSession | None = None) -> socket.socket:
        """A new connection.

        Args:
            deadline: None: ``RESPONSE_S`` from now. session: a TLS session to resume.

        Raises:
            OSError: no server listens there, or not within the deadline, or TLS fails. ResponseError: as in ``over``.
        """
        deadline = deadline or Deadline(RESPONSE_S)
        if self.host.startswith("unix:"):
            sock = socket.socket(socket.AF_UNIX)
        else:
            with within(self.namespace):
                sock = socket.create_connection((self.host, self.port), timeout=max(deadline.left_s(), 0.001))
        try:
            if sock.family == socket.AF_UNIX:
                deadline.lend(sock)
                sock.connect(self.host.removeprefix("unix:"))
                return sock
            return self.tls.over(sock, session) if self.tls else sock
        except BaseException:
            sock.close()
            raise
