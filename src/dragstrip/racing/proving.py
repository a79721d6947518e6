"""What one contender that is up is asked, and how it proves its answers; runs on a machine that loads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

from dragstrip import parity
from dragstrip.contender import Entry
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
from dragstrip.workload import HTTP2, Data, Exchange, Workload

#: Randomised probes put to each contender in scrutineering.
PROBES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What one launch is asked.

    Args:
        mark: the contender's. own_form: its JSON may have the form that it declares.
        framed: it is asked over HTTP/2.
        data: what the workload put into the launch's folder. before: what an earlier launch had.
    """

    workload: Workload
    seed: int
    mark: str
    own_form: bool = False
    framed: bool = False
    data: Data = field(default_factory=Data)
    before: Data | None = None

    @classmethod
    def of(cls, workload: Workload, seed: int, entry: Entry, data: Data, before: Data | None = None) -> Self:
        """For a launch of this contender."""
        own_form = workload.name in entry.own_forms
        framed = entry.http("1.1") == HTTP2
        return cls(
            workload=workload, seed=seed, mark=entry.mark, own_form=own_form, framed=framed, data=data, before=before
        )

    def exchanges(self, *, keepalive: bool, http: str = "1.1") -> tuple[Exchange, ...]:
        """What it is loaded with."""
        return self.workload.exchanges(
            mark=self.mark,
            keepalive=keepalive,
            http=HTTP2 if self.framed else http,
            seed=self.seed,
            data=self.data,
            before=self.before,
            own_form=self.own_form,
        )

    def probes(self, *, keepalive: bool, http: str = "1.1", count: int) -> tuple[Exchange, ...]:
        """What it is asked besides, to prove that it computes its answers."""
        return self.workload.probes(
            mark=self.mark,
            keepalive=keepalive,
            http=HTTP2 if self.framed else http,
            seed=self.seed,
            count=count,
            data=self.data,
            own_form=self.own_form,
        )

    def statements(self, load: Load) -> int:
        """How many statements a proof has its database run."""
        return sum(one.statements for way in _questions(self, load) for one in way)


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
