"""A call of an agent's duty as a line of JSON each way: the duty's own signature is what both sides hold it to."""

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

#: Exact types and no unknown keys; an agent's texts, which a person is shown, are also of bounded length.
_CALL = ConfigDict(strict=True, extra="forbid", frozen=True, ser_json_bytes="base64", val_json_bytes="base64")
REPLY = _CALL | ConfigDict(str_max_length=100_000)


@dataclass(frozen=True, slots=True)
class Shapes:
    """What goes over the wire for one duty.

    Args:
        arguments: by name. reply: ``gives`` is what the duty returns.
        shown: ``shows`` is what the duty hands to its argument ``show`` before it returns; None: it has none.
    """

    arguments: type[BaseModel]
    reply: Any
    shown: Any | None


@cache
def shapes(duty: Callable[..., Any]) -> Shapes:
    """The shapes of a duty, by the types of its arguments and of what it returns."""
    hints = typing.get_type_hints(duty, include_extras=True)
    returned, show = hints.pop("return"), hints.pop("show", None)
    shown = None
    if show is not None:
        (called,) = (kind for kind in typing.get_args(show) if kind is not type(None))
        shown = _model("shown", REPLY, {"id": int, "shows": typing.get_args(called)[0][0]})
    return Shapes(_model("arguments", _CALL, hints), _model("reply", REPLY, {"id": int, "gives": returned}), shown)


def _model(name: str, config: ConfigDict, kinds: Mapping[str, Any]) -> type[BaseModel]:
    fields: dict[str, Any] = {field: (kind, ...) for field, kind in kinds.items()}
    return create_model(name, __config__=config, **fields)


def encode_call(number: int, duty: Callable[..., Any], arguments: Mapping[str, Any]) -> bytes:
    """A call's line; ``show`` becomes only whether progress is shown."""
    model = shapes(duty).arguments
    values = model(**{name: value for name, value in arguments.items() if name != "show"})
    looked_at = json.dumps(arguments.get("show") is not None)
    text = f'{{"id": {number}, "do": "{duty.__name__}", "shown": {looked_at}, "with": {values.model_dump_json()}}}\n'
    return text.encode()


def bind(duty: Callable[..., Any], *values: Any, **named: Any) -> dict[str, Any]:
    """The arguments of a duty by their names, without whose duty it is."""
    _, *arguments = inspect.signature(duty).bind(None, *values, **named).arguments.items()
    return dict(arguments)


def decode_arguments(duty: Callable[..., Any], values: object) -> dict[str, Any]:
    """The arguments of a call that came as JSON.

    Raises:
        ValidationError: they don't fit the duty.
    """
    made = shapes(duty).arguments.model_validate_json(json.dumps(values))
    return {name: getattr(made, name) for name in type(made).model_fields}
