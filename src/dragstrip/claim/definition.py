"""Published claims, as in ``claims/*.toml``: the statement, its source, its load and its figures.

A claim is data; what became of it here is worked out from stored races by ``assess``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dragstrip import paths
from dragstrip.contender import Source, Strict, nearest, parse_entry, read
from dragstrip.errors import BadUsage
from dragstrip.paths import is_file
from dragstrip.record import DEFAULT_CONNECTIONS

SHIPPED = Path(__file__).parents[1] / "data" / "claims"

#: Words for contenders, as on the command line.
Names = Annotated[tuple[str, ...], Field(strict=False)]
Rates = Annotated[tuple[float, ...], Field(strict=False)]

#: The two settings that every claim is put to: as published, and Dragstrip's own.
PUBLISHED, FAIR = "published", "fair"

#: Kinds that are judged by a race alone; "ends" needs a run to an exact count as well.
_PAIRED = ("ratio", "direction")


class LoadFields(Strict):
    """How the publisher loaded the servers, so far as it can be had again."""

    tool: str = Field(default="", description='what made the load, like "ab"')
    http: Literal["1.0", "1.1"] = "1.1"
    keepalive: bool = True
    connections: int = Field(default=32, ge=1, le=60_000)
    requests: int | None = Field(default=None, ge=1, description="number of requests in the run")
    duration_s: float | None = Field(default=None, gt=0, description="duration of the run, in seconds")
    workers: str = Field(default="", description='how many of each server, like "1" or "one per core"')

    def text(self) -> str:
        """In words, for a row's second line."""
        bound = f", {self.requests:,} requests" if self.requests else ""
        bound += f", {self.duration_s:g} s" if self.duration_s else ""
        keep = "keep-alive" if self.keepalive else "a connection per request"
        tool = f"{self.tool}: " if self.tool else ""
        workers = f", workers: {self.workers}" if self.workers else ""
        return f"{tool}HTTP/{self.http}, {keep}, {self.connections} connections{bound}{workers}"


#: Dragstrip's own fair settings; ``dragstrip race``'s defaults.
FAIR_LOAD = LoadFields(connections=DEFAULT_CONNECTIONS)


class PublishedFields(Strict):
    """The published figures: a rate for each contender, or only the first one's ratio to the second."""

    per_s: Rates = Field(default=(), description="responses per second, one for each contender")
    ratio: float | None = Field(default=None, gt=0, description="the first contender's speed over the second's")


class FairFields(Strict):
    """Who races under the fair settings, where the published ones carry settings of their own."""

    contenders: Names = ()


class ClaimFile(Strict):
    """One claim's TOML file.

    ``kind`` is one of these:

    - "ratio": the first contender serves this multiple of the second's requests.
    - "direction": it serves more; no figure is given.
    - "same": it makes no difference which.
    - "peak": the first serves about this many, whatever the machine. The others race too: a race needs two.
    - "ends": a run of an exact count never ends.
    """

    statement: str = Field(min_length=1, description="what is claimed, in our own words, one sentence")
    source: str = Field(min_length=1, description="the write-up")
    year: int = Field(ge=1990, le=2100)
    kind: Literal["ratio", "direction", "same", "peak", "ends"] = "ratio"
    contenders: Names = Field(min_length=2, description='as on the command line, like ["one:workers=1", "two"]')
    workload: str = Field(default="hello", description="its name, or a TOML file next to this one")
    tolerance: float = Field(default=0.10, gt=0, lt=1, description="a size within this share of the published holds")
    note: str = ""
    load: LoadFields = LoadFields()
    published: PublishedFields = PublishedFields()
    fair: FairFields = FairFields()
    stand_ins: dict[str, str] = Field(default_factory=dict, description="contenders that race instead of missing ones")
    serve: dict[str, str] = Field(default_factory=dict, description='own servers: mine = "./server --port {port}"')
    folder: str = Field(default="", description="where own servers start; this file's folder if not given")

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        count = len(self.contenders)
        if count != 2 and self.kind in _PAIRED:
            raise ValueError(f"a claim of kind {self.kind!r} is about 2 contenders, {count} given")
        if self.fair.contenders and len(self.fair.contenders) != count:
            raise ValueError(f"fair.contenders must be as many as contenders, {count}")
        rates = self.published.per_s
        wanted = 1 if self.kind == "peak" else count
        if rates and (len(rates) != wanted or min(rates) <= 0):
            raise ValueError(f"published.per_s needs {wanted} {'rate' if wanted == 1 else 'rates'} above 0")
        if self.kind == "ratio" and self.ratio is None:
            raise ValueError("a ratio needs published.per_s = [first, second] or published.ratio")
        if self.kind == "peak" and not rates:
            raise ValueError("a peak needs published.per_s = [rate]")
        if self.kind == "ends" and not self.load.requests:
            raise ValueError("a claim about a run that never ends needs load.requests")
        return self

    @property
    def ratio(self) -> float | None:
        """The published ratio of the first contender's speed to the second's; None where no figure was given."""
        if self.published.ratio is not None:
            return self.published.ratio
        rates = self.published.per_s
        return rates[0] / rates[1] if self.kind in _PAIRED and rates else None


@dataclass(frozen=True)
class Claim:
    """A claim with the name of its file, and where that lies."""

    id: str
    fields: ClaimFile
    source: Source

    def contenders(self, setting: str) -> tuple[str, ...]:
        """Who races in a setting, in the claim's order; stand-ins not yet called."""
        own = self.fields.fair.contenders if setting == FAIR else ()
        return own or self.fields.contenders

    @property
    def everybody(self) -> tuple[str, ...]:
        """All that may race for it, stand-ins too, but for servers of its own."""
        words = (*self.fields.contenders, *self.fields.fair.contenders, *self.fields.stand_ins.values())
        return tuple(word for word in words if word not in self.fields.serve)

    def load(self, setting: str) -> LoadFields:
        """The load of a setting."""
        return FAIR_LOAD if setting == FAIR else self.fields.load

    @property
    def folder(self) -> Path:
        """Where the claim's own servers start."""
        return self.source.file.parent / self.fields.folder

    @property
    def shipped(self) -> bool:
        """Whether Dragstrip brought it along."""
        return self.source.file.parent == SHIPPED

    def stand_in(self, word: str) -> str | None:
        """The contender that races for a missing one, with the same settings; None without a substitute."""
        name, colon, rest = word.partition(":")
        other = self.fields.stand_ins.get(name)
        return f"{other}{colon}{rest}" if other else None


def load(word: str | Path, folders: Sequence[Path] = ()) -> Claim:
    """A shipped claim by its name, one in some more folders, or one from the path of a TOML file.

    Raises:
        BadUsage: there is none of that name. BadDefinition: file, line, field, what would do.
    """
    known = {file.stem: file for folder in (*folders, SHIPPED) for file in folder.glob("*.toml")}
    file = Path(word) if str(word).endswith(".toml") else known.get(str(word), Path())
    if not is_file(file):
        raise BadUsage(f"unknown claim {str(word)!r}; {nearest(str(word), known, 'known:')}, or give a TOML file")
    return _loaded(file.absolute(), file.stat().st_mtime_ns)


def every(folders: Sequence[Path] = ()) -> tuple[Claim, ...]:
    """All shipped claims, then those in some more folders, each by name."""
    return tuple(load(file) for folder in (SHIPPED, *folders) for file in sorted(folder.glob("*.toml")))


def write(file: Path, fields: ClaimFile) -> Claim:
    """Writes a claim's file, and reads it back as any other.

    Raises:
        BadUsage: its name is none, it is there already, or it can't be written.
    """
    _refuse_name(file)
    values = fields.model_dump(exclude_defaults=True)
    tables = {key: value for key, value in values.items() if isinstance(value, dict)}
    lines = [f"{key} = {_toml(value)}" for key, value in values.items() if key not in tables]
    for name, table in tables.items():
        lines += ["", f"[{name}]"]
        for key, value in table.items():
            plain = re.fullmatch(r"[A-Za-z0-9_-]+", key)
            lines.append(f"{key if plain else _toml(key)} = {_toml(value)}")
    with paths.failing(f"{file}: can't be written", "--to names another folder", file):
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() or file.is_symlink():
            raise BadUsage(f"{file} already exists; give another name, or remove it first")
    paths.write(file, "\n".join(lines) + "\n", new=True)
    return load(file)


def _toml(value: object) -> str:
    """A value as TOML has it; JSON's texts, numbers and lists are TOML's too."""
    return json.dumps(value, ensure_ascii=False)


@cache
def _loaded(file: Path, _changed_ns: int) -> Claim:
    _refuse_name(file)
    fields, source = read(file, ClaimFile)
    for word in (*fields.contenders, *fields.fair.contenders):
        parse_entry(word)
    return Claim(file.stem, fields, source)


def _refuse_name(file: Path) -> None:
    if not re.fullmatch(r"[a-z0-9][a-z0-9.+-]{0,59}", file.stem):
        raise BadUsage(f"{file}: a claim is named as its file; use only small letters, digits, . + -")
