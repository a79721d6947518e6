"""Scrutineering alone, without a race: ``dragstrip verify``."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dragstrip import machine
from dragstrip.contender import Entry, Missing, check
from dragstrip.racing.progress import Silent
from dragstrip.racing.qualification import qualify_all
from dragstrip.racing.qualified import Rejected
from dragstrip.racing.request import Request, load_of, refuse_unfit_load
from dragstrip.racing.setup import race_setup
from dragstrip.workload import load as load_workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """How one contender fared in scrutineering at one workload.

    Args:
        status: "passed", "failed" or "missing" (then at no workload); reason: why not passed, else "".
        facts: its parity sheet.
    """

    contender: str
    workload: str = ""
    status: str
    reason: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)


def verify(
    entries: Sequence[Entry], workload: str | None, *, server_cores: str | None = None, engine_cores: str | None = None
) -> Iterator[Proof]:
    """Scrutineering alone, for each contender and each of its workloads (or the one given)."""
    lanes = machine.lanes(server_cores, engine_cores)
    for entry in entries:
        state = check(entry)
        if isinstance(state, Missing):
            yield Proof(contender=entry.name, status="missing", reason=f"{state.reason}; {state.remedy}")
            continue
        for name in [workload] if workload else entry.workloads or ("hello",):
            own = entry.contender.fields.workload.get(name) if entry.contender else None
            connections = own.connections if own else None
            request = Request(entries=(entry,), workload=load_workload(name), connections=connections)
            refuse_unfit_load(request)
            with race_setup(request.workload, load_of(request, lanes), lanes, seed=secrets.randbits(32)) as setup:
                (result,) = qualify_all(setup, [entry], {entry.name: state}, Silent()).contenders
            if isinstance(result, Rejected):
                yield Proof(contender=entry.name, workload=name, status="failed", reason=result.reason)
            else:
                yield Proof(contender=entry.name, workload=name, status="passed", facts=result.facts)
