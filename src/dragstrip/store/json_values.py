"""JSON at the package's edge: its values as types, and dataclasses as JSON objects and back."""

# House: an edge: JSON of the store.
from __future__ import annotations

import base64
import dataclasses
import math
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
JsonObject = dict[str, Json]

#: Version of the shapes in data/schema: a field may be added within one, never changed or taken away.
JSON_SCHEMA = 1

_Made = TypeVar("_Made")

#: The name of each type in messages.
_CALLED = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    bytes: "base64",
    tuple: "a list",
    Mapping: "an object",
}


def plain(value: object) -> Json:
    """The value for JSON: NaN and infinity become None, a dataclass loses fields that are None, bytes become base64."""
    if dataclasses.is_dataclass(value):
        return encode(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value if value is None or isinstance(value, (int, bool)) else str(value)


def encode(part: object) -> JsonObject:
    """A dataclass as a JSON object; fields that are None are left out."""
    kind: type = type(part)
    named = {name: getattr(part, name) for name in field_types(kind)}
    return {name: plain(value) for name, value in named.items() if value is not None}


def picked(part: object, *names: str) -> JsonObject:
    """These attributes under their own names, each as ``plain`` writes it."""
    return {name: plain(getattr(part, name)) for name in names}


def decode(kind: type[_Made], raw: object) -> _Made:
    """A dataclass from a JSON object; keys that it does not have are left out.

    Raises:
        TypeError: it is not an object, a field has a value of another kind, or a field is missing.
    """
    return kind(**_fields(kind, raw))


def _fields(kind: type, raw: object) -> dict[str, Any]:
    if not isinstance(raw, Mapping):
        raise TypeError(f"{raw!r:.60} is not an object")
    types_ = field_types(kind)
    return {name: decoded(name, types_[name], value) for name, value in raw.items() if name in types_}


@cache
def field_types(kind: type) -> Mapping[str, Any]:
    """Type of each field of a dataclass, by name."""
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def decoded(name: str, kind: Any, value: object) -> Any:
    """A JSON value, converted to a field's type.

    Raises:
        TypeError: it has another type; the message has the name.
    """
    of, args = typing.get_origin(kind), typing.get_args(kind)
    if of is types.UnionType:
        (kind,) = (arg for arg in args if arg is not types.NoneType)
        return None if value is None else decoded(name, kind, value)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return decode(kind, value)
    if of is tuple and isinstance(value, list) and (args[-1] is Ellipsis or len(args) == len(value)):
        kinds = args[:1] * len(value) if args[-1] is Ellipsis else args
        return tuple(decoded(name, item_kind, item) for item_kind, item in zip(kinds, value, strict=True))
    if of is Mapping and isinstance(value, Mapping):
        return {str(key): decoded(name, args[1], item) for key, item in value.items()}
    if kind is bytes and isinstance(value, str):
        with suppress(ValueError):
            return base64.b64decode(value, validate=True)
    elif isinstance(kind, type) and issubclass(kind, StrEnum):
        if isinstance(value, str) and value in tuple(kind):
            return kind(value)
    elif of is None and isinstance(value, (int, float) if kind is float else kind):
        allowed = kind in (bool, object) or not isinstance(value, bool)
        # JSON's numbers have no limit: 1e999 is infinite, and a whole number may be too large for a float.
        if allowed and (not isinstance(value, int | float) or abs(value) <= sys.float_info.max):
            return value
    count = f" of {len(args)}" if of is tuple and args[-1] is not Ellipsis else ""
    raise TypeError(f"{name} is {value!r:.60}, expected {_CALLED.get(of or kind) or kind.__name__}{count}")
