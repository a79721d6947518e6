"""A definition file: TOML. Each refusal names file, line, field, what was given and what would be valid.

Contenders, workloads and line-ups are read through here. The fields are pydantic models, strict (a
number is not a text) and closed (an unknown key is refused, with the key that was probably meant).
"""

# House: an edge: settings of definitions.
from __future__ import annotations

import difflib
import re
import string
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from dragstrip import paths
from dragstrip.errors import BadDefinition

Key = str | int

#: No definition has more than four levels.
MAX_DEPTH = 20

#: More than any definition written by hand needs, or a pool of 10,000 requests with bodies.
MAX_BYTES = 16 * 2**20
#: Dots in a line; the root of the sum of all lines' squares.
MAX_DOTS = 5_000
_Model = TypeVar("_Model", bound=BaseModel)

_ONE_KEY = r"""(?:"[^"\n]*"|'[^'\n]*'|[A-Za-z0-9_-]+)"""
_KEYS = rf"{_ONE_KEY}(?:\s*\.\s*{_ONE_KEY})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_KEYS})\s*\]\]?")
_ASSIGNMENT = re.compile(rf"\s*({_KEYS})\s*=")

#: Remedies by pydantic's error types.
_REMEDIES = {
    "string_type": 'give a text in quotes, like "this"',
    "int_type": "give a whole number",
    "float_type": "give a number",
    "bool_type": "give true or false",
    "tuple_type": 'give a list, like ["one", "two"]',
    "model_type": "give a table of keys",
    "dict_type": "give a table of keys",
}


class Strict(BaseModel):
    """Base of all definitions' tables: exact types, no unknown keys, frozen."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


@dataclass(frozen=True)
class Source:
    """A definition's file and text; makes refusals that point at a line of it.

    Args:
        row: in a file with an object on each line, the number of the object's line; otherwise None.
    """

    file: Path
    text: str
    row: int | None = None

    @cached_property
    def _lines(self) -> dict[tuple[Key, ...], int]:
        return _lines_of(self.text)

    def line(self, at: Sequence[Key]) -> int | None:
        """1-based line of a key, or of the nearest table above it; None if the file has neither."""
        if self.row is not None:
            return self.row
        known = tuple(at)
        while known and known not in self._lines:
            known = known[:-1]
        return self._lines.get(known) if known else None

    def bad(self, at: Sequence[Key], problem: str, remedy: str) -> BadDefinition:
        """The refusal of the key ``at``; to be raised by the caller."""
        field = ".".join(str(part) for part in at) or ("the file" if self.row is None else "the line")
        return BadDefinition(file=str(self.file), line=self.line(at), field=field, problem=problem, remedy=remedy)


def read(file: Path, model: type[_Model]) -> tuple[_Model, Source]:
    """Reads a definition file into its model.

    Raises:
        BadDefinition: it can't be read, is not TOML, or has an invalid field (the error names the first by line).
    """
    given, source = parsed(file)
    return validated(given, source, model), source


def parsed(file: Path, text: str | None = None) -> tuple[dict[str, Any], Source]:
    """A definition file's tables, not validated yet.

    Args:
        text: the definition, if ``file`` is only its name in messages.

    Raises:
        BadDefinition: it can't be read, or is not TOML.
    """
    source = Source(file, _text_of(file) if text is None else text)
    too_deep = BadDefinition(
        file=str(file),
        field="the file",
        problem=f"its lists or tables are nested more than {MAX_DEPTH} deep",
        remedy="use a few levels",
    )
    try:
        given = toml(source.text)
    except RecursionError as error:
        raise too_deep from error
    except ValueError as error:  # not TOML, or a number of thousands of digits
        at_line = re.search(r"at line (\d+)", str(error))
        raise BadDefinition(
            file=str(file),
            line=int(at_line[1]) if at_line else None,
            field="the file",
            problem=f"is not valid TOML: {error}",
            remedy="correct that line; strings must be quoted",
        ) from error
    if _is_deep(given):
        raise too_deep
    return given, source


def toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text.

    ``tomllib`` takes time and memory for each two parts of a dotted key, and a key is in one line: so the dots of lines
    are bounded before. 5,000 in one line cost it 0.1 GB and a second.

    Raises:
        ValueError: it is not TOML, or has too many dots. RecursionError: it is nested too deep.
    """
    if sum(line.count(".") ** 2 for line in text.splitlines()) > MAX_DOTS**2:
        raise ValueError(f"it has lines with too many dots, more than {MAX_DOTS:,} in one or many in several")
    return tomllib.loads(text)


def validated(given: Any, source: Source, model: type[_Model]) -> _Model:
    """A definition's tables as its model.

    Raises:
        BadDefinition: a field is invalid (the error names the first by line).
    """
    try:
        return model.model_validate(given)
    except ValidationError as error:
        # pydantic also reports a list as too short if one of its entries is invalid, which is a fault by itself.
        faults: list[Any] = [
            fault
            for fault in error.errors()
            if fault["type"] != "too_short" or len(fault["input"]) <= fault["ctx"]["actual_length"]
        ]
        refusals = [_refusal(fault, model, given, source) for fault in faults]
        raise min(refusals, key=lambda refusal: (refusal.line is None, refusal.line or 0)) from error


def _is_deep(given: Any) -> bool:
    """Whether the tables are nested deeper than ``MAX_DEPTH``, so that finding line numbers would take too long."""
    level = [given]
    for _ in range(MAX_DEPTH):
        lists = (list(part.values()) if isinstance(part, dict) else part for part in level)
        level = [part for parts in lists if isinstance(parts, list) for part in parts]
    return bool(level)


def _text_of(file: Path) -> str:
    try:
        return paths.read(file, MAX_BYTES).decode("utf-8").replace("\r\n", "\n")
    except ValueError as error:
        raise BadDefinition(
            file=str(file), field="the file", problem=f"can't be read ({error})", remedy="give a UTF-8 text file"
        ) from error


def _refusal(fault: Any, model: type[BaseModel], given: Any, source: Source) -> BadDefinition:
    kind, at = fault["type"], tuple(fault["loc"])
    if kind == "missing" and isinstance(at[-1], int):
        return source.bad(at[:-1], f"given {shown(fault['input'])}", f"at least {at[-1] + 1} values are needed")
    if kind == "missing":
        described = _described(model, at)
        return source.bad(at, "is missing", f"add `{at[-1]} = …`" + (f", {described}" if described else ""))
    at = _existing(at, given)
    if kind == "extra_forbidden":
        table = _model_at(model, at[:-1])
        valid = list(_fields_of(table)) if table else []
        return source.bad(at, "unknown key", nearest(str(at[-1]), valid, "valid keys:"))
    if kind == "too_short":
        return source.bad(at, f"given {shown(fault['input'])}", f"give at least {fault['ctx']['min_length']}")
    if kind == "too_long":
        return source.bad(at, f"has {len(fault['input']):,} entries", f"give at most {fault['ctx']['max_length']:,}")
    if kind == "string_pattern_mismatch" and (described := _described(model, at)):
        pattern = fault["ctx"]["pattern"]
        return source.bad(at, f"given {shown(fault['input'])}", f"it should match pattern {pattern!r} ({described})")
    if kind in _REMEDIES:
        return source.bad(at, f"given {shown(fault['input'])}", _REMEDIES[kind])
    problem = fault["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return source.bad(
        at, f"given {shown(fault['input'])}", f"it {problem}" if problem.startswith("should") else problem
    )


def _described(model: type[BaseModel], at: Sequence[Key]) -> str | None:
    """The model's description of a field."""
    table = _model_at(model, at[:-1])
    field = _fields_of(table).get(str(at[-1])) if table else None
    return field.description if field else None


def _existing(at: Sequence[Key], given: Any) -> tuple[Key, ...]:
    """The part of a pydantic location that is in the file: unions append the name of a branch."""
    existing: list[Key] = []
    for part in at:
        in_table = isinstance(given, Mapping) and part in given
        in_list = isinstance(given, list) and isinstance(part, int) and part < len(given)
        if not (in_table or in_list):
            break
        given = given[part]
        existing.append(part)
    return tuple(existing)


def _model_at(model: type[BaseModel], at: Sequence[Key]) -> type[BaseModel] | None:
    """The model of the table at a location, through optional and repeated tables."""
    for part in at:
        if isinstance(part, int):
            continue
        field = _fields_of(model).get(part)
        inner = _inner_model(field.annotation) if field else None
        if inner is None:
            return None
        model = inner
    return model


def _fields_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """A model's fields by the names that the file gives them."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _inner_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_inner_model, get_args(annotation))), None)


def _lines_of(text: str) -> dict[tuple[Key, ...], int]:
    """The line of each table and key, which ``tomllib`` does not report; texts over several lines are skipped."""
    lines: dict[tuple[Key, ...], int] = {}
    table: tuple[Key, ...] = ()
    repeated: dict[tuple[Key, ...], int] = {}
    inside: str | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if inside:
            inside = None if inside in line else inside
            continue
        if header := _HEADER.match(line):
            table = _within(_keys(header[2]), repeated)
            if header[1] == "[[":
                lines.setdefault(table, number)
                repeated[table] = repeated.get(table, -1) + 1
                table = (*table, repeated[table])
            lines.setdefault(table, number)
        elif assignment := _ASSIGNMENT.match(line):
            at = (*table, *_keys(assignment[1]))
            for length in range(len(table) + 1, len(at) + 1):
                lines.setdefault(at[:length], number)
            inside = next((mark for mark in ('"""', "'''") if line.count(mark) % 2), None)
    return lines


def _within(keys: tuple[str, ...], repeated: Mapping[tuple[Key, ...], int]) -> tuple[Key, ...]:
    """The location of a table: `[request.answer]` belongs to the latest `[[request]]`."""
    location: tuple[Key, ...] = ()
    for key in keys[:-1]:
        location = (*location, key)
        if location in repeated:
            location = (*location, repeated[location])
    return (*location, *keys[-1:])


def _keys(dotted: str) -> tuple[str, ...]:
    return tuple(key.strip("\"'") for key in re.findall(_ONE_KEY, dotted))


def shown(value: Any) -> str:
    """A given value for a message: roughly as TOML writes it, cut at 60 characters."""
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def nearest(word: str, valid: Iterable[str], otherwise: str) -> str:
    """``did you mean …?`` with the closest valid words, and the list of all after ``otherwise``."""
    known = sorted(valid)
    close = difflib.get_close_matches(word, known, n=2, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(close)}? ({otherwise} {', '.join(known)})"
    return f"{otherwise} {', '.join(known)}" if known else "there are none"


def placeholders(text: str) -> list[str]:
    """Names in braces within a text; ``{{`` and ``}}`` mean braces themselves.

    Raises:
        ValueError: a single brace, or more than a plain name in braces.
    """
    names = []
    for _, name, form, conversion in string.Formatter().parse(text):
        if name is None:
            continue
        if form or conversion or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError(f"{{{name}}} is not a plain name in braces")
        names.append(name)
    return names


def fill(text: str, values: Mapping[str, object]) -> str:
    """Replaces ``{names}`` by values; every name must be among the values."""
    return text.format_map(values)


def check_placeholders(source: Source, at: Sequence[Key], text: str, valid: Iterable[str]) -> None:
    """Refuses a text with an unknown name in braces.

    Raises:
        BadDefinition: with the line of ``at`` and the valid names.
    """
    try:
        unknown = [name for name in placeholders(text) if name not in set(valid)]
    except ValueError as error:
        raise source.bad(at, f"given {shown(text)}: {error}", "write {{ and }} for braces themselves") from error
    if unknown:
        problem = f"given {shown(text)}: unknown placeholder {{{unknown[0]}}}"
        raise source.bad(at, problem, nearest(unknown[0], valid, "valid:"))
