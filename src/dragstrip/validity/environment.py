"""Checks on what happened around the measurement: seen as events of the race, or in all blocks together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import mean, median, stdev

from dragstrip.analysis.interval import student_t
from dragstrip.quantities import as_percent
from dragstrip.record import Block, Event, EventKind, Race
from dragstrip.validity.check import Check, CheckName, Finding, Status, check_result
from dragstrip.validity.messages import QUIET, event_text

#: Shares of the rounds in which another program, or a clock of another speed, is worth a warning.
OFTEN = 0.10

#: The engine's CPU time per request, a measure of the machine's own pace, may drift by this share over a race. A larger
#: change is a drift if scatter from round to round, as on a shared machine, reaches it in only one race of a thousand.
PACE, PACE_BY_CHANCE = 0.05, 0.001

#: A block's responses may be shorter on average than the race's median by this share: (warn, void).
SHORTER = (0.02, 0.10)

#: If correct responses have several lengths, blocks' means vary by chance, the more the fewer responses a block has:
#: only a mean further below counts as shorter. The unit is 1.4826 median absolute deviations (Hampel 1974) of one
#: response, which a few short blocks don't widen, divided by the root of the number of responses; no chance reaches 6.
SPREADS, PER_DEVIATION = 6.0, 1.4826

#: Blocks with at most this many responses are not judged by length: responses after the block's end weigh too much.
FEW_ANSWERS = 100

#: Connections opened per response, from which keep-alive was not as requested; the parity sheet shows its limit.
OPENED = 0.5

#: Without keep-alive, connections per response below which responses shared them.
REOPENED = 0.9

#: Largest difference between a server's own count of requests and the engine's: (warn, void). This many per launch are
#: excused, because a server may count a request a moment after its response.
MISCOUNT, LATE_COUNTS = (0.001, 0.01), 2

#: Fewest rounds in each third of a race whose pace is compared.
THIRD = 4


def surroundings(race: Race, by_name: Mapping[str, Sequence[Block]]) -> tuple[Check, ...]:
    """All of them; ``by_name``: the blocks of each contender still in the race, void rounds apart."""
    return (
        _intruders(race),
        _clock(race, by_name),
        _memory(race),
        _unequal_blocks(race),
        _kept_alive(race, by_name),
        _own_counts(race, by_name),
        _shorter(by_name),
    )


def events_of(race: Race, kind: EventKind) -> list[Event]:
    """The race's events of one kind."""
    return [event for event in race.events if event.kind is kind]


def _intruders(race: Race) -> Check:
    events = events_of(race, EventKind.INTRUDER)
    often = len(events) > OFTEN * max(len(race.rounds), 1)
    names = Counter(event.subject for event in events)
    most = ", ".join(name for name, _ in names.most_common(3))
    text = f"other programs used the race's cores {len(events)} times ({most})"
    finding = Finding(Status.WARN if often else Status.PASS, text, QUIET)
    return check_result(CheckName.OTHER_PROGRAMS, [finding], "no other program used over a tenth of a core for long")


def _clock(race: Race, by_name: Mapping[str, Sequence[Block]]) -> Check:
    """Frequency and heat if the machine reports them; otherwise the pace of the engine, whose work never changes."""
    changed = events_of(race, EventKind.FREQUENCY)
    findings = []
    if events_of(race, EventKind.HEAT):
        remedy = "cool it, or race at a fixed lower frequency"
        findings.append(Finding(Status.WARN, "heat slowed the processor during the race", remedy))
    if len(changed) > OFTEN * max(len(race.rounds), 1):
        text = f"the cores' frequency changed ({event_text(changed[-1])})"
        findings.append(Finding(Status.WARN, text, "fix it (governor performance, no turbo)"))
    drift, by_chance = _drift(by_name)
    if abs(drift) > max(PACE, by_chance):
        became = f"became {as_percent(abs(drift))} {'slower' if drift > 0 else 'faster'} during the race"
        text = f"the machine {became}, judged by the engine's own CPU time per request"
        remedy = "this cancels in ratios but not in single figures; race again when the machine is steady"
        findings.append(Finding(Status.WARN, text, remedy))
    scatters = ", no more than it scatters" if abs(drift) > PACE else ""
    steady = f"steady: the engine's own pace changed by {as_percent(abs(drift))} over the race{scatters}"
    return check_result(CheckName.CLOCK, findings, steady)


def _drift(by_name: Mapping[str, Sequence[Block]]) -> tuple[float, float]:
    """How much more CPU time the engine took per request in the last third of the rounds than in the first.

    And how much more or less that may be by the scatter of rounds within those thirds (Student's t of two samples).
    """
    changes, bounds = [], []
    for blocks in by_name.values():
        paces: dict[int, list[float]] = {}
        for block in blocks:
            if block.requests and block.engine_cpu_ns and not block.void:
                paces.setdefault(block.round, []).append(block.engine_cpu_ns / block.requests)
        by_round = [math.log(median(paces[index])) for index in sorted(paces)]
        third = len(by_round) // 3
        if third >= THIRD:
            first, last = by_round[:third], by_round[-third:]
            changes.append(math.expm1(mean(last) - mean(first)))
            error = math.hypot(stdev(first), stdev(last)) / math.sqrt(third)
            bounds.append(math.expm1(error * student_t(2 * (third - 1), PACE_BY_CHANCE)))
    return (median(changes), median(bounds)) if changes else (0.0, 0.0)


def _memory(race: Race) -> Check:
    grown = events_of(race, EventKind.GROWING)
    counts = Counter(event.subject for event in grown)
    last = {event.subject: event for event in grown}
    rounds_ran = Counter(launch.contender for round_ in race.rounds for launch in round_.launches)
    remedy = "it may slow down or end later; load it for longer (`dragstrip load URL -d 60s`)"
    findings = [
        Finding(Status.WARN, event_text(last[name]), remedy, contender=name)
        for name, count in counts.items()
        if count > rounds_ran[name] / 2
    ]
    return check_result(CheckName.MEMORY, findings, "no contender's memory kept growing")


def _unequal_blocks(race: Race) -> Check:
    """Short blocks that read otherwise than a long one, after they were doubled twice."""
    remedy = "its figures depend on how long it is loaded; compare it by `dragstrip load` as well"
    findings = [
        Finding(Status.WARN, event_text(event), remedy, contender=event.subject)
        for event in events_of(race, EventKind.UNEQUAL_BLOCKS)
    ]
    alike = "short blocks give the same result as one long block, as far as that could be compared"
    return check_result(CheckName.BLOCK_LENGTH, findings, alike)


def _kept_alive(race: Race, by_name: Mapping[str, Sequence[Block]]) -> Check:
    """A server that closes connections costs both sides new ones: not the requested load."""
    findings = []
    for name, blocks in by_name.items():
        connects, answered = sum(b.connects for b in blocks), sum(b.answered for b in blocks)
        if race.load.keepalive and connects > OPENED * max(answered, 1):
            closed = f"{name} closed its connections after {answered / connects:.1f} responses on average"
            remedy = "raise its keep-alive limit, or race all with --no-keepalive"
            text = f"{closed}, although keep-alive was requested"
            findings.append(Finding(Status.WARN, text, remedy, contender=name))
        # Connections that a block finds open were opened before it, and count there.
        if not race.load.keepalive and connects + race.load.connections * len(blocks) < REOPENED * answered:
            opened = f"only {connects} connections were opened for {answered} responses of {name}"
            remedy = "this is a fault of the engine, please report it with `dragstrip export`"
            text = f"{opened}, but each request needs its own"
            findings.append(Finding(Status.VOID, text, remedy, contender=name))
    return check_result(CheckName.CONNECTIONS, findings, "kept open, or closed, as requested")


def _own_counts(race: Race, by_name: Mapping[str, Sequence[Block]]) -> Check:
    """The server's own count of requests against the engine's: at least its responses, at most its requests."""
    findings, off = [], dict[str, float]()
    for name, blocks in by_name.items():
        fewer, more, sent = _miscounted(race, name, blocks)
        if not sent:
            continue
        off[name] = max(fewer, more) / sent
        if off[name] > MISCOUNT[0]:
            status = Status.VOID if off[name] > MISCOUNT[1] else Status.WARN
            counted = f"received {max(fewer, more)} requests {'fewer' if fewer > more else 'more'}"
            than = f"than the engine {'got responses to' if fewer > more else 'sent'}"
            text = f"by its own count {name} {counted} {than} ({as_percent(off[name])} of {sent})"
            remedy = "check that no other program serves or calls its port, and what [served] in its definition reads"
            findings.append(Finding(status, text, remedy, contender=name))
    if not off:
        return check_result(CheckName.SERVERS_COUNT, (), "no server here reports how many requests it received")
    within = as_percent(max(off.values()))
    alike = f"{', '.join(off)} received as many requests as were sent, within {within}"
    return check_result(CheckName.SERVERS_COUNT, findings, alike)


def _miscounted(race: Race, name: str, blocks: Sequence[Block]) -> tuple[int, int, int]:
    """Requests answered but not counted, counted but not sent, and all sent, in launches that reported their count."""
    answered, sent = Counter[int](), Counter[int]()
    for block in blocks:
        answered[block.round] += block.answered
        sent[block.round] += block.sent
    fewer = more = known = 0
    for launch in (launch for round_ in race.rounds for launch in round_.launches if launch.contender == name):
        if launch.served is not None and launch.round in sent:
            fewer += max(answered[launch.round] - launch.served - LATE_COUNTS, 0)
            more += max(launch.served - sent[launch.round] - LATE_COUNTS, 0)
            known += sent[launch.round]
    return fewer, more, known


def _shorter(by_name: Mapping[str, Sequence[Block]]) -> Check:
    """Every response's body is checked; a block's responses must also be as long, with heads, as usual."""
    findings = []
    for name, blocks in by_name.items():
        # A block's last responses may come after its end, and failures leave parts: only whole responses are compared.
        whole = [
            (block.bytes_in / block.answered, block.answered) for block in blocks if block.answered and not block.failed
        ]
        judged = [(length, count) for length, count in whole if count > FEW_ANSWERS]
        if not judged:
            continue
        usual = median(length for length, _ in judged)
        # Of one response, by all blocks: the judged ones may be too few to show how much varies by chance.
        spread = PER_DEVIATION * median(abs(length - usual) * math.sqrt(count) for length, count in whole)
        shortest = min((n for n, count in judged if n < usual - SPREADS * spread / math.sqrt(count)), default=usual)
        short = 1 - shortest / usual
        if short > SHORTER[0]:
            status = Status.VOID if short > SHORTER[1] else Status.WARN
            text = f"{name}'s responses were {as_percent(short)} shorter in one block than usual"
            remedy = f"see what it leaves out under load (`dragstrip verify {name}`)"
            findings.append(Finding(status, text, remedy, contender=name))
    return check_result(CheckName.ANSWERS_LENGTH, findings, "the same length in every block")
