"""Reads and checks a workload's file. Errors name the file, the line, the field and a remedy."""

# House: an edge: definitions as TOML or JSON.
from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

from dragstrip.contender import Key, Source, nearest, parsed, validated
from dragstrip.contender.template import budget, names_in, render
from dragstrip.errors import BadUsage
from dragstrip.paths import is_file, read_beside
from dragstrip.store.masking import is_secret, know
from dragstrip.workload.definition import Asking, Workload, refusing
from dragstrip.workload.exchange import CHOSEN
from dragstrip.workload.fields import MAX_FILE_BYTES, MixFile, RequestFields, RequestKind, Varying, WorkloadFile
from dragstrip.workload.tables import drawn_tables

SHIPPED = Path(__file__).resolve().parents[1] / "data" / "workloads"

#: Headers that Dragstrip sets: they say where a request is sent, where it ends and what becomes of its connection.
_OURS = ("host", "connection", "content-length", "transfer-encoding", "expect", "upgrade", "trailer")
_ENCODING = "accept-encoding"

#: Keys of which a request has one for its body, and a response one for the correct body.
BODIES, ANSWERS = ("body", "body_file", "body_base64", "body_bytes"), ("body", "body_base64", "data")


def load(word: str | Path) -> Workload:
    """A shipped workload by its name, or a workload by the path of its TOML file.

    Raises:
        BadUsage: unknown name. BadDefinition: names file, line, field and remedy.
    """
    file = Path(word) if str(word).endswith(".toml") else SHIPPED / f"{word}.toml"
    if not is_file(file):
        if str(word).endswith(".toml"):
            raise BadUsage(f"--workload {word}: the file {file.absolute()} does not exist; correct the path")
        known = nearest(str(word), names(), "known:")
        raise BadUsage(f"unknown workload {str(word)!r}; {known}, or give a TOML file")
    return _loaded(file.absolute(), file.stat().st_mtime_ns)


def loads(text: str, place: str) -> Workload:
    """A workload from the text of a definition, TOML or JSON; ``place``: where it comes from, for messages.

    Raises:
        BadDefinition: as ``load``.
    """
    if not text.startswith("{"):
        return _made(*parsed(Path(place), text))
    source = Source(Path(place), text)
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise source.bad((), f"is not JSON ({error})", "export the race again") from error
    return _made(given, source)


def several(words: str | Path) -> tuple[Workload, ...]:
    """One workload, or several separated by commas; the path of an existing file may contain commas.

    Raises:
        BadUsage, BadDefinition: as ``load``.
    """
    if is_file(Path(words)):
        return (load(words),)
    return tuple(map(load, str(words).split(",")))


def names() -> list[str]:
    """The shipped workloads."""
    return sorted(file.stem for file in SHIPPED.glob("*.toml"))


@cache
def _loaded(file: Path, _changed_ns: int) -> Workload:
    return _made(*parsed(file))


def secret_headers(request: RequestFields) -> list[tuple[str, str]]:
    """The headers of a request whose values are secrets."""
    named = {name.lower() for name in request.mask}
    return [(name, value) for name, value in request.headers.items() if is_secret(name) or name.lower() in named]


def _made(given: dict[str, Any], source: Source) -> Workload:
    fields: WorkloadFile | MixFile
    if isinstance(given.get("request"), list):
        fields = validated(given, source, MixFile)
    else:
        fields = validated(given, source, WorkloadFile)
    workload = Workload(fields, source, tuple(_kinds(fields, source)))
    with budget():
        _check_files(workload)
        for kind in workload.kinds:
            for _, value in secret_headers(kind.request):
                know(value)
            _check_varying(kind, source)
            _check_answer(kind, workload)
            workload.traffic_kind.check(kind)
            _check_headers(kind, source)
            _check_templates(kind, workload)
        _check_rendering(workload)
    return workload


def _kinds(fields: WorkloadFile | MixFile, source: Source) -> Iterator[RequestKind]:
    if isinstance(fields, WorkloadFile):
        body = _file_body(fields.request, source, ("request",))
        yield RequestKind(fields.name, 1, fields.request, fields.answer, fields.load, fields.probes, (), body)
        return
    used: set[str] = set()
    for number, request in enumerate(fields.request):
        at: tuple[Key, ...] = ("request", number)
        if request.name in used:
            raise source.bad(
                (*at, "name"), f"given {request.name!r} a second time", "give each request a name of its own"
            )
        used.add(request.name)
        body = _file_body(request, source, at)
        yield RequestKind(request.name, request.weight, request, request.answer, request.load, request.probes, at, body)


def _file_body(request: RequestFields, source: Source, at: tuple[Key, ...]) -> bytes | None:
    """The bytes of the file that a request sends, if it names one."""
    given = [name for name in BODIES if getattr(request, name) is not None]
    if len(given) > 1:
        raise source.bad((*at, given[1]), f"can't be combined with `{given[0]}`", "give only one of them")
    if request.body_base64 is not None:
        return _bytes_of(request.body_base64, source, (*at, "body_base64"))
    if request.body_file is None:
        return None
    try:
        return read_beside(source.file.parent, request.body_file, MAX_FILE_BYTES)
    except ValueError as error:
        raise source.bad((*at, "body_file"), str(error), "name a file in the definition's folder, or below") from error


def _bytes_of(text: str, source: Source, at: tuple[Key, ...]) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise source.bad(at, f"is not base64 ({error})", "give the bytes as `base64 FILE` prints them") from error


def _check_files(workload: Workload) -> None:
    """The files of a launch must have different names, and either `bytes` or `content`."""
    source = workload.source
    files: set[str] = set()
    rows: set[str] = set()
    for number, file in enumerate(workload.fields.data):
        at = ("data", number)
        if file.file in files:
            raise source.bad((*at, "file"), f"given {file.file!r} a second time", "give each file a name of its own")
        if bool(file.bytes_) == bool(file.content):
            raise source.bad(at, "must have either `bytes` or `content`", "give one of the two")
        if file.name and (file.name in rows or not re.fullmatch(r"[a-z_][a-z0-9_]*", file.name) or file.name == "mark"):
            raise source.bad((*at, "name"), f"given {file.name!r}", "give a plain name that no other file has")
        files.add(file.file)
        rows.add(file.name)
        _check_spans(file, source, at)
        _check_template(source, (*at, "content"), file.content, {"rows"})


def _check_spans(varying: Varying, source: Source, at: tuple[Key, ...]) -> None:
    spans = [("numbers", name, span) for name, span in varying.numbers.items()]
    spans += [("texts", name, span) for name, span in varying.texts.items()]
    for table, name, (first, last) in spans:
        if first > last or not _plain(name) or (table == "texts" and not 0 <= first <= last <= 2**20):
            raise source.bad((*at, table, name), f"given [{first}, {last}]", "give a plain name and [first, last]")
    for name, values in varying.choices.items():
        if not _plain(name):
            raise source.bad((*at, "choices", name), f"given {list(values)!r}", "give a plain name and its values")
    tables = Counter([*varying.numbers, *varying.choices, *varying.texts])
    twice = sorted(name for name, count in tables.items() if count > 1)
    if twice:
        raise source.bad(at, f"has {twice[0]!r} in two tables", "let each name vary in one way")


def _plain(name: str) -> bool:
    """Whether a template can use the name."""
    return bool(re.fullmatch(r"[a-z_][a-z0-9_]*", name)) and name != "mark"


def _check_varying(kind: RequestKind, source: Source) -> None:
    """Load and probes must vary the same names, within spans that aren't empty."""
    for table, varying in (("load", kind.load), ("probes", kind.probes)):
        _check_spans(varying, source, (*kind.at, table))
    loaded, probed = kind.load.names(), kind.probes.names()
    if loaded and not probed:
        table = next(name for name in ("numbers", "choices", "texts") if getattr(kind.load, name))
        beside = "request.probes" if kind.at else "probes"
        raise source.bad(
            (*kind.at, "load", table),
            f"varies {sorted(loaded)}, and scrutineering needs values to check",
            f"add [{beside}] with the same names",
        )
    if loaded != probed:
        table = next((name for name in ("numbers", "choices", "texts") if getattr(kind.probes, name)), "numbers")
        raise source.bad(
            (*kind.at, "probes", table),
            f"varies {sorted(probed)}, but the load varies {sorted(loaded)}",
            "give both the same names",
        )
    for number, case in enumerate(kind.probes.always):
        if set(case) != loaded:
            raise source.bad(
                (*kind.at, "probes", "always", number),
                f"has {sorted(case)}",
                f"give each of {sorted(loaded)} a value",
            )


def _check_answer(kind: RequestKind, workload: Workload) -> None:
    """A response needs one correct body and its content type, unless only the status is compared."""
    answer, bad = kind.answer, workload.source.bad
    at = (*kind.at, "answer")
    if (answer.compare in ("length", "digest")) != (answer.length is not None):
        problem = "is missing" if answer.length is None else 'needs `compare = "length"`'
        raise bad((*at, "length"), problem, 'give both `compare = "length"` and `length`')
    if (answer.compare == "digest") != (answer.sha256 is not None):
        raise bad((*at, "sha256"), 'needs `compare = "digest"`, which needs it', "give both, or neither")
    if answer.changing and answer.compare != "values":
        raise bad((*at, "changing"), 'needs `compare = "values"`', "give both, or neither")
    if unpointed := next((one for one in answer.changing if one and not one.startswith("/")), None):
        raise bad((*at, "changing"), f"given {unpointed!r}", 'give JSON Pointers, like "/requestId"')
    if answer.compare in ("status", "length", "digest"):
        given = next((name for name in ANSWERS if getattr(answer, name) is not None), None)
        if given:
            raise bad((*at, given), "has no effect, because no body is compared", "leave it out")
        return
    if answer.compare in CHOSEN:
        given = next((name for name in ANSWERS if getattr(answer, name) is not None), None)
        if given:
            raise bad((*at, given), "has no effect, because the server chooses the rows", "leave it out")
        if workload.schema not in CHOSEN[answer.compare]:
            raise bad(
                (*at, "compare"),
                f"{answer.compare!r} needs the tables {' or '.join(CHOSEN[answer.compare])}",
                f'add `database = "{CHOSEN[answer.compare][0]}"` at the top of the file',
            )
    empty = answer.status in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED) or answer.body == ""
    if not answer.content_type and workload.traffic_kind.over_http and not empty:
        raise bad((*at, "content_type"), "is missing", 'add `content_type = "text/plain"`, or the type of the body')
    if answer.compare == "echo":
        given = next((name for name in ANSWERS if getattr(answer, name) is not None), None)
        if given:
            raise bad((*at, given), "has no effect, because the request's body comes back", "leave it out")
        return
    bodies = [name for name in ANSWERS if getattr(answer, name) is not None]
    if answer.compare not in CHOSEN and len(bodies) != 1:
        problem = f"can't be combined with `{bodies[1]}`" if bodies else "is missing"
        raise bad((*at, bodies[0] if bodies else "body"), problem, f"give one of {', '.join(ANSWERS)}")
    if answer.body_base64 is not None:
        _bytes_of(answer.body_base64, workload.source, (*at, "body_base64"))
    if answer.data is not None and not workload.needs_data:
        raise bad((*at, "data"), "needs `[[data]]`, which is missing", "add `[[data]]`")


def _check_headers(kind: RequestKind, source: Source) -> None:
    for name in kind.request.headers:
        at = kind.asked_at("headers", name)
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
            raise source.bad(at, "is not a valid header name", "use letters, digits and -")
        if name.lower() in _OURS:
            raise source.bad(at, "is set by Dragstrip", "leave it out; `framing` sets how a body is sent")
        if name.lower() == _ENCODING and kind.answer.encodings and kind.answer.negotiated:
            raise source.bad(at, "is set by `encodings` of the response", "leave it out")


def _check_templates(kind: RequestKind, workload: Workload) -> None:
    known, source = kind.load.names(), workload.source
    rows = {file.name for file in workload.fields.data if file.name}
    request = kind.request
    texts = [(kind.asked_at("path"), request.path), (kind.asked_at("body"), request.body or "")]
    texts += [(kind.asked_at("body_bytes"), request.body_bytes or ""), (kind.asked_at("message"), request.message)]
    texts += [(kind.asked_at("headers", name), text) for name, text in request.headers.items()]
    for at, text in texts:
        _check_template(source, at, text, known)
    for key in ("count", "low", "high", "statements"):
        _check_template(source, (*kind.at, "answer", key), str(getattr(kind.answer, key)), known)
    _check_template(source, (*kind.at, "answer", "body"), kind.answer.body or "", known | {"mark", "table"} | rows)
    _check_template(source, (*kind.at, "answer", "data"), kind.answer.data or "", known)


def _check_template(source: Source, at: tuple[Key, ...], text: str, valid: set[str]) -> None:
    with refusing(source, at):
        unknown = sorted(names_in(text) - valid)
    if unknown:
        raise source.bad(at, f"unknown name {unknown[0]!r}", nearest(unknown[0], valid, "known:"))


def _check_rendering(workload: Workload) -> None:
    """Renders every request; its first line must be visible ASCII without spaces, which would split it."""
    data = replace(workload.data("check"), tables=drawn_tables(workload.schema or "rows", 0))
    for kind in workload.kinds:
        if kind.answer.data is None:
            continue
        for values in (*workload.pool(kind, 0), *kind.probes.always):
            with refusing(workload.source, (*kind.at, "answer", "data")):
                name = render(kind.answer.data, values)
            if name not in data.files:
                raise workload.source.bad(
                    (*kind.at, "answer", "data"), f"becomes {name!r}", nearest(name, data.files, "known files:")
                )
    try:
        asking = Asking(workload, mark="MARK", data=data)
        exchanges = (*asking.exchanges(), *asking.probes())
    except UnicodeEncodeError as error:
        raise workload.source.bad(("request",), f"can't be sent: {error}", "use ASCII in path and headers") from error
    for exchange in exchanges:
        kind = workload.kinds[exchange.kind]
        if not re.fullmatch(r"/[!-~]*", exchange.path):
            raise workload.source.bad(
                kind.asked_at("path"), f"becomes {exchange.path!r}", "use visible ASCII without spaces; %20 is a space"
            )
        if not re.fullmatch(rb"([!-~][\t -~]*\r\n)+\r\n", exchange.head):
            raise workload.source.bad(
                kind.asked_at("headers"), "have a value with a line end or control character", "use visible ASCII"
            )
