"""A check as a sentence: what it saw and, if something can be done, what to do. Values in, text out."""

from __future__ import annotations

from collections.abc import Mapping

from dragstrip.record import VoidKind
from dragstrip.report.race.messages import more_rounds, why_idle
from dragstrip.report.race.observations import observation_text
from dragstrip.validity import observation as seen
from dragstrip.validity.check import Check
from dragstrip.validity.observation import Observation, Plain

#: What to do about others on the race's cores.
QUIET = "end other programs, or give the race cores of its own (--server-cores, --engine-cores)"

ELSEWHERE = "race on a machine whose cores are not shared, or at another time"
MORE_ENGINE = "give the engine more cores (--engine-cores, --threads) or the servers fewer"
ENGINE_FAULT = "this is a fault of the engine: please report it with `dragstrip export`"
SEE_LOG = "see the contender's log; try fewer connections (-c)"

#: What to do if most void passes were void by one kind of reason; ``QUIET`` if none is named.
VOID_REMEDIES: Mapping[VoidKind, str] = {
    VoidKind.DATABASE: "see the database's log among the race's events",
    VoidKind.GENERATOR: MORE_ENGINE,
    VoidKind.CLOCK: "let the clock be slewed, not set, while racing (chrony: makestep; timedatectl set-ntp false)",
    VoidKind.ACCOUNTING: ENGINE_FAULT,
    VoidKind.ERRORS: SEE_LOG,
    VoidKind.WRONG_ANSWERS: "see the excerpt of the first wrong answer",
}

#: Observations whose remedy follows a semicolon; after a colon it is given once for all that were seen alike.
_SEMICOLON = (
    seen.Died,
    seen.Unsettled,
    seen.TwoKinds,
    seen.Lanes,
    seen.GeneratorLimit,
    seen.GeneratorNear,
    seen.AccountingFaults,
    seen.Errors,
    seen.TurnLong,
    seen.VoidPasses,
)


class CheckWithText(Check):
    """A check with its sentences, as ``dragstrip.Result.checks`` hands it to a program."""

    __slots__ = ()

    @property
    def detail(self) -> str:
        """In a sentence what was seen."""
        return check_text(self)

    @property
    def remedy(self) -> str:
        """What to do, as its sentence ends; "" if it says nothing of that."""
        return check_remedy(self)


def with_text(check: Check) -> CheckWithText:
    """A check with its sentences."""
    return CheckWithText(
        name=check.name,
        status=check.status,
        fact=check.fact,
        findings=check.findings,
        otherwise=check.otherwise,
        column=check.column,
    )


def check_text(check: Check) -> str:
    """All that a check saw as one sentence, with what to do; a remedy after a colon once for all seen alike."""
    if not check.findings:
        return observation_text(check.otherwise) if check.otherwise else ""
    parts: dict[str, list[str]] = {}
    ends: dict[str, str] = {}
    for at, finding in enumerate(check.findings):
        remedy, apart = remedy_text(finding.seen), isinstance(finding.seen, _SEMICOLON)
        key = remedy if remedy and not apart else f"#{at}"
        parts.setdefault(key, []).append(observation_text(finding.seen))
        ends[key] = f"{';' if apart else ':'} {remedy}" if remedy else ""
    return "; ".join(", ".join(texts) + ends[key] for key, texts in parts.items())


def check_remedy(check: Check) -> str:
    """What to do, as a check's sentence ends; "" if it says nothing of that."""
    return remedy_text(check.findings[-1].seen) if check.findings else ""


def remedy_text(of: Observation) -> str:
    """What to do about it; "" if there is nothing to do, or its sentence says it."""
    match of:
        case seen.Rounds():
            return f"with fewer rounds, rare slow launches can mislead{more_rounds(of.ended)}"
        case seen.Lanes():
            return "trust the CPU per request more, or give each cores of its own (--server-cores, --engine-cores)"
        case seen.GeneratorLimit() | seen.GeneratorNear() | seen.CeilingNear() | seen.TurnLong():
            return MORE_ENGINE
        case seen.EngineWaitTaken() | seen.ServerWaitTaken() | seen.Intruders():
            return QUIET
        case seen.Steal():
            return ELSEWHERE
        case seen.AccountingFaults():
            return ENGINE_FAULT
        case seen.Errors():
            return SEE_LOG
        case seen.LittleOff():
            return "rate and latency contradict each other"
        case seen.NotSustained():
            return "the rate was not sustained, so its latency is queueing delay; lower --rate"
        case seen.LeftLate():
            return "no connection was free (more by -c), or the engine woke late"
        case seen.NotSaturated():
            return why_idle(of.disturbed)
        case seen.VoidPasses(cause=cause):
            return VOID_REMEDIES.get(cause, QUIET) if cause else QUIET
    return _launch_remedy(of) or _machine_remedy(of)


def _launch_remedy(of: Observation) -> str:
    match of:
        case seen.Died():
            return "see its log"
        case seen.Unsettled():
            return "give it longer in its definition (warm_up)"
        case seen.TwoKinds(launches=launches, wanted=wanted) if launches < wanted:
            return f"take {wanted} rounds or more (--rounds {wanted})"
        case seen.TwoKinds():
            return "the mean mixes both groups; find out what differs from start to start"
        case seen.AlreadyRunning():
            return "the interval does not include launch-to-launch variation"
        case seen.Trend():
            return "give it a longer warm-up in its definition"
        case seen.Growing():
            return "it may slow down or end later; load it for longer (dragstrip load -d 60s)"
        case seen.UnequalBlocks():
            return "its figures depend on how long it is loaded; compare it by `dragstrip load` as well"
        case seen.Closed():
            return "raise its keep-alive limit, or race all with --no-keepalive"
        case seen.Reused():
            return "this is a fault of the engine, please report it with `dragstrip export`"
        case seen.Miscounted():
            return "check that no other program serves or calls its port, and what [served] in its definition reads"
        case seen.Shorter():
            return f"see what it leaves out under load (`dragstrip verify {of.contender}`)"
    return ""


def _machine_remedy(of: Observation) -> str:
    match of:
        case Plain.HEAT:
            return "cool it, or race at a fixed lower frequency"
        case seen.Frequency():
            return "fix it (governor performance, no turbo)"
        case seen.Pace():
            return "this cancels in ratios but not in single figures; race again when the machine is steady"
        case seen.DatabaseLimit():
            return "the servers in front of it can't be compared; give the database more cores, or send it less work"
        case seen.DatabaseMiscounted():
            return "see what its handler does beside one statement per row"
        case seen.LinkFull():
            return "take a faster link, a smaller answer, or compare by --metric cpu"
        case seen.Retransmitted():
            return "see cables, switch and queues between the machines (ip -s link, nstat)"
        case seen.RoundTrip():
            return "take machines nearer to each other, or compare throughput with more connections (-c)"
        case seen.Interrupts():
            return "spread the link's queues over more cores (ethtool -L, /proc/irq/*/smp_affinity)"
        case seen.UnevenGenerators():
            return "see `dragstrip fleet check`, and give every generator the same kind of link"
    return ""
