"""What was requested, for a reader: a workload's definition as a race's record has it, in words."""

# House: an edge: definitions as JSON.
from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from typing import Any

from dragstrip import json_by_value
from dragstrip.record import SECRET, Race

#: What a reader sees in place of a masked value.
MASK = "«masked»"

#: Characters of a body that a reader sees, and requests of a workload in its title.
SHOWN_CHARACTERS, SHOWN_REQUESTS = 400, 2

#: What is compared of a response if that is not its whole body, and why not more is.
_LESS = {"status": "the status only, no body", "length": "the status and the body's length"}
_BECAUSE = {
    "content": "the body changed between two responses, and not only in fields of JSON",
    "length": "the body's length changed between two responses",
    "compressed": "the body, which is compressed, changed between two responses",
    "coding": "the body's content coding can't be undone, or not within 1 MiB",
}

#: A masked value: the salt and the hash of the secret.
MASKED = re.compile(r"masked: ([0-9a-f]{32}:[0-9a-f]{64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedRequest:
    """What one request of a workload is, for a reader.

    Args:
        request: method, path and the status of its correct response. compared: what of a response is compared.
        headers: names and values; of a secret ``MASK``. body, expected: how the body that is sent, and the body of the
            correct response, begin; "" without one.
    """

    request: str
    compared: str
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""
    expected: str = ""


def requests_of(definition: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The requests of a definition."""
    request = definition["request"]
    return request if isinstance(request, list) else [request]


@lru_cache(maxsize=256)
def described(definition: str) -> tuple[DescribedRequest, ...]:
    """What a recorded definition says; () if there is none, or this version can't read it."""
    try:
        return tuple(_described(json.loads(definition))) if definition else ()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return ()


def title_of(name: str, definition: str) -> str:
    """A workload in a line: ``POST /orders → 201`` of a typed request, ``hello: GET / → 200`` of any other.

    Args:
        name: the workload's. definition: as recorded; "" shows the name alone.
    """
    listed = [one.request for one in described(definition)]
    if not listed:
        return name
    more = len(listed) - SHOWN_REQUESTS
    requests = ", ".join(listed[:SHOWN_REQUESTS]) + (f" and {more} more" if more > 0 else "")
    return requests if typed_as(definition) else f"{name}: {requests}"


def typed_as(definition: str) -> str:
    """Method and path of a typed request; "" if the workload is another one."""
    listed = described(definition)
    title = str(json.loads(definition).get("title", "")) if listed else ""
    typed = len(listed) == 1 and listed[0].request.rpartition(" → ")[0] == title
    return title if typed else ""


def typed_words(definition: str) -> list[str]:
    """Options that request the same as a typed request; a secret, or a body that is not text, is left to the reader."""
    given = json.loads(definition)
    (one,), (request,), answer = described(definition), requests_of(given), given["answer"]
    words = ["--path", _plain(str(request["path"])), "-m", str(request.get("method", "GET"))]
    for name, value in one.headers:
        words += ["-H", f"{name}: {'…' if value == MASK else value}"]
    if "body_base64" in request:
        words += ["-b", "@FILE"]
    elif "body" in request:
        words += ["-b", _plain(str(request["body"]))]
    compare = answer.get("compare")
    words += ["--check", compare] if compare in ("status", "length") else []
    return [*words, "--status", str(answer["status"])]


def ignore_words(definition: str) -> list[str]:
    """Options that compare by type the fields of a typed request's response that the record compares so."""
    answer = json.loads(definition)["answer"]
    return [word for pointer in answer.get("changing", ()) if pointer for word in ("--ignore", _plain(str(pointer)))]


def differences(before: str, after: str) -> list[tuple[str, str, str]]:
    """In what two definitions that one workload has in two records differ: what, then, now; [] if one is unknown.

    Values that change by themselves in either, and values that both mask, count as equal.
    """
    if before == after or not (described(before) and described(after)):
        return []
    both = [json.loads(text) for text in (before, after)]
    free = {pointer for one in both for answer in _answers(one) for pointer in answer.get("changing", ())}
    then, now = (_parts(one, free) for one in both)
    for what in [what for what in then if what.endswith("compared") and then[what] != now.get(what)]:
        for parts in (then, now):  # a record has only what is compared
            parts.pop(what.replace("compared", "expected response"), None)
    named = [(what, then.get(what, "none"), now.get(what, "none")) for what in {**then, **now}]
    return [(what, *_where_unlike(was, is_now)) for what, was, is_now in named if was != is_now]


def _answers(definition: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [request.get("answer", definition.get("answer", {})) for request in requests_of(definition)]


def _parts(definition: Mapping[str, Any], free: Collection[str]) -> dict[str, str]:
    """Everything of a definition that a server or the load notices, in words, by what it is."""
    parts: dict[str, str] = {}
    for request, answer in zip(requests_of(definition), _answers(definition), strict=True):
        of = f"{request['name']}, " if "name" in request else ""
        shown = {name.lower(): _shown_value(value) for name, value in request.get("headers", {}).items()}
        parts |= {
            f"{of}method": str(request.get("method", "GET")),
            f"{of}path": _plain(str(request["path"])),
            f"{of}headers": ", ".join(f"{name}: {value}" for name, value in sorted(shown.items())) or "none",
            f"{of}body": _whole(request, ()),
            f"{of}expected status": str(answer.get("status", 200)),
            f"{of}expected response": _whole(answer, free),
            f"{of}compared": str(answer.get("compare", "bytes")),
            f"{of}request": _rest(request, "name", "headers", "mask", "method", "path", "answer", *_BODIES),
            f"{of}response": _rest(answer, "status", "compare", "changing", *_BODIES),
        }
    return parts | {"load": _rest(definition, "name", "title", "anywhere", "like", "request", "answer")}


_BODIES = ("body", "body_base64", "body_bytes", "data", "length", "sha256")


def _rest(part: Mapping[str, Any], *but: str) -> str:
    return json.dumps({key: value for key, value in part.items() if key not in but}, sort_keys=True)


def _whole(part: Mapping[str, Any], free: Collection[str]) -> str:
    """A body; of JSON that is compared by value, without the ``free`` fields and in one form."""
    if part.get("compare") == "values":
        value = json.loads(_text_of(part))
        return json.dumps(_without(value, free), sort_keys=True, ensure_ascii=False)
    listed = [_plain(str(part[key])) for key in _BODIES if key in part]
    return " ".join(listed) or "none"


def _without(value: object, free: Collection[str], pointer: str = "") -> object:
    kept = {at: child for at, child in json_by_value.children(value, pointer) if not json_by_value.is_within(at, free)}
    children = {at.rpartition("/")[2]: _without(child, free, at) for at, child in kept.items()}
    return children if isinstance(value, dict) else [*children.values()] if isinstance(value, list) else value


def _where_unlike(before: str, after: str) -> tuple[str, str]:
    """Two texts from shortly before the place where they begin to differ."""
    alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    start = max(alike - 20, 0)
    begin = "…" if start else ""
    return f"{begin}{before[start:]}", f"{begin}{after[start:]}"


def masked_headers(race: Race) -> list[str]:
    """Headers whose values its record masks."""
    listed = (one for column in race.columns for one in described(column.definition))
    return list(dict.fromkeys(name for one in listed for name, value in one.headers if value == MASK))


def secret_variables(race: Race) -> list[tuple[str, str]]:
    """Secret variables whose values its record lacks, each after its contender; of contenders that are still in."""
    still_in = [entrant for entrant in race.entrants if not entrant.out]
    return [
        (one.name, key.removeprefix(SECRET)) for one in still_in for key in one.parameters if key.startswith(SECRET)
    ]


def again_words(race: Race, fleet: object = "fleet.toml") -> list[str]:
    """Options without which a printed command can't go on with a race: for what its record lacks.

    A reader fills in headers (``…``) and has variables in the environment.
    """
    words = [word for name in masked_headers(race) for word in ("-H", f"{name}: …")]
    words += [word for name, key in secret_variables(race) for word in ("--env", f"{name}.{key}")]
    return words + (["--fleet", str(fleet)] if race.machine.fleet else [])


def _described(definition: Mapping[str, Any]) -> Iterator[DescribedRequest]:
    for request in requests_of(definition):
        answer = request["answer"] if "answer" in request else definition["answer"]
        path = _plain(str(request["path"]))
        method = str(request.get("method", "GET"))
        status = answer.get("status", 200)
        yield DescribedRequest(
            request=f"{method} {path} → {'any message' if request.get('message') else status}",
            compared=_compared(answer),
            headers=tuple((name, _shown_value(value)) for name, value in request.get("headers", {}).items()),
            body=_beginning(request),
            expected=_beginning(answer),
        )


def _shown_value(value: str) -> str:
    return MASK if MASKED.fullmatch(value) else _plain(value)


def _plain(template: str) -> str:
    """A template that ``learned.plain`` made, as the text that it becomes."""
    return template.replace("{{ '{' }}", "{")


def _beginning(part: Mapping[str, Any]) -> str:
    """How the body of a request or a response begins."""
    if "body_base64" in part:
        decoded = base64.b64decode(part["body_base64"])
        try:
            text = decoded.decode()
        except UnicodeDecodeError:
            return f"{len(decoded):,} bytes, which are not text: {decoded[: SHOWN_CHARACTERS // 10].hex(' ')}"
    elif "length" in part:
        return f"{part['length']:,} bytes"
    else:
        text = _plain(str(part.get("body") or part.get("data") or ""))
        text = text or (f"{part['body_bytes']} random bytes" if "body_bytes" in part else "")
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]} … ({len(text):,} characters)"


def _compared(answer: Mapping[str, Any]) -> str:
    """What of a response is compared, in words."""
    compare = answer.get("compare", "bytes")
    if compare in _LESS:
        because = _BECAUSE.get(str(answer.get("because", "")), "")
        return f"{_LESS[compare]}{f', because {because}' if because else ''}"
    if compare == "values":
        changing = tuple(answer.get("changing", ()))
        fields = list(json_by_value.leaves(json_by_value.parsed(_text_of(answer).encode())))
        free = sum(json_by_value.is_within(field, changing) for field in fields)
        if not free:
            return "the status and every value of the JSON"
        return (
            f"the status and the JSON: {len(fields) - free} of {len(fields)} fields by value, {free} by type because "
            f"{'it changes' if free == 1 else 'they change'} ({', '.join(changing)})"
        )
    whole = compare in ("bytes", "json", "digest", "echo")
    return "the status and every byte of the body" if whole else "the status and the rows"


def _text_of(answer: Mapping[str, Any]) -> str:
    if "body_base64" in answer:
        return base64.b64decode(answer["body_base64"]).decode()
    return str(answer["body"]).replace("{{ '{' }}", "{")
