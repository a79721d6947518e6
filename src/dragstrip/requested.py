"""What was requested, for a reader: a workload's definition as a race's record has it, in words."""

# House: an edge: definitions as JSON.
from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dragstrip import json_by_value
from dragstrip.record import SECRET, Race

#: What a reader sees in place of a masked value.
MASK = "«masked»"

#: Characters of a body that a reader sees, and requests of a workload in its title.
SHOWN_CHARACTERS, SHOWN_REQUESTS = 400, 2

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
    if compare == "status":
        return "the status only, no body"
    if compare == "length":
        return "the status and the body's length"
    if compare == "values":
        changing = tuple(answer.get("changing", ()))
        fields = list(json_by_value.leaves(json_by_value.parsed(_text_of(answer).encode())))
        free = sum(json_by_value.is_within(field, changing) for field in fields)
        if not free:
            return "the status and every value of the JSON"
        return (
            f"the status and the JSON: {len(fields) - free} of {len(fields)} fields by value, {free} by type because "
            f"they change ({', '.join(changing)})"
        )
    whole = compare in ("bytes", "json", "digest", "echo")
    return "the status and every byte of the body" if whole else "the status and the rows"


def _text_of(answer: Mapping[str, Any]) -> str:
    if "body_base64" in answer:
        return base64.b64decode(answer["body_base64"]).decode()
    return str(answer["body"]).replace("{{ '{' }}", "{")
