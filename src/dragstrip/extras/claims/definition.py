"""Published claims, as in ``claims/*.toml``: the statement, its source, its load and its figures.

A claim is data; ``assess`` derives its findings from stored races.
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

SHIPPED = Path(__file__).parent / "data"

#: Words for contenders, as on the command line.
Names = Annotated[tuple[str, ...], Field(strict=False)]
Rates = Annotated[tuple[float, ...], Field(strict=False)]

#: The two settings in which every claim is raced: as published, and Dragstrip's own.
PUBLISHED, FAIR = "published", "fair"

#: Kinds that are judged by a race alone; "ends" needs a run to an exact count as well.
_PAIRED = ("ratio", "direction")


class ClaimLoad(Strict):
    """How the publisher loaded the servers, as far as Dragstrip can repeat it."""

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
FAIR_LOAD = ClaimLoad(connections=DEFAULT_CONNECTIONS)


class PublishedFields(Strict):
    """The published figures: a rate for each contender, or only the first one's ratio to the second."""

    per_s: Rates = Field(default=(), description="responses per second, one for each contender")
    ratio: float | None = Field(default=None, gt=0, description="the first contender's speed over the second's")


class FairFields(Strict):
    """Contenders under the fair settings, if the published contenders have special parameters."""

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
    load: ClaimLoad = ClaimLoad()
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
        """The published ratio of the first contender's speed to the second's; None if no figure was published."""
        if self.published.ratio is not None:
            return self.published.ratio
        rates = self.published.per_s
        return rates[0] / rates[1] if self.kind in _PAIRED and rates else None


@dataclass(frozen=True)
class Claim:
    """A claim with its file's name and path."""

    id: str
    fields: ClaimFile
    source: Source

    def contenders(self, setting: str) -> tuple[str, ...]:
        """The contenders of a setting, in the claim's order, without stand-ins."""
        fair = self.fields.fair.contenders if setting == FAIR else ()
        return fair or self.fields.contenders

    @property
    def everybody(self) -> tuple[str, ...]:
        """All contenders that may race for the claim, also stand-ins, but not the claim's own servers."""
        words = (*self.fields.contenders, *self.fields.fair.contenders, *self.fields.stand_ins.values())
        return tuple(word for word in words if word not in self.fields.serve)

    def load(self, setting: str) -> ClaimLoad:
        """The load of a setting."""
        return FAIR_LOAD if setting == FAIR else self.fields.load

    @property
    def folder(self) -> Path:
        """Where the claim's own servers start."""
        return self.source.file.parent / self.fields.folder

    @property
    def shipped(self) -> bool:
        """Whether Dragstrip ships it."""
        return self.source.file.parent == SHIPPED

    def stand_in(self, word: str) -> str | None:
        """The contender that races for a missing one, with the same parameters; None without a substitute."""
        name, colon, rest = word.partition(":")
        other = self.fields.stand_ins.get(name)
        return f"{other}{colon}{rest}" if other else None


def load(word: str | Path, folders: Sequence[Path] = ()) -> Claim:
    """A claim by its name, from the given folders or the shipped ones, or by the path of its TOML file.

    Raises:
        BadUsage: unknown claim. BadDefinition: the file is invalid.
    """
    known = {file.stem: file for folder in (*folders, SHIPPED) for file in folder.glob("*.toml")}
    file = Path(word) if str(word).endswith(".toml") else known.get(str(word), Path())
    if not is_file(file):
        raise BadUsage(f"unknown claim {str(word)!r}; {nearest(str(word), known, 'known:')}, or give a TOML file")
    return _loaded(file.absolute(), file.stat().st_mtime_ns)


class ClaimReading(Strict):
    """What a write-up said, what its method did to its numbers, and where the page fills in what races show."""

    source: str = Field(description='heading of its claims, like "Server speed benchmarks (2011)"')
    text: str = Field(description="a paragraph with {CLAIM.published}, {CLAIM.load}, {CLAIM.fair}, {CLAIM.verdict}")


def readings() -> dict[str, str]:
    """The text of each shipped reading, by the heading of its write-up."""
    files = sorted((SHIPPED / "readings").glob("*.toml"))
    return {reading.source: reading.text.strip() for reading, _ in (read(file, ClaimReading) for file in files)}


def every(folders: Sequence[Path] = ()) -> tuple[Claim, ...]:
    """All shipped claims, then the claims in the given folders, sorted by name."""
    return tuple(load(file) for folder in (SHIPPED, *folders) for file in sorted(folder.glob("*.toml")))


def write(file: Path, fields: ClaimFile) -> Claim:
    """Writes a claim's file, and reads it back as any other.

    Raises:
        BadUsage: the name is not valid, the file exists already, or it can't be written.
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
    """A value in TOML; JSON's strings, numbers and lists are also valid TOML."""
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
