"""Builders of records for tests: whole races with known speeds, from the real types, without servers."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hdrh.histogram import HdrHistogram

from dragstrip.machine_facts import Facts
from dragstrip.record import (
    METHOD_VERSION,
    Backend,
    Block,
    CodePlace,
    Column,
    Ending,
    Entrant,
    Event,
    EventKind,
    Launch,
    Load,
    Plan,
    Profile,
    Race,
    Round,
    Stack,
    StackFrame,
    Void,
    VoidKind,
)
from dragstrip.validity.check import Check, CheckName, Status

MS, S = 1_000_000, 1_000_000_000

#: One monotonic moment that all sample races start at.
START_NS = 500 * S

MACHINE = Facts(cpu="Sample CPU @ 2.00GHz", cores_usable="0-1", memory_bytes=4 * 2**30, kernel="Linux 6.1.0")


@cache
def hdr(*values_ns: int) -> bytes:
    """Latencies as the engine returns them: HdrHistogram V2 compressed, nanoseconds, three digits."""
    histogram = HdrHistogram(1, 60 * S, 3)
    for value in values_ns:
        histogram.record_value(value)
    return base64.b64decode(histogram.encode())


#: Measured numbers of each kind of reason; kinds without numbers are left out.
_NUMBERS: Mapping[VoidKind, Mapping[str, float]] = {
    VoidKind.CLOCK: {"step_ns": 20_000},
    VoidKind.ERRORS: {"failed": 3, "sent": 1403},
    VoidKind.ENGINE_WAITED: {"share": 0.2},
    VoidKind.GENERATOR: {"engine_share": 0.99, "server_share": 0.4},
    VoidKind.TOO_FEW_BLOCKS: {"valid": 0, "blocks": 8},
}


def voided(kind: str, **errors: int) -> tuple[Void, ...]:
    """One reason of this kind, with the failures that it is about."""
    known = VoidKind(kind)
    errors = errors or ({"reset": 3} if known is VoidKind.ERRORS else {})
    return (Void(kind=known, numbers=_NUMBERS.get(known, {}), errors=errors),)


def noted(kind: EventKind, text: str = "", **facts: Any) -> Event:
    """An event of the race's beginning."""
    return Event(at_ns=1, kind=kind, text=text, **facts)


def said(check: str, status: str, sentence: str) -> Check:
    """A check of the whole race with this result; "parity, x": of the fact x of the parity sheet."""
    name, _, fact = check.partition(", ")
    return Check(name=CheckName(name), fact=fact, status=Status(status), otherwise=sentence)


def block(contender: str, **changes: Any) -> Block:
    """A clean 10 + 25 ms block of 1000 requests by 32 connections on one engine thread; ``changes`` override."""
    requests = changes.get("requests", 1000)
    answered = changes.get("answered", round(requests * 1.4))
    p50_ns = changes.get("p50_ns", 800_000)
    latencies = tuple(p50_ns + step * p50_ns // 10 for step in range(-4, 6))
    usual: dict[str, Any] = {
        "round": 0,
        "pass_index": 0,
        "position": 0,
        "started_ns": START_NS,
        "lead_ns": 10 * MS,
        "counted_ns": 25 * MS,
        "duration_ns": 35 * MS + 400_000,
        "requests": requests,
        "sent": answered,
        "answered": answered,
        "failed": 0,
        "in_flight": 0,
        "errors": {},
        "bytes_in": 150 * answered,
        "bytes_out": 40 * answered,
        "connects": 0,
        "latency_hdr": hdr(*latencies),
        "latency_sum_ns": requests * p50_ns,
        "turn_sum_ns": 0,
        "clock_step_ns": 0,
        "early_stamps": 0,
        "p50_ns": p50_ns,
        "p90_ns": latencies[-2],
        "p99_ns": latencies[-1],
        "p999_ns": latencies[-1],
        "max_ns": latencies[-1],
        "server_cpu_ns": 34 * MS,
        "server_wait_ns": 100_000,
        "engine_cpu_ns": 12 * MS,
        "engine_wait_ns": 0,
        "engine_switches": 1,
        "engine_threads": 1,
        "steal_ns": 0,
        "gave_up": False,
    }
    return Block(contender=contender, **(usual | changes))


def launch(contender: str, round: int = 0, counts: Mapping[str, float] | None = None, **changes: Any) -> Launch:
    """A successful launch; ``counts`` and ``changes`` override."""
    usual: dict[str, Any] = {
        "cores": (1,),
        "address": "127.0.0.1:40001",
        "ready_ns": 45 * MS,
        "warm_up_ns": 60 * MS,
        "settled": True,
        "exit_status": 0,
        "died": False,
        "cpu_source": "cgroup",
        "log_tail": "",
        "counts": {"cpu_ns": 480 * MS, "peak_memory_bytes": 6 * 2**20, "processes": 2, "threads": 2}
        | dict(counts or {}),
    }
    return Launch(contender=contender, round=round, **(usual | changes))


def counted(launch: Launch, **counts: float) -> Launch:
    """The same launch, with these counts."""
    return replace(launch, counts={**launch.counts, **counts})


def profile(contender: str, index: int = 0, **changes: Any) -> Profile:
    """An extra launch of 100,000 responses, 6 µs of CPU time each; ``changes`` override."""
    usual: dict[str, Any] = {
        "column": 0,
        "started_ns": START_NS + 3600 * S + index * 4 * S,
        "ended_ns": START_NS + 3600 * S + index * 4 * S + 3 * S,
        "blocks": 64,
        "duration_ns": 2 * S,
        "answered": 100_000,
        "failed": 0,
        "counts": {"cpu_ns": 600e6, "user_ns": 200e6, "kernel_ns": 400e6, "reads": 0.0, "writes": 100_000.0},
        "missing": {"segments": "each request has a connection of its own"},
    }
    return Profile(contender=contender, index=index, **(usual | changes))


def stacks(counts: Mapping[str, int], **frames: tuple[str, str, str]) -> dict[str, Any]:
    """Fields of a profile with a stack of one frame in main for each count.

    Args:
        counts: samples by the innermost function. frames: its place, module and name, if it is not in the program.
    """
    named = {name: frames.get(name, ("user", "/srv/app", name)) for name in counts}
    listed = [("user", "/srv/app", "main"), *named.values()]
    whole = float(sum(counts.values()))
    return {
        "frames": tuple(StackFrame(place=CodePlace(place), module=file, name=name) for place, file, name in listed),
        "stacks": tuple(Stack(samples=count, frames=(at, 0)) for at, count in enumerate(counts.values(), 1)),
        "counts": {"samples": whole, "kernel_samples": 1.0, "user_samples": whole, "rooted_samples": whole},
    }


def profiles(cpu_us: Mapping[str, float], launches: int = 6, **changes: Any) -> tuple[Profile, ...]:
    """Extra launches in turn, whose CPU time per response scatters by 1 %, a third of it in user mode."""
    made: list[Profile] = []
    for turn in range(launches):
        for name, each_us in cpu_us.items():
            cpu_ns = each_us * (1 + 0.01 * (-1) ** turn) * 1e3 * 100_000
            counts = {"cpu_ns": cpu_ns, "user_ns": cpu_ns / 3, "kernel_ns": cpu_ns * 2 / 3}
            reads = {"reads": 100_000.0 if name == "steady" else 0.0, "writes": 100_000.0}
            calls = {"calls": 30_000.0, "call_responses": 10_000.0, "call.sendto": 10_000.0, "call.epoll_wait": 9_990.0}
            calls["call.read"] = 10_000.0 if name == "steady" else 0.0
            made.append(profile(name, len(made), counts=counts | reads | calls, **changes))
    return tuple(made)


def planted(*, revisions: bool = True) -> Race:
    """A race with six extra launches of each; the second contender has a function of 10 % more CPU time.

    Args:
        revisions: they are revisions of one server.
    """
    launches: list[Profile] = []
    for turn in range(6):
        jitter = 10 * (-1) ** turn
        sides = {
            "quick": (6.0, {"parse": 500 + jitter, "render": 500 - jitter}),
            "steady": (6.66 + jitter / 1000, {"parse": 500 - jitter, "render": 500 + jitter, "planted": 110}),
        }
        for name, (cpu_us, counts) in sides.items():
            sampled = stacks(counts)
            cpu = {"cpu_ns": cpu_us * 1e3 * 100_000, "user_ns": cpu_us * 4e7, "kernel_ns": cpu_us * 6e7}
            launches.append(profile(name, len(launches), **sampled | {"counts": sampled["counts"] | cpu}))
    events = (Event(at_ns=1, kind=EventKind.REVISIONS),) if revisions else ()
    return race(rounds=1, profiles=tuple(launches), events=events)


def entrant(name: str, **changes: Any) -> Entrant:
    """A shipped contender in the race; ``changes`` override."""
    usual: dict[str, Any] = {
        "title": f"{name} the server",
        "kind": "definition",
        "version": "1.2.3",
        "language": "none",
        "parameters": {"workers": 1},
        "definition_hash": f"{abs(sum(name.encode())):064x}",
        "parity": {"HTTP version": "1.1", "server header": name, "processes, threads": "2, 2"},
    }
    return Entrant(name=name, **(usual | changes))


def round_of(
    rates_per_s: Mapping[str, float], index: int, *, passes: int, rng: np.random.Generator, noise: float = 0.01
) -> Round:
    """One round in random order; each contender's rate varies by launch and by block with relative sd ``noise``."""
    names = sorted(rates_per_s)
    whole_ns = 150 * MS + passes * len(names) * 36 * MS
    start_ns = START_NS + index * whole_ns
    by_launch = {name: float(np.exp(rng.normal(0, noise / 2))) for name in names}
    blocks: list[Block] = []
    for pass_index in range(passes):
        for name in rng.permutation(names):
            position = len(blocks)
            rate = rates_per_s[str(name)] * by_launch[str(name)] * float(np.exp(rng.normal(0, noise)))
            requests = max(round(rate * 0.025), 1)
            blocks.append(
                block(
                    str(name),
                    round=index,
                    pass_index=pass_index,
                    position=position,
                    started_ns=start_ns + 100 * MS + position * 36 * MS,
                    requests=requests,
                    p50_ns=round(32 * S / rate),
                    server_cpu_ns=round(34 * MS * float(np.exp(rng.normal(0, noise / 4)))),
                )
            )
    launches = tuple(launch(str(name), index) for name in rng.permutation(names))
    return Round(
        index=index, started_ns=start_ns, ended_ns=start_ns + whole_ns - MS, launches=launches, blocks=tuple(blocks)
    )


def race(
    rates_per_s: Mapping[str, float] | None = None,
    *,
    rounds: int = 12,
    passes: int = 6,
    seed: int = 7,
    noise: float = 0.01,
    out: Mapping[str, str] | None = None,
    events: Sequence[Event] = (),
    **changes: Any,
) -> Race:
    """A finished race of contenders with these true rates (answers per second).

    Args:
        out: contenders that never came through scrutineering, with the reasons.
        changes: fields of ``Race`` to override.
    """
    rates = rates_per_s if rates_per_s is not None else {"quick": 40_000.0, "steady": 30_000.0}
    rng = np.random.default_rng(seed)
    losers = tuple(entrant(name, out=why, parity={}) for name, why in (out or {}).items())
    usual: dict[str, Any] = {
        "id": f"{seed:012x}",
        "seed": seed,
        "started": "2026-01-02T03:04:05+00:00",
        "started_ns": START_NS,
        "software": "0.1.0",
        "backend": Backend.EPOLL,
        "method": METHOD_VERSION,
        "machine": MACHINE,
        "server_cores": (1,),
        "engine_cores": (0,),
        "rounds": tuple(round_of(rates, index, passes=passes, rng=rng, noise=noise) for index in range(rounds)),
        "events": tuple(events),
        "finished": Ending.DECIDED,
    }
    column: dict[str, Any] = {
        "name": changes.get("workload", "hello"),
        "workload": "hello",
        "load": Load(connections=32, threads=1, keepalive=True, timeout_ns=2 * S),
        "plan": Plan(lead_ns=10 * MS, counted_ns=25 * MS, passes=passes, budget_s=60.0, planned_rounds=max(rounds, 1)),
        "entrants": (*(entrant(name) for name in rates), *losers),
    }
    own = {name: value for name, value in changes.items() if name in _COLUMN}
    others = {name: value for name, value in changes.items() if name not in _COLUMN}
    return Race(**(usual | {"columns": (Column(**(column | own)),)} | others))


#: Fields of a column, which ``race`` and ``changed`` accept as if they were the race's.
_COLUMN = frozenset(field.name for field in fields(Column))


def changed(race: Race, **changes: Any) -> Race:
    """The race with these fields changed: its own fields, and fields of all its columns."""
    own = {name: value for name, value in changes.items() if name not in _COLUMN}
    of_columns = {name: value for name, value in changes.items() if name in _COLUMN}
    return replace(race, columns=tuple(replace(column, **of_columns) for column in race.columns), **own)


def race_of_two(
    rates_per_s: Mapping[str, Mapping[str, float]] | None = None,
    *,
    rounds: int = 12,
    seed: int = 7,
    absent: Mapping[str, Sequence[str]] | None = None,
    per_s: Mapping[str, float] | None = None,
    **changes: Any,
) -> Race:
    """A finished race of several workloads; rounds of each in turn.

    Args:
        rates_per_s: by column, each contender's true rate.
        absent: by column, contenders that don't have its workload.
        per_s: by column, the rate that is offered: then all are of the workload hello.
        changes: as ``race`` has them.
    """
    rates = rates_per_s or {
        "hello": {"quick": 40_000.0, "steady": 30_000.0, "slow": 9_000.0},
        "multiply": {"quick": 20_000.0, "steady": 24_000.0, "slow": 8_000.0},
    }
    made = [race(own, rounds=rounds, seed=seed + at, **changes) for at, own in enumerate(rates.values())]
    columns = tuple(
        replace(
            one.columns[0],
            name=name,
            workload="hello" if per_s else name,
            load=replace(one.load, rate_per_s=per_s[name] if per_s else 0.0),
            plan=replace(one.plan, blocks={e.name: (10 * MS, 25 * MS, one.plan.passes) for e in one.entrants}),
            absent=tuple((absent or {}).get(name, ())),
        )
        for name, one in zip(rates, made, strict=True)
    )
    in_turn = [(at, one.rounds[index]) for index in range(rounds) for at, one in enumerate(made)]
    return replace(
        made[0],
        rounds=tuple(_moved(this, number, at) for number, (at, this) in enumerate(in_turn)),
        columns=columns,
    )


def _moved(this: Round, index: int, column: int) -> Round:
    """A copy of a round with another number, in this column."""
    by_ns = START_NS + index * (this.ended_ns - this.started_ns + MS) - this.started_ns
    return replace(
        this,
        index=index,
        column=column,
        started_ns=this.started_ns + by_ns,
        ended_ns=this.ended_ns + by_ns,
        launches=tuple(replace(launch, round=index) for launch in this.launches),
        blocks=tuple(replace(block, round=index, started_ns=block.started_ns + by_ns) for block in this.blocks),
    )


@contextmanager
def unguarded(path: Path) -> Iterator[sqlite3.Connection]:
    """A store's file without its schema's guards (types, checks, triggers), which are restored afterwards."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        triggers = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            db.execute(f"DROP TRIGGER {name}")
        tables = db.execute("SELECT sql, name FROM sqlite_master WHERE sql LIKE '%STRICT'").fetchall()
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_master SET sql = substr(sql, 1, length(sql) - 7) WHERE sql LIKE '%STRICT'")
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        yield db
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA writable_schema = ON")
        db.executemany("UPDATE sqlite_master SET sql = ? WHERE name = ?", tables)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for _, sql in triggers:
            db.execute(sql)
