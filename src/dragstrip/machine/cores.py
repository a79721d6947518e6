"""Which cores serve and which generate load; core lists in the kernel's notation."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from dragstrip.errors import BadUsage
from dragstrip.machine import kernel_files

#: Maximum generator cores chosen by default; four are faster than any server on the same machine.
MAX_ENGINE_CORES = 4


@dataclass(frozen=True, slots=True)
class Lanes:
    """Which cores serve and which generate load.

    Args:
        server, engine: core numbers, rising.
        shared: a core is in both; a warning on the parity sheet.
        note: a shortcoming of this division, in words; "" if it has none.
        database: cores of the race's database; empty without one.
    """

    server: tuple[int, ...]
    engine: tuple[int, ...]
    shared: bool
    note: str
    database: tuple[int, ...] = ()

    @property
    def all(self) -> tuple[int, ...]:
        """The race's cores, each once, rising."""
        return tuple(sorted({*self.server, *self.engine, *self.database}))

    @property
    def servers_share(self) -> bool:
        """Whether the servers' cores also run the race's engine or its database."""
        return self.shared or bool(set(self.database) & set(self.server))


def parse_cores(text: str, *, option: str = "cores") -> tuple[int, ...]:
    """Reads a core list in the kernel's notation, for example ``0-1,3``; rising, each once.

    Raises:
        BadUsage: the text is not a core list; the message begins with ``option``.
    """
    cores: set[int] = set()
    for part in text.split(","):
        first, dash, last = (word.strip() for word in part.partition("-"))
        numbers = (first, last) if dash else (first, first)
        if not all(word.isascii() and word.isdigit() and len(word) < 6 for word in numbers):
            raise BadUsage(f"{option}: {text!r} is not a core list ({part.strip()!r}); give one such as 0-1,3")
        low, high = map(int, numbers)
        if low > high:
            raise BadUsage(f"{option}: {text!r} has the range {part.strip()} backwards; give {high}-{low}")
        cores |= set(range(low, high + 1))
    return tuple(sorted(cores))


def show_cores(cores: Iterable[int]) -> str:
    """The inverse of ``parse_cores``: runs of cores as ranges."""
    runs: list[list[int]] = []
    for core in sorted(set(cores)):
        if runs and core == runs[-1][1] + 1:
            runs[-1][1] = core
        else:
            runs.append([core, core])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def siblings(core: int) -> tuple[int, ...]:
    """The hardware threads of a core's physical core, itself included; only itself if unknown."""
    text = kernel_files.read(kernel_files.CPU / f"cpu{core}/topology/thread_siblings_list")
    try:
        return parse_cores(text) if text else (core,)
    except BadUsage:
        return (core,)


def lanes(
    server: str | None,
    engine: str | None,
    *,
    allowed: Iterable[int] | None = None,
    threads_of: Callable[[int], Sequence[int]] = siblings,
) -> Lanes:
    """Divides the cores this process may use between server and generator.

    One hardware thread of each physical core is used. Its siblings stay idle: their speed would depend on all other
    work. The engine takes the first half of the physical cores, at most four, and the server the rest. So with two
    cores each has one (engine 0, server 1), with four each has two, with sixteen the engine has four and the server
    twelve. One physical core with two threads gives one to each, with a note; a single core is shared, with a warning.
    A given lane is used unchanged, and the other lane gets the remaining cores.

    Args:
        server, engine: core lists ("0-1,3") or None.
        allowed, threads_of: this process's affinity mask and the topology; other machines' in tests.

    Raises:
        BadUsage: a text that is not a core list, or a core that this process may not use.
    """
    usable = tuple(sorted(os.sched_getaffinity(0) if allowed is None else allowed))
    given_server = _given(server, "--server-cores", usable)
    given_engine = _given(engine, "--engine-cores", usable)
    physical = physical_cores(usable, threads_of)
    if given_server or given_engine:
        given = given_server or given_engine
        left = tuple(_left(physical, given) or (core for core in usable if core not in given))
        server_cores = given_server or left or given_engine
        return _noted(server_cores, given_engine or left[:MAX_ENGINE_CORES] or given_server[:1], threads_of)
    firsts = [threads[0] for threads in physical]
    if len(firsts) == 1:
        firsts = list(usable[:2])  # two threads of one core, or one alone
    half = min(len(firsts) // 2, MAX_ENGINE_CORES)
    return _noted(tuple(firsts[half:]), tuple(firsts[:half] or firsts), threads_of)


def with_database(
    lanes: Lanes,
    *,
    divisible: bool,
    allowed: Iterable[int] | None = None,
    threads_of: Callable[[int], Sequence[int]] = siblings,
) -> Lanes:
    """The same with a lane for the race's database.

    The database takes the physical cores that the other lanes leave. If they leave none, it takes the upper half of the
    servers' lane, if that may be divided; it shares a lane of one core.

    Args:
        divisible: the user did not name the servers' cores.
        allowed, threads_of: as in ``lanes``.
    """
    usable = tuple(sorted(os.sched_getaffinity(0) if allowed is None else allowed))
    left = _left(physical_cores(usable, threads_of), lanes.all)
    if left:
        return replace(lanes, database=tuple(left))
    if divisible and not lanes.shared and len(lanes.server) > 1:
        half = (len(lanes.server) + 1) // 2
        return replace(lanes, server=lanes.server[:half], database=lanes.server[half:])
    return replace(lanes, database=lanes.server)


def _given(text: str | None, option: str, usable: tuple[int, ...]) -> tuple[int, ...]:
    if text is None:
        return ()
    cores = parse_cores(text, option=option)
    if strange := [core for core in cores if core not in usable]:
        raise BadUsage(
            f"{option}: {text} has core {show_cores(strange)}, which this process may not use; "
            f"choose from {show_cores(usable)}"
        )
    return cores


def physical_cores(usable: tuple[int, ...], threads_of: Callable[[int], Sequence[int]]) -> list[tuple[int, ...]]:
    """Usable hardware threads by physical core, in the order of the first one's number."""
    physical: list[tuple[int, ...]] = []
    for core in usable:
        if not any(core in threads for threads in physical):
            physical.append(tuple(sorted({core, *threads_of(core)} & set(usable))))
    return physical


def _left(physical: list[tuple[int, ...]], taken: tuple[int, ...]) -> list[int]:
    """The first thread of each physical core without a taken thread."""
    return [threads[0] for threads in physical if not set(threads) & set(taken)]


def _noted(server: tuple[int, ...], engine: tuple[int, ...], threads_of: Callable[[int], Sequence[int]]) -> Lanes:
    note = ""
    both = set(server) & set(engine)
    if both:
        note = (
            f"server and load generator share core {show_cores(both)}: they slow each other down, and capacity figures "
            "describe both together"
        )
    elif neighbours := {core for core in server if set(threads_of(core)) & set(engine)}:
        note = (
            f"server core {show_cores(neighbours)} and a generator core are hardware threads of one physical core: "
            "the generator's work slows the server down"
        )
    return Lanes(server, engine, bool(both), note)
