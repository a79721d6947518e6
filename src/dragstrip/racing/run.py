"""One race from its request to its stored record; docs/ARCHITECTURE.md lists its steps and their files."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime

from dragstrip import __version__, analysis, machine
from dragstrip.machine_facts import Facts
from dragstrip.racing import qualification_store, schedule
from dragstrip.racing.columns import PreparedColumn, columns_of, prepare_columns
from dragstrip.racing.progress import Progress
from dragstrip.racing.qualification import set_up
from dragstrip.racing.qualification_store import QualificationStore
from dragstrip.racing.race_loop import RaceLoop
from dragstrip.racing.request import (
    Request,
    lanes_of,
    load_of,
    refuse_doubles,
    refuse_efficiency,
    refuse_few,
    refuse_pause,
    refuse_unfit_load,
    refuse_workloads,
)
from dragstrip.racing.setup import LOCAL
from dragstrip.record import METHOD_VERSION, Backend, Event, Load, Race
from dragstrip.store.database import Store
from dragstrip.workload import Workload


def run(request: Request, *, store: Store, progress: Progress) -> Race:
    """Runs a race to its end and returns it as recorded.

    Raises:
        BadUsage: fewer than two contenders, two with one name, cores that don't exist.
        NotReady: a contender named by hand is missing something.
        KeyboardInterrupt: passed on, after every round so far has been kept and every server stopped.
    """
    _refuse(request)
    lanes = lanes_of(request)
    load = load_of(request, lanes)
    seed = request.seed if request.seed is not None else secrets.randbits(32)
    started, started_ns = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic_ns()
    facts = request.site.facts()
    stores = {
        workload.name: _qualification_store(request, workload, store, load, lanes, facts)
        for workload in request.workloads
    }
    with ExitStack() as resources:
        if request.exclusive:
            from dragstrip.process import machine_lock  # exclusive races alone need it

            resources.enter_context(machine_lock.held(machine_lock.of_cores(lanes.all), progress.phase))
        setup, states = resources.enter_context(set_up(request, load, lanes, seed, progress))
        entered = prepare_columns(request, setup, states, progress, stores)
        known = request.site.with_profile(facts, store.path, lanes)
        race = _record(request, entered, started, started_ns, setup.with_facts(known))
        with store.writing(race.id):
            store.begin(race)
            progress.planned(race)
            ready = [(column.setup, column.qualification.ready) for column in entered]
            loop = RaceLoop(
                store,
                progress,
                race,
                ready,
                request.pause_after,
                request.gate,
                last_round=request.last_round is not None,
                grows=(request.budget_s, request.rounds, request.last_round) == (None, None, None),
            )
            race = loop.drive()
    for column, prepared in zip(analysis.by_column(race), entered, strict=True):
        # The next race checks again every contender that was taken out.
        out = {entrant.name for entrant in column.entrants if entrant.out}
        if (qualifications := stores[prepared.workload]) is not None:
            for contender in prepared.qualification.contenders:
                if contender.name in out:
                    qualifications.forget(contender.key)
    return race


def _refuse(request: Request) -> None:
    """Refuses a request that no race can run with, before anything is started or stored."""
    refuse_few(request.entries)
    refuse_doubles(request.entries)
    refuse_workloads(request)
    refuse_efficiency(request)
    refuse_unfit_load(request)
    refuse_pause(request)
    schedule.refuse_metric(request.metric, request.rate_per_s)


def _qualification_store(
    request: Request, workload: Workload, store: Store, load: Load, lanes: machine.Lanes, facts: Facts
) -> QualificationStore | None:
    """Qualifications for a workload of races like this one, kept next to the store; None for races on other machines.

    Raises:
        NotReady: the workload queries a database that is not installed.
    """
    if request.site is not LOCAL:
        return None
    versions: tuple[str, ...] = ()
    if workload.asks_database:
        from dragstrip.process import database  # races without one don't need it

        versions = (database.find().version,)
    load = replace(load, pipelining=workload.traffic.pipelining)
    depends_on = qualification_store.context(
        workload, load, lanes, request.io, facts, request.awake, request.wait, *versions
    )
    return QualificationStore(store.path.with_suffix(".scrutiny"), depends_on, fresh=request.fresh_scrutiny)


def _record(request: Request, entered: Sequence[PreparedColumn], started: str, started_ns: int, facts: Facts) -> Race:
    """The race's record before its first round; ``facts``: the machine's."""
    setup, purpose = entered[0].setup, request.purpose
    of_purpose = (
        [Event(at_ns=started_ns, kind=purpose.kind, subject=purpose.subject, names=purpose.names)] if purpose else []
    )
    calibration = (
        replace(event, column=index)
        for index, column in enumerate(entered)
        for contender in column.qualification.ready.values()
        for event in contender.calibration.events
    )
    return Race(
        id=secrets.token_hex(6),
        seed=setup.seed,
        started=started,
        started_ns=started_ns,
        software=__version__,
        method=METHOD_VERSION,
        machine=facts,
        server_cores=setup.lanes.server,
        engine_cores=setup.lanes.engine,
        # Rounds must not change their back end in the middle of a race, nor when it is resumed.
        backend=Backend(setup.engine.io),
        events=(*of_purpose, *calibration),
        columns=columns_of(request, entered),
    )
