"""What the right answer is: two plain requests, one after the other, read by h11 or h2, not by the engine.

Each has one deadline for all of it, the handshakes included: ``--timeout``, as an answer under load has.
"""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass, replace

from dragstrip.errors import BadUsage, DragstripError
from dragstrip.loading.request import RESUMED, LoadRequest, Target
from dragstrip.scrutiny import ALPN, Deadline, Http2Session, Response, ResponseError, quoted, read_response

#: A body to be compared byte by byte is held in memory, once in every answer's place.
MAX_BODY_BYTES = 64 * 1024 * 1024

#: OpenSSL's codes (x509_vfy.h) for what may be wrong with a certificate.
_UNKNOWN_ISSUER, _OTHER_NAME = "has an unknown issuer", "is for another name than {name}"
_REFUSALS = {
    9: "is not valid yet",
    10: "has expired",
    26: "is not meant for a server",
    **dict.fromkeys((2, 18, 19, 20, 21), _UNKNOWN_ISSUER),
    **dict.fromkeys((62, 64), _OTHER_NAME),
}

_SHOWN = 60  # characters of a body that a message quotes


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """The right answer, and what it tells of the server.

    Args:
        closes: it ends the connection, keep-alive or not.
        tls: version and cipher of the encryption, "" for none.
        changes: two reference requests got different bodies, and statuses are all that can be checked.
    """

    status: int
    reason: str
    body: bytes
    server: str
    closes: bool
    tls: str = ""
    changes: bool = False


def given(status: int, body: bytes) -> Learned:
    """A reference response that the user gave, so that none has to be learned."""
    return Learned(status=status, reason="", body=body, server="", closes=False)


def learn(request: LoadRequest, to: Target, wire: bytes) -> Learned:
    """Asks twice, on a connection each, with the very bytes that the load will send.

    Raises:
        DragstripError: no response, no HTTP, a status other than the expected one, or a TLS session that should be
        resumed is not.
        BadUsage: the response is not a success although no status was given, or it changes from one to the next.
    """
    trust = _trust(request) if to.tls else None  # one for both: a session is taken up only where it was made
    first, session = _ask(request, to, wire, trust)
    second, _ = _ask(request, to, wire, trust, session)
    if first.status != second.status:
        raise DragstripError(
            f"{request.url}: two plain requests were answered with status {first.status}, then {second.status}; "
            "load a server that always answers alike"
        )
    _refuse_status(request, first)
    if first.body != second.body:
        if request.script is not None:  # wrk's users expect no more than statuses
            return replace(first, changes=True)
        _refuse_change(request, first, second)
    return first


def _refuse_change(request: LoadRequest, first: Learned, second: Learned) -> None:
    """Refuses bodies that change, unless their lengths are what is compared, and these are the same."""
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


def _refuse_status(request: LoadRequest, answer: Learned) -> None:
    named = f"{answer.status} {answer.reason}".rstrip()  # HTTP/2 has no reason
    if request.expect_status is not None:
        if answer.status != request.expect_status:
            answered = f"responds with status {named}, but --status {request.expect_status} was given"
            raise DragstripError(f"{request.url}: {answered}; its body begins {_quoted(answer.body)}")
        return
    if not 200 <= answer.status < 300:
        raise BadUsage(
            f"{request.url}: responds with status {named}, which is not 2xx; correct the address or the server, or "
            f"add --status {answer.status} if that is expected"
        )


def _ask(
    request: LoadRequest,
    to: Target,
    wire: bytes,
    trust: ssl.SSLContext | None,
    session: ssl.SSLSession | None = None,
) -> tuple[Learned, ssl.SSLSession | None]:
    """The answer to one plain request, and the TLS session that its connection leaves.

    Args:
        trust: how the connection is encrypted, None for in the clear.
        session: one to be taken up.

    Raises:
        BadUsage, DragstripError: as ``learn``.
    """
    try:
        deadline = Deadline(request.timeout_s)
        with _connected(request, to, deadline, trust, session) as sock:
            tls = _encryption(sock)
            _refuse_whole(request, sock, session)
            answer = _read(request, to, sock, wire, deadline)
            # TLS 1.3's tickets came before the response.
            left = sock.session if request.handshakes == RESUMED and isinstance(sock, ssl.SSLSocket) else None
    except ssl.SSLCertVerificationError as error:
        why = _REFUSALS.get(error.verify_code, f"is refused ({error.verify_message.rstrip('.')})")  # as in ``tls.rs``
        raise DragstripError(
            f"{request.url}: the server's certificate {why.format(name=to.tls)}; pass its CA, or the certificate "
            "itself, with --cacert FILE, use the certificate's host name in the URL, or accept any certificate with "
            "--insecure"
        ) from error
    except ssl.SSLError as error:
        why = error.reason or str(error)
        raise DragstripError(f"{request.url}: no TLS handshake could be made ({why}); is it http:// there?") from error
    except OSError as error:
        why = error.strerror or str(error)
        where = f"the socket {to.unix}" if to.unix else f"{to.host} port {to.port}"
        raise DragstripError(
            f"{request.url}: {where} does not respond ({why}); start the server first, or correct the address"
        ) from error
    except ResponseError as error:
        raise DragstripError(f"{request.url}: the server {error}") from error
    _refuse_size(request, answer)
    learned = Learned(
        status=answer.status,
        reason=answer.reason,
        body=answer.body,
        server=answer.header("server") or "",
        closes=answer.closes,
        tls=tls,
    )
    return learned, left


def _refuse_whole(request: LoadRequest, sock: socket.socket, session: ssl.SSLSession | None) -> None:
    """Refuses a whole handshake where a session was there to be taken up."""
    if session is not None and isinstance(sock, ssl.SSLSocket) and not sock.session_reused:
        raise DragstripError(
            f"{request.url}: --tls resumed: the server does not take up the TLS session of the connection before; "
            "switch its session tickets or its session cache on, or leave --tls resumed out"
        )


def _read(request: LoadRequest, to: Target, sock: socket.socket, wire: bytes, deadline: Deadline) -> Response:
    if request.http != "2":
        return read_response(sock, wire, body_bytes=MAX_BODY_BYTES, deadline=deadline)
    if isinstance(sock, ssl.SSLSocket) and sock.selected_alpn_protocol() != ALPN:
        raise ResponseError("does not agree to HTTP/2 (ALPN h2); switch it on there, or leave --http 2 out")
    scheme = "https" if to.tls else "http"
    return Http2Session(sock, scheme).ask(wire, body_bytes=MAX_BODY_BYTES, deadline=deadline)


def _refuse_size(request: LoadRequest, answer: Response) -> None:
    if answer.cut or len(answer.body) > MAX_BODY_BYTES:
        answered = answer.cut or f"sends a body of {len(answer.body):,} bytes"
        raise BadUsage(
            f"{request.url}: the server {answered}, and every answer is compared with the first one, held in memory; a "
            f"body of at most {MAX_BODY_BYTES >> 20} MiB is what it takes"
        )
    if answer.surplus:
        raise DragstripError(
            f"{request.url}: the server sends bytes after its complete response, {quoted(answer.surplus)}, which would "
            "be taken for the next one; use nothing there"
        )


def _connected(
    request: LoadRequest,
    to: Target,
    deadline: Deadline,
    trust: ssl.SSLContext | None,
    session: ssl.SSLSession | None,
) -> socket.socket:
    if to.unix is not None:
        sock = socket.socket(socket.AF_UNIX)
        try:
            deadline.lend(sock)
            sock.connect(to.unix)
        except OSError:
            sock.close()
            raise
    else:
        sock = socket.create_connection((to.host, to.port), timeout=request.timeout_s)
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
    # As the engine does: a certificate that --cacert names is believed, whoever signed it; its name is in its
    # subjectAltName; and no version of Python is stricter than another.
    context.verify_flags = ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VERIFY_X509_TRUSTED_FIRST
    context.hostname_checks_common_name = False
    if request.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if request.http == "2":
        context.set_alpn_protocols([ALPN])
    return context


def _difference(one: Learned, other: Learned) -> str:
    a, b = one.body, other.body
    shorter = min(len(a), len(b))
    at = next((i for i in range(shorter) if a[i] != b[i]), shorter)
    from_ = max(0, at - 10)
    return f"{len(a)} and {len(b)} bytes, at byte {at} {_quoted(a[from_:])} and {_quoted(b[from_:])}"


def _quoted(body: bytes) -> str:
    return repr(body[:_SHOWN].decode("utf-8", "backslashreplace"))
