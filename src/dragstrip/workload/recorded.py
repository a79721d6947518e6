"""A workload as a race's record has it: its definition as JSON, without secrets, and what it says to a reader."""

# House: an edge: definitions as JSON.
from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dragstrip.errors import BadUsage
from dragstrip.requested import MASKED, requests_of
from dragstrip.store.masking import is_same, is_secret, parts_of, salted
from dragstrip.workload.definition import Workload
from dragstrip.workload.reading import loads, secret_headers

#: Bytes of a request's body file that a record holds.
MAX_BODY_BYTES = 2**20


def recorded(workload: Workload) -> str:
    """The definition for a record; "" if a request's body is too large for it."""
    given = workload.fields.model_dump(mode="json", by_alias=True, exclude_unset=True)
    for kind, request in zip(workload.kinds, requests_of(given), strict=True):
        if kind.request.body_file is not None and kind.body is not None:
            if len(kind.body) > MAX_BODY_BYTES:
                return ""
            del request["body_file"]
            request["body_base64"] = base64.b64encode(kind.body).decode()
    echoes = _echoes(header for kind in workload.kinds for header in secret_headers(kind.request))
    return json.dumps(_replaced(_with_headers(given, _masked), [(part, mark) for mark, part in echoes]))


def _echoes(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """For each part of a secret, the mark that stands for it where a server says it."""
    return [
        (f"[[{name.lower()} {number}]]", part)
        for name, value in dict(headers).items()
        for number, part in enumerate(parts_of(value))
    ]


def _replaced(value: Any, pairs: Sequence[tuple[str, str]]) -> Any:
    """The same JSON with each text's first ones of these pairs replaced by their second ones; keys stay."""
    if isinstance(value, dict):
        return {key: _replaced(one, pairs) for key, one in value.items()}
    if isinstance(value, list):
        return [_replaced(one, pairs) for one in value]
    for old, new in pairs if isinstance(value, str) else ():
        value = value.replace(old, new)
    return value


def reopened(text: str, place: str, given: Iterable[tuple[str, str]] = ()) -> Workload:
    """The workload of a record.

    Args:
        place: names the record in messages. given: headers whose values the record masks.

    Raises:
        BadUsage: a masked value was not given, or another one was. BadDefinition: this version refuses it.
    """
    by_name = {name.lower(): value for name, value in given}

    def revealed(name: str, value: str, request: Mapping[str, Any]) -> str:
        mask = MASKED.fullmatch(value)
        if mask is None:
            return value
        secret = by_name.get(name.lower())
        if secret is None:
            raise BadUsage(f"{place}: the value of its header {name} is not in the record; give it: -H '{name}: …'")
        if not is_same(secret, mask[1]):
            raise BadUsage(f"{place}: -H '{name}: …' has another value than the race had; give the same")
        return secret

    try:
        definition = _with_headers(json.loads(text), revealed)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadUsage(
            f"{place}: its workload's definition is damaged ({error}); have the race exported again"
        ) from error
    return loads(json.dumps(_replaced(definition, _echoes(by_name.items()))), place)


def _with_headers(definition: dict[str, Any], change: Callable[[str, str, Mapping[str, Any]], str]) -> dict[str, Any]:
    """The same definition with each header's value changed."""
    for request in requests_of(definition):
        if headers := request.get("headers"):
            request["headers"] = {name: change(name, value, request) for name, value in headers.items()}
    return definition


def _masked(name: str, value: str, request: Mapping[str, Any]) -> str:
    named = {one.lower() for one in request.get("mask", ())}
    if not value or not (is_secret(name) or name.lower() in named):
        return value
    return f"masked: {salted(value)}"
