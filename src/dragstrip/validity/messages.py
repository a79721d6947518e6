"""The sentences of events and of reasons that void, and advice that several checks give. Nothing reads them back."""

from __future__ import annotations

from collections.abc import Mapping

from dragstrip.quantities import as_percent
from dragstrip.record import Ending, Event, EventKind, Void, VoidKind

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


def kinds(errors: Mapping[str, int]) -> str:
    """Failures by kind, the most frequent first."""
    return ", ".join(f"{kind} {count}" for kind, count in sorted(errors.items(), key=lambda item: -item[1]) if count)


def void_text(void: Void) -> str:
    """Why a block or a round is void, as one sentence that begins with the kind."""
    return f"{void.kind}: {_cause(void)}"


def _cause(void: Void) -> str:
    n = void.numbers
    match void.kind:
        case VoidKind.ACCOUNTING:
            return _accounting(n)
        case VoidKind.CLOCK if "step_ns" in n:
            step_us = n["step_ns"] / 1000
            return f"it was set by {step_us:.0f} µs during the block, and arrival times are taken from it"
        case VoidKind.CLOCK:
            return f"{n['early_stamps']} responses carry a timestamp earlier than their request's"
        case VoidKind.WRONG_ANSWERS:
            return kinds(void.errors)
        case VoidKind.ERRORS:
            return f"{n['failed']} to {n['sent']} requests ({kinds(void.errors)})"
        case VoidKind.GAVE_UP:
            return "every connection was permanently lost before the block ended"
        case VoidKind.NO_ANSWER:
            return "no correct response in the counted part"
        case VoidKind.ENGINE_WAITED:
            return f"{as_percent(n['share'])} of the block for its core while others used it"
        case VoidKind.SERVER_WAITED:
            usual = f" (usual for it in this round: {as_percent(n['usual'])})" if n.get("usual") else ""
            return f"{as_percent(n['share'])} of the block for its core while others used it{usual}"
        case VoidKind.GENERATOR:
            engine, server = as_percent(n["engine_share"]), as_percent(n["server_share"])
            return f"the engine used {engine} of its cores, the server {server} of its own"
        case VoidKind.TOO_FEW_BLOCKS:
            return f"{n['valid']} of {n['blocks']} are valid ({void.cause})"
        case VoidKind.MARK_LOST:
            return "the observer on the server's machine gave no reading of its CPU time"
        case VoidKind.CLOCKS_APART:
            drifted = f"a generator's clock drifted {n['drift_ns'] / 1000:.0f} µs from the server machine's clock"
            return f"{drifted} (limit {n['most_ns'] / 1000:.0f} µs)"
        case VoidKind.MACHINE_LOST:
            return "one of its machines stopped responding"
        case VoidKind.DATABASE:
            return "it ended in the round, or could not be started"


def _accounting(n: Mapping[str, float]) -> str:
    if "sent" in n:
        return f"{n['sent']} sent, but {n['answered']} answered, {n['failed']} failed and {n['in_flight']} in flight"
    if "at_work" in n:
        at_work = f"{n['at_work']:.1f} of {n['connections']:.0f} connections were at work on average"
        return f"{at_work}: rate and latency contradict each other"
    if "waited_ns" in n:
        waited = f"{n['connections']:.0f} connections waited {n['waited_ns'] / 1e6:.0f} ms together"
        return f"{waited} in {n['lasted_ns'] / 1e6:.0f} ms"
    if "connections" in n:
        return f"{n['in_flight']} in flight on {n['connections']} connections"
    if "requests" in n:
        return f"{n['requests']} responses counted of {n['answered']}"
    if "failed" in n:
        return f"{n['failed']} failed, but {n['errors']} errors by kind"
    if "counted_ns" in n:
        return f"{n['counted_ns']} ns counted of a block of {n['duration_ns']} ns"
    return f"latency quantiles p50, p90, p99, p99.9, max out of order: {tuple(n.values())} ns"


def event_text(event: Event) -> str:
    """What was seen, as one sentence; the text itself of an event that holds one."""
    name, n = event.subject, event.numbers
    match event.kind:
        case EventKind.INTRUDER:
            return f"{name} (process {n['pid']}): used {n['share']:.0%} of a core during a round"
        case EventKind.HEAT:
            return "heat: the processor throttled itself during a round"
        case EventKind.FREQUENCY:
            ran, first = n["khz"] / 1e6, n["first_khz"] / 1e6
            return f"core {n['core']}: ran at {ran:.2f} GHz; {first:.2f} GHz at the start"
        case EventKind.GROWING:
            grew = f"{n['bytes_per_s'] / 2**20:.0f} MiB ({n['share_per_s']:.0%}) per second"
            return f"{name}: its memory grew by {grew} while it was measured"
        case EventKind.UNEQUAL_BLOCKS:
            apart = f"{100 * n['apart']:+.1f} % against blocks after {n['loaded_ns'] / 1e6:.0f} ms of load"
            return f"{name}: blocks of {n['counted_ns'] / 1e6:.0f} ms read {apart}"
        case EventKind.MACHINE_BACK:
            return f"{name}: it is back (same machine, same boot)"
        case EventKind.GENERATOR:
            return _generator_share(name, n)
        case EventKind.LINK:
            carried = f"{n['received_bytes'] / 1e6:.1f} MB received, {n['sent_bytes'] / 1e6:.1f} MB sent"
            lost = f"{n['retransmitted']:.0f} of {n['segments']:.0f} segments retransmitted"
            return f"{name}'s link: {carried}, {lost}"
        case EventKind.CLAIMS:
            return " ".join([name, *event.names])
        case EventKind.NULL_RACE:
            return name
        case _:
            return event.text


def _generator_share(name: str, n: Mapping[str, float]) -> str:
    text = f"{name}: {n['requests']:.0f} of the round's counted responses"
    if "offered" in n:
        text += f"; {n['offered']:.0f} offered, {n['unsent']:.0f} unsent, p99 {n['lag_p99_ns'] / 1000:.0f} µs late"
    if "drift_ns" in n:
        text += f"; its clock drifted by {n['drift_ns'] / 1000:.1f} µs (round trip {n['round_trip_ns'] / 1000:.0f} µs)"
    return text


def more_rounds(finished: Ending) -> str:
    """What gives a race more rounds, by what ended it; for contenders that are out, the report names the reason."""
    steps = {
        Ending.ROUNDS: "; run more of them (--rounds)",
        Ending.INTERRUPTED: "; continue it (--resume)",
        Ending.TOO_FEW: "",
    }
    return steps.get(finished, "; give it a larger --budget")
