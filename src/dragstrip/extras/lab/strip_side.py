"""A strip's own part: what it has, one slice of one cell, and the record in its outbox.

It works on without the client that started it. An attempt holds its cell's lock while it lives, and the machine's
cores while it races. So an attempt that lost its client never meets the next race, and its record is there.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import re
import shutil
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from dragstrip import __version__, contender, validity
from dragstrip.contender import Entry, Missing
from dragstrip.contender.content import content_key
from dragstrip.errors import BadUsage, DiskFull, DragstripError
from dragstrip.extras.fleet.definition import load as load_fleet
from dragstrip.extras.fleet.fleet_site import FleetSite
from dragstrip.extras.fleet.machines import Machines
from dragstrip.extras.lab.task import (
    Contestant,
    Inquiry,
    State,
    Taken,
    Task,
    TaskEnding,
    TaskOutcome,
    TaskReply,
    lock_file,
    outcome_file,
    record_file,
    to_json,
)
from dragstrip.paths import NO_SPACE, own_folder, write_durably
from dragstrip.process import machine_lock
from dragstrip.racing import resume as resuming
from dragstrip.racing import run as racing
from dragstrip.racing.progress import Silent
from dragstrip.racing.request import Request, request_of
from dragstrip.racing.setup import LOCAL, Site
from dragstrip.record import Ending, EventKind, Purpose, Race
from dragstrip.store.database import Store
from dragstrip.workload import Workload
from dragstrip.workload import load as load_workload

#: Exit codes of refusals that say that a cell can't run here.
_USAGE = 2

#: Bytes of a record and its outcome. A league of 60 contenders over 80 rounds has a quarter.
MOST_BYTES = 512 * 2**20
#: Bytes that a strip's disk must have free for a race and its record.
LEAST_FREE = 16 * 2**20

#: The name of a cell; it is part of file names.
CELL = r"[0-9a-f]{16}"


def reply_to(inquiry: Inquiry) -> TaskReply:
    """What this strip has of an inquiry's contenders and workloads.

    Raises:
        BadUsage, BadDefinition: a workload is unknown or refused. MachineLost: a machine of the fleet is away.
    """
    workloads = [load_workload(word) for word in inquiry.workloads]
    with _site(inquiry.fleet) as site:
        states = tuple(
            _state(contestant, dict(zip(inquiry.workloads, workloads, strict=True)), site)
            for contestant in inquiry.contestants
        )
        facts = site.facts()
    alike = {
        "processor": facts.cpu,
        "cores": facts.cores_usable,
        "kernel": facts.kernel,
        "governor": facts.governor,
        "machines": str(len(facts.fleet or {})),
    }
    return TaskReply(
        contestants=states,
        workloads=tuple(f"{workload.name}\0{workload.source.text}" for workload in workloads),
        machine={name: value or "unknown" for name, value in alike.items()},
        version=__version__,
    )


def _state(contestant: Contestant, workloads: Mapping[str, Workload], site: Site) -> State:
    """A contender here; workloads by the words of the inquiry."""
    try:
        entry = entry_of(contestant)
        found = site.check(entry)
        if isinstance(found, Missing):
            return State(why=f"{found.reason}; {found.remedy}")
        unable = tuple(word for word, workload in workloads.items() if not entry.serves(workload.served_as))
        return State(key=content_key(entry, found), unable=unable)
    except (DragstripError, OSError) as error:
        return State(why=str(error))


def entry_of(contestant: Contestant) -> Entry:
    """A contender of a cell as an entrant.

    Raises:
        BadUsage, BadDefinition: it is unknown or refused.
    """
    if contestant.folder:
        return contender.serve_entry(contestant.word, Path(contestant.folder), wake_s=contestant.wake_s)
    return contender.entry(contestant.word)


@contextmanager
def _site(fleet: str) -> Iterator[Site]:
    if not fleet:
        yield LOCAL
        return
    with Machines(load_fleet(Path(fleet))) as machines:
        yield FleetSite(machines)


def race_slice(task: Task, work: Path) -> TaskOutcome:
    """Races a slice of a cell, and leaves its record and its outcome in the outbox; twice is the same as once.

    Args:
        work: the strip's folder of this lab.

    Raises:
        BadUsage: the folder can't be written. DiskFull: not even the outcome can be written.
    """
    for folder in (work, work / "cells", work / "outbox"):
        own_folder(folder, "give another folder")
    clear(work, task.taken, task.cell)
    with locked(lock_file(work, task.cell)):
        place = outcome_file(work, task.stem)
        if place.is_file():  # another process of the same attempt was faster
            return TaskOutcome(kind=TaskEnding.STORED)
        for number in range(1, task.attempt):  # the client has given them up; they may have ended since
            clear(work, [Taken(cell=task.cell, attempt=number, whole=False)])
        begun = time.monotonic()
        try:
            outcome = TaskOutcome(kind=TaskEnding.FULL, why=full) if (full := full_disk(work)) else _raced(task, work)
        except DiskFull as error:
            outcome = TaskOutcome(kind=TaskEnding.FULL, why=full_disk(work) or str(error))
        outcome = TaskOutcome(kind=outcome.kind, race=outcome.race, why=outcome.why, seconds=time.monotonic() - begun)
        write_durably(place, to_json(outcome).encode())
        return outcome


def _raced(task: Task, work: Path) -> TaskOutcome:
    with Store(work / "cells" / f"{task.cell}.sqlite") as store:
        try:
            _race(task, store)
        except DiskFull:
            raise
        except DragstripError as error:
            if error.exit_code != _USAGE and store.runs():
                return _sealed(task, store, work)  # what was measured before the machine was lost
            kind = TaskEnding.CANT_RUN if error.exit_code == _USAGE else TaskEnding.VOID
            return TaskOutcome(kind=kind, why=str(error))
        except Exception as error:
            if isinstance(error, OSError) and error.errno in NO_SPACE:
                raise DiskFull(f"{error.filename or 'a file'}: can't be written ({error.strerror})") from error
            return TaskOutcome(kind=TaskEnding.FAULT, why=traceback.format_exc(limit=-4)[-2000:])
        return _sealed(task, store, work)


def _race(task: Task, store: Store) -> None:
    """Begins the cell's race, or continues it, until it has the task's rounds."""
    entries = tuple(map(entry_of, task.contestants))
    workload = load_workload(task.workload)
    runs = store.runs()
    done = _rounds(store.load(runs[0].race)) if runs else 0
    if runs and not done:  # it was killed in its first round
        runs = []
    with _site(task.fleet) as site, _fleet_lock(task):
        if runs:
            race = store.load(runs[0].race)
            if race.finished.goes_on and done < task.rounds:
                named = [entry for entry in entries if entry.name in {entrant.name for entrant in race.entrants}]
                again = replace(
                    request_of(race, [workload], named),
                    site=site,
                    pause_after=task.rounds - done,
                    exclusive=not task.fleet,
                )
                resuming.resume(race.id, again, store=store, progress=Silent())
            return
        request = Request(
            entries=entries,
            workload=workload,
            connections=task.connections,
            rate_per_s="auto" if task.rate < 0 else task.rate or None,
            metric=task.metric,
            margin=task.margin,
            alpha=task.alpha,
            last_round=task.last_round,
            pause_after=task.rounds,
            exclusive=not task.fleet,
            server_cores=task.server_cores or None,
            engine_cores=task.engine_cores or None,
            purpose=Purpose(kind=EventKind.LAB, subject=task.cell, names=(str(task.attempt),)),
            site=site,
        )
        racing.run(request, store=store, progress=Silent())


def _fleet_lock(task: Task) -> AbstractContextManager[None]:
    """The lock of a fleet, on the machine that drives its races."""
    if not task.fleet:
        return nullcontext()
    machines = "-".join(machine.name for machine in load_fleet(Path(task.fleet)).machines)
    return machine_lock.held([f"fleet-{machines}"[:200]], Silent().phase)


def _rounds(race: Race) -> int:
    return sum(not round_.void for round_ in race.rounds)


def _sealed(task: Task, store: Store, work: Path) -> TaskOutcome:
    """Leaves the record in the outbox, under the attempt's name."""
    race = store.load(store.runs()[0].race)
    sealed = store.seal_into(race.id, work / "cells")
    write_durably(record_file(work, task.stem), sealed.read_bytes())
    sealed.unlink(missing_ok=True)
    void = race.finished is Ending.VOID or validity.is_void(validity.inspect(race))
    return TaskOutcome(kind=TaskEnding.VOID if void else TaskEnding.STORED, race=race.id)


@contextmanager
def locked(place: Path) -> Iterator[None]:
    """Holds a lock file while the block lasts; waits until it is free."""
    number = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def full_disk(work: Path) -> str:
    """What to do about the disk of a strip's folder; "" if it has room for a race."""
    place = next((folder for folder in (work, *work.parents) if folder.is_dir()), Path("/"))
    free = shutil.disk_usage(place).free
    if free >= LEAST_FREE:
        return ""
    return f"{work}: no disk space left ({free / 2**20:.1f} MiB free); make {LEAST_FREE >> 20} MiB free there"


def collected(work: Path, cell: str, attempt: int) -> tuple[bytes, bytes]:
    """What an attempt left: its outcome and its record; empty if it left none. Waits while the attempt lives.

    If it left none because the disk is full, the outcome says so.
    """
    stem, outcome, record = f"{cell}.{attempt}", b"", b""
    if (work / "cells").is_dir():
        try:
            with locked(lock_file(work, cell)):
                parts = (outcome_file(work, stem), record_file(work, stem))
                if (size := sum(place.stat().st_size for place in parts if place.is_file())) > MOST_BYTES:
                    why = f"its record has {size:,} bytes; a lab accepts up to {MOST_BYTES:,}"
                    return to_json(TaskOutcome(kind=TaskEnding.FAULT, why=why)).encode(), b""
                outcome, record = (place.read_bytes() if place.is_file() else b"" for place in parts)
        except OSError as error:
            if error.errno not in NO_SPACE:  # an attempt that lives has its lock already
                raise
    if not outcome and (full := full_disk(work)):
        return to_json(TaskOutcome(kind=TaskEnding.FULL, why=full)).encode(), b""
    return (outcome, record) if outcome else (b"", b"")


def clear(work: Path, taken: Sequence[Taken], racing: str = "") -> None:
    """Removes attempts from the outbox that the client has settled, and races that have ended.

    Args:
        racing: the cell that races next, whose race is kept.

    Raises:
        BadUsage: a cell's name would lead out of the folder.
    """
    for part in taken:
        if not re.fullmatch(CELL, part.cell):
            raise BadUsage(f"cell {part.cell!r}: use 16 hexadecimal digits")
        stem = f"{part.cell}.{part.attempt}"
        for place in (record_file(work, stem), outcome_file(work, stem)):
            place.unlink(missing_ok=True)
        if part.whole and part.cell != racing:
            for place in (work / "cells").glob(f"{part.cell}.sqlite*"):
                if place.is_file():
                    place.unlink(missing_ok=True)


def sent(parts: tuple[bytes, bytes]) -> str:
    """An outcome and its record for a pipe, as JSON."""
    return json.dumps([base64.b64encode(part).decode() for part in parts])


def received(text: bytes) -> tuple[bytes, bytes]:
    """The reverse of ``sent``; empty parts if it is not valid."""
    try:
        outcome, record = (base64.b64decode(part, validate=True) for part in json.loads(text))
    except (ValueError, TypeError, RecursionError):
        return b"", b""
    return outcome, record
