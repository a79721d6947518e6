"""Definition of a server under test: data in a ``contender.toml``, and what is needed to start it.

``definition`` reads TOML strictly, ``fields`` has the keys, ``found`` looks what is installed, ``entries``
turns words into entrants, ``start`` settles one launch.
"""

from dragstrip.contender.definition import Key, Source, Strict, nearest, parsed, read, validated
from dragstrip.contender.discovery import Missing, Ready, cache_dir, environment
from dragstrip.contender.elsewhere import AllowedHost, allowance, allowed_host, is_loopback, refuse_beyond
from dragstrip.contender.entries import (
    Address,
    Entry,
    LineUp,
    entrants,
    entry,
    entry_of,
    find,
    line_up,
    names,
    parse_entry,
    serve_entry,
    serving,
    shipped,
    url_entry,
    variant,
)
from dragstrip.contender.fields import NAME, PER_CORE, Alternative, Contender, Install, load
from dragstrip.contender.preparation import (
    BUILD_S,
    LOOPBACK,
    Identity,
    OwnCount,
    Start,
    build,
    check,
    pending_build,
    prepare,
    status,
)

__all__ = [
    "BUILD_S",
    "LOOPBACK",
    "NAME",
    "PER_CORE",
    "Address",
    "AllowedHost",
    "Alternative",
    "Contender",
    "Entry",
    "Identity",
    "Install",
    "Key",
    "LineUp",
    "Missing",
    "OwnCount",
    "Ready",
    "Source",
    "Start",
    "Strict",
    "allowance",
    "allowed_host",
    "build",
    "cache_dir",
    "check",
    "entrants",
    "entry",
    "entry_of",
    "environment",
    "find",
    "is_loopback",
    "line_up",
    "load",
    "names",
    "nearest",
    "parse_entry",
    "parsed",
    "pending_build",
    "prepare",
    "read",
    "refuse_beyond",
    "serve_entry",
    "serving",
    "shipped",
    "status",
    "url_entry",
    "validated",
    "variant",
]
