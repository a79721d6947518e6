"""Checks the responses of a contender that is up; runs on a machine that generates load."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby, islice

from dragstrip import parity
from dragstrip.record import Load
from dragstrip.scrutiny import (
    Findings,
    Server,
    check_correctness,
    compared,
    connection_behaviour,
    fairness,
    partiality,
    plainest,
    resumption,
)
from dragstrip.workload import Asking, Exchange

#: Randomised probes put to each contender in scrutineering.
PROBES = 12

#: Of the load's requests, scrutineering sends this many of each kind; each of the others is compared under load.
POOLED = 16


def _questions(asking: Asking, load: Load) -> Iterator[tuple[Exchange, ...]]:
    """The requests of a proof: first over connections that are kept open, then over connections that are not."""
    for keep in (True, False):
        by_kind = groupby(asking.exchanges(keepalive=keep, http=load.http), key=lambda exchange: exchange.kind)
        yield (
            *(exchange for _, pool in by_kind for exchange in islice(pool, POOLED)),
            *asking.probes(keepalive=keep, http=load.http, count=PROBES),
        )


def prove(
    asking: Asking, load: Load, server: Server, own_numbers: Callable[[], list[dict[int, int]]] | None = None
) -> Findings:
    """Checks a contender's responses, and whether it serves connections side by side.

    Args:
        own_numbers: reads the contender's own tables, if it changes rows.
    """
    keepalive, closing = _questions(asking, load)
    chooses = any(exchange.compare == "updates" for exchange in keepalive)
    before = own_numbers() if own_numbers and chooses else None
    findings = check_correctness(server, keepalive=keepalive, closing=closing, together=load.pipelining)
    facts, problems = dict(findings.facts), findings.problems
    needed = findings.statements
    if not problems and asking.workload.cached_ms:
        from dragstrip.scrutiny.caching import check_caching  # workloads of cached rows alone need it

        cached = check_caching(server, keepalive)
        problems, needed = cached.problems, needed + cached.statements
        findings = replace(findings, returned=findings.returned | cached.returned)
    if not problems and own_numbers is not None:
        from dragstrip.scrutiny.chosen import unwritten  # workloads that write rows alone need it

        wrong = unwritten(findings.returned, before, own_numbers())
        problems = (wrong,) if wrong else ()
    if not problems and load.keepalive and asking.plain:
        fair = fairness(server, plainest(keepalive), connections=load.connections)
        facts, problems = facts | fair.facts, fair.problems
    if not problems and server.tls is not None:
        resumed = resumption(server, plainest(keepalive))
        facts |= {parity.CERTIFICATE: server.tls.certificate, parity.RESUMPTION: resumed}
        if asking.workload.traffic.tls == "resumed" and resumed != "yes":
            problems = ("does not resume TLS sessions of earlier connections; expected tickets, or stored sessions",)
    if not problems and (partial := partiality(server, plainest(keepalive))):
        problems = (partial,)
    if not problems:
        facts[parity.COMPARED] = compared(keepalive, by_length=asking.workload.by_length)
    return Findings(problems=problems, facts=facts, statements=needed)


def connection_facts(asking: Asking, server: Server) -> dict[str, parity.Fact]:
    """What a contender does with connections, for the parity sheet."""
    return connection_behaviour(server, plainest(asking.exchanges()))
