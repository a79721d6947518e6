"""Pools of requests for ``dragstrip load --pool FILE``, each with its own reference response; and raw requests.

TOML has a ``[[request]]`` table for each, JSON lines (any other suffix than .toml) an object for each::

    [[request]]
    path = "/add?a=1&b=2"          # default: the URL's own, as for method and headers
    body = "text"                  # or body_file = "name", next to the pool's file
    status = 200                   # of the reference response; two requests learn it if this and answer are left out
    answer = "3"                   # its exact body, or answer_file = "name"
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from dragstrip import paths
from dragstrip.contender.definition import Source, Strict, read, validated
from dragstrip.errors import BadUsage
from dragstrip.paths import is_file, read_beside

#: Maximum size of a request's or a pool's file: each connection holds its requests.
MAX_BYTES = 64 * 2**20

#: Each is held in memory with its reference response, and learning a response takes two requests.
MAX_REQUESTS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRequest:
    """One request of a pool; None stands for the command line's value.

    Args:
        status, answer: status and body of the reference response; ``answer`` None: it must be learned.
        raw: the request's bytes, which replace all other fields.
    """

    method: str | None = None
    path: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    status: int | None = None
    answer: bytes | None = None
    raw: bytes | None = None


class _Fields(Strict):
    """One request as a file has it."""

    method: str | None = None
    path: str | None = Field(default=None, pattern=r"^/[!-~]*$", description='a path with its query, like "/add?a=1"')
    headers: dict[str, str] = Field(default_factory=dict)
    body: str | None = None
    body_file: str | None = None
    status: int | None = Field(default=None, ge=200, le=599)
    answer: str | None = None
    answer_file: str | None = None


class _File(Strict):
    """A pool in TOML."""

    request: Annotated[tuple[_Fields, ...], Field(strict=False, min_length=1, max_length=MAX_REQUESTS)]


def read_pool(file: Path) -> tuple[PoolRequest, ...]:
    """The requests of a pool's file, in order.

    Raises:
        BadUsage, BadDefinition: the file can't be read or is not valid; names file and line.
    """
    if file.suffix == ".toml":
        if not is_file(file):
            raise BadUsage(f"--pool {file}: no such file")
        requests: tuple[_Fields, ...] = read(file, _File)[0].request
    else:
        requests = _lines(file)
    return tuple(
        _asked(fields, f"--pool {file}: request {number}", file.parent) for number, fields in enumerate(requests, 1)
    )


def _lines(file: Path) -> tuple[_Fields, ...]:
    requests = []
    for number, line in enumerate(bounded(file, f"--pool {file}").splitlines(), 1):
        if not line.strip():
            continue
        try:
            given = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadUsage(
                f"--pool {file}, line {number}: not valid JSON ({error}); write one object per line"
            ) from error
        requests.append(validated(given, Source(file, "", row=number), _Fields))
    if not 1 <= len(requests) <= MAX_REQUESTS:
        raise BadUsage(f"--pool {file}: has {len(requests)} requests; give 1 to {MAX_REQUESTS}")
    return tuple(requests)


def _asked(fields: _Fields, whose: str, folder: Path) -> PoolRequest:
    def text_or_file(name: str) -> bytes | None:
        text, path = getattr(fields, name), getattr(fields, f"{name}_file")
        if text is not None and path is not None:
            raise BadUsage(f"{whose}: has {name} and {name}_file; give only one of them")
        if text is not None or not path:
            return None if text is None else text.encode()
        try:
            return read_beside(folder, path, MAX_BYTES)
        except ValueError as error:
            raise BadUsage(f"{whose}: {name}_file: {error}; name a file in the pool's folder, or below") from error

    answer = text_or_file("answer")
    return PoolRequest(
        method=fields.method,
        path=fields.path,
        headers=tuple(fields.headers.items()),
        body=text_or_file("body"),
        status=200 if answer is not None and fields.status is None else fields.status,
        answer=answer,
    )


def read_raw(file: Path) -> PoolRequest:
    """A request given as bytes.

    Raises:
        BadUsage: the file can't be read, or has no request line or no end of its head.
    """
    raw = bounded(file, f"--raw {file}")
    method, _, rest = raw.partition(b" ")
    if not method.isalpha() or b" HTTP/1." not in rest.partition(b"\r\n")[0] or b"\r\n\r\n" not in raw:
        raise BadUsage(
            f"--raw {file}: not a valid HTTP/1 request: it has to begin with a line like GET / HTTP/1.1, lines end "
            "with CR LF, and an empty line ends the head"
        )
    return PoolRequest(method=method.decode(), raw=raw)


def bounded(path: Path, whose: str, most: int = MAX_BYTES) -> bytes:
    """The bytes of a file or a pipe.

    Raises:
        BadUsage: the file can't be read, or is longer than ``most`` bytes.
    """
    try:
        return paths.read(path, most, pipes=True)
    except ValueError as error:
        raise BadUsage(f"{whose}: {path} can't be read ({error}); use another file") from error
