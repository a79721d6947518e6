"""Warms a server up until successive slices of load show no rise, and waits until it is idle afterwards.

Method: docs/METHOD.md, "Warm-up". The slope is Theil's (1950) median of pairwise slopes, because one disturbed slice
must not decide.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from dragstrip.analysis.cpu_shares import left_ns, own_p50_ns, speed_of
from dragstrip.errors import StageError
from dragstrip.process.running import Running
from dragstrip.racing.launching import LaunchedServer, WarmUp
from dragstrip.racing.setup import RaceSetup, block_plan
from dragstrip.scrutiny import nothing_right

#: The number of slices, the last of a warm-up, in which a rise is looked for.
WINDOW = 10

#: The largest rise over the window, relative to its median, that counts as no rise.
FLAT = 0.01

#: A warm-up slice lasts five typical latencies, within these bounds. If a response takes more than half of the longest
#: slice, it lasts two latencies, so that a response falls into it.
SLICE_LATENCIES, MIN_SLICE_NS, MAX_SLICE_NS, MIN_SLICE_LATENCIES = 5, 5_000_000, 50_000_000, 2

#: A server is idle if it used less than this share of a core in this many looks in a row, each of this length; and the
#: longest wait for that.
REST_BELOW, REST_LOOKS, REST_LOOK_S, MAX_REST_S = 0.05, 2, 0.01, 0.3

#: If other programs slow a warm-up down, it lasts at most this multiple of the definition's times, by the clock.
MAX_WARM_UP_TIMES = 3

#: What an unknown server needs is learned in time of its own, at most this multiple of it by the clock. With
#: the bound above, Node beside other programs was seen and raced before it compiled anything: six times slower.
MAX_LEARNING_TIMES = 10

#: The first window alone does not show that a server is unsettled: a slow server's first window takes all of its time,
#: and its first slices are of a cold server.
MIN_WINDOWS = 2

#: An unknown runtime is watched for at least this multiple of the time after which it gained nothing more: a
#: just-in-time compiler can pause in between. No longer warm-up is learned than the second: beyond it, what looks like
#: a rise is more often the end of a disturbance.
WATCHED_TIMES, MAX_LEARNED_S = 2, 4.0

#: It is watched until it answered this many requests, at most for this long: runtimes compile what was called often, so
#: a slow handler's rise takes seconds. Node with 0.5 ms a request gained half as much again in 7,000 requests.
WATCHED_REQUESTS, WATCHED_S = 10_000, 3.0

#: The first look at an unknown server, which sets the length of its slices. The longer looks allow for the handshakes
#: of many connections at once, before which no request is in flight; the last is long enough even if other programs
#: take the cores.
LOOKS_NS = (20_000_000, 400_000_000, 4_000_000_000)


def warm_up(setup: RaceSetup, launched: LaunchedServer, p50_ns: int | None = None, *, learns: bool = False) -> WarmUp:
    """Connects to a server and loads it until successive slices show no rise, or its ``warm_up.most_s`` is spent.

    Time that other programs took from its core or the engine's warms nothing up: only the rest counts towards the
    definition's times. A slice's speed is in responses per CPU second if that is readable, because bursts of other
    programs hardly change it.

    Args:
        p50_ns: its typical latency, for the length of a slice; None if still unknown.
        learns: the time that it needs is learned, so it is watched for ``WATCHED_TIMES`` as long, and for
            ``WATCHED_REQUESTS`` or ``WATCHED_S``; ``setup.learning`` is the share of these times.

    Raises:
        StageError: it accepts no connections, or sends no correct response.
    """
    launched.session = session = setup.connect(launched)
    started_ns = time.monotonic_ns()
    setup.watch(launched.running, session)
    p50_ns = p50_ns or _first_look(setup, launched)
    slice_ns = min(max(SLICE_LATENCIES * p50_ns, MIN_SLICE_NS), max(MAX_SLICE_NS, MIN_SLICE_LATENCIES * p50_ns))
    server_cores = len(setup.lanes.server)
    speeds: list[float] = []
    own_ns, requests = 0.0, 0
    watched_s, most_s = WATCHED_S * setup.learning, MAX_LEARNED_S * setup.learning
    while True:
        gave_up, failed = False, 0
        for tally in setup.engine.run([block_plan(session, counted_ns=slice_ns)] * WINDOW):
            speeds.append(speed_of(tally))
            own_ns += left_ns(tally, server_cores)
            gave_up = gave_up or tally.gave_up
            failed += tally.failed
            requests += tally.answered
        lasted_ns = time.monotonic_ns() - started_ns
        if gave_up:
            return WarmUp(lasted_ns=lasted_ns, settled=False, enough_s=0.0, p50_ns=p50_ns)
        counted_s = max(own_ns, lasted_ns / (MAX_LEARNING_TIMES if learns else MAX_WARM_UP_TIMES)) / 1e9
        if counted_s < launched.entry.warm_up_least_s:
            continue
        enough = enough_s(speeds, slice_ns / 1e9)
        seen_enough = requests >= WATCHED_REQUESTS or counted_s >= watched_s
        watched = not learns or (seen_enough and counted_s >= WATCHED_TIMES * min(enough, most_s))
        flat = settled(speeds) and watched
        # A server that sends only incorrect responses gets no faster; the blocks will show them.
        only_incorrect = failed > 0 and not any(speeds[-WINDOW:])
        spent_s = max(own_ns, lasted_ns / MAX_WARM_UP_TIMES) / 1e9
        spent = spent_s >= launched.entry.warm_up_most_s and len(speeds) >= MIN_WINDOWS * WINDOW
        if flat or only_incorrect or spent:
            setup.watch(launched.running, session)  # threads may have come since
            return WarmUp(lasted_ns=lasted_ns, settled=flat, enough_s=enough, p50_ns=p50_ns)


def _first_look(setup: RaceSetup, launched: LaunchedServer) -> int:
    """The typical latency of an unknown server, in nanoseconds.

    Raises:
        StageError: it did not respond; ten more slices would each wait for the time limit of a response.
    """
    for look_ns in LOOKS_NS:
        (tally,) = setup.engine.run([block_plan(launched.connected(), counted_ns=look_ns)])
        if tally.answered or tally.failed:
            break
    if not tally.answered:
        launched.disconnect(setup.engine)
        differs = setup.difference(launched, tally.sample)
        reason = nothing_right(tally.errors, tally.sample, launched.running.log_tail(5), differs)
        raise StageError(f"{launched.name}: {reason}")
    # If few responses came within the counted part, they are the fastest; most took until the end of the block.
    p50_ns = tally.p50_ns if tally.requests >= setup.load.connections else tally.duration_ns
    return own_p50_ns(tally, p50_ns, len(setup.lanes.server))


def wait_until_idle(running: Running) -> None:
    """Waits until the server that was warmed up last is idle, at most ``MAX_REST_S``; the others had that time.

    A just-in-time compiler's own threads continue after the load ends. On one core they hardly run while the main
    thread does: Node's first blocks were a third slower if it was the last server to be warmed up.
    """
    looks_at_rest, until_s = 0, time.monotonic() + MAX_REST_S
    before_ns = sum(running.thread_cpu_ns().values())
    while looks_at_rest < REST_LOOKS and time.monotonic() < until_s:
        time.sleep(REST_LOOK_S)
        after_ns = sum(running.thread_cpu_ns().values())
        rests = after_ns - before_ns < REST_BELOW * REST_LOOK_S * 1e9
        looks_at_rest, before_ns = looks_at_rest + 1 if rests else 0, after_ns


def rise(rates: Sequence[float]) -> tuple[float, float]:
    """Relative rise over the last slices and its standard error.

    Args:
        rates: responses per second of successive slices, oldest first, at least three.

    Returns:
        ``(rise, error)``: Theil's slope times the window's span over the median rate; and a
        standard error from the scaled median absolute deviation of the residuals.
    """
    window = np.asarray(rates[-WINDOW:], dtype=float)
    time_ = np.arange(len(window), dtype=float)
    middle = float(np.median(window))
    if len(window) < 3 or middle <= 0:
        return float("inf"), 0.0
    first, second = np.triu_indices(len(window), k=1)
    slope = float(np.median((window[second] - window[first]) / (time_[second] - time_[first])))
    left = window - slope * time_
    scatter = 1.4826 * float(np.median(np.abs(left - np.median(left))))
    span = time_[-1] - time_[0]
    error = scatter / float(np.sqrt(np.sum((time_ - time_.mean()) ** 2))) * span
    return slope * span / middle, error / middle


def settled(rates: Sequence[float]) -> bool:
    """Whether the last slices show no rise: within ``FLAT``, or within two standard errors of zero."""
    if len(rates) < WINDOW:
        return False
    relative_rise, error = rise(rates)
    return bool(relative_rise <= max(FLAT, 2 * error))  # SQLite would store numpy's bool as bytes


def enough_s(rates: Sequence[float], slice_s: float) -> float:
    """After how many seconds a warm-up, watched for longer, had nothing left to gain.

    This is the end of the first of two successive windows whose medians reach the level of the last third. A median
    reaches it within ``FLAT``, or within two standard errors, but never more than 3 % below: noise must not hide a real
    rise. A later dip is a disturbance, not a rise that continues.

    Args:
        rates: responses per second of successive slices of ``slice_s`` seconds, oldest first.
    """
    starts = range(0, len(rates) - WINDOW + 1, WINDOW)
    windows = [np.asarray(rates[start : start + WINDOW], dtype=float) for start in starts]
    if not windows:
        return len(rates) * slice_s
    last = np.concatenate(windows[-max(len(windows) // 3, 1) :])
    level = float(np.median(last))
    scatter = 1.4826 * float(np.median(np.abs(last - level))) / max(level, 1e-12)
    slack = max(FLAT, min(2 * 1.25 * scatter * (2 / WINDOW) ** 0.5, 0.03))
    reached = [float(np.median(window)) >= (1 - slack) * level for window in windows]
    first = next((number for number, both in enumerate(pairwise(reached)) if all(both)), len(reached) - 1)
    return (first + 1) * WINDOW * slice_s
