"""The address of a server that is already running, from the URL that a user gives."""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from dragstrip.contender.elsewhere import Hosts, addresses_here, allowance, bracketed, first_listening
from dragstrip.errors import BadUsage

#: The ports of addresses without one (RFC 9110, 4.2).
USUAL_PORTS = {"http": 80, "https": 443}

#: How a URL begins (RFC 3986, 3.1), and an address without that: ``localhost:3000/users``.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_BARE = re.compile(r"([\w.-]+|\[[0-9a-fA-F:.]+\]):\d{1,5}([/?#]\S*)?")

#: What a request line may hold (RFC 9112, 3.2).
_VISIBLE = re.compile(r"[!-~]*")

_REMEDY = "use an address like http://127.0.0.1:8080/users"


@dataclass(frozen=True, slots=True)
class Trust:
    """Which certificates of running servers are accepted.

    Args:
        cacert: whole path of a PEM file of authorities, or of the certificate itself; "": this machine's authorities.
        insecure: any certificate is accepted.
    """

    cacert: str = ""
    insecure: bool = False

    @classmethod
    def given(cls, cacert: str | None, *, insecure: bool) -> Trust:
        """The trust that options name; reads the file once.

        Raises:
            BadUsage: the file can't be read, or has no certificate.
        """
        if cacert:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cacert)
            except (OSError, ValueError) as error:
                raise BadUsage(f"--cacert {cacert}: can't be used ({error}); give certificates in PEM") from error
        return cls(os.path.abspath(cacert) if cacert else "", insecure)  # noqa: PTH100


#: The authorities of this machine.
USUAL_TRUST = Trust()


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server that is already running listens, and how it is asked.

    Args:
        host: an IP address of this machine, or another machine's name.
        name: the host that the URL names, if that is not the IP address.
        path: with its query; "": the workload sets the path.
        secure: over TLS. trust: which certificates are then accepted.
    """

    host: str
    port: int
    name: str = ""
    path: str = ""
    secure: bool = False
    trust: Trust = USUAL_TRUST

    @property
    def certified(self) -> str:
        """The name or IP address that its certificate must have; "" without TLS."""
        return (self.name or self.host) if self.secure else ""

    @property
    def authority(self) -> str:
        """The header Host, if the URL has a name, which servers of several sites need; "": the usual one."""
        if self.name in ("", "localhost"):
            return ""
        return self.name if self.port == USUAL_PORTS[self._scheme] else f"{self.name}:{self.port}"

    @property
    def url(self) -> str:
        """The URL, always with its port."""
        return f"{self._scheme}://{bracketed(self.name or self.host)}:{self.port}{self.path or '/'}"

    @property
    def _scheme(self) -> str:
        return "https" if self.secure else "http"


def is_address(word: str) -> bool:
    """Whether a word of the command line, without its label, is the address of a running server."""
    return bool(_SCHEME.match(word) or _BARE.fullmatch(word))


def address_of(text: str, allowed: Hosts | None = (), trust: Trust = USUAL_TRUST, host: str = "") -> Address:
    """The address in a URL, or in ``host:port`` with or without a path.

    ``http://localhost`` is the address at which a server listens, so that all contenders get the same bytes. Any other
    name is sent as Host (RFC 9110, 7.2).

    Args:
        allowed: hosts in addition to this machine; None: any host, for a record's URL, whose host is not looked up.
        host: the IP address at which a record's URL was reached; "": the URL's own host.

    Raises:
        BadUsage: another scheme, a host that was not allowed, or what no request can have.
    """
    parts, port = _split(text)
    named = parts.hostname or ""
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not _VISIBLE.fullmatch(path) or "{{" in path:
        raise BadUsage(f"{text}: {path!r} has characters that no URL may have; percent-encode them, as %20 and %7B")
    host = host or named
    if allowed is not None:
        if here := addresses_here(named):
            host = first_listening(here, port)
        try:
            allowance(host, allowed)
        except BadUsage as error:
            raise BadUsage(f"{text}: {error}") from error
    secure = parts.scheme == "https"
    has_name = not _is_literal(named) and (secure or named != "localhost")
    return Address(
        host,
        port,
        name=named if has_name else "",
        path="" if path == "/" else path,
        secure=secure,
        trust=trust if secure else USUAL_TRUST,
    )


def _split(text: str) -> tuple[SplitResult, int]:
    """A URL's parts, and its port."""
    try:
        parts = urlsplit(text if _SCHEME.match(text) else f"http://{text}")
        port = parts.port
    except ValueError as error:
        raise BadUsage(f"{text} is not a valid URL ({error}); {_REMEDY}") from error
    if parts.scheme not in USUAL_PORTS:
        raise BadUsage(f"{text}: a running server is raced over http:// or https://; {_REMEDY}")
    if parts.username is not None:
        raise BadUsage(f"{text}: a name or password in the address is not sent; leave it out, {_REMEDY}")
    if parts.fragment:
        raise BadUsage(f"{text}: #{parts.fragment} is never sent to a server; leave it out, {_REMEDY}")
    if not parts.hostname or not parts.netloc.isascii() or port == 0:
        raise BadUsage(f"{text}: no server can listen there; {_REMEDY}")
    return parts, port or USUAL_PORTS[parts.scheme]


def _is_literal(host: str) -> bool:
    """Whether a host is an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
