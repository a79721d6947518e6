"""JSON at the package's edge: its values as types, and dataclasses as JSON objects and back."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
JsonObject = dict[str, Json]

#: Version of the shapes in data/schema: a field may be added within one, never changed or taken away.
JSON_SCHEMA = 1

_Made = TypeVar("_Made")


def plain(value: object) -> Json:
    """The same value as JSON can hold it: no NaN or infinity, a dataclass without what is unknown, else its text."""
    if dataclasses.is_dataclass(value):
        return encode(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (str, int, bool)) else str(value)


def encode(part: object) -> JsonObject:
    """A dataclass as a JSON object; fields that are None are left out."""
    named = {name: getattr(part, name) for name in _types(type(part))}
    return {name: plain(value) for name, value in named.items() if value is not None}


def decode(kind: type[_Made], raw: object) -> _Made:
    """A dataclass from a JSON object; keys that it does not have are left out.

    Raises:
        TypeError: it is not an object, a field has a value of another kind, or a field is missing.
    """
    if not isinstance(raw, Mapping):
        raise TypeError(f"{raw!r:.60} is not an object")
    fields = _types(kind)
    return kind(**{name: _decoded(name, fields[name], value) for name, value in raw.items() if name in fields})


def _types(kind: type) -> Mapping[str, Any]:
    """Type of each field, by name."""
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _decoded(name: str, kind: Any, value: object) -> Any:
    of, args = typing.get_origin(kind), typing.get_args(kind)
    if of is types.UnionType:
        (kind,) = (arg for arg in args if arg is not types.NoneType)
        return None if value is None else _decoded(name, kind, value)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return decode(kind, value)
    if of is tuple and isinstance(value, list):
        return tuple(_decoded(name, args[0], item) for item in value)
    if of is Mapping and isinstance(value, Mapping):
        return {str(key): _decoded(name, args[1], item) for key, item in value.items()}
    if isinstance(kind, type) and issubclass(kind, StrEnum) and isinstance(value, str) and value in tuple(kind):
        return kind(value)
    wanted = (int, float) if kind is float else kind
    if of is None and isinstance(value, wanted) and (kind is bool or not isinstance(value, bool)):
        return value
    raise TypeError(f"{name} is {value!r:.60}, not {getattr(kind, '__name__', kind)}")
