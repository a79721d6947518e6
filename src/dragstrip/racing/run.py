"""One race from start to records: the only user of the compiled engine.

Order of events: lanes, scrutineering (each contender started once and proved right), calibration on
that same launch (never used in the verdict), plan, then rounds until everything asked for is decided
or the budget is spent. Each round is committed before the next begins, so that nothing measured is lost.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from dragstrip import machine
from dragstrip.contender import serving
from dragstrip.racing import environment, qualification_store, schedule
from dragstrip.racing.loop import RaceLoop
from dragstrip.racing.plan import plan_of
from dragstrip.racing.progress import Progress
from dragstrip.racing.qualification import qualified
from dragstrip.racing.qualification_store import QualificationStore
from dragstrip.racing.records import io_facts
from dragstrip.racing.request import Request, lanes_of, load_of, refuse_doubles, refuse_few
from dragstrip.record import METHOD_VERSION, Load, Race
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
    refuse_few(request.entries)
    refuse_doubles(request.entries)
    serving(request.workload.name, request.entries)
    lanes = lanes_of(request)
    schedule.refuse_metric(request.metric, request.rate_per_s)
    seed = request.seed if request.seed is not None else secrets.randbits(32)
    noted = request.purpose
    started, started_ns = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic_ns()
    facts = machine.facts()
    load = load_of(request, lanes)
    kept = kept_proofs(request, store, load, lanes, facts)
    with qualified(request, load, lanes, seed, progress, kept) as (setup, field):
        rate_per_s = schedule.rate(request.rate_per_s, field.capacity_per_s)
        setup.load = replace(load, rate_per_s=rate_per_s, pace=request.pace)
        race = Race(
            id=secrets.token_hex(6),
            seed=seed,
            started=started,
            started_ns=started_ns,
            workload=request.workload.name,
            load=setup.load,
            plan=plan_of(request, field, setup.load),
            software=__version__,
            method=METHOD_VERSION,
            machine=facts | io_facts(setup) | machine_profile.known(store.path, facts, lanes),
            server_cores=lanes.server,
            engine_cores=lanes.engine,
            entrants=tuple(field.entrants),
            events=(
                *([environment.event(*noted)] if noted else []),
                *(seen for found in field.habits.values() for seen in found.events),
            ),
        )
        store.begin(race)
        raced = RaceLoop(setup, store, progress, race, ready=field.ready, p50_ns=field.p50_ns).drive()
    for entrant in raced.entrants:
        if entrant.out:
            kept.forget(field.keys.get(entrant.name, ""))
    return raced


def kept_proofs(
    request: Request, store: Store, load: Load, lanes: machine.Lanes, facts: Mapping[str, Any]
) -> QualificationStore:
    """Scrutineering's results that lie beside the store, of races as this one."""
    depends_on = qualification_store.context(
        request.workload, load, lanes, request.io, facts, request.awake, request.wait
    )
    return QualificationStore(store.path.with_suffix(".scrutiny"), depends_on, fresh=request.fresh_scrutiny)
