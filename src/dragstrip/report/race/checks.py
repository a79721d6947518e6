"""A check as a sentence: what it saw and, if something can be done, what to do. Values in, text out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import assert_never

from dragstrip.analysis.interval import LEAST_APART
from dragstrip.record import EventKind, VoidKind
from dragstrip.report.figures import GATHERED, as_percent
from dragstrip.report.race.messages import event_text, more_rounds, void_text, why_idle
from dragstrip.validity import observation
from dragstrip.validity.check import Check
from dragstrip.validity.observation import (
    Generator,
    ListedFact,
    Observation,
    OwnShare,
    Plain,
    Share,
    SplitFact,
)

#: What to do about other programs on the race's cores.
QUIET = "end other programs, or give the race cores of its own (--server-cores, --engine-cores)"

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
    VoidKind.WRONG_ANSWERS: "see the excerpt of the first incorrect response",
}


@dataclass(frozen=True, slots=True)
class Sentence:
    """An observation in words, and what to do about it.

    Args:
        remedy: "" if there is nothing to do, or if the text contains it.
        each: the remedy follows each of several observations, after a semicolon; otherwise it follows all of them once,
            after a colon.
    """

    text: str
    remedy: str = ""
    each: bool = False


class CheckWithText(Check):
    """A check with its sentences, as ``dragstrip.Result.checks`` hands it to a program."""

    __slots__ = ()

    @property
    def detail(self) -> str:
        """The observations in a sentence."""
        return check_text(self)

    @property
    def remedy(self) -> str:
        """What to do, as its sentence ends; "" without a remedy."""
        return check_remedy(self)


def with_text(check: Check) -> CheckWithText:
    """A check with its sentences."""
    return CheckWithText(**{field.name: getattr(check, field.name) for field in fields(check)})


def check_text(check: Check) -> str:
    """A check's observations as one sentence, with what to do; a remedy after a colon once for all that share it."""
    if not check.findings:
        return sentence(check.otherwise).text if check.otherwise else ""
    parts: dict[str, list[str]] = {}
    ends: dict[str, str] = {}
    for at, phrase in enumerate(sentence(finding.observation) for finding in check.findings):
        key = phrase.remedy if phrase.remedy and not phrase.each else f"#{at}"
        parts.setdefault(key, []).append(phrase.text)
        ends[key] = f"{';' if phrase.each else ':'} {phrase.remedy}" if phrase.remedy else ""
    return "; ".join(", ".join(texts) + ends[key] for key, texts in parts.items())


def check_remedy(check: Check) -> str:
    """What to do, as a check's sentence ends; "" without a remedy."""
    return sentence(check.findings[-1].observation).remedy if check.findings else ""


def sentence(observed: Observation) -> Sentence:
    """An observation in words."""
    if isinstance(observed, Plain):
        return _plain(observed)
    if isinstance(observed, observation.RaceShare):
        return _share(observed)
    if isinstance(observed, observation.ContenderShare):
        return _own_share(observed)
    if isinstance(observed, observation.RaceObservation):
        return _race(observed)
    if isinstance(observed, observation.LoadObservation):
        return _load(observed)
    if isinstance(observed, observation.LaunchObservation):
        return _launch(observed)
    if isinstance(observed, observation.AnswerObservation):
        return _answer(observed)
    if isinstance(observed, observation.LinkObservation):
        return _link(observed)
    return _parity(observed)


def _listed(names: Sequence[object]) -> str:
    return ", ".join(map(str, names))


def _plain(observed: Plain) -> Sentence:
    match observed:
        case Plain.ADDS_UP:
            return Sentence("in every block: sent = answered + failed + in flight, quantiles in order")
        case Plain.LITTLE_OPEN_LOOP:
            return Sentence("not checked: an open loop does not keep every connection busy")
        case Plain.TURN_OPEN_LOOP:
            return Sentence("not checked: an open loop's requests wait for the clock")
        case Plain.SERVER_WAIT_SHARED:
            return Sentence("not meaningful: servers share cores with the engine or the database")
        case Plain.LAUNCHES_ALIKE:
            return Sentence("all launches started, warmed up and behaved alike")
        case Plain.NO_INTRUDERS:
            return Sentence("no other program used over a tenth of a core for long")
        case Plain.HEAT:
            remedy = "cool it, or race at a fixed lower frequency"
            return Sentence("heat slowed the processor during the race", remedy)
        case Plain.MEMORY_STEADY:
            return Sentence("no contender's memory kept growing")
        case Plain.BLOCKS_ALIKE:
            return Sentence("short blocks give the same result as one long block, as far as that could be compared")
        case Plain.CONNECTIONS_AS_ASKED:
            return Sentence("kept open, or closed, as requested")
        case Plain.NO_OWN_COUNT:
            return Sentence("no server here reports how many requests it received")
        case Plain.LENGTHS_EQUAL:
            return Sentence("the same length in every block")
        case Plain.NO_TILT:
            return Sentence("nothing on the parity sheet tilts the race")
    assert_never(observed)


def _share(observed: observation.RaceShare) -> Sentence:
    share, change = as_percent(observed.share), as_percent(abs(observed.share))
    waited = f"the engine waited {share} of the time for its cores (median over blocks)"
    turned = f"connections spent at most {share} of the time waiting in the generator"
    steady = f"steady: the engine's own pace changed by {change} over the race"
    match observed.kind:
        case Share.ENGINE_CORES_USED:
            return Sentence(f"the engine used at most {share} of its cores")
        case Share.TURN_MOST:
            return Sentence(turned)
        case Share.TURN_MOST_BUSY:
            return Sentence(f"{turned}, but the servers were busy anyway")
        case Share.LITTLE_HOLDS:
            unjudged = f"; too disturbed to judge: {_listed(observed.names)}" if observed.names else ""
            law = "connections = rate × (mean latency + the engine's own turnaround)"
            return Sentence(f"{law}, within {share}{unjudged}")
        case Share.LITTLE_UNJUDGED:
            few = f"in too few of their blocks others took under {share}"
            return Sentence(f"too disturbed to judge whether rate and latency agree: {_listed(observed.names)} ({few})")
        case Share.SATURATED:
            unknown = f", except {_listed(observed.names)}, whose CPU time can't be read" if observed.names else ""
            return Sentence(f"the servers kept their cores at least {share} busy{unknown}")
        case Share.ENGINE_WAITED:
            return Sentence(waited)
        case Share.ENGINE_WAITED_SHARED:
            return Sentence(f"{waited}; it shares them with the servers")
        case Share.ENGINE_WAIT_TAKEN:
            return Sentence(f"{waited}, taken by other programs and the hypervisor", QUIET)
        case Share.SERVER_WAIT_MOST:
            unknown = f"; unreadable: {_listed(observed.names)}" if observed.names else ""
            return Sentence(f"other programs took at most {share} of any server's time{unknown}")
        case Share.STEAL:
            remedy = "race on a machine whose cores are not shared, or at another time"
            return Sentence(f"the hypervisor took {share} of the race's cores", remedy)
        case Share.STEADY:
            return Sentence(steady)
        case Share.STEADY_SCATTERS:
            return Sentence(f"{steady}, no more than it scatters")
        case Share.PACE:
            became = f"the machine became {change} {'slower' if observed.share > 0 else 'faster'} during the race"
            remedy = "this cancels in ratios but not in single figures; race again when the machine is steady"
            return Sentence(f"{became}, judged by the engine's own CPU time per request", remedy)
        case Share.NO_TREND:
            return Sentence(f"no trend within the rounds beyond its noise (largest mean {share})")
        case Share.COUNTED_ALIKE:
            return Sentence(f"{_listed(observed.names)} received as many requests as were sent, within {share}")
    assert_never(observed.kind)


def _own_share(observed: observation.ContenderShare) -> Sentence:
    name, share = observed.contender, as_percent(observed.share)
    match observed.kind:
        case OwnShare.CEILING_NEAR:
            of_ceiling = f"{share} of the load generator's maximum rate on this machine (dragstrip doctor)"
            return Sentence(f"{name} received {of_ceiling}", MORE_ENGINE)
        case OwnShare.TURN_LONG:
            waited = f"connections spent {share} of the time waiting in the generator, not for the server"
            return Sentence(f"{name}: {waited}", MORE_ENGINE, each=True)
        case OwnShare.SERVER_WAIT_TAKEN:
            return Sentence(f"other programs took up to {share} of {name}'s time on its cores", QUIET)
        case OwnShare.TREND:
            change = f"{'rose' if observed.share > 0 else 'fell'} by {as_percent(abs(observed.share))}"
            text = f"{name}'s throughput {change} from a round's first block to its last"
            return Sentence(text, "give it a longer warm-up in its definition")
        case OwnShare.SHORTER:
            remedy = f"see what it leaves out under load (`dragstrip verify {name}`)"
            return Sentence(f"{name}'s responses were {share} shorter in one block than usual", remedy)
        case OwnShare.DATABASE_LIMIT:
            apart = "the servers in front of it can't be compared"
            remedy = f"{apart}; give the database more cores, or send it less work"
            return Sentence(f"the database is the limit: {name} kept it {share} busy", remedy)
    assert_never(observed.kind)


def _race(observed: observation.RaceObservation) -> Sentence:
    match observed:
        case observation.Rounds(valid, void, least, ended):
            rerun = f"; {void} more were void and run again" if void else ""
            few = f"{valid} valid rounds, at least {least} are needed for differences below {as_percent(LEAST_APART)}"
            counted = few if valid < least else f"{valid} rounds of fresh launches"
            remedy = f"with fewer rounds, rare slow launches can mislead{more_rounds(ended)}"
            return Sentence(f"{counted}{rerun}", remedy)
        case observation.Lanes(servers, engine, ()):
            return Sentence(f"servers on cores {_listed(servers)}, engine on cores {_listed(engine)}")
        case observation.Lanes(shared=cores):
            share = f"servers and engine share core {_listed(cores)}"
            remedy = "trust the CPU per request more, or give each cores of its own (--server-cores, --engine-cores)"
            return Sentence(f"{share}: the servers lose the CPU time that the engine uses", remedy, each=True)
        case observation.VoidPasses(lost, passes, cause):
            mostly, remedy = (f", mostly because: {cause}", VOID_REMEDIES.get(cause, QUIET)) if cause else ("", QUIET)
            return Sentence(f"{lost} of {passes} passes void{mostly}", remedy, each=True)
        case observation.AccountingFaults(count, first):
            return Sentence(f"{count} faults, the first: {void_text(first)}", ENGINE_FAULT, each=True)
        case observation.NoErrors(answered):
            return Sentence(f"none: all {answered} responses were correct")
        case observation.Errors(name, failed, sent, errors):
            by_kind = ", ".join(f"{kind} {count}" for kind, count in errors.items())
            return Sentence(f"{name}: {failed} errors to {sent} requests ({by_kind})", SEE_LOG, each=True)
        case observation.Intruders(count, names):
            return Sentence(f"other programs used the race's cores {count} times ({_listed(names)})", QUIET)
        case observation.Frequency(event):
            remedy = "fix it (governor performance, no turbo)"
            return Sentence(f"the cores' frequency changed ({event_text(event)})", remedy)
    assert_never(observed)


def _load(observed: observation.LoadObservation) -> Sentence:
    match observed:
        case observation.EngineUse():
            return _engine_use(observed)
        case observation.LittleOff(name, busy, connections, off, reconnects):
            at_work = f"{name}: {busy:.1f} of {connections} connections were at work on average"
            if reconnects:
                return Sentence(f"{at_work}, as it closes connections")
            return Sentence(f"{at_work}, off by {as_percent(off)}", "rate and latency contradict each other")
        case observation.LittleBeyond(name, count, blocks):
            waited = f"in {count} of {blocks} blocks its connections waited longer than the block lasted"
            return Sentence(f"{name}: {waited}", ENGINE_FAULT)
        case observation.Offered(rate_per_s):
            return Sentence(f"{rate_per_s:,g}/s was offered to every contender, on time")
        case observation.NotSustained(name, share, rate_per_s):
            remedy = "the rate was not sustained, so its latency is queueing delay; lower --rate"
            return Sentence(f"{name}: only {as_percent(share)} of the offered {rate_per_s:,g}/s left on time", remedy)
        case observation.LeftLate(name, lag_ns):
            remedy = "no connection was free (more by -c), or the engine woke late"
            return Sentence(f"{name}: 1 % of its requests left more than {lag_ns / 1000:,.0f} µs late", remedy)
        case observation.NotSaturated(name, busy, cores, disturbed, gathered):
            of_cores = "core" if cores == 1 else f"{cores} cores"
            why = GATHERED if gathered and not disturbed else why_idle(disturbed)
            return Sentence(f"{name} kept {as_percent(busy)} of its {of_cores} busy", why)
    assert_never(observed)


def _engine_use(observed: observation.EngineUse) -> Sentence:
    server = "unreadable" if observed.busy is None else as_percent(observed.busy)
    used = f"the engine used {as_percent(observed.share)} of its cores and the server {server} of its own"
    match observed.kind:
        case Generator.LIMIT:
            return Sentence(f"the generator is the limit: with {observed.contender}, {used}", MORE_ENGINE, each=True)
        case Generator.LIMIT_BY_CPU:
            decides = "so throughput measures the generator; CPU time per request decides"
            return Sentence(f"the generator is the limit: with {observed.contender}, {used}, {decides}")
        case Generator.NEAR:
            near = f"the generator is near its limit: with {observed.contender}, {used}"
            return Sentence(near, MORE_ENGINE, each=True)
    assert_never(observed.kind)


def _launch(observed: observation.LaunchObservation) -> Sentence:
    match observed:
        case observation.Died(name, rounds):
            return Sentence(f"{name} exited unexpectedly in round {_listed(rounds)}", "see its log", each=True)
        case observation.Killed(name, count, launches):
            text = f"{name} was ended by SIGKILL in {count} of {launches} launches"
            remedy = "a stop signal that no process obeys costs 15 s each time; let its wrapper start it by exec"
            return Sentence(text, remedy, each=True)
        case observation.Unsettled(name, count, launches):
            text = f"{name}'s warm-up had not ended in {count} of {launches} launches"
            return Sentence(text, "give it longer in its definition (warm_up)", each=True)
        case observation.Shapes(name, shapes):
            listed = ", ".join(f"{processes} and {threads}" for processes, threads in shapes)
            return Sentence(f"{name} started with different numbers of processes and threads: {listed}")
        case observation.SlowLaunches(name, slow, launches):
            listed = ", ".join(f"round {index} at {as_percent(share)} of it" for index, share in slow.items())
            return Sentence(f"{len(slow)} of {name}'s {launches} launches were far slower than its median: {listed}")
        case observation.TwoKinds(name, share, slower, launches, wanted):
            groups = f"{as_percent(share)} of them are {as_percent(slower)} slower"
            remedy = "the mean mixes both groups; find out what differs from start to start"
            if launches < wanted:
                remedy = f"take {wanted} rounds or more (--rounds {wanted})"
            return Sentence(f"{name}'s launches fall into two groups: {groups}", remedy, each=True)
        case observation.AlreadyRunning(name):
            remedy = "the interval does not include launch-to-launch variation"
            return Sentence(f"{name} was already running", remedy)
        case observation.OwnEvent(event=event):
            remedy = "its figures depend on how long it is loaded; compare it by `dragstrip load` as well"
            if event.kind is EventKind.GROWING:
                remedy = "it may slow down or end later; load it for longer (dragstrip load -d 60s)"
            return Sentence(event_text(event), remedy)
    assert_never(observed)


def _answer(observed: observation.AnswerObservation) -> Sentence:
    match observed:
        case observation.Closed(name, answers):
            closed = f"{name} closed its connections after {answers:.1f} responses on average"
            remedy = "raise its keep-alive limit, or race all with --no-keepalive"
            return Sentence(f"{closed}, although keep-alive was requested", remedy)
        case observation.Reused(name, connects, answered):
            opened = f"only {connects} connections were opened for {answered} responses of {name}"
            remedy = "this is a fault of the engine, please report it with `dragstrip export`"
            return Sentence(f"{opened}, but each request needs its own", remedy)
        case observation.Miscounted(name, fewer, more, sent):
            off = max(fewer, more)
            counted = f"by its own count {name} received {off} requests {'fewer' if fewer > more else 'more'}"
            than = f"than the engine {'got responses to' if fewer > more else 'sent'}"
            remedy = "check that no other program serves or calls its port, and what [served] in its definition reads"
            return Sentence(f"{counted} {than} ({as_percent(off / sent)} of {sent})", remedy)
        case observation.DatabaseAsked(most, busy):
            within = f"it executed the statements that the responses needed, within {as_percent(most)}"
            return Sentence(f"{within}, and was at most {as_percent(busy)} busy")
        case observation.DatabaseMiscounted(name, executed, wanted):
            than = f"{'fewer' if executed < wanted else 'more'} than the {wanted:,.0f} that its responses needed"
            remedy = "see what its handler does in addition to one statement per row"
            return Sentence(f"the database executed {executed:,} statements for {name}, {than}", remedy)
    assert_never(observed)


def _link(observed: observation.LinkObservation) -> Sentence:
    match observed:
        case observation.LinksCalm(use, again, round_trip_ns):
            used = "their line rate is unknown" if use is None else f"at most {as_percent(use)} of their line rate"
            trip = f"round trip {round_trip_ns / 1000:,.0f} µs"
            return Sentence(f"links: {used}; {as_percent(again)} of the segments retransmitted; {trip}")
        case observation.LinkFull(name, machine, share, mbps):
            of_link = f"{as_percent(share)} of the {mbps:,} Mbit/s of {machine}'s data link"
            remedy = "take a faster link, a smaller response, or compare by --metric cpu"
            return Sentence(f"{name} took {of_link}, which may set its pace", remedy)
        case observation.Retransmitted(machine, share):
            remedy = "see cables, switch and queues between the machines (ip -s link, nstat)"
            return Sentence(f"{machine} retransmitted {as_percent(share)} of its TCP segments", remedy)
        case observation.RoundTrip(name, machine, round_trip_ns, p50_ns):
            way = f"{round_trip_ns / 1000:,.0f} µs of {name}'s median latency of {p50_ns / 1000:,.0f} µs"
            remedy = "take machines nearer to each other, or compare throughput with more connections (-c)"
            return Sentence(f"the round trip from {machine} takes {way}", remedy)
        case observation.Interrupts(machine, core, share):
            remedy = "spread the link's queues over more cores (ethtool -L, /proc/irq/*/smp_affinity)"
            return Sentence(f"interrupts took {as_percent(share)} of core {core} of {machine}", remedy)
        case observation.UnevenGenerators(machine, share, count):
            got = f"generator {machine} got {as_percent(share)} of all responses"
            remedy = "see `dragstrip fleet check`, and give every generator the same kind of link"
            return Sentence(f"{got}, one of {count}: it or its link is slower", remedy)
    assert_never(observed)


def _parity(observed: observation.ParityObservation) -> Sentence:
    match observed:
        case observation.FactDiffers():
            return Sentence(_differing(observed))
        case observation.FactSplits():
            return Sentence(_split(observed))
        case observation.FactListed():
            return Sentence(_by_contender(observed))
    assert_never(observed)


def _differing(observed: observation.FactDiffers) -> str:
    groups = "; ".join(f"{_listed(names)}: {value}" for value, names in observed.groups.items())
    match observed.fact:
        case observation.GroupedFact.FRAMING:
            remedy = "which is different work; let all of them send Content-Length"
            return f"responses are framed differently ({groups}), {remedy}"
        case observation.GroupedFact.VERSION:
            return f"responses have different HTTP versions ({groups})"
        case observation.GroupedFact.TLS:
            return f"encryption differs ({groups})"
    assert_never(observed.fact)


def _split(observed: observation.FactSplits) -> str:
    names, others = _listed(observed.names), _listed(observed.others)
    match observed.fact:
        case SplitFact.LOGGING:
            return f"{names} writes an access log, {others} does not: switch it off for a fair race"
        case SplitFact.COMPRESSION:
            return f"{names} would compress, {others} does not: switch it off for a fair race"
        case SplitFact.ROOT:
            return f"{names} runs as root and the others don't: their resource limits do not apply to root"
        case SplitFact.IGNORES_PATHS:
            return f"{names} gives the same response to every path, so it does no routing: the others do"
        case SplitFact.CLOSES_OLD_HTTP:
            return f"{names} closes each HTTP/1.0 connection after one response; the others keep it open"
    assert_never(observed.fact)


def _by_contender(observed: observation.FactListed) -> str:
    match observed.fact:
        case ListedFact.SIZE:
            (longest, most), (shortest, least) = observed.values.items()
            sizes = f"a response of {longest} has {most} bytes, one of {shortest} has {least}"
            return f"{sizes}: headers cost time, and bytes per second are not comparable"
        case ListedFact.DOUBLED_HEADERS:
            listed = "; ".join(f"{name}: {headers}" for name, headers in observed.values.items())
            costs = "the others don't send these bytes, and clients may reject them; send each header once"
            return f"headers that a response may have only once appear twice ({listed}): {costs}"
        case ListedFact.NOTE:
            return "; ".join(f"{name}: {note}" for name, note in observed.values.items())
        case ListedFact.CLOSES:
            closed = ", ".join(f"{name} after {limit}" for name, limit in observed.values.items())
            pays = "the cost of new connections is in its figures; raise the limit, or race all with --no-keepalive"
            return f"a busy connection is closed by {closed}: {pays}"
        case ListedFact.CORES:
            busy = ", ".join(f"{name} {cores}" for name, cores in observed.values.items())
            compare = "--metric cpu compares the work, or one server core (--server-cores) the programs"
            return f"they keep different numbers of cores busy ({busy}): {compare}"
    assert_never(observed.fact)
