"""How scrutineering reaches a contender's server: its address, and TLS if it needs that."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from dragstrip import parity
from dragstrip.contender import Address
from dragstrip.errors import StageError
from dragstrip.machine.network_namespace import within
from dragstrip.scrutiny.reader import RESPONSE_S, Deadline, LateError, ResponseError
from dragstrip.workload import HOST, HTTP2

#: TLS 1.2's suites that the engine offers, in its order; the suites of TLS 1.3 are the same in both.
SUITES = "ECDHE+AESGCM:ECDHE+CHACHA20"

#: HTTP/2's name in ALPN over TLS (RFC 9113, 3.2).
ALPN = "h2"

#: What the parity sheet says of the certificate that Dragstrip makes: the most common kind of key on the web, and the
#: cheapest to sign with.
OWN_CERTIFICATE = "ECDSA P-256, made for this race"

#: OpenSSL's codes (x509_vfy.h) for faults of a certificate, in the engine's words (``tls.rs``).
_UNKNOWN_ISSUER, _OTHER_NAME = "has an unknown issuer", "is for another name than {name}"
_REFUSALS = {
    9: "is not valid yet",
    10: "has expired",
    26: "is not meant for a server",
    **dict.fromkeys((2, 18, 19, 20, 21), _UNKNOWN_ISSUER),
    **dict.fromkeys((62, 64), _OTHER_NAME),
}


def refused_certificate(error: ssl.SSLCertVerificationError, name: str) -> str:
    """Why a server's certificate is not accepted, and what to do: a sentence after «the server's certificate».

    Args:
        name: the host that the certificate must name.
    """
    why = _REFUSALS.get(error.verify_code, f"is refused ({error.verify_message.rstrip('.')})")
    return (
        f"{why.format(name=name)}; pass its CA, or the certificate itself, with --cacert FILE, use the certificate's "
        "host name in the URL, or accept any certificate with --insecure"
    )


class Encryption:
    """How one contender is reached over TLS: with OpenSSL (Python's ssl), with the engine's offer but without its code.

    Args:
        cacert: the authority that must have signed its certificate, or the certificate; None: this machine's own.
        http: the version to agree on by ALPN: "2", or any HTTP/1.
        name: the host that its certificate must name. insecure: any certificate is accepted.
        certificate: for the parity sheet.
    """

    def __init__(
        self,
        cacert: Path | None,
        http: str,
        *,
        name: str = HOST,
        insecure: bool = False,
        certificate: str = OWN_CERTIFICATE,
    ) -> None:
        self.cacert, self._framed = cacert, http == HTTP2
        self.name, self.insecure, self.certificate = name, insecure, certificate
        own = certificate == OWN_CERTIFICATE
        self._expected = "a handshake with the race's certificate" if own else "TLS, as its URL begins with https://"
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if cacert is None:
            self._context.load_default_certs()
        else:
            self._context.load_verify_locations(cacert)
        # As the engine does: a certificate in ``cacert`` is trusted, whoever signed it; its name is in its
        # subjectAltName; and no version of Python is stricter than another.
        self._context.verify_flags = ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VERIFY_X509_TRUSTED_FIRST
        self._context.hostname_checks_common_name = False
        if insecure:
            self._context.check_hostname = False
            self._context.verify_mode = ssl.CERT_NONE
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._context.set_ciphers(SUITES)
        self._context.set_alpn_protocols([ALPN if self._framed else "http/1.1"])

    @classmethod
    def trusting(cls, at: Address, http: str) -> Encryption:
        """For a server that is already running, whose certificate is its own.

        Raises:
            StageError: the file of trusted certificates can't be read any more.
        """
        cacert, insecure = at.trust.cacert, at.trust.insecure
        trusted = cacert or "this machine's authorities"
        checked = "not checked (--insecure)" if insecure else f"checked with {trusted}"
        certificate = f"the server's own, {checked}"
        try:
            return cls(
                Path(cacert) if cacert else None, http, name=at.certified, insecure=insecure, certificate=certificate
            )
        except OSError as error:
            raise StageError(f"--cacert {cacert}: can't be used ({error}); give certificates in PEM") from error

    def over(self, sock: socket.socket, session: ssl.SSLSession | None = None) -> ssl.SSLSocket:
        """The same connection, encrypted; its timeout counts for each step of the handshake.

        Args:
            session: a session to resume.

        Raises:
            OSError: the handshake failed. LateError: it took too long. ResponseError: the server did not agree to h2.
        """
        try:
            encrypted = self._context.wrap_socket(sock, server_hostname=self.name, session=session)
        except TimeoutError as error:
            raise LateError(f"TLS fails (no reply to the handshake); expected {self._expected}") from error
        except ssl.SSLError as error:
            if self.certificate == OWN_CERTIFICATE:
                raise
            if isinstance(error, ssl.SSLCertVerificationError):
                raise ResponseError(f"certificate {refused_certificate(error, self.name)}") from error
            raise ResponseError(f"TLS fails ({error.reason or error}); expected {self._expected}") from error
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
