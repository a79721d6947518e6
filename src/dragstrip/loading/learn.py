"""Learns the reference response with two or three requests, read with h11 or h2, not by the engine.

Each request has one deadline, handshakes included: ``--timeout``, as under load.
"""

from __future__ import annotations

import re
import socket
import ssl
import time
from dataclasses import dataclass, replace

from dragstrip import json_by_value
from dragstrip.errors import BadUsage, DragstripError
from dragstrip.loading.request import PLAIN, RESUMED, LoadRequest, Target
from dragstrip.scrutiny import (
    ALPN,
    Deadline,
    Response,
    ResponseError,
    Server,
    quoted,
    read_response,
    refused_certificate,
)
from dragstrip.scrutiny.http2 import Http2Session
from dragstrip.scrutiny.responses import AGAIN_S, own_words

#: A reference body is held in memory, to be compared byte by byte.
MAX_BODY_BYTES = 64 * 1024 * 1024

#: OpenSSL's reasons for a failed handshake: what each means, and what would help.
_HANDSHAKES = {
    "CERTIFICATE_REQUIRED": (
        "the server asks for a client certificate, which Dragstrip does not have",
        "load a server that does not ask for one, or switch that off in it (nginx: ssl_verify_client)",
    ),
    "HANDSHAKE_FAILURE": (
        "the server refuses it, because it asks for a client certificate or shares no cipher suite with Dragstrip",
        "switch client certificates off in the server, or give it a suite of TLS 1.2 or 1.3 with ECDHE",
    ),
    "NO_APPLICATION_PROTOCOL": (
        "the server speaks none of the offered protocols (ALPN)",
        "leave --http 2 out, or switch HTTP/2 on in the server",
    ),
    "UNSUPPORTED_PROTOCOL": (
        "the server speaks no version of TLS that is in use any more",
        "switch TLS 1.2 or 1.3 on in the server",
    ),
    "EOF": (
        "the server ended the connection without a reason, as some do that ask for a client certificate",
        "look into the server's log, or use http:// if the server has no TLS",
    ),
    "PROTOCOL_VERSION": (
        "the server and Dragstrip share no version of TLS",
        "switch TLS 1.2 or 1.3 on in the server",
    ),
}

_SHOWN = 60  # characters of a body that a message quotes


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """A reference response, and what it reveals about the server.

    Args:
        closes: the server ends the connection after it, keep-alive or not.
        tls: version and cipher of the encryption, "" for none.
        changes: reference requests got different bodies, and statuses are all that can be checked.
        by_length: they got different bodies of the same length, which can be checked.
        changing: they got JSON in which the values of these fields (JSON Pointers, RFC 6901) differ. pattern: the body
            with bytes that stand for them (``json_by_value``).
        own_words: what the server says about its status, as ``scrutiny.own_words``.
        asked: how many requests it took.
    """

    status: int
    reason: str
    body: bytes
    server: str
    closes: bool
    tls: str = ""
    changes: bool = False
    by_length: bool = False
    changing: tuple[str, ...] = ()
    pattern: bytes = b""
    own_words: str = ""
    asked: int = PLAIN


def given_response(status: int, body: bytes) -> Learned:
    """A reference response that the user gave, so that Dragstrip need not learn it."""
    return Learned(status=status, reason="", body=body, server="", closes=False)


def learn(request: LoadRequest, to: Target, wire: bytes) -> Learned:
    """Sends two requests, each over a new connection, with exactly the bytes that the load will send.

    Raises:
        DragstripError: no response, no HTTP, a status other than the expected one, or a TLS session that should be
        resumed is not.
        BadUsage: the response is not a success although no status was given, or what ``--check`` compares changes
            from one to the next.
    """
    trust = _trust(request) if to.tls else None  # one context for both: only the context of a session can resume it
    first, session = _ask(request, to, wire, trust)
    second, _ = _ask(request, to, wire, trust, session)
    if first.status != second.status:
        raise DragstripError(
            f"{request.url}: two reference requests got status {first.status}, then {second.status}; load an address "
            "whose status does not change"
        )
    _refuse_status(request, first)
    seen = [first, second]
    if first.body == second.body and request.check == "auto" and _names_now(first.body):
        time.sleep(AGAIN_S)
        seen.append(_ask(request, to, wire, trust, session)[0])
    first, last = replace(first, asked=len(seen)), seen[-1]
    if first.body == last.body:
        return first
    if request.script is not None:  # wrk's users expect no more than statuses
        return replace(first, changes=True)
    if request.check != "auto":
        _refuse_change(request, first, last)
        return first
    if found := json_by_value.settled([one.body for one in seen]):
        return replace(first, changing=found[0], pattern=found[1])
    same_length = len(first.body) == len(last.body)
    return replace(first, by_length=same_length, changes=not same_length)


def _names_now(body: bytes) -> bool:
    """Whether a body seems to contain the time: seconds since the epoch, or an hour and its minutes."""
    return str(int(time.time()))[:6].encode() in body or re.search(rb"\d\d:\d\d", body) is not None


def _refuse_change(request: LoadRequest, first: Learned, second: Learned) -> None:
    """Refuses bodies that change, unless only lengths are compared and these are the same."""
    same_length = len(first.body) == len(second.body)
    if request.check == "length" and same_length:
        return
    compared = "length" if request.check == "length" else "every byte"
    remedy = (
        "--check length compares lengths, --check status only statuses"
        if same_length
        else ("--check status compares only statuses")
    )
    raise BadUsage(
        f"{request.url}: two reference requests got different bodies ({_difference(first, second)}), and {compared} of "
        f"each response's body is compared with the first one's; {remedy}"
    )


def _refuse_status(request: LoadRequest, response: Learned) -> None:
    named = f"{response.status} {response.reason}".rstrip()  # HTTP/2 has no reason
    if request.expect_status is not None:
        if response.status != request.expect_status:
            fault = f"responds with status {named}, but --status {request.expect_status} was given"
            raise DragstripError(f"{request.url}: {fault}; {response.own_words}")
        return
    if not 200 <= response.status < 300:
        raise BadUsage(
            f"{request.url}: responds with status {named}, which is not 2xx ({response.own_words}); correct the "
            f"address or the server, or add --status {response.status} if that is expected"
        )


def _no_handshake(error: ssl.SSLError) -> str:
    """Why the TLS handshake failed, and what would help."""
    reason = error.reason or str(error)
    for word, (why, remedy) in _HANDSHAKES.items():
        if word in reason:
            return f"no TLS handshake: {why} ({reason}); {remedy}"
    return f"no TLS handshake ({reason}); use http:// if the server has no TLS"


def _ask(
    request: LoadRequest,
    to: Target,
    wire: bytes,
    trust: ssl.SSLContext | None,
    session: ssl.SSLSession | None = None,
) -> tuple[Learned, ssl.SSLSession | None]:
    """The response to one reference request, and the TLS session that its connection leaves.

    Args:
        trust: how the connection is encrypted; None without TLS.
        session: a session to resume.

    Raises:
        BadUsage, DragstripError: as ``learn``.
    """
    try:
        deadline = Deadline(request.timeout_s)
        with _connected(request, to, deadline, trust, session) as sock:
            tls = _encryption(sock)
            _refuse_whole(request, sock, session)
            response = _read(request, to, sock, wire, deadline)
            # TLS 1.3's tickets came before the response.
            left = sock.session if request.handshakes == RESUMED and isinstance(sock, ssl.SSLSocket) else None
    except ssl.SSLCertVerificationError as error:
        why = refused_certificate(error, to.tls or to.host)
        raise DragstripError(f"{request.url}: the server's certificate {why}") from error
    except ssl.SSLError as error:
        raise DragstripError(f"{request.url}: {_no_handshake(error)}") from error
    except OSError as error:
        why = error.strerror or str(error)
        where = f"the socket {to.unix}" if to.unix else f"{to.host} port {to.port}"
        raise DragstripError(
            f"{request.url}: {where} does not respond ({why}); start the server first, or correct the address"
        ) from error
    except ResponseError as error:
        raise DragstripError(f"{request.url}: the server {error}") from error
    _refuse_size(request, response)
    learned = Learned(
        status=response.status,
        reason=response.reason,
        body=response.body,
        server=response.header("server") or "",
        closes=response.closes,
        tls=tls,
        own_words=own_words(response),
    )
    return learned, left


def _refuse_whole(request: LoadRequest, sock: socket.socket, session: ssl.SSLSession | None) -> None:
    """Refuses a full handshake if there was a session to resume."""
    if session is not None and isinstance(sock, ssl.SSLSocket) and not sock.session_reused:
        raise DragstripError(
            f"{request.url}: --tls resumed: the server does not resume the TLS session of the connection before; "
            "switch on its session tickets or its session cache, or leave --tls resumed out"
        )


def _read(request: LoadRequest, to: Target, sock: socket.socket, wire: bytes, deadline: Deadline) -> Response:
    if request.http != "2":
        return read_response(sock, wire, body_bytes=MAX_BODY_BYTES, deadline=deadline)
    if isinstance(sock, ssl.SSLSocket) and sock.selected_alpn_protocol() != ALPN:
        raise ResponseError("does not agree to HTTP/2 (ALPN h2); switch HTTP/2 on in the server, or leave --http 2 out")
    scheme = "https" if to.tls else "http"
    return Http2Session(sock, scheme).ask(wire, body_bytes=MAX_BODY_BYTES, deadline=deadline)


def _refuse_size(request: LoadRequest, response: Response) -> None:
    if response.cut or len(response.body) > MAX_BODY_BYTES:
        large = response.cut or f"sends a body of {len(response.body):,} bytes"
        raise BadUsage(
            f"{request.url}: the server {large}, and every response is compared with the first one, which is held in "
            f"memory; load an address with a body of at most {MAX_BODY_BYTES >> 20} MiB"
        )
    if response.surplus:
        raise DragstripError(
            f"{request.url}: the server sends bytes after its complete response, {quoted(response.surplus)}, which "
            "would count as the next one; let it send nothing more"
        )


def _connected(
    request: LoadRequest, to: Target, deadline: Deadline, trust: ssl.SSLContext | None, session: ssl.SSLSession | None
) -> socket.socket:
    server = Server(to.host if to.unix is None else f"unix:{to.unix}", to.port, namespace=request.namespace)
    sock = server.connect(deadline)
    if trust is None:
        return sock
    deadline.lend(sock)
    try:
        return trust.wrap_socket(sock, server_hostname=to.tls, session=session)
    except OSError:
        sock.close()
        raise


def _encryption(sock: socket.socket) -> str:
    cipher = sock.cipher() if isinstance(sock, ssl.SSLSocket) else None
    return f"{sock.version()} {cipher[0]}" if isinstance(sock, ssl.SSLSocket) and cipher else ""


def _trust(request: LoadRequest) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=request.cacert)
    except (OSError, ssl.SSLError) as error:
        raise BadUsage(f"--cacert {request.cacert}: can't be used ({error}); give certificates in PEM") from error
    # As the engine does: a certificate in --cacert is trusted, whoever signed it; its name is in its subjectAltName;
    # and no version of Python is stricter than another.
    context.verify_flags = ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VERIFY_X509_TRUSTED_FIRST
    context.hostname_checks_common_name = False
    if request.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if request.http == "2":
        context.set_alpn_protocols([ALPN])
    return context


def _difference(first: Learned, second: Learned) -> str:
    a, b = first.body, second.body
    shorter = min(len(a), len(b))
    index = next((index for index in range(shorter) if a[index] != b[index]), shorter)
    start = max(0, index - 10)
    return f"{len(a)} and {len(b)} bytes, at byte {index} {_quoted(a[start:])} and {_quoted(b[start:])}"


def _quoted(body: bytes) -> str:
    return repr(body[:_SHOWN].decode("utf-8", "backslashreplace"))
