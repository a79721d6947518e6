"""System calls per response: by name, by the kernel's own counters; or by class, by tracing, if the kernel refuses.

Both have a stretch of load of their own, so that CPU time and stacks are measured without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dragstrip.errors import EngineError
from dragstrip.record import CALL_KEY, TRACED_KEY, CallClass, Counter

if TYPE_CHECKING:
    from dragstrip._engine import CallCounts

#: The class of each system call that is neither read nor write nor wait.
_CLASSES: Mapping[CallClass, frozenset[str]] = {
    CallClass.READ: frozenset(
        ("read", "readv", "pread64", "preadv", "preadv2", "recvfrom", "recvmsg", "recvmmsg"),
    ),
    CallClass.WRITE: frozenset(
        ("write", "writev", "pwrite64", "pwritev", "pwritev2", "sendto", "sendmsg", "sendmmsg", "sendfile", "splice"),
    ),
    CallClass.WAIT: frozenset(
        (
            *("epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6"),
            *("io_uring_enter", "io_getevents", "futex", "sched_yield", "nanosleep", "clock_nanosleep"),
        )
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedCalls:
    """Counts under the keys of ``Profile.counts``, and why a counter is missing."""

    counts: Mapping[str, float] = field(default_factory=dict)
    missing: Mapping[Counter, str] = field(default_factory=dict)


def counted(pids: Sequence[int], cores: Sequence[int], load: Callable[[], int]) -> CountedCalls:
    """Counts by the kernel's events, which needs root.

    Args:
        cores: on which the processes run.
        load: loads the server for a moment, and returns how many responses there were.
    """
    from dragstrip._engine import CallCounter

    try:
        counter = CallCounter(pids, cores=cores)
        load()
        counter.count()
        responses = load()
        calls = counter.stop()
    except EngineError as error:
        return _missing(Counter.CALLS, str(error))
    if not responses:
        return _missing(Counter.CALLS, "the server sent no response while they were counted")
    by_name = {f"{CALL_KEY}{name}": float(count) for name, count in calls.named}
    return CountedCalls(counts={Counter.CALLS: float(calls.total), Counter.CALL_RESPONSES: float(responses), **by_name})


def traced(pids: Sequence[int], load: Callable[[], int]) -> CountedCalls:
    """Counts by tracing the processes, which any user may do with processes of their own.

    Args:
        load: as in ``counted``.
    """
    from dragstrip._engine import CallTracer

    try:
        tracer = CallTracer(pids)
    except EngineError as error:
        return _missing(Counter.TRACED_RESPONSES, str(error))
    try:
        responses = load()
    finally:
        calls = tracer.stop()
    if not responses:
        return _missing(Counter.TRACED_RESPONSES, "the server sent no response while it was traced")
    by_class = {f"{TRACED_KEY}{kind}": float(count) for kind, count in _by_class(calls).items()}
    return CountedCalls(counts={Counter.TRACED_RESPONSES: float(responses), **by_class})


def _by_class(calls: CallCounts) -> Mapping[CallClass, int]:
    """Calls by class; a call without a name is of ``OTHER``."""
    counts = {kind: sum(count for name, count in calls.named if name in _CLASSES[kind]) for kind in _CLASSES}
    return counts | {CallClass.OTHER: calls.total - sum(counts.values())}


def _missing(counter: Counter, reason: str) -> CountedCalls:
    return CountedCalls(missing={counter: reason})
