"""One race from what was asked for to its stored record, in steps; each step's file says how it is done.

1. request: refuses what can't be raced, finds cores and load (``request.py``).
2. set up: scratch space, a keeper per contender, awake cores, the engine (``setup.py``).
3. qualify: each contender is launched once and proves its answers, or was kept as proved (``qualification.py``).
4. calibrate: it is loaded on that same launch, for the plan only (``calibration.py``).
5. plan: block lengths, passes, rounds (``plan.py``); the race's record is stored, with no rounds yet.
6. loop: rounds until all that was asked is decided or the budget is spent (``loop.py``).
7. round: launches all afresh, warms them up, loads them, stops them (``round.py``, ``warming.py``).
8. engine: runs the blocks, in the order that was drawn (``blocks.py``, ``schedule.py``).
9. record: each block and launch (``records.py``, ``launched.py``); ``validity`` marks what is void, ``store`` keeps it.
10. judge: ``analysis`` judges the race so far, after each round (``loop.py``).
11. report: ``progress`` shows it meanwhile; ``report`` renders the record that is returned here.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dragstrip import machine
from dragstrip.contender import serving
from dragstrip.racing import qualification_store, schedule
from dragstrip.racing.loop import RaceLoop
from dragstrip.racing.plan import plan_of
from dragstrip.racing.progress import Progress
from dragstrip.racing.qualification import set_up_and_qualify
from dragstrip.racing.qualification_store import QualificationStore
from dragstrip.racing.qualified import Qualification
from dragstrip.racing.records import Began, backend_of, io_facts
from dragstrip.racing.request import Request, lanes_of, load_of, refuse_doubles, refuse_few
from dragstrip.racing.setup import RaceSetup
from dragstrip.record import METHOD_VERSION, Event, Load, Purpose, Race
from dragstrip.store import machine_profile
from dragstrip.store.database import Store
from dragstrip.version import __version__


def run(request: Request, *, store: Store, progress: Progress) -> Race:
    """Runs a race to its end and returns it as recorded.

    Raises:
        BadUsage: fewer than two contenders, two of one name, cores that don't exist.
        NotReady: a contender named by hand is missing something.
        KeyboardInterrupt: passed on, after what was measured has been kept and every server stopped.
    """
    _refuse(request)
    lanes = lanes_of(request)
    load = load_of(request, lanes)
    seed = request.seed if request.seed is not None else secrets.randbits(32)
    began = Began.now()
    facts = machine.facts()
    kept = kept_qualifications(request, store, load, lanes, facts)
    with set_up_and_qualify(request, load, lanes, seed, progress, kept) as (setup, qualification):
        capacity_per_s = {name: one.calibration.capacity_per_s for name, one in qualification.ready.items()}
        setup.load = replace(load, rate_per_s=schedule.rate(request.rate_per_s, capacity_per_s))
        facts |= machine_profile.known(store.path, facts, lanes)
        race = _record(request, setup, qualification, began, facts)
        store.begin(race)
        race = RaceLoop(setup, store, progress, race, qualification.ready).drive()
    _forget_fallen(race, qualification, kept)
    return race


def _refuse(request: Request) -> None:
    """Refuses what no race can be run with, before anything is started or stored."""
    refuse_few(request.entries)
    refuse_doubles(request.entries)
    serving(request.workload.name, request.entries)
    schedule.refuse_metric(request.metric, request.rate_per_s)


def kept_qualifications(
    request: Request, store: Store, load: Load, lanes: machine.Lanes, facts: Mapping[str, Any]
) -> QualificationStore:
    """Qualifications that lie beside the store, of races as this one."""
    depends_on = qualification_store.context(
        request.workload, load, lanes, request.io, facts, request.awake, request.wait
    )
    return QualificationStore(store.path.with_suffix(".scrutiny"), depends_on, fresh=request.fresh_scrutiny)


def _record(
    request: Request, setup: RaceSetup, qualification: Qualification, began: Began, facts: Mapping[str, Any]
) -> Race:
    """The race's record before its first round; ``facts``: the machine's."""
    calibrations = [one.calibration for one in qualification.ready.values()]
    return Race(
        id=secrets.token_hex(6),
        seed=setup.seed,
        started=began.wall,
        started_ns=began.monotonic_ns,
        workload=request.workload.name,
        load=setup.load,
        plan=plan_of(request, qualification, setup.load),
        software=__version__,
        method=METHOD_VERSION,
        machine={**facts, **io_facts(setup)},
        server_cores=setup.lanes.server,
        engine_cores=setup.lanes.engine,
        entrants=qualification.entrants(),
        backend=backend_of(setup),
        events=(
            *_purpose(request.purpose, began),
            *(event for calibration in calibrations for event in calibration.events),
        ),
    )


def _purpose(purpose: Purpose | None, began: Began) -> tuple[Event, ...]:
    if purpose is None:
        return ()
    return (Event(at_ns=began.monotonic_ns, kind=purpose.kind, subject=purpose.subject, names=purpose.names),)


def _forget_fallen(race: Race, qualification: Qualification, kept: QualificationStore) -> None:
    """Who fell out is proved anew by the next race."""
    out = {entrant.name for entrant in race.entrants if entrant.out}
    for contender in qualification.contenders:
        if contender.name in out:
            kept.forget(contender.key)
