"""What the local page shows, read from the store: plain values, no HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from dragstrip.analysis import Interval, judge
from dragstrip.errors import DragstripError
from dragstrip.record import Entrant, Race
from dragstrip.report.race import badge, columns, summary
from dragstrip.report.race.badge import Badge
from dragstrip.report.race.headline import headline
from dragstrip.report.race.summary import of_rates, parts
from dragstrip.store.database import RunLine, Store

#: Maximum races in a contender's history: each one is judged again, once per process.
MOST_POINTS = 60


@dataclass(frozen=True, slots=True)
class Point:
    """One contender in one race.

    Args:
        changes: what is not as it was in the race before: a version, the definition, the machine, the load.
    """

    race: str
    started: str
    workload: str
    interval: Interval
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Told:
    """What a point needs of a race; kept, the race is not."""

    race: str
    started: str
    workload: str
    interval: Interval | None
    version: str
    definition: str
    machine: tuple[str, ...]
    load: str


def listed(path: Path, words: str) -> list[RunLine]:
    """Races, newest first; those in which every word is found (id, time, workload, contenders, how it ended)."""
    with Store(path, write=False) as store:
        lines = store.runs()
    wanted = words.lower().split()
    return [line for line in lines if all(word in _text(line) for word in wanted)]


def verdicts(path: Path) -> dict[str, str]:
    """The badge that each race left, by its id; none of an old race, or of one that has not ended."""
    with Store(path) as store:
        return badge.kept(store)


def _text(line: RunLine) -> str:
    ended = line.finished or "running cut off"
    return " ".join((line.race, line.started, line.workload, *line.contenders, ended)).lower()


def state(path: Path, race_id: str) -> tuple[int, str]:
    """How far a race is: rounds, and how it ended; cheap enough to be asked every second.

    Raises:
        StoreError: the race does not exist.
    """
    with Store(path, write=False) as store:
        race_id = store.resolve(race_id)
        line = next(line for line in store.runs() if line.race == race_id)
    return line.rounds, line.finished


def history(path: Path, name: str, workload: str) -> list[Point]:
    """A contender's throughput over its latest races at a workload, oldest first, changes marked.

    A race of several workloads has a point for each. A race at several rates has none: an offered rate is not a
    contender's own throughput.
    """
    lines = [line for line in listed(path, "") if name in line.contenders]
    lines = [line for line in lines if workload in ("", *line.workload.split(","))]
    told = [_of_race(str(path), line.race, line.rounds, line.finished, name) for line in lines[:MOST_POINTS]]
    points: list[Point] = []
    before: dict[str, _Told] = {}
    for one in (one for each in reversed(told) for one in each):
        if one.interval is None or workload not in ("", one.workload):
            continue
        changes = _changes(before[one.workload], one) if one.workload in before else ()
        points.append(Point(one.race, one.started, one.workload, one.interval, changes))
        before[one.workload] = one
    return points


@lru_cache(maxsize=4096)
def _of_race(path: str, race_id: str, _rounds: int, _finished: str, name: str) -> tuple[_Told, ...]:
    """What each workload's column has of it; keyed by how far the race was: a race that goes on is read again."""
    try:
        with Store(Path(path), write=False) as store:
            race = store.load(race_id)
        judged = judge(race)
    except DragstripError:
        return ()
    found = []
    for part in parts(race, judged, ()) if not of_rates(race) else ():
        estimate = part.verdict.estimates.get(name)
        entrant = next((entrant for entrant in part.race.entrants if entrant.name == name), None)
        if entrant is not None:
            interval = estimate.throughput_per_s if estimate and not entrant.out else None
            found.append(_told(part.race, entrant, interval))
    return tuple(found)


def _told(race: Race, entrant: Entrant, interval: Interval | None) -> _Told:
    machine = tuple(map(str, (race.machine.cpu, race.machine.cores_usable, race.machine.kernel)))
    load = (
        f"{race.load.connections} connections, {race.load.threads} threads, "
        f"{'kept alive' if race.load.keepalive else 'one per request'}, HTTP/{race.load.http}, "
        f"{len(race.server_cores)} server cores"
    )
    started = (race.id, race.started, race.workload, interval)
    return _Told(*started, entrant.version, entrant.definition_hash, machine, load)


def _changes(old: _Told, new: _Told) -> tuple[str, ...]:
    found = []
    if old.version != new.version:
        found.append(f"version {old.version or 'unknown'} → {new.version or 'unknown'}")
    if old.definition != new.definition:
        found.append("definition changed")
    if old.machine != new.machine:
        found.append(
            f"machine: {', '.join(now for was, now in zip(old.machine, new.machine, strict=True) if was != now)}"
        )
    if old.load != new.load:
        found.append(f"load: {new.load}")
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standings:
    """A race as it stands.

    Args:
        rows: contenders with numbers; none of a race of several columns, which has ``table``.
    """

    race: Race
    rows: Sequence[summary.Row]
    sentence: str
    badge: Badge
    table: columns.Table | None = None


def standings(path: Path, race_id: str) -> Standings:
    """A race as it stands: its records, contenders with numbers, the sentence, and the badge.

    Raises:
        StoreError: the race does not exist.
    """
    with Store(path, write=False) as store:
        race = store.load(race_id)
    judged = judge(race)
    found = parts(race, judged, ())
    return Standings(
        race=race,
        rows=[row for part in found for row in part.rows],
        sentence=headline(race, judged, ()),
        badge=badge.race_badge(race, judged, ()),
        table=columns.table(race, found) if len(found) > 1 else None,
    )
