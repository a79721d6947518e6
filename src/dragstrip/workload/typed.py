"""One HTTP request as a user types it on the command line, before its correct response is known."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dragstrip.errors import BadUsage

#: A method or a header's name: a token (RFC 9110, 5.6.2).
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

#: Characters of a header's value: visible ones, blanks, tabs and obs-text (RFC 9110, 5.5).
FIELD_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")

#: Characters of a request target, which has no blanks (RFC 9112, 3.2).
VISIBLE = re.compile(r"[\x21-\x7e]*")

#: How much of each response is compared; see ``TypedRequest``.
CHECKS = ("auto", "full", "length", "status")

#: Headers that Dragstrip sets itself in a race, and what to do instead of setting one.
_OURS = {
    "host": "leave it out; every contender gets the same Host",
    "connection": "leave it out; --no-keepalive closes each connection after its response",
    "content-length": "leave it out; the body's own length is sent",
    "transfer-encoding": "leave it out; bodies are sent with their length",
    "expect": "leave it out; requests are sent whole",
    "upgrade": "leave it out; a workload file with `message` is sent over WebSocket",
    "trailer": "leave it out; requests end with their body",
}

#: A JSON Pointer: each name after a slash, in which ``~1`` is a slash and ``~0`` a tilde (RFC 6901, 3).
_POINTER = re.compile(r"(/([^~/]|~[01])*)+")


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedRequest:
    """A request as typed: ``--path /orders -b @order.json --status 201``; its correct response is learned.

    Args:
        path: path with its query, percent-encoded.
        method: a token, like GET (RFC 9110, 9).
        headers: names and values, in the order in which they are sent; each name once.
        body: its bytes, without framing; None: the request has no body; b"": a body of 0 bytes.
        status: the correct status, 200 to 599; None: the learned response's.
        check: compare every byte of each body ("full"), its length ("length") or nothing but the status ("status");
            "auto": as much as is the same in two responses.
        ignore: JSON Pointers (RFC 6901) of fields whose values may change.

    Raises:
        BadUsage: a value that no request can have, or a header that Dragstrip sets itself; names the option, the value
            and what would be valid.
    """

    path: str
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    status: int | None = None
    check: str = "auto"
    ignore: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """The request for a message or a title: ``POST /orders``."""
        return f"{self.method} {self.path}"

    def __post_init__(self) -> None:
        _refuse_path(self.path)
        if not TOKEN.fullmatch(self.method):
            raise BadUsage(f"-m {self.method!r} is not a valid method; use GET or POST")
        if self.method == "CONNECT":
            raise BadUsage("-m CONNECT opens a tunnel, which has no response to compare; use GET or POST")
        _refuse_headers(self.headers)
        if self.status is not None and not 200 <= self.status <= 599:
            raise BadUsage(f"--status {self.status} is not a valid status; use 200 to 599")
        if self.check not in CHECKS:
            raise BadUsage(f"--check {self.check!r} is unknown; use {', '.join(CHECKS)}")
        for pointer in self.ignore:
            if not _POINTER.fullmatch(pointer):
                begins = pointer.replace("~", "~0") if pointer.startswith("/") else f"/{pointer.replace('.', '/')}"
                raise BadUsage(f"--ignore {pointer!r} is not a valid JSON Pointer (RFC 6901); use {begins}")
        if self.ignore and self.check not in ("auto", "full"):
            raise BadUsage(f"--ignore {self.ignore[0]}: --check {self.check} compares no field; use one of the two")


def is_path(word: str) -> bool:
    """Whether a word in place of a workload's name is a path to request; that of a TOML file is a file."""
    return word.startswith("/") and not word.endswith(".toml")


def _refuse_path(path: str) -> None:
    if not path.startswith("/"):
        remedy = "a contender's URL has the host" if "://" in path else f"use /{path}" if path else "use /"
        raise BadUsage(f"--path {path!r} does not begin with /; {remedy}")
    if "#" in path:
        raise BadUsage(f"--path {path!r}: a fragment (#) is never sent; leave it out, or write %23")
    if not VISIBLE.fullmatch(path):
        raise BadUsage(f"--path {path!r} has characters that no request line may hold; percent-encode them (%20)")


def _refuse_headers(headers: tuple[tuple[str, str], ...]) -> None:
    seen = set[str]()
    for name, value in headers:
        if not TOKEN.fullmatch(name) or not FIELD_VALUE.fullmatch(value):
            raise BadUsage(f"-H {f'{name}: {value}'!r} is not a valid header; use -H 'Accept: text/html'")
        if name.lower() in _OURS:
            raise BadUsage(f"-H '{name}: …' can't be set, because Dragstrip sets it; {_OURS[name.lower()]}")
        if name.lower() in seen:
            raise BadUsage(f"-H '{name}: …' is given twice; give it once, with its values separated by commas")
        seen.add(name.lower())
