"""The sentences of the checks: what each saw and, where it matters, what to do. Values in, text out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dragstrip.record import Event, Void, VoidKind
from dragstrip.report.figures import as_percent
from dragstrip.report.race import link_checks
from dragstrip.report.race.messages import event_text, more_rounds, void_text, why_idle
from dragstrip.validity.check import Check, Finding, Saw

#: What to do about others on the race's cores.
QUIET = "end other programs, or give the race cores of its own (--server-cores, --engine-cores)"

ELSEWHERE = "race on a machine whose cores are not shared, or at another time"
MORE_ENGINE = "give the engine more cores (--engine-cores, --threads) or the servers fewer"
ENGINE_FAULT = "this is a fault of the engine: please report it with `dragstrip export`"
SEE_LOG = "see the contender's log; try fewer connections (-c)"

#: What to do where most void passes were void by one kind of reason; ``QUIET`` where none is named.
VOID_REMEDIES: Mapping[VoidKind, str] = {
    VoidKind.DATABASE: "see the database's log among the race's events",
    VoidKind.STEAL: ELSEWHERE,
    VoidKind.GENERATOR: MORE_ENGINE,
    VoidKind.CLOCK: "let the clock be slewed, not set, while racing (chrony: makestep; timedatectl set-ntp false)",
    VoidKind.ACCOUNTING: ENGINE_FAULT,
    VoidKind.ERRORS: SEE_LOG,
    VoidKind.WRONG_ANSWERS: "see the excerpt of the first wrong answer",
}

#: Kinds whose remedy stands after a semicolon; after a colon it is told once for all that were seen alike.
_SEMICOLON = frozenset(
    {
        Saw.DIED,
        Saw.UNSETTLED,
        Saw.TWO_KINDS,
        Saw.SHARED_CORES,
        Saw.GENERATOR_LIMIT,
        Saw.GENERATOR_NEAR,
        Saw.ACCOUNTING_FAULTS,
        Saw.ERRORS,
        Saw.TURN_LONG,
        Saw.MANY_VOID_PASSES,
    }
)


class ToldCheck(Check):
    """A check with its sentences, as ``dragstrip.Result.checks`` hands it to a program."""

    __slots__ = ()

    @property
    def detail(self) -> str:
        """In a sentence what was seen."""
        return check_text(self)

    @property
    def remedy(self) -> str:
        """What to do, as its sentence ends; "" where it says nothing of that."""
        return check_remedy(self)


def told(check: Check) -> ToldCheck:
    """A check with its sentences."""
    return ToldCheck(
        check=check.check, status=check.status, findings=check.findings, otherwise=check.otherwise, column=check.column
    )


def check_text(check: Check) -> str:
    """All that a check saw as one sentence, with what to do; a remedy after a colon once for all seen alike."""
    if not check.findings:
        return seen_text(check.otherwise) if check.otherwise else ""
    parts: dict[str, list[str]] = {}
    ends: dict[str, str] = {}
    for at, one in enumerate(check.findings):
        remedy, apart = remedy_text(one), one.kind in _SEMICOLON
        key = remedy if remedy and not apart else f"#{at}"
        parts.setdefault(key, []).append(seen_text(one))
        ends[key] = f"{';' if apart else ':'} {remedy}" if remedy else ""
    return "; ".join(", ".join(seen) + ends[key] for key, seen in parts.items())


def check_remedy(check: Check) -> str:
    """What to do, as a check's sentence ends; "" where it says nothing of that."""
    return remedy_text(check.findings[-1]) if check.findings else ""


def seen_text(finding: Finding) -> str:
    """What was seen."""
    return _SEEN[finding.kind](finding.about[0] if finding.about else "", **finding.values)


def remedy_text(finding: Finding) -> str:
    """What to do about it; "" where there is nothing to do."""
    remedy = _REMEDIES.get(finding.kind, "")
    return remedy if isinstance(remedy, str) else remedy(finding)


def _listed(names: Sequence[object]) -> str:
    return ", ".join(map(str, names))


def _always(text: str) -> Callable[[str], str]:
    return lambda _: text


def _rounds(_: str, valid: int, void: int) -> str:
    return f"{valid} rounds of fresh launches{_again(void)}"


def _few_rounds(_: str, valid: int, void: int, least: int, ended: str) -> str:
    return f"{valid} valid rounds, {least} are the least{_again(void)}"


def _again(void: int) -> str:
    return f"; {void} more were void and run again" if void else ""


def _own_cores(_: str, servers: Sequence[int], engine: Sequence[int]) -> str:
    return f"servers on cores {_listed(servers)}, engine on cores {_listed(engine)}"


def _shared_cores(_: str, cores: Sequence[int]) -> str:
    return f"servers and engine share core {_listed(cores)}: what the engine spends is missing from the servers"


def _engine_used(who: str, share: float, busy: float | None) -> str:
    server = "unreadable" if busy is None else as_percent(busy)
    return f"against {who} the engine used {as_percent(share)} of its cores, the server {server} of its own"


def _generator_limit(who: str, share: float, busy: float | None) -> str:
    return f"the generator is the limit: {_engine_used(who, share, busy)}"


def _generator_limit_by_cpu(who: str, share: float, busy: float | None) -> str:
    decides = "whose throughput is the generator's; the CPU time per request decides"
    return f"{_generator_limit(who, share, busy)}, {decides}"


def _generator_near(who: str, share: float, busy: float | None) -> str:
    return f"the generator is near its limit: {_engine_used(who, share, busy)}"


def _ceiling_near(who: str, share: float) -> str:
    return f"{who} was served {as_percent(share)} of what the generator can send here (dragstrip doctor)"


def _engine_waited(_: str, share: float) -> str:
    return f"the engine waited {as_percent(share)} of the time for its cores (median over blocks)"


def _server_wait_most(_: str, most: float, unread: Sequence[str]) -> str:
    unknown = f"; unreadable: {_listed(unread)}" if unread else ""
    return f"others took at most {as_percent(most)} of any server's time{unknown}"


def _accounting_faults(_: str, count: int, first: Void) -> str:
    return f"{count} faults, the first: {void_text(first)}"


def _errors(who: str, failed: int, sent: int, errors: Mapping[str, int]) -> str:
    by_kind = ", ".join(f"{kind} {count}" for kind, count in errors.items())
    return f"{who}: {failed} errors to {sent} requests ({by_kind})"


def _at_work(who: str, busy: float, connections: int) -> str:
    return f"{who}: {busy:.1f} of {connections} connections were at work on average"


def _little_reconnects(who: str, busy: float, connections: int) -> str:
    return f"{_at_work(who, busy, connections)}, as it closes connections"


def _little_off(who: str, busy: float, connections: int, off: float) -> str:
    return f"{_at_work(who, busy, connections)}, off by {as_percent(off)}"


def _little_holds(_: str, within: float) -> str:
    return f"connections = rate × (mean latency + the engine's own turn-round), within {as_percent(within)}"


def _turn_long(who: str, share: float) -> str:
    return f"{who}: connections spent {as_percent(share)} of the time waiting in the generator, not for the server"


def _turn_most(_: str, most: float, busy: bool) -> str:
    all_the_same = ", and the servers were busy all the same" if busy else ""
    return f"connections spent at most {as_percent(most)} of the time waiting in the generator{all_the_same}"


def _not_sustained(who: str, share: float, rate_per_s: float) -> str:
    return f"{who}: only {as_percent(share)} of the offered {rate_per_s:,g}/s left in time"


def _left_late(who: str, lag_ns: float) -> str:
    return f"{who}: one request in a hundred left over {lag_ns / 1000:,.0f} µs late"


def _not_saturated(who: str, busy: float, cores: int, disturbed: bool) -> str:
    return f"{who} kept {as_percent(busy)} of its {'core' if cores == 1 else f'{cores} cores'} busy"


def _saturated(_: str, least: float, unread: Sequence[str]) -> str:
    unknown = f", except {_listed(unread)}, whose CPU time can't be read" if unread else ""
    return f"the servers kept their cores at least {as_percent(least)} busy{unknown}"


def _died(who: str, rounds: Sequence[int]) -> str:
    return f"{who} died before it was told to in round {_listed(rounds)}"


def _unsettled(who: str, count: int, launches: int) -> str:
    return f"{who}'s warm-up had not ended in {count} of {launches} launches"


def _shapes(who: str, shapes: Sequence[tuple[int, int]]) -> str:
    listed = ", ".join(f"{processes} and {threads}" for processes, threads in shapes)
    return f"{who} came up with different numbers of processes and threads: {listed}"


def _slow_launches(who: str, slow: Mapping[int, float], launches: int) -> str:
    listed = ", ".join(f"round {index} at {as_percent(share)} of it" for index, share in slow.items())
    return f"{len(slow)} of {who}'s {launches} launches were far slower than its median: {listed}"


def _two_kinds(who: str, share: float, slower: float, launches: int, wanted: int) -> str:
    del launches, wanted  # the remedy's
    return f"{who}'s launches are of two kinds: {as_percent(share)} of them {as_percent(slower)} slower"


def _two_kinds_remedy(finding: Finding) -> str:
    wanted = finding.values["wanted"]
    if finding.values["launches"] >= wanted:
        return "the mean is of both kinds, as it met them; pin down what differs from start to start"
    return f"take {wanted} rounds or more (--rounds {wanted})"


def _trend(who: str, mean: float) -> str:
    way = "rose" if mean > 0 else "fell"
    return f"{who}'s throughput {way} by {as_percent(abs(mean))} from a round's first block to its last"


def _void_passes(_: str, lost: int, passes: int, cause: VoidKind | None) -> str:
    return f"{lost} of {passes} passes void{f' ({cause})' if cause else ''}"


def _many_void_passes(_: str, lost: int, passes: int, cause: VoidKind | None) -> str:
    return f"{lost} of {passes} passes void, mostly because: {cause}"


def _void_passes_remedy(finding: Finding) -> str:
    cause = finding.values["cause"]
    return VOID_REMEDIES.get(cause, QUIET) if cause else QUIET


def _intruders(_: str, count: int, names: Sequence[str]) -> str:
    return f"other programs were at work on the race's cores in {count} cases ({_listed(names)})"


def _pace(_: str, drift: float) -> str:
    way = "slower" if drift > 0 else "faster"
    return f"the machine grew {as_percent(abs(drift))} {way} over the race, by the engine's own CPU time per request"


def _steady(_: str, drift: float, scatters: bool) -> str:
    scatter = ", no more than it scatters" if scatters else ""
    return f"steady: the engine's own pace changed by {as_percent(abs(drift))} over the race{scatter}"


def _event(_: str, event: Event) -> str:
    return event_text(event)


def _closed(who: str, answers: float) -> str:
    return f"{who} closed its connections after {answers:.1f} answers on average, keep-alive was asked"


def _reused(who: str, connects: int, answered: int) -> str:
    return f"only {connects} connections were opened for {answered} answers of {who}, each was to have its own"


def _miscounted(who: str, fewer: int, more: int, sent: int) -> str:
    seen = f"by its own count {who} had {max(fewer, more)} requests {'fewer' if fewer > more else 'more'}"
    than = f"than the engine {'had answers to' if fewer > more else 'sent'}"
    return f"{seen} {than} ({as_percent(max(fewer, more) / sent)} of {sent})"


def _counted_alike(_: str, names: Sequence[str], most: float) -> str:
    return f"{_listed(names)} had as many requests as were sent, within {as_percent(most)}"


def _database_asked(_: str, most: float, busy: float) -> str:
    return f"it executed what the answers took, within {as_percent(most)}, and was at most {as_percent(busy)} busy"


def _database_miscounted(who: str, executed: int, wanted: float) -> str:
    way = "fewer" if executed < wanted else "more"
    return (
        f"the database executed {executed:,} statements for {who}, {way} than the {wanted:,.0f} that its answers took"
    )


def _shorter(who: str, share: float) -> str:
    return f"{who}'s answers were {as_percent(share)} shorter in one block than usual"


def _in_words(groups: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{_listed(names)}: {value}" for value, names in groups.items())


def _framing(_: str, groups: Mapping[str, Sequence[str]]) -> str:
    return f"answers are framed differently ({_in_words(groups)}), which is different work; have all send the length"


def _size(_: str, most: tuple[str, int], least: tuple[str, int]) -> str:
    sizes = f"an answer of {most[0]} has {most[1]} bytes, one of {least[0]} {least[1]}"
    return f"{sizes}: headers cost something, and bytes per second don't compare"


def _versions(_: str, groups: Mapping[str, Sequence[str]]) -> str:
    return f"answers are of different versions ({_in_words(groups)})"


def _tls(_: str, groups: Mapping[str, Sequence[str]]) -> str:
    return f"encryption differs ({_in_words(groups)})"


def _doubled(_: str, headers: Mapping[str, str]) -> str:
    listed = "; ".join(f"{name}: {which}" for name, which in headers.items())
    return (
        f"headers that an answer may have once stand in it twice ({listed}): bytes that others don't "
        "send, and clients may refuse it; send each once"
    )


def _switched(what: str) -> Callable[..., str]:
    """A setting that is on for some and off for others."""

    def text(_: str, on: Sequence[str], off: Sequence[str]) -> str:
        return f"{_listed(on)} {what}, {_listed(off)} not: switch it off for a fair race"

    return text


def _root(_: str, names: Sequence[str]) -> str:
    return f"{_listed(names)} runs as root and the others don't: root has no limits that they have"


def _routing(_: str, names: Sequence[str]) -> str:
    return f"{_listed(names)} answers every path alike, so it looks at none: the others do that work"


def _note(_: str, name: str, note: str) -> str:
    return f"{name}: {note}"


def _closes(_: str, limits: Mapping[str, object]) -> str:
    who = ", ".join(f"{name} after {limit}" for name, limit in limits.items())
    pays = "it pays for opening new ones; lift the limit, or race all with --no-keepalive"
    return f"a busy connection is closed by {who}: {pays}"


def _closes_old(_: str, names: Sequence[str]) -> str:
    return f"{_listed(names)} keeps no connection over HTTP/1.0 and opens one per request, others don't"


def _cores(_: str, used: Mapping[str, float]) -> str:
    who = ", ".join(f"{name} {cores:.2f}" for name, cores in used.items())
    return (
        f"they keep different numbers of cores busy ({who}): --metric cpu compares the work, or one server core "
        "(--server-cores) the programs"
    )


#: What was seen, by its kind: of the contender it is about, else "", and its values.
_SEEN: Mapping[Saw, Callable[..., str]] = {
    Saw.ROUNDS: _rounds,
    Saw.FEW_ROUNDS: _few_rounds,
    Saw.OWN_CORES: _own_cores,
    Saw.SHARED_CORES: _shared_cores,
    Saw.ENGINE_CORES_USED: lambda _, most: f"the engine used at most {as_percent(most)} of its cores",
    Saw.GENERATOR_LIMIT: _generator_limit,
    Saw.GENERATOR_LIMIT_BY_CPU: _generator_limit_by_cpu,
    Saw.GENERATOR_NEAR: _generator_near,
    Saw.CEILING_NEAR: _ceiling_near,
    Saw.ENGINE_WAITED: _engine_waited,
    Saw.ENGINE_WAITED_SHARED: lambda _, share: f"{_engine_waited('', share)}; it shares them with the servers",
    Saw.ENGINE_WAIT_TAKEN: lambda _, share: f"{_engine_waited('', share)}, taken by others",
    Saw.SERVER_WAIT_SHARED: _always("says nothing: servers share cores with the engine or the database"),
    Saw.SERVER_WAIT_MOST: _server_wait_most,
    Saw.SERVER_WAIT_TAKEN: lambda who, taken: f"others took up to {as_percent(taken)} of {who}'s time on its cores",
    Saw.STEAL: lambda _, share: f"the hypervisor took {as_percent(share)} of the race's cores",
    Saw.ADDS_UP: _always("in every block: sent = answered + failed + in flight, quantiles in order"),
    Saw.ACCOUNTING_FAULTS: _accounting_faults,
    Saw.NO_ERRORS: lambda _, answered: f"none: all {answered} answers were right",
    Saw.ERRORS: _errors,
    Saw.LITTLE_OPEN_LOOP: _always("an open loop keeps no connection busy: not looked at"),
    Saw.LITTLE_HOLDS: _little_holds,
    Saw.LITTLE_RECONNECTS: _little_reconnects,
    Saw.LITTLE_OFF: _little_off,
    Saw.TURN_OPEN_LOOP: _always("an open loop's requests wait for the clock: not looked at"),
    Saw.TURN_MOST: _turn_most,
    Saw.TURN_LONG: _turn_long,
    Saw.OFFERED: lambda _, rate_per_s: f"{rate_per_s:,g}/s was offered to all, and on time",
    Saw.NOT_SUSTAINED: _not_sustained,
    Saw.LEFT_LATE: _left_late,
    Saw.SATURATED: _saturated,
    Saw.NOT_SATURATED: _not_saturated,
    Saw.LAUNCHES_ALIKE: _always("all came up, warmed up, and were of one kind"),
    Saw.DIED: _died,
    Saw.UNSETTLED: _unsettled,
    Saw.SHAPES: _shapes,
    Saw.SLOW_LAUNCHES: _slow_launches,
    Saw.TWO_KINDS: _two_kinds,
    Saw.ALREADY_RUNNING: lambda who: f"{who} was already running",
    Saw.NO_TREND: lambda _, most: f"no trend within the rounds beyond its noise (largest mean {as_percent(most)})",
    Saw.TREND: _trend,
    Saw.VOID_PASSES: _void_passes,
    Saw.MANY_VOID_PASSES: _many_void_passes,
    Saw.NO_INTRUDERS: _always("none used over a tenth of a core for long"),
    Saw.INTRUDERS: _intruders,
    Saw.STEADY: _steady,
    Saw.HEAT: _always("heat slowed the processor during the race"),
    Saw.FREQUENCY: lambda _, event: f"the cores' frequency changed ({event_text(event)})",
    Saw.PACE: _pace,
    Saw.MEMORY_STEADY: _always("no contender's memory grew all the while"),
    Saw.GROWING: _event,
    Saw.BLOCKS_ALIKE: _always("short blocks read as one long block does, as far as that could be compared"),
    Saw.UNEQUAL_BLOCKS: _event,
    Saw.CONNECTIONS_AS_ASKED: _always("kept open, or not, as asked"),
    Saw.CLOSED: _closed,
    Saw.REUSED: _reused,
    Saw.NO_OWN_COUNT: _always("no server here says how many requests it had"),
    Saw.COUNTED_ALIKE: _counted_alike,
    Saw.MISCOUNTED: _miscounted,
    Saw.AS_LONG: _always("as long in every block as in all"),
    Saw.SHORTER: _shorter,
    Saw.DATABASE_ASKED: _database_asked,
    Saw.DATABASE_LIMIT: lambda who, busy: f"the database is the limit: {who} kept it {as_percent(busy)} busy",
    Saw.DATABASE_MISCOUNTED: _database_miscounted,
    **link_checks.SEEN,
    Saw.NO_TILT: _always("nothing on the parity sheet tilts the race"),
    Saw.FRAMING: _framing,
    Saw.SIZE: _size,
    Saw.VERSIONS: _versions,
    Saw.TLS: _tls,
    Saw.DOUBLED: _doubled,
    Saw.LOGGING: _switched("writes an access log"),
    Saw.COMPRESSION: _switched("would compress"),
    Saw.ROOT: _root,
    Saw.ROUTING: _routing,
    Saw.NOTE: _note,
    Saw.CLOSES: _closes,
    Saw.CLOSES_OLD: _closes_old,
    Saw.CORES: _cores,
}

#: What to do, by what was seen; none: nothing, or the sentence says it.
_REMEDIES: Mapping[Saw, str | Callable[[Finding], str]] = {
    Saw.FEW_ROUNDS: lambda finding: f"with fewer, rare slow launches mislead{more_rounds(finding.values['ended'])}",
    Saw.SHARED_CORES: "trust the CPU per request more, or give each cores of its own (--server-cores, --engine-cores)",
    Saw.GENERATOR_LIMIT: MORE_ENGINE,
    Saw.GENERATOR_NEAR: MORE_ENGINE,
    Saw.CEILING_NEAR: MORE_ENGINE,
    Saw.ENGINE_WAIT_TAKEN: QUIET,
    Saw.SERVER_WAIT_TAKEN: QUIET,
    Saw.STEAL: ELSEWHERE,
    Saw.ACCOUNTING_FAULTS: ENGINE_FAULT,
    Saw.ERRORS: SEE_LOG,
    Saw.LITTLE_OFF: "rate and latency don't belong together",
    Saw.TURN_LONG: MORE_ENGINE,
    Saw.NOT_SUSTAINED: "not sustained, so its latency is that of a queue; lower --rate",
    Saw.LEFT_LATE: "no connection was free (more by -c), or the engine woke late",
    Saw.NOT_SATURATED: lambda finding: why_idle(finding.values["disturbed"]),
    Saw.DIED: "see its log",
    Saw.UNSETTLED: "give it longer in its definition (warm_up)",
    Saw.TWO_KINDS: _two_kinds_remedy,
    Saw.ALREADY_RUNNING: "how its launches differ is not in the interval",
    Saw.TREND: "give it a longer warm-up in its definition",
    Saw.MANY_VOID_PASSES: _void_passes_remedy,
    Saw.INTRUDERS: QUIET,
    Saw.HEAT: "cool it, or race at a fixed lower frequency",
    Saw.FREQUENCY: "fix it (governor performance, no turbo)",
    Saw.PACE: "pairs share that, single figures don't; race again when it is steady",
    Saw.GROWING: "it may slow down or end later; load it for longer (dragstrip load -d 60s)",
    Saw.UNEQUAL_BLOCKS: "its figures depend on how long it is loaded; compare it by `dragstrip load` as well",
    Saw.CLOSED: "raise its keep-alive limit, or race all with --no-keepalive",
    Saw.REUSED: "this is a fault of the engine, please report it with `dragstrip export`",
    Saw.MISCOUNTED: "see that nobody else serves or asks at its port, and what [served] in its definition reads",
    Saw.DATABASE_LIMIT: "the servers before it are not told apart; give it more cores, or ask less of it",
    Saw.DATABASE_MISCOUNTED: "see what its handler does beside one statement per row",
    **link_checks.REMEDIES,
    Saw.SHORTER: lambda finding: f"see what it leaves out under load (`dragstrip verify {finding.about[0]}`)",
}
