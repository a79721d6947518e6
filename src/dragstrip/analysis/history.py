"""The points of a history: in each race, a server's speed over the speed of an unchanged contender."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import TypeAlias

from dragstrip.analysis.columns import by_column
from dragstrip.analysis.interval import error_of_log
from dragstrip.analysis.judgement import ColumnVerdict, judge
from dragstrip.analysis.pairs import Pair
from dragstrip.record import COMMIT, Entrant, EventKind, Race
from dragstrip.requested import title_of

#: What tells whether a contender is the same in two races: its name, version, definition and commit.
ServerIdentity: TypeAlias = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What must be the same in two races for a change to be the server's.

    Args:
        machine: processor, architecture, cores and hypervisor, as far as they are known.
    """

    machine: tuple[str, ...]
    kernel: str
    method: int
    connections: int
    keepalive: bool
    http: str
    server_cores: int

    def changed_from(self, before: Environment) -> tuple[str, ...]:
        """The names of the fields that differ."""
        return tuple(field.name for field in fields(self) if getattr(self, field.name) != getattr(before, field.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPoint:
    """One race.

    Args:
        race, started: its id, and when it began (ISO 8601, UTC).
        ratio, low, high: the server's speed over the reference's, and the interval.
        version, commit: of the server; "" if they are not known.
    """

    race: str
    started: str
    ratio: float
    low: float
    high: float
    version: str
    commit: str
    environment: Environment

    @property
    def log(self) -> float:
        """The natural logarithm of the ratio."""
        return math.log(self.ratio)

    @property
    def spread(self) -> float:
        """The standard deviation of that logarithm, by the interval."""
        return error_of_log(self.low, self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A server at a workload, relative to one reference, oldest race first.

    Args:
        subject: the server's name, or the repository's of which it is a revision.
        reference: the contender that is the same in all races. metric: what the ratio compares.
        requested: what the latest race requests, in a line.
    """

    subject: str
    reference: str
    workload: str
    metric: str
    points: tuple[HistoryPoint, ...]
    requested: str


def collect(races: Iterable[Race], *, subject: str = "", reference: str = "", workload: str = "") -> list[Series]:
    """Series of stored races, the longest first; each needs two races at least.

    Without ``reference``, a server is shown relative to the reference that it met most often.

    Args:
        races: in any order.
        subject, reference, workload: only these, if given.
    """
    titles: dict[str, str] = {}
    found: dict[tuple[str, str, ServerIdentity, str, str], list[HistoryPoint]] = defaultdict(list)
    for race in sorted(races, key=lambda race: race.started):
        for column, part in zip(by_column(race), judge(race).columns, strict=True):
            if workload not in ("", column.workload):
                continue
            titles[column.workload] = title_of(column.workload, column.columns[0].definition)
            for (name, command), identity, point in _points(race, column, part):
                if subject in ("", name) and reference in ("", identity[0]):
                    found[name, command, identity, column.workload, part.metric].append(point)
    listed = [
        Series(
            subject=name,
            reference=identity[0],
            workload=at,
            metric=metric,
            points=tuple(points),
            requested=titles[at],
        )
        for (name, _, identity, at, metric), points in found.items()
        if len(points) > 1
    ]
    listed.sort(key=lambda series: -len(series.points))
    if reference:
        return listed
    longest: dict[tuple[str, str, str], Series] = {}
    for series in listed:
        longest.setdefault((series.subject, series.workload, series.metric), series)
    return list(longest.values())


def own_command(entrant: Entrant) -> str:
    """What tells two servers of one name apart: a hash of the command or address, "" for a definition or a revision.

    A definition may change and stays the same server. "mine" of ``--serve`` may be anything the next time.
    """
    return "" if entrant.kind == "definition" or _commit(entrant) else entrant.definition_hash


def _points(
    race: Race, column: Race, part: ColumnVerdict
) -> Iterator[tuple[tuple[str, str], ServerIdentity, HistoryPoint]]:
    """Each pair of a race, from both sides: the server's name and own command, the reference, and the point."""
    entrants = {entrant.name: entrant for entrant in column.entrants}
    repository = next((event.subject for event in race.events if event.kind is EventKind.REVISIONS), "")
    for pair in part.pairs:
        if not pair.interval.bounded:
            continue
        for server, other, turned in ((pair.a, pair.b, False), (pair.b, pair.a, True)):
            commit = _commit(entrants[server])
            name = repository if commit and repository else server
            known = (name, own_command(entrants[server]))
            yield known, _identity(entrants[other]), _point(race, column, pair, entrants[server], turned=turned)


def _point(race: Race, column: Race, pair: Pair, server: Entrant, *, turned: bool) -> HistoryPoint:
    interval = pair.interval.inverted() if turned else pair.interval
    return HistoryPoint(
        race=race.id,
        started=race.started,
        ratio=interval.estimate,
        low=interval.low,
        high=interval.high,
        version=server.version,
        commit=_commit(server),
        environment=_environment(race, column),
    )


def _environment(race: Race, column: Race) -> Environment:
    load, machine = column.load, race.machine
    return Environment(
        machine=tuple(str(part) for part in machine.identity if part),
        kernel=machine.kernel or "unknown",
        method=race.method,
        connections=load.connections,
        keepalive=load.keepalive,
        http=load.http,
        server_cores=len(race.server_cores),
    )


def _commit(entrant: Entrant) -> str:
    return str(entrant.parameters.get(COMMIT, ""))


def _identity(entrant: Entrant) -> ServerIdentity:
    commit = _commit(entrant)
    # Of a revision the folder of its build is part of the hash, and the name may be typed in several ways.
    if commit:
        return f"commit {commit[:7]}", "", "", commit
    return entrant.name, entrant.version, entrant.definition_hash, ""
