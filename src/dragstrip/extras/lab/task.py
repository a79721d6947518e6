"""What a strip is given and what it replies: plain values, as JSON between client and strip."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from dragstrip.errors import BadUsage
from dragstrip.store.json_values import decode, encode

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One contender of a cell.

    Args:
        word: as ``race`` accepts it, or ``name=command`` with a folder.
        folder: in which the command is started; "": the word names a contender.
        wake_s: of a command; None: the default.
    """

    word: str
    folder: str = ""
    wake_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """An attempt that the client has settled; whole: its cell's race has ended, too."""

    cell: str
    attempt: int
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One slice of a cell: the cell's race as it is on the strip, until it has this many rounds.

    Args:
        cell: its name. attempt: the number of the attempt, from 1. rounds: in all, earlier slices among them.
        workload: a name, or a file on the strip. connections, rate, metric, margin, alpha: as ``racing.Request`` has
            them; rate 0: a closed loop, below 0: half of what the slowest serves.
        last_round: the planned last round.
        fleet: the path of a fleet.toml; "": the strip itself races.
        taken: earlier attempts on this strip, whose files it may remove.
    """

    cell: str
    attempt: int
    contestants: tuple[Contestant, ...]
    workload: str
    rounds: int
    last_round: int
    connections: int | None = None
    rate: float = 0.0
    metric: str = "auto"
    margin: float = 0.01
    alpha: float = 0.05
    server_cores: str = ""
    engine_cores: str = ""
    fleet: str = ""
    taken: tuple[Taken, ...] = ()

    @property
    def stem(self) -> str:
        """The name of its files in an outbox, without a suffix."""
        return f"{self.cell}.{self.attempt}"


class TaskEnding(StrEnum):
    """How an attempt ended."""

    #: It left a record, with a verdict or without one.
    STORED = "stored"
    #: It left a record in which nothing is valid.
    VOID = "void"
    CANT_RUN = "can't run"
    #: A fault of Dragstrip's own.
    FAULT = "fault"
    #: It left nothing: it was killed, or its machine was lost.
    LOST = "lost"
    #: Its strip's disk is full.
    FULL = "disk full"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome:
    """What an attempt left in its strip's outbox.

    Args:
        race: the record's id; "" without one. why: the reason without a record. seconds: that it took.
    """

    kind: TaskEnding
    race: str = ""
    why: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """What a strip is sent before a lab begins.

    Args:
        contestants: each once. workloads: names, or files on the strip. fleet: as in ``Task``.
    """

    contestants: tuple[Contestant, ...]
    workloads: tuple[str, ...]
    fleet: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A contender on a strip.

    Args:
        key: its content key; "" if it can't run. why: the reason.
        unable: the workloads that it does not support.
    """

    key: str = ""
    why: str = ""
    unable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReply:
    """What a strip has: the state of each contender and the key of each workload, in the inquiry's order.

    Args:
        machine: facts that must be equal within a class, by name. version: of Dragstrip there.
    """

    contestants: tuple[State, ...]
    workloads: tuple[str, ...]
    machine: Mapping[str, str] = field(default_factory=dict)
    version: str = ""


def to_json(part: object) -> str:
    """A value of this module as one line."""
    return json.dumps(encode(part))


def from_json(kind: type[Part], text: str | bytes, what: str) -> Part:
    """A value of this module.

    Raises:
        BadUsage: it is not one; ``what`` names it.
    """
    try:
        return decode(kind, json.loads(text))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BadUsage(f"{what}: not valid ({error!s:.200})") from error


def outcome_file(work: Path, stem: str) -> Path:
    """Where an attempt leaves its outcome; the record is next to it, and was written before."""
    return work / "outbox" / f"{stem}.json"


def record_file(work: Path, stem: str) -> Path:
    """Where an attempt leaves its record."""
    return work / "outbox" / f"{stem}.race"


def lock_file(work: Path, cell: str) -> Path:
    """The lock that an attempt holds while it lives."""
    return work / "cells" / f"{cell}.lock"
