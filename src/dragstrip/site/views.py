"""What the local page shows, read from the store: plain values, no HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from dragstrip.analysis import Interval, judge
from dragstrip.analysis.history import Series, collect, own_command
from dragstrip.errors import DragstripError
from dragstrip.record import Entrant, Race
from dragstrip.report.race import badge, columns, summary
from dragstrip.report.race.badge import Badge
from dragstrip.report.race.headline import headline
from dragstrip.report.race.summary import JudgedRace, of_rates
from dragstrip.requested import title_of
from dragstrip.store.database import RunLine, Store

#: Maximum races in a contender's history: each one is judged again, once per process.
MAX_POINTS = 60


@dataclass(frozen=True, slots=True)
class RatePoint:
    """One contender in one race.

    Args:
        changes: differences from the previous race: a version, the definition, the machine, the load.
    """

    race: str
    started: str
    workload: str
    requested: str
    interval: Interval
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _ListedEntry:
    """One contender in one race of one workload; ``race``: without its rounds."""

    race: Race
    entrant: Entrant
    interval: Interval | None


def listed(path: Path, words: str) -> list[RunLine]:
    """Races with every word in their id, time, workload, contenders or ending; newest first."""
    with Store(path, write=False) as store:
        lines = store.runs()
    wanted = words.lower().split()
    return [line for line in lines if all(word in _text(line) for word in wanted)]


def verdicts(path: Path) -> dict[str, str]:
    """Stored badges by the race's id; an old race, or a race that has not ended, has none."""
    with Store(path) as store:
        return badge.kept(store)


def _text(line: RunLine) -> str:
    ended = line.finished or "running cut off"
    return " ".join((line.race, line.started, line.workload, requested(line), *line.contenders, ended)).lower()


def requested(line: RunLine) -> str:
    """What a race requests."""
    return ", ".join(title_of(*one) for one in line.definitions.items())


def state(path: Path, race_id: str) -> tuple[int, str]:
    """How far a race is: its rounds, and how it ended; cheap enough for every second.

    Raises:
        StoreError: the race does not exist.
    """
    with Store(path, write=False) as store:
        race_id = store.resolve(race_id)
        line = next(line for line in store.runs() if line.race == race_id)
    return line.rounds, line.finished


def history(path: Path, name: str, workload: str) -> list[RatePoint]:
    """A contender's throughput over its latest races at a workload, oldest first, changes marked.

    Of commands with this name (``--serve``) only the latest one's. A race of several workloads has a point for each. A
    race at several rates has none: an offered rate is not a contender's own throughput.
    """
    lines = [line for line in listed(path, "") if name in line.contenders]
    lines = [line for line in lines if workload in ("", *line.workload.split(","))]
    races = [_of_race(str(path), line.race, line.rounds, line.finished, name) for line in lines[:MAX_POINTS]]
    latest = next((own_command(entry.entrant) for race in races for entry in race), "")
    points: list[RatePoint] = []
    before: dict[str, _ListedEntry] = {}
    for entry in (entry for race in reversed(races) for entry in race):
        column = entry.race.workload
        if entry.interval is None or workload not in ("", column) or own_command(entry.entrant) != latest:
            continue
        changes = _changes(before[column], entry) if column in before else ()
        about = summary.title(entry.race)
        points.append(RatePoint(entry.race.id, entry.race.started, column, about, entry.interval, changes))
        before[column] = entry
    return points


def series(path: Path, name: str) -> list[Series]:
    """Histories relative to unchanged contenders, over the latest races; all of them without a name."""
    lines = listed(path, "")[:MAX_POINTS]
    races = [race for line in lines if (race := _race(str(path), line.race, line.rounds, line.finished)) is not None]
    return collect(races, subject=name)


@lru_cache(maxsize=128)
def _race(path: str, race_id: str, _rounds: int, _finished: str) -> Race | None:
    """A race; None if it can't be read. Keyed by how far the race was: a race that goes on is read again."""
    try:
        with Store(Path(path), write=False) as store:
            return store.load(race_id)
    except DragstripError:
        return None


@lru_cache(maxsize=4096)
def _of_race(path: str, race_id: str, _rounds: int, _finished: str, name: str) -> tuple[_ListedEntry, ...]:
    """The contender in each workload's column; the race's progress is a key, so a running race is read again."""
    try:
        with Store(Path(path), write=False) as store:
            race = store.load(race_id)
        judged = JudgedRace(race, judge(race))
    except DragstripError:
        return ()
    columns = []
    for part in judged.parts if not of_rates(race) else ():
        estimate = part.verdict.estimates.get(name)
        for entrant in part.race.entrants:
            if entrant.name == name:
                interval = estimate.throughput_per_s if estimate and not entrant.out else None
                columns.append(_ListedEntry(replace(part.race, rounds=()), entrant, interval))
    return tuple(columns)


def _load_text(race: Race) -> str:
    keep = "kept alive" if race.load.keepalive else "one per request"
    return (
        f"{race.load.connections} connections, {race.load.threads} threads, {keep}, HTTP/{race.load.http}, "
        f"{len(race.server_cores)} server cores"
    )


def _changes(old: _ListedEntry, new: _ListedEntry) -> tuple[str, ...]:
    changes = []
    if old.entrant.version != new.entrant.version:
        changes.append(f"version {old.entrant.version or 'unknown'} → {new.entrant.version or 'unknown'}")
    if old.entrant.definition_hash != new.entrant.definition_hash:
        changes.append("definition changed")
    machines = [(race.machine.cpu, race.machine.cores_usable, race.machine.kernel) for race in (old.race, new.race)]
    if differing := [str(now) for was, now in zip(*machines, strict=True) if was != now]:
        changes.append(f"machine: {', '.join(differing)}")
    if _load_text(old.race) != _load_text(new.race):
        changes.append(f"load: {_load_text(new.race)}")
    return tuple(changes)


@dataclass(frozen=True, kw_only=True)
class Standings:
    """A race so far.

    Args:
        rows: contenders with numbers. table: only if the race has several columns.
    """

    race: Race
    rows: Sequence[summary.Row]
    sentence: str
    badge: Badge
    table: columns.Table | None = None


def standings(path: Path, race_id: str) -> Standings:
    """A race so far: its records, contenders with numbers, the sentence, and the badge.

    Raises:
        StoreError: the race does not exist.
    """
    with Store(path, write=False) as store:
        race = store.load(race_id)
    judged = JudgedRace(race, judge(race))
    return Standings(
        race=race,
        rows=[row for part in judged.parts for row in part.rows],
        sentence=headline(judged),
        badge=badge.race_badge(judged),
        table=columns.table(judged) if len(judged.parts) > 1 else None,
    )
