"""Counters of a process tree that the kernel keeps anyway, read from /proc by any user for processes of its own.

Source: proc(5). A thread that ended took its switches along, and a process that ended its faults; servers under load
keep theirs. Nothing is read while a block runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dragstrip.record import Counter

#: Nanoseconds of a tick of the kernel's accounting, in which /proc/PID/stat counts.
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")

#: Places of fields in /proc/PID/stat after the program's name.
_MINOR, _MAJOR, _USER, _KERNEL = 7, 9, 11, 12

_WAITS = re.compile(rb"^voluntary_ctxt_switches:\s+(\d+)", re.MULTILINE)
_READS = re.compile(rb"^syscr:\s+(\d+)", re.MULTILINE)
_WRITES = re.compile(rb"^syscw:\s+(\d+)", re.MULTILINE)
_PSS = re.compile(rb"^Pss:\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountersReading:
    """Totals of a process tree so far.

    Args:
        totals: by counter. missing: why a counter can't be read.
    """

    totals: Mapping[Counter, int]
    missing: Mapping[Counter, str] = field(default_factory=dict)

    def since(self, before: CountersReading) -> CountersReading:
        """What was counted from ``before`` to this reading; a counter that either lacks is missing."""
        both = self.totals.keys() & before.totals.keys()
        # A total shrinks if a thread or a process ended: then nothing is known of the counter.
        grown = {counter: self.totals[counter] - before.totals[counter] for counter in both}
        shrunk = {counter: "a thread or a process of the server ended" for counter, value in grown.items() if value < 0}
        return CountersReading(
            totals={counter: value for counter, value in grown.items() if value >= 0},
            missing={**before.missing, **self.missing, **shrunk},
        )


#: The file of each group of counters, and what it yields.
_OF_PROCESS = (
    ("stat", (Counter.MINOR_FAULTS, Counter.MAJOR_FAULTS, Counter.USER_NS, Counter.KERNEL_NS)),
    ("io", (Counter.READS, Counter.WRITES)),
)


def read(pids: Sequence[int]) -> CountersReading:
    """Counters of these processes, summed; a counter is missing if one process's file can't be read."""
    totals: dict[Counter, int] = {}
    missing: dict[Counter, str] = {}
    if not pids:
        everything = (*(counter for _, group in _OF_PROCESS for counter in group), Counter.WAITS)
        return CountersReading(totals={}, missing=dict.fromkeys(everything, "Dragstrip did not start its processes"))
    for name, group in _OF_PROCESS:
        try:
            parts = [_of_process(pid, name) for pid in pids]
        except (OSError, IndexError, ValueError) as error:
            missing |= dict.fromkeys(group, _reason(name, error))
            continue
        totals |= {counter: sum(part[at] for part in parts) for at, counter in enumerate(group)}
    try:
        totals[Counter.WAITS] = sum(map(_waits, pids))
    except (OSError, ValueError) as error:
        missing[Counter.WAITS] = _reason("status", error)
    return CountersReading(totals=totals, missing=missing)


def _of_process(pid: int, name: str) -> tuple[int, ...]:
    text = Path(f"/proc/{pid}/{name}").read_bytes()
    if name == "io":
        return _number(_READS, text), _number(_WRITES, text)
    words = text.rpartition(b")")[2].split()
    return int(words[_MINOR]), int(words[_MAJOR]), int(words[_USER]) * TICK_NS, int(words[_KERNEL]) * TICK_NS


def _waits(pid: int) -> int:
    tasks = Path(f"/proc/{pid}/task")
    return sum(_number(_WAITS, (task / "status").read_bytes()) for task in tasks.iterdir())


def _number(pattern: re.Pattern[bytes], text: bytes) -> int:
    """The number that a pattern captures.

    Raises:
        ValueError: the kernel does not write it.
    """
    if (match := pattern.search(text)) is None:
        raise ValueError("this kernel does not write it")
    return int(match[1])


def _reason(name: str, error: Exception) -> str:
    why = getattr(error, "strerror", None) or str(error)
    return f"/proc/PID/{name} can't be read ({why})"


def proportional_bytes(pids: Sequence[int]) -> int:
    """Memory of these processes; a page that several share counts once.

    Raises:
        OSError: the kernel's file can't be read. ValueError: it has no such number.
    """
    return 1024 * sum(_number(_PSS, Path(f"/proc/{pid}/smaps_rollup").read_bytes()) for pid in pids)
