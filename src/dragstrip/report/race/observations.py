"""The sentences of what checks observed. Values in, text out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from dragstrip.report.figures import as_percent
from dragstrip.report.race.messages import event_text, void_text
from dragstrip.validity import observation as seen
from dragstrip.validity import parity_observation as sheet
from dragstrip.validity.observation import Observation, Plain


def observation_text(of: Observation) -> str:
    """What was seen."""
    if isinstance(of, Plain):
        return _plain_text(of)
    if isinstance(of, seen.RaceObservation):
        return _race_text(of)
    if isinstance(of, seen.GeneratorObservation):
        return _generator_text(of)
    if isinstance(of, seen.LoadObservation):
        return _load_text(of)
    if isinstance(of, seen.MachineObservation):
        return _machine_text(of)
    if isinstance(of, seen.LaunchObservation):
        return _launch_text(of)
    if isinstance(of, seen.AnswerObservation):
        return _answer_text(of)
    if isinstance(of, seen.LinkObservation):
        return _link_text(of)
    return _parity_text(of)


def _listed(names: Sequence[object]) -> str:
    return ", ".join(map(str, names))


def _plain_text(of: Plain) -> str:
    match of:
        case Plain.ADDS_UP:
            return "in every block: sent = answered + failed + in flight, quantiles in order"
        case Plain.LITTLE_OPEN_LOOP:
            return "not checked: an open loop does not keep every connection busy"
        case Plain.TURN_OPEN_LOOP:
            return "not checked: an open loop's requests wait for the clock"
        case Plain.SERVER_WAIT_SHARED:
            return "not meaningful: servers share cores with the engine or the database"
        case Plain.LAUNCHES_ALIKE:
            return "all launches started, warmed up and behaved alike"
        case Plain.NO_INTRUDERS:
            return "no other program used over a tenth of a core for long"
        case Plain.HEAT:
            return "heat slowed the processor during the race"
        case Plain.MEMORY_STEADY:
            return "no contender's memory kept growing"
        case Plain.BLOCKS_ALIKE:
            return "short blocks give the same result as one long block, as far as that could be compared"
        case Plain.CONNECTIONS_AS_ASKED:
            return "kept open, or closed, as requested"
        case Plain.NO_OWN_COUNT:
            return "no server here reports how many requests it received"
        case Plain.LENGTHS_EQUAL:
            return "the same length in every block"
        case Plain.NO_TILT:
            return "nothing on the parity sheet tilts the race"
    assert_never(of)


def _race_text(of: seen.RaceObservation) -> str:
    match of:
        case seen.Rounds(valid, void, least):
            rerun = f"; {void} more were void and run again" if void else ""
            few = f"{valid} valid rounds, at least {least} are needed"
            return f"{few if valid < least else f'{valid} rounds of fresh launches'}{rerun}"
        case seen.Lanes(servers, engine, ()):
            return f"servers on cores {_listed(servers)}, engine on cores {_listed(engine)}"
        case seen.Lanes(shared=cores):
            return f"servers and engine share core {_listed(cores)}: the servers lose the CPU time that the engine uses"
        case seen.VoidPasses(lost, passes, cause):
            return f"{lost} of {passes} passes void{f', mostly because: {cause}' if cause else ''}"
        case seen.AccountingFaults(count, first):
            return f"{count} faults, the first: {void_text(first)}"
        case seen.NoErrors(answered):
            return f"none: all {answered} responses were correct"
        case seen.Errors(name, failed, sent, errors):
            by_kind = ", ".join(f"{kind} {count}" for kind, count in errors.items())
            return f"{name}: {failed} errors to {sent} requests ({by_kind})"
    assert_never(of)


def _generator_text(of: seen.GeneratorObservation) -> str:
    match of:
        case seen.EngineCoresUsed(most):
            return f"the engine used at most {as_percent(most)} of its cores"
        case seen.GeneratorLimit():
            return f"the generator is the limit: {_use_text(of)}"
        case seen.GeneratorLimitByCpu():
            decides = "so throughput measures the generator; CPU time per request decides"
            return f"the generator is the limit: {_use_text(of)}, {decides}"
        case seen.GeneratorNear():
            return f"the generator is near its limit: {_use_text(of)}"
        case seen.CeilingNear(name, share):
            return (
                f"{name} received {as_percent(share)} of the load generator's maximum rate on this machine "
                "(dragstrip doctor)"
            )
        case seen.TurnMost(most, busy):
            nevertheless = ", but the servers were busy anyway" if busy else ""
            return f"connections spent at most {as_percent(most)} of the time waiting in the generator{nevertheless}"
        case seen.TurnLong(name, share):
            waited = f"connections spent {as_percent(share)} of the time waiting in the generator"
            return f"{name}: {waited}, not for the server"
    assert_never(of)


def _use_text(of: seen.EngineUse) -> str:
    server = "unreadable" if of.busy is None else as_percent(of.busy)
    return (
        f"with {of.contender}, the engine used {as_percent(of.share)} of its cores and the server {server} of its own"
    )


def _load_text(of: seen.LoadObservation) -> str:
    match of:
        case seen.LittleHolds(within):
            return f"connections = rate × (mean latency + the engine's own turnaround), within {as_percent(within)}"
        case seen.LittleReconnects(name, busy, connections):
            return f"{_at_work(name, busy, connections)}, as it closes connections"
        case seen.LittleOff(name, busy, connections, off):
            return f"{_at_work(name, busy, connections)}, off by {as_percent(off)}"
        case seen.Offered(rate_per_s):
            return f"{rate_per_s:,g}/s was offered to every contender, on time"
        case seen.NotSustained(name, share, rate_per_s):
            return f"{name}: only {as_percent(share)} of the offered {rate_per_s:,g}/s left on time"
        case seen.LeftLate(name, lag_ns):
            return f"{name}: 1 % of its requests left more than {lag_ns / 1000:,.0f} µs late"
        case seen.Saturated(least, unread):
            unknown = f", except {_listed(unread)}, whose CPU time can't be read" if unread else ""
            return f"the servers kept their cores at least {as_percent(least)} busy{unknown}"
        case seen.NotSaturated(name, busy, cores):
            return f"{name} kept {as_percent(busy)} of its {'core' if cores == 1 else f'{cores} cores'} busy"
    assert_never(of)


def _at_work(name: str, busy: float, connections: int) -> str:
    return f"{name}: {busy:.1f} of {connections} connections were at work on average"


def _machine_text(of: seen.MachineObservation) -> str:
    match of:
        case seen.EngineWaited(share, shared):
            return f"{_engine_waited(share)}{'; it shares them with the servers' if shared else ''}"
        case seen.EngineWaitTaken(share):
            return f"{_engine_waited(share)}, taken by other programs and the hypervisor"
        case seen.ServerWaitMost(most, unread):
            unknown = f"; unreadable: {_listed(unread)}" if unread else ""
            return f"other programs took at most {as_percent(most)} of any server's time{unknown}"
        case seen.ServerWaitTaken(name, taken):
            return f"other programs took up to {as_percent(taken)} of {name}'s time on its cores"
        case seen.Steal(share):
            return f"the hypervisor took {as_percent(share)} of the race's cores"
        case seen.Intruders(count, names):
            return f"other programs used the race's cores {count} times ({_listed(names)})"
        case seen.Steady(drift, scatters):
            scatter = ", no more than it scatters" if scatters else ""
            return f"steady: the engine's own pace changed by {as_percent(abs(drift))} over the race{scatter}"
        case seen.Pace(drift):
            change = f"{as_percent(abs(drift))} {'slower' if drift > 0 else 'faster'}"
            return f"the machine became {change} during the race, judged by the engine's own CPU time per request"
        case seen.Frequency(event):
            return f"the cores' frequency changed ({event_text(event)})"
    assert_never(of)


def _engine_waited(share: float) -> str:
    return f"the engine waited {as_percent(share)} of the time for its cores (median over blocks)"


def _launch_text(of: seen.LaunchObservation) -> str:
    match of:
        case seen.Died(name, rounds):
            return f"{name} exited unexpectedly in round {_listed(rounds)}"
        case seen.Unsettled(name, count, launches):
            return f"{name}'s warm-up had not ended in {count} of {launches} launches"
        case seen.Shapes(name, shapes):
            listed = ", ".join(f"{processes} and {threads}" for processes, threads in shapes)
            return f"{name} started with different numbers of processes and threads: {listed}"
        case seen.SlowLaunches(name, slow, launches):
            listed = ", ".join(f"round {index} at {as_percent(share)} of it" for index, share in slow.items())
            return f"{len(slow)} of {name}'s {launches} launches were far slower than its median: {listed}"
        case seen.TwoKinds(name, share, slower):
            return (
                f"{name}'s launches fall into two groups: {as_percent(share)} of them are {as_percent(slower)} slower"
            )
        case seen.AlreadyRunning(name):
            return f"{name} was already running"
        case seen.NoTrend(most):
            return f"no trend within the rounds beyond its noise (largest mean {as_percent(most)})"
        case seen.Trend(name, mean):
            change = f"{'rose' if mean > 0 else 'fell'} by {as_percent(abs(mean))}"
            return f"{name}'s throughput {change} from a round's first block to its last"
        case seen.Growing(event=event) | seen.UnequalBlocks(event=event):
            return event_text(event)
    assert_never(of)


def _answer_text(of: seen.AnswerObservation) -> str:
    match of:
        case seen.Closed(name, answers):
            return (
                f"{name} closed its connections after {answers:.1f} responses on average, although keep-alive was "
                "requested"
            )
        case seen.Reused(name, connects, answered):
            opened = f"only {connects} connections were opened for {answered} responses of {name}"
            return f"{opened}, but each request needs its own"
        case seen.CountedAlike(names, most):
            return f"{_listed(names)} received as many requests as were sent, within {as_percent(most)}"
        case seen.Miscounted():
            return _miscounted_text(of)
        case seen.Shorter(name, share):
            return f"{name}'s responses were {as_percent(share)} shorter in one block than usual"
        case seen.DatabaseAsked(most, busy):
            within = f"it executed the statements that the responses needed, within {as_percent(most)}"
            return f"{within}, and was at most {as_percent(busy)} busy"
        case seen.DatabaseLimit(name, busy):
            return f"the database is the limit: {name} kept it {as_percent(busy)} busy"
        case seen.DatabaseMiscounted(name, executed, wanted):
            counted = f"the database executed {executed:,} statements for {name}"
            return (
                f"{counted}, {'fewer' if executed < wanted else 'more'} than the {wanted:,.0f} that its responses "
                "needed"
            )
    assert_never(of)


def _miscounted_text(of: seen.Miscounted) -> str:
    off, fewer = max(of.fewer, of.more), of.fewer > of.more
    counted = f"by its own count {of.contender} received {off} requests {'fewer' if fewer else 'more'}"
    than = f"than the engine {'got responses to' if fewer else 'sent'}"
    return f"{counted} {than} ({as_percent(off / of.sent)} of {of.sent})"


def _link_text(of: seen.LinkObservation) -> str:
    match of:
        case seen.LinksCalm(use, again, round_trip_ns):
            used = "their line rate is unknown" if use is None else f"at most {as_percent(use)} of their line rate"
            trip = f"round trip {round_trip_ns / 1000:,.0f} µs"
            return f"links: {used}; {as_percent(again)} of the segments retransmitted; {trip}"
        case seen.LinkFull(name, machine, share, mbps):
            of_link = f"{as_percent(share)} of the {mbps:,} Mbit/s of {machine}'s data link"
            return f"{name} took {of_link}, which may set its pace"
        case seen.Retransmitted(machine, share):
            return f"{machine} retransmitted {as_percent(share)} of its TCP segments"
        case seen.RoundTrip(name, machine, round_trip_ns, p50_ns):
            way = f"{round_trip_ns / 1000:,.0f} µs of {name}'s median latency of {p50_ns / 1000:,.0f} µs"
            return f"the round trip from {machine} takes {way}"
        case seen.Interrupts(machine, core, share):
            return f"interrupts took {as_percent(share)} of core {core} of {machine}"
        case seen.UnevenGenerators(machine, share, count):
            got = f"generator {machine} got {as_percent(share)} of all responses"
            return f"{got}, one of {count}: it or its link is slower"
    assert_never(of)


def _parity_text(of: sheet.ParityObservation) -> str:
    match of:
        case sheet.FramingDiffers(groups):
            return (
                f"responses are framed differently ({_groups(groups)}), which is different work; let all of them "
                "send Content-Length"
            )
        case sheet.VersionsDiffer(groups):
            return f"responses have different HTTP versions ({_groups(groups)})"
        case sheet.TlsDiffers(groups):
            return f"encryption differs ({_groups(groups)})"
        case sheet.SizeDiffers(most, least):
            sizes = f"a response of {most[0]} has {most[1]} bytes, one of {least[0]} has {least[1]}"
            return f"{sizes}: headers cost time, and bytes per second are not comparable"
        case sheet.DoubledHeaders(headers):
            listed = "; ".join(f"{name}: {which}" for name, which in headers.items())
            costs = "the others don't send these bytes, and clients may reject them; send each header once"
            return f"headers that a response may have only once appear twice ({listed}): {costs}"
        case sheet.LoggingDiffers(on, off):
            return f"{_listed(on)} writes an access log, {_listed(off)} does not: switch it off for a fair race"
        case sheet.CompressionDiffers(on, off):
            return f"{_listed(on)} would compress, {_listed(off)} does not: switch it off for a fair race"
        case sheet.SomeAreRoot(names):
            return f"{_listed(names)} runs as root and the others don't: their resource limits do not apply to root"
        case sheet.SomeIgnorePaths(names):
            return f"{_listed(names)} gives the same response to every path, so it does no routing: the others do"
        case sheet.SomeCloseOldHttp(names):
            return f"{_listed(names)} closes each HTTP/1.0 connection after one response; the others keep it open"
        case sheet.ParityNote(name, note):
            return f"{name}: {note}"
        case sheet.SomeClose(limits):
            closed = ", ".join(f"{name} after {limit}" for name, limit in limits.items())
            pays = "the cost of new connections is in its figures; raise the limit, or race all with --no-keepalive"
            return f"a busy connection is closed by {closed}: {pays}"
        case sheet.CoresDiffer(used):
            busy = ", ".join(f"{name} {cores:.2f}" for name, cores in used.items())
            compare = "--metric cpu compares the work, or one server core (--server-cores) the programs"
            return f"they keep different numbers of cores busy ({busy}): {compare}"
    assert_never(of)


def _groups(groups: Mapping[str, tuple[str, ...]]) -> str:
    return "; ".join(f"{_listed(names)}: {value}" for value, names in groups.items())
