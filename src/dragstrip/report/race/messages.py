"""The sentences of events and of reasons that void. Values in, text out; nothing reads it back.

Light to import: a list of runs is shown without numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dragstrip.record import Ending, Event, EventKind, Void, VoidKind
from dragstrip.report.figures import as_percent


def kinds(errors: Mapping[str, int]) -> str:
    """Failures by kind, the most frequent first."""
    return ", ".join(f"{kind} {count}" for kind, count in sorted(errors.items(), key=lambda item: -item[1]) if count)


def void_text(void: Void) -> str:
    """Why a block or a round is void, as one sentence that begins with the kind."""
    return f"{void.kind}: {_VOIDS[void.kind](void)}"


def _accounting(void: Void) -> str:
    n = void.numbers
    if "sent" in n:
        told = f"{n['sent']} sent, but {n['answered']} answered, {n['failed']} failed and {n['in_flight']} in flight"
    elif "connections" in n:
        told = f"{n['in_flight']} in flight on {n['connections']} connections"
    elif "requests" in n:
        told = f"{n['requests']} answers counted of {n['answered']} answered"
    elif "failed" in n:
        told = f"{n['failed']} failed, but {n['errors']} errors by kind"
    elif "counted_ns" in n:
        told = f"{n['counted_ns']} ns counted of a block of {n['duration_ns']} ns"
    else:
        told = f"latency quantiles p50, p90, p99, p99.9, max out of order: {tuple(n.values())} ns"
    return told


def _clock(void: Void) -> str:
    if "step_ns" in void.numbers:
        return (
            f"it was set by {void.numbers['step_ns'] / 1000:.0f} µs during the block, and arrival times are taken "
            "from it"
        )
    return f"{void.numbers['early_stamps']} responses carry a timestamp earlier than their request's"


def _errors(void: Void) -> str:
    return f"{void.numbers['failed']} to {void.numbers['sent']} requests ({kinds(void.errors)})"


def _server_waited(void: Void) -> str:
    usual = void.numbers.get("usual")
    beside = f" (usual for it in this round: {as_percent(usual)})" if usual else ""
    return f"{as_percent(void.numbers['share'])} of the block for its core while others used it{beside}"


def _generator(void: Void) -> str:
    engine, server = as_percent(void.numbers["engine_share"]), as_percent(void.numbers["server_share"])
    return f"the engine used {engine} of its cores, the server {server} of its own"


def _clocks_apart(void: Void) -> str:
    drift_us, most_us = (void.numbers[name] / 1000 for name in ("drift_ns", "most_ns"))
    return f"a generator's clock drifted {drift_us:.0f} µs from the server machine's clock (limit {most_us:.0f} µs)"


def _too_few(void: Void) -> str:
    return f"{void.numbers['valid']} of {void.numbers['blocks']} are valid ({void.cause})"


_VOIDS: Mapping[VoidKind, Callable[[Void], str]] = {
    VoidKind.ACCOUNTING: _accounting,
    VoidKind.CLOCK: _clock,
    VoidKind.WRONG_ANSWERS: lambda void: kinds(void.errors),
    VoidKind.ERRORS: _errors,
    VoidKind.GAVE_UP: lambda _: "every connection was permanently lost before the block ended",
    VoidKind.NO_ANSWER: lambda _: "no correct response in the counted part",
    VoidKind.ENGINE_WAITED: lambda void: (
        f"{as_percent(void.numbers['share'])} of the block for its core while others used it"
    ),
    VoidKind.SERVER_WAITED: _server_waited,
    VoidKind.GENERATOR: _generator,
    VoidKind.TOO_FEW_BLOCKS: _too_few,
    VoidKind.MARK_LOST: lambda _: "the observer on the server's machine gave no reading of its CPU time",
    VoidKind.CLOCKS_APART: _clocks_apart,
    VoidKind.MACHINE_LOST: lambda _: "one of its machines stopped responding",
    VoidKind.DATABASE: lambda _: "it ended in the round, or could not be started",
}


def event_text(event: Event) -> str:
    """What was seen, as one sentence; of events that hold a text, that."""
    write = _EVENTS.get(event.kind)
    return write(event) if write else event.text


def _intruder(event: Event) -> str:
    pid, share = event.numbers["pid"], event.numbers["share"]
    return f"{event.subject} (process {pid}): used {share:.0%} of a core during a round"


def _frequency(event: Event) -> str:
    core, khz, first_khz = (event.numbers[name] for name in ("core", "khz", "first_khz"))
    return f"core {core}: ran at {khz / 1e6:.2f} GHz; {first_khz / 1e6:.2f} GHz at the start"


def _growing(event: Event) -> str:
    per_s, share = event.numbers["bytes_per_s"], event.numbers["share_per_s"]
    grew = f"grew by {per_s / 2**20:.0f} MiB ({share:.0%}) per second while it was measured"
    return f"{event.subject}: its memory {grew}"


def _unequal_blocks(event: Event) -> str:
    counted_ns, apart, loaded_ns = (event.numbers[name] for name in ("counted_ns", "apart", "loaded_ns"))
    read = f"{100 * apart:+.1f} % against blocks after {loaded_ns / 1e6:.0f} ms of load"
    return f"{event.subject}: blocks of {counted_ns / 1e6:.0f} ms read {read}"


def _generator_share(event: Event) -> str:
    n = event.numbers
    told = f"{event.subject}: {n['requests']:.0f} of the round's counted answers"
    if "offered" in n:
        told += f"; {n['offered']:.0f} offered, {n['unsent']:.0f} unsent, p99 {n['lag_p99_ns'] / 1000:.0f} µs late"
    if "drift_ns" in n:
        told += f"; its clock drifted by {n['drift_ns'] / 1000:.1f} µs (round trip {n['round_trip_ns'] / 1000:.0f} µs)"
    return told


def _link(event: Event) -> str:
    n = event.numbers
    carried = f"{n['received_bytes'] / 1e6:.1f} MB received, {n['sent_bytes'] / 1e6:.1f} MB sent"
    return f"{event.subject}'s link: {carried}, {n['retransmitted']:.0f} of {n['segments']:.0f} segments retransmitted"


_EVENTS: Mapping[EventKind, Callable[[Event], str]] = {
    EventKind.INTRUDER: _intruder,
    EventKind.HEAT: lambda _: "heat: the processor throttled itself during a round",
    EventKind.FREQUENCY: _frequency,
    EventKind.GROWING: _growing,
    EventKind.UNEQUAL_BLOCKS: _unequal_blocks,
    EventKind.MACHINE_BACK: lambda event: f"{event.subject}: it is back (same machine, same boot)",
    EventKind.GENERATOR: _generator_share,
    EventKind.LINK: _link,
    EventKind.CLAIMS: lambda event: " ".join([event.subject, *event.names]),
    EventKind.NULL_RACE: lambda event: event.subject,
}


def more_rounds(finished: Ending) -> str:
    """What gives a race more rounds, by what ended it; for contenders that are out, the report names the reason."""
    steps = {
        Ending.ROUNDS: "; run more of them (--rounds)",
        Ending.INTERRUPTED: "; continue it (--resume)",
        Ending.TOO_FEW: "",
    }
    return steps.get(finished, "; give it a larger --budget")


def why_idle(disturbed: bool) -> str:
    """Why a server's cores were not busy, and what to do; ``disturbed``: others took the time that it lacked."""
    if disturbed:
        return "other programs took the CPU time it lacked, so its throughput is not its capacity"
    return "it was waiting, not saturated, so its throughput is not its capacity; try more connections (-c)"
