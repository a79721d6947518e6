"""Workloads of requests that the user typed: what a server responds to them is the correct response.

Several responses, some time apart, show what changes by itself. A body that stays the same is compared byte by byte. Of
a JSON text, the fields that change are compared by their type and all others by value. Of any other body that changes,
the length is compared if that stays the same, otherwise nothing. A body may have a content coding, also one that the
request didn't ask for: it is undone first.
"""

# House: an edge: definitions as JSON.
from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dragstrip import json_by_value
from dragstrip.errors import BadUsage
from dragstrip.store.masking import is_secret
from dragstrip.workload.definition import ANY_TYPE, Workload
from dragstrip.workload.exchange import IDENTITY
from dragstrip.workload.reading import loads
from dragstrip.workload.typed import TypedRequest

#: Bytes of a body that is compared by more than its length: the record holds it.
MAX_BODY_BYTES = 2**20

#: Where its definition comes from, in messages.
PLACE = "the request"

#: Content codings that a comparison can undo.
_CODINGS = {"gzip", "br", IDENTITY}


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenResponse:
    """A response.

    Args:
        body: without its content coding if that could be undone (``whole``), otherwise as it came.
        coding: the content coding. cut: why the body was not read to its end; "" if it was.
        telling: what the server says about its status.
    """

    status: int
    body: bytes
    whole: bool = True
    coding: str = IDENTITY
    cut: str = ""
    telling: str = ""


def unanswered(typed: TypedRequest) -> Workload:
    """The request, with any response but status 503 as the correct one."""
    made = loads(_text(typed, {"status": 200, "compare": "status"}), PLACE)
    (kind,) = made.kinds
    return replace(made, kinds=(replace(kind, answer=kind.answer.model_copy(update={"status": 0})),))


def answered(typed: TypedRequest, seen: Sequence[SeenResponse], name: str) -> Workload:
    """The request, with what these responses have in common as the correct one.

    Args:
        seen: at least two responses. name: of the contender that sent them, for messages.

    Raises:
        BadUsage: the status is not the expected one, or what ``check`` asks to compare changes by itself.
    """
    _refuse_status(typed, seen, name)
    answer = {"status": seen[0].status, **_compared(typed, seen, name)}
    return loads(_text(typed, answer, [one.coding for one in seen]), PLACE)


def _refuse_status(typed: TypedRequest, seen: Sequence[SeenResponse], name: str) -> None:
    statuses = sorted({one.status for one in seen})
    if len(statuses) > 1:
        listed = ", ".join(map(str, statuses))
        raise BadUsage(f"{name}: {typed.shown} got different statuses ({listed}); use a request whose status stays")
    status = statuses[0]
    if typed.status is not None and status != typed.status:
        raise BadUsage(f"{name}: {typed.shown} got status {status}, but --status {typed.status} was given{_told(seen)}")
    if typed.status is None and not 200 <= status < 300:
        raise BadUsage(
            f"{name}: {typed.shown} got status {status}, which is not 2xx{_told(seen)}; request another path "
            f"(--path /users/42), correct the request or the server, or add --status {status} if that is expected"
        )


def _told(seen: Sequence[SeenResponse]) -> str:
    return f" ({seen[0].telling})" if seen[0].telling else ""


def _compared(typed: TypedRequest, seen: Sequence[SeenResponse], name: str) -> dict[str, Any]:
    """The keys of ``[answer]`` that say what is compared."""
    bodies = [one.body for one in seen]
    whole, coded = all(one.whole for one in seen), any(one.coding != IDENTITY for one in seen)
    same, alike = len(set(bodies)) == 1, len({len(body) for body in bodies}) == 1 and not coded
    values = _json(bodies) if whole else None
    if typed.ignore and (values is None or typed.check not in ("auto", "full")):
        raise BadUsage(f"--ignore {typed.ignore[0]}: {name} does not respond to {typed.shown} with JSON; leave it out")
    if typed.check == "status" or not whole:
        return _by_status(typed, seen, name, "" if typed.check == "status" else "coding")
    if typed.check == "length" and not alike:
        lengths = " and ".join(f"{len(body):,}" for body in dict.fromkeys(bodies))
        got = f"a body in {seen[0].coding}, whose length may vary" if coded else f"bodies of {lengths} bytes"
        remedy = "leave --check out, or use --check status" if coded else "--check status compares only statuses"
        raise BadUsage(f"{name}: {typed.shown} got {got}; {remedy}")
    if typed.check == "full" and not same and not typed.ignore:
        raise BadUsage(
            f"{name}: {typed.shown} got bodies that differ, and --check full compares every byte; leave it out, and "
            "fields of JSON that change are found, or compare less: --check status"
        )
    if typed.check != "length" and len(bodies[0]) <= MAX_BODY_BYTES:
        if values is not None and (typed.check == "auto" or typed.ignore):
            changing = _changing(typed, values, name)
            if "" not in changing:
                return {"compare": "values", "changing": changing, "content_type": ANY_TYPE, **_body(bodies[0])}
        elif same:
            return {"content_type": ANY_TYPE, **_body(bodies[0])}
    if not alike:
        return _by_status(typed, seen, name, "compressed" if coded else "length")
    of_length = {"length": len(bodies[0]), "content_type": ANY_TYPE}
    if same and typed.check != "length":
        return {"compare": "digest", "sha256": hashlib.sha256(bodies[0]).hexdigest(), **of_length}
    return {"compare": "length", **of_length, **({} if same else {"because": "content"})}


def _by_status(typed: TypedRequest, seen: Sequence[SeenResponse], name: str, because: str) -> dict[str, Any]:
    """The status alone, and why no more is compared (``because``); the load reads such a body up to a limit."""
    longest = max(len(one.body) for one in seen)
    cut = next((one.cut for one in seen if one.cut), "")
    if cut or longest > MAX_BODY_BYTES:
        raise BadUsage(
            f"{name}: {typed.shown} {cut or f'got a body of {longest:,} bytes'}; a body that is not compared may have "
            f"up to {MAX_BODY_BYTES:,} bytes; request another path (--path /users/42)"
        )
    return {"compare": "status"} | ({"because": because} if because else {})


def _json(bodies: Sequence[bytes]) -> list[object] | None:
    """The bodies as JSON; None if one of them is not an object or an array."""
    try:
        values = [json_by_value.parsed(body) for body in bodies]
    except ValueError:
        return None
    return values if all(isinstance(value, dict | list) for value in values) else None


def _changing(typed: TypedRequest, values: Sequence[object], name: str) -> list[str]:
    known = set(json_by_value.pointers(values[0]))
    if unknown := next((pointer for pointer in typed.ignore if pointer not in known), None):
        listed = ", ".join(sorted(known - {""})[:8])
        raise BadUsage(f"--ignore {unknown}: {name} sends no such field; it sends {listed}")
    return list(dict.fromkeys([*typed.ignore, *json_by_value.changing(values)]))


def _body(body: bytes) -> dict[str, str]:
    """A body as a template without names, or in base64 if it is not a text."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}
    return {"body": plain(text)}


def plain(text: str) -> str:
    """A text as a template that becomes this text: its braces begin nothing."""
    return re.sub(r"\{(?=[{%#])", "{{ '{' }}", text)


def _text(typed: TypedRequest, answer: dict[str, Any], codings: Sequence[str] = ()) -> str:
    """The definition, as JSON; ``codings``: of the responses, which need not be those that the request accepts."""
    headers = dict(typed.headers)
    accepted = next((value for name, value in headers.items() if name.lower() == "accept-encoding"), "")
    known = [coding.partition(";")[0].strip().lower() for coding in accepted.split(",")]
    known = [coding for coding in dict.fromkeys([*known, *codings, IDENTITY]) if coding in _CODINGS]
    if known != [IDENTITY] and answer.get("compare") not in ("status", "length"):
        answer = {**answer, "encodings": known, "negotiated": False}
    request: dict[str, Any] = {"path": plain(typed.path), "method": typed.method}
    request |= {"headers": {key: plain(value) for key, value in headers.items()}} if headers else {}
    if typed.body is not None:
        request |= {**_body(typed.body), "chunks": False}  # many servers read no chunks, and the load sends none
    head = {"name": _name(typed), "title": typed.shown, "anywhere": True}
    return json.dumps({**head, "request": request, "answer": answer})


def file_of(typed: TypedRequest) -> str:
    """A workload file with the request, which compares statuses alone until its response is known; no secrets."""
    made = json.loads(_text(typed, {"status": typed.status or 200, "compare": "status"}))
    made["name"] = made["name"].rpartition("-")[0]
    headers = made["request"].get("headers", {})
    headers |= {name: "..." for name in headers if is_secret(name)}
    tables = {key: made.pop(key) for key in ("request", "answer")}
    lines = [_toml_line(*pair) for pair in made.items()]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *(_toml_line(*pair) for pair in table.items())]
    return "\n".join(lines)


def _toml_line(key: str, value: Any) -> str:
    """A key and its value; JSON's texts, numbers and booleans are TOML's (TOML 1.0)."""
    if isinstance(value, dict):
        value = ", ".join(f"{json.dumps(one)} = {json.dumps(text, ensure_ascii=False)}" for one, text in value.items())
        return f"{key} = {{ {value} }}"
    return f"{key} = {json.dumps(value, ensure_ascii=False)}"


def _name(typed: TypedRequest) -> str:
    """The path's letters and digits, and a part of a hash so that no two requests share it."""
    words = re.sub(r"[^a-z0-9.]+", "-", typed.path.lower()).strip("-.")[:40] or "root"
    asked = repr((typed.method, typed.path, sorted(name for name, _ in typed.headers), typed.body))
    return f"{words}-{hashlib.sha256(asked.encode()).hexdigest()[:6]}"
