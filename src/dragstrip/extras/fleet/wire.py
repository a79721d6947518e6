"""Calls of an agent's duties as lines of JSON; both sides check them against the duty's signature."""

# House: an edge: JSON of wires.
from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model

#: The longest line: a round's tallies of a large race are a few million bytes.
MAX_LINE_BYTES = 64 * 2**20

#: Exact types and no unknown keys; texts from an agent, which a person reads, also have a bounded length.
_CALL = ConfigDict(strict=True, extra="forbid", frozen=True, ser_json_bytes="base64", val_json_bytes="base64")
REPLY = _CALL | ConfigDict(str_max_length=100_000)


@dataclass(frozen=True, slots=True)
class WireShapes:
    """The models of one duty's messages.

    Args:
        arguments: by name. reply: its ``gives`` is the duty's result.
        shown: its ``shows`` is a value that the duty passes to its argument ``show``; None: it has no such argument.
    """

    arguments: type[BaseModel]
    reply: Any
    shown: Any | None


@cache
def shapes(duty: Callable[..., Any]) -> WireShapes:
    """The models of a duty's messages, from the types of its arguments and of its result."""
    hints = typing.get_type_hints(duty, include_extras=True)
    returned, show = hints.pop("return"), hints.pop("show", None)
    shown = None
    if show is not None:
        (called,) = (kind for kind in typing.get_args(show) if kind is not type(None))
        shown = _model("shown", REPLY, {"id": int, "shows": typing.get_args(called)[0][0]})
    return WireShapes(_model("arguments", _CALL, hints), _model("reply", REPLY, {"id": int, "gives": returned}), shown)


def _model(name: str, config: ConfigDict, kinds: Mapping[str, Any]) -> type[BaseModel]:
    fields: dict[str, Any] = {field: (kind, ...) for field, kind in kinds.items()}
    return create_model(name, __config__=config, **fields)


def encode_call(number: int, duty: Callable[..., Any], arguments: Mapping[str, Any]) -> bytes:
    """A call's line; instead of ``show`` it has only whether progress is shown."""
    model = shapes(duty).arguments
    values = model(**{name: value for name, value in arguments.items() if name != "show"})
    is_shown = json.dumps(arguments.get("show") is not None)
    text = f'{{"id": {number}, "do": "{duty.__name__}", "shown": {is_shown}, "with": {values.model_dump_json()}}}\n'
    return text.encode()


def bind(duty: Callable[..., Any], *values: Any, **named: Any) -> dict[str, Any]:
    """The arguments of a duty by their names, without ``self``."""
    _, *arguments = inspect.signature(duty).bind(None, *values, **named).arguments.items()
    return dict(arguments)


def decode_arguments(duty: Callable[..., Any], values: object) -> dict[str, Any]:
    """The arguments of a call that arrived as JSON.

    Raises:
        ValidationError: they don't fit the duty.
    """
    model = shapes(duty).arguments.model_validate_json(json.dumps(values))
    return {name: getattr(model, name) for name in type(model).model_fields}
