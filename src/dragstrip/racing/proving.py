"""What one contender that is up is asked, and how it proves its answers; runs on a machine that loads it."""

from __future__ import annotations

from collections.abc import Iterator

from dragstrip import parity
from dragstrip.process import certificate
from dragstrip.record import Load
from dragstrip.scrutiny import (
    TROUBLE,
    Encryption,
    Findings,
    check_correctness,
    compared,
    connection_behaviour,
    describe_error,
    fairness,
    partiality,
    plainest,
    resumption,
)
from dragstrip.workload import Asking, Exchange

#: Randomised probes put to each contender in scrutineering.
PROBES = 12


def statements(asking: Asking, load: Load) -> int:
    """How many statements a proof has its database run."""
    return sum(exchange.statements for exchanges in _questions(asking, load) for exchange in exchanges)


def _questions(asking: Asking, load: Load) -> Iterator[tuple[Exchange, ...]]:
    """What a proof asks over connections that are kept, and over such as are not."""
    for keep in (True, False):
        asked = asking.exchanges(keepalive=keep, http=load.http)
        yield (*asked, *asking.probes(keepalive=keep, http=load.http, count=PROBES))


def prove(asking: Asking, load: Load, host: str, port: int, tls: Encryption | None = None) -> Findings:
    """Has a contender prove its answers, and looks whether it serves connections side by side.

    Args:
        tls: how it is reached over TLS; None: in the clear.
    """
    keepalive, closing = _questions(asking, load)
    findings = check_correctness(host, port, keepalive=keepalive, closing=closing, together=load.pipelining, tls=tls)
    facts, problems = dict(findings.facts), findings.problems
    if not problems and load.keepalive and not asking.framed:
        fair = fairness(host, port, plainest(keepalive), connections=load.connections, tls=tls)
        facts, problems = facts | fair.facts, fair.problems
    if not problems and tls is not None:
        resumed = resumption(host, port, plainest(keepalive), tls)
        facts |= {parity.CERTIFICATE: certificate.KIND, parity.RESUMPTION: resumed}
        if asking.workload.tls == "resumed" and resumed != "yes":
            problems = ("takes up no TLS session of an earlier connection; tickets, or sessions kept, would be right",)
    if not problems and (partial := _partiality(plainest(keepalive), host, port, tls)):
        problems = (partial,)
    if not problems:
        facts[parity.COMPARED] = compared(keepalive, by_length=asking.workload.by_length)
    return Findings(problems=problems, facts=facts)


def _partiality(exchange: Exchange, host: str, port: int, tls: Encryption | None) -> str | None:
    """Whether it answers Dragstrip otherwise than a browser, or a browser not at all."""
    try:
        return partiality(host, port, exchange, tls)
    except TROUBLE as error:
        return f"asked as a browser (User-Agent): {describe_error(error)}"


def connection_facts(asking: Asking, host: str, port: int, tls: Encryption | None = None) -> dict[str, parity.Fact]:
    """What a contender does with connections, for the parity sheet."""
    return connection_behaviour(host, port, plainest(asking.exchanges(keepalive=True)), tls)
