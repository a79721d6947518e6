"""Which servers may be loaded: servers on this machine, and within limits on hosts that the user names.

``--allow-host NAME`` allows one host, for up to 256 connections, 10,000 requests per second and 60 s. Higher limits
follow the name: ``NAME:connections=2000,rate=50000,time=10m``. A race needs ``rate=any``, which sets no limit.
"""

from __future__ import annotations

import ipaddress
import math
import re
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from dragstrip import quantities
from dragstrip.errors import BadUsage

#: Limits of a host that is allowed by its name alone.
CONNECTIONS, RATE_PER_S, TIME_S = 256, 10_000.0, 60.0

#: The largest limit that can be given.
MAX_LIMIT = 1e9

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
_READERS = {"connections": quantities.whole, "rate": quantities.number, "time": quantities.seconds}
_FORM = "NAME, or NAME:connections=500,rate=20000,time=5m (rate=any for no limit)"


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedHost:
    """A host other than this machine that may be loaded.

    Args:
        name: the host in the URL, in small letters.
        rate_per_s: the maximum of an open loop; None: no limit, and a closed loop is allowed.
        time_s: the maximum duration of a load, or budget of a race.
    """

    name: str
    connections: int = CONNECTIONS
    rate_per_s: float | None = RATE_PER_S
    time_s: float = TIME_S


Hosts = Sequence[AllowedHost]


def allowed_host(text: str) -> AllowedHost:
    """The host and the limits of a value of ``--allow-host``.

    Raises:
        BadUsage: not a valid host name, or not a valid limit.
    """
    name, colon, rest = text.partition(":")
    if not _HOST.fullmatch(name):
        raise BadUsage(f"--allow-host {text!r}: not a valid host name; use {_FORM}")
    limits = {"connections": float(CONNECTIONS), "rate": RATE_PER_S, "time": TIME_S}
    for part in rest.split(",") if colon else ():
        key, _, value = part.strip().partition("=")
        any_rate = (key, value) == ("rate", "any")
        limit = math.inf if any_rate else _READERS[key](value) if key in _READERS else None
        if limit is None or (limit > MAX_LIMIT and not any_rate):
            raise BadUsage(f"--allow-host {text!r}: {part!r} is not a valid limit; use {_FORM}")
        limits[key] = float(limit)
    connections, rate_per_s, time_s = limits.values()
    if connections < 1 or time_s <= 0 or rate_per_s <= 0:
        raise BadUsage(f"--allow-host {text!r}: a limit of 0 allows nothing; leave the option out")
    rate_bound = None if math.isinf(rate_per_s) else rate_per_s
    return AllowedHost(name=name.lower(), connections=int(connections), rate_per_s=rate_bound, time_s=time_s)


def is_loopback(host: str) -> bool:
    """Whether it is a loopback address, which no other machine can have."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def addresses_here(host: str) -> tuple[str, ...]:
    """The addresses of this machine that a host means, in the order in which to try them; () if it is another machine.

    Servers print 0.0.0.0 and [::] for every address of theirs: they are reached at loopback. ``localhost`` and names
    below it are loopback of both families (RFC 6761, 6.3). Any other name is looked up.
    """
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return ("127.0.0.1", "::1")
    try:
        found = [str(ipaddress.ip_address(host))]
    except ValueError:
        found = _looked_up(name)
    here = [_here(address) for address in found]
    return tuple(dict.fromkeys(address for address in here if address)) if all(here) else ()


def bracketed(host: str) -> str:
    """A host as it precedes a port."""
    return f"[{host}]" if ":" in host else host


def first_listening(addresses: Sequence[str], port: int) -> str:
    """The first of these addresses at which a server accepts connections; the first one if there is none."""
    for address in addresses if len(addresses) > 1 else ():
        try:
            socket.create_connection((address, port), timeout=1).close()
        except OSError:
            continue
        return address
    return addresses[0]


@lru_cache(maxsize=64)
def _looked_up(name: str) -> list[str]:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM) if name else []
    except (OSError, UnicodeError):
        return []
    return [str(entry[4][0]).partition("%")[0] for entry in found]


def _here(text: str) -> str:
    """The address at which this machine is reached, if the address is this machine's; otherwise ""."""
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    if address.is_unspecified:
        return "127.0.0.1" if address.version == 4 else "::1"
    return str(address) if address.is_loopback or _is_own(address) else ""


def _is_own(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether an interface of this machine has the address: then packets to it would come from it. Nothing is sent."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), 9))
            return ipaddress.ip_address(probe.getsockname()[0].partition("%")[0]) == address
    except OSError:
        return False


def allowance(host: str, allowed: Iterable[AllowedHost]) -> AllowedHost | None:
    """The limits for a host; None for this machine, which has no limits.

    Raises:
        BadUsage: it is another machine, and was not allowed.
    """
    if addresses_here(host):
        return None
    for allowed_host in allowed:
        if allowed_host.name == host.lower():
            return allowed_host
    raise BadUsage(
        f"{host or 'nothing'} is not an address of this machine. Dragstrip loads only the machine that it runs on; use "
        f"a server at 127.0.0.1, or add --allow-host {host or 'NAME'} if the host is yours"
    )


def refuse_beyond(host: AllowedHost, *, connections: int, rate_per_s: float | None, time_s: float) -> None:
    """Refuses a load beyond the limits of a host.

    Args:
        rate_per_s: None: a closed loop, which is as fast as the server responds.

    Raises:
        BadUsage: names the limit, the given value and a valid option.
    """

    def refuse(key: str, given: str, limit: str) -> BadUsage:
        return BadUsage(
            f"{host.name}: {given} exceeds the limit of --allow-host; use --allow-host {host.name}:{key}={limit}"
        )

    if connections > host.connections:
        raise refuse("connections", f"{connections:,} connections", str(connections))
    if host.rate_per_s is not None and rate_per_s is None:
        raise refuse("rate", "a closed loop's rate", "any")
    if host.rate_per_s is not None and rate_per_s is not None and rate_per_s > host.rate_per_s:
        raise refuse("rate", f"{rate_per_s:,.0f}/s", f"{rate_per_s:.0f}")
    if time_s > host.time_s:
        raise refuse("time", f"{time_s:,.0f} s", f"{time_s:.0f}")
