"""Scrutineering alone, without a race: ``dragstrip verify``."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from dragstrip.contender import Entry, Missing, check
from dragstrip.racing.progress import Silent
from dragstrip.racing.qualification import Rejected, qualify_all
from dragstrip.racing.request import Request, lanes_of, load_of, refuse_unfit_load
from dragstrip.racing.setup import race_setup
from dragstrip.workload import Workload
from dragstrip.workload import load as load_workload


class ProofStatus(StrEnum):
    """The result for a contender; a missing contender is not checked at any workload."""

    PASSED = "passed"
    FAILED = "failed"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A contender's result in scrutineering at one workload.

    Args:
        reason: why it did not pass; "" if it passed.
        facts: its parity sheet.
    """

    contender: str
    workload: str = ""
    status: ProofStatus
    reason: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)


def verify(
    entries: Sequence[Entry],
    workloads: Sequence[Workload] = (),
    *,
    server_cores: str | None = None,
    engine_cores: str | None = None,
) -> Iterator[Proof]:
    """Scrutineering alone, for each contender and each of these workloads, or of its own if none is given."""
    for named in entries:
        state = check(named)
        if isinstance(state, Missing):
            yield Proof(contender=named.name, status=ProofStatus.MISSING, reason=f"{state.reason}; {state.remedy}")
            continue
        for asked in workloads or map(load_workload, named.workloads or ("hello",)):
            name = asked.name
            tried = named.with_tls() if asked.traffic.tls != "any" and not workloads else named
            own = named.contender.fields.workload.get(name) if named.contender else None
            request = Request(
                entries=(tried,),
                workload=asked,
                connections=own.connections if own else None,
                server_cores=server_cores,
                engine_cores=engine_cores,
            )
            refuse_unfit_load(request)
            entry = tried.for_workload(request.workload.served_as, asks_database=request.workload.asks_database)
            if entry is not tried and isinstance(state := check(entry), Missing):
                reason = f"{state.reason}; {state.remedy}"
                yield Proof(contender=entry.name, workload=asked.shown, status=ProofStatus.MISSING, reason=reason)
                continue
            lanes = lanes_of(request)
            with race_setup(request.workload, load_of(request, lanes), lanes, seed=secrets.randbits(32)) as setup:
                (result,) = qualify_all(setup, [entry], {entry.name: state}, Silent()).contenders
            if isinstance(result, Rejected):
                yield Proof(contender=entry.name, workload=asked.shown, status=ProofStatus.FAILED, reason=result.reason)
            else:
                yield Proof(contender=entry.name, workload=asked.shown, status=ProofStatus.PASSED, facts=result.facts)
