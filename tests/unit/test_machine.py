"""Facts, lanes and busy time; the topologies of other machines are given as plain functions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from races import until

from dragstrip import machine
from dragstrip.errors import BadUsage
from dragstrip.machine import Lanes, kernel_files, lanes, parse_cores, show_cores, wait_for_quiet
from dragstrip.machine_facts import Facts
from dragstrip.store.json_values import decode, encode

Topology = Callable[[int], Sequence[int]]


def alone(core: int) -> tuple[int, ...]:
    return (core,)


def neighbours(core: int) -> tuple[int, ...]:
    """Hardware threads 2k and 2k + 1 share a physical core."""
    return (core & ~1, core | 1)


def far(core: int) -> tuple[int, ...]:
    """As on 8-core processors that number all first threads first: k and k + 8 share a physical core."""
    return (core & ~8, core | 8)


@pytest.mark.parametrize(
    ("count", "threads_of", "engine", "server"),
    [
        (2, alone, (0,), (1,)),
        (3, alone, (0,), (1, 2)),
        (4, alone, (0, 1), (2, 3)),
        (16, alone, (0, 1, 2, 3), tuple(range(4, 16))),
        (4, neighbours, (0,), (2,)),
        (8, neighbours, (0, 2), (4, 6)),
        (16, far, (0, 1, 2, 3), (4, 5, 6, 7)),
    ],
)
def test_lanes_are_disjoint_down_to_the_physical_core(
    count: int, threads_of: Topology, engine: tuple[int, ...], server: tuple[int, ...]
) -> None:
    """One thread per physical core; the engine has the first half, four at most."""
    divided = lanes(None, None, allowed=range(count), threads_of=threads_of)
    assert divided == Lanes(server=server, engine=engine, shared=False, note="")


@given(allowed=st.sets(st.integers(0, 63), min_size=1), threads_of=st.sampled_from([alone, neighbours, far]))
def test_lanes_are_never_empty_and_stay_within_what_is_allowed(allowed: set[int], threads_of: Topology) -> None:
    """On any machine; with two cores or more they are disjoint, and what isn't ideal is noted."""
    divided = lanes(None, None, allowed=allowed, threads_of=threads_of)
    assert divided.server
    assert divided.engine
    assert set(divided.all) <= allowed
    assert divided.shared == (len(allowed) == 1)
    close = any(set(threads_of(core)) & set(divided.engine) for core in divided.server)
    assert bool(divided.note) == close


def test_one_core_is_shared_with_a_warning() -> None:
    """It can be raced on, but the sheet says what the figures are then."""
    divided = lanes(None, None, allowed=[5], threads_of=alone)
    assert (divided.server, divided.engine, divided.shared) == ((5,), (5,), True)
    assert "share core 5" in divided.note


def test_two_threads_of_one_core_get_a_lane_each_and_a_note() -> None:
    """Disjoint for the scheduler, not for the hardware."""
    divided = lanes(None, None, allowed=[0, 1], threads_of=neighbours)
    assert (divided.server, divided.engine, divided.shared) == ((1,), (0,), False)
    assert "one physical core" in divided.note


def test_a_given_lane_is_taken_and_the_other_gets_what_is_left() -> None:
    """The generator keeps off the given server core's sibling thread where it can."""
    assert lanes("0", None, allowed=range(8), threads_of=neighbours) == Lanes((0,), (2, 4, 6), False, "")
    assert lanes(None, "3", allowed=range(4), threads_of=alone) == Lanes((0, 1, 2), (3,), False, "")
    assert lanes("2-3", "0-1", allowed=range(4), threads_of=alone) == Lanes((2, 3), (0, 1), False, "")


def test_given_lanes_may_overlap_and_that_is_noted() -> None:
    """Also when one lane takes all there is."""
    assert lanes("0-1", "1", allowed=range(2), threads_of=alone).shared
    assert lanes("0-1", None, allowed=range(2), threads_of=alone).shared
    assert lanes(None, "0-1", allowed=range(2), threads_of=alone).shared


def test_a_core_that_may_not_be_used_is_refused_by_name() -> None:
    """Whose list, what was given, which core, and what would do."""
    with pytest.raises(BadUsage, match=r"--server-cores: 0-9 has core 4-9, .*choose from 0-3"):
        lanes("0-9", None, allowed=range(4), threads_of=alone)
    with pytest.raises(BadUsage, match=r"--engine-cores: 7 has core 7"):
        lanes(None, "7", allowed=range(4), threads_of=alone)


@pytest.mark.parametrize("text", ["", ",", "a", "1-", "-1", "1-2-3", "1,,2", "3-1", "0x1", "1.5", "²", "9" * 30])
def test_what_is_no_core_list_is_refused_with_an_example_or_the_remedy(text: str) -> None:
    """Never an exception of another kind, nor a guess."""
    with pytest.raises(BadUsage, match="give"):
        parse_cores(text)


@given(st.sets(st.integers(0, 300), min_size=1))
def test_core_lists_read_back_as_they_were_shown(cores: set[int]) -> None:
    """parse_cores and show_cores are inverses."""
    assert parse_cores(show_cores(cores)) == tuple(sorted(cores))


def test_facts_can_be_stored_and_name_this_machine() -> None:
    """JSON-able, with the things a reader asks first; the boot's own number isn't given away."""
    facts = machine.facts()
    assert decode(Facts, json.loads(json.dumps(encode(facts)))) == facts
    assert parse_cores(facts.cores_usable or "") == tuple(sorted(os.sched_getaffinity(0)))
    assert facts.kernel == os.uname().release
    assert (facts.memory_bytes or 0) > 1 << 20
    assert len(facts.load_average or ()) == 3
    assert facts.limits is not None
    assert (facts.limits.nofile_soft or 0) > 0
    assert Path("/proc/sys/kernel/random/boot_id").read_text().strip() not in json.dumps(encode(facts))


def test_facts_that_cannot_be_read_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel or a container that hides its files costs facts, not the race."""
    monkeypatch.setattr(kernel_files, "PROC", tmp_path)
    monkeypatch.setattr(kernel_files, "CPU", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    facts = machine.facts()
    hidden = ("governor", "boot", "swap_bytes", "virtual", "container", "mitigations")
    assert {getattr(facts, name) for name in hidden} == {None}
    assert facts.limits is not None
    assert facts.limits.somaxconn is None


def test_busy_time_grows_by_what_is_burnt_and_counts_only_the_cores_asked_for() -> None:
    """0.2 s of this thread's CPU time is in its core's counter, give or take the 10 ms ticks."""
    before_mask, core = os.sched_getaffinity(0), max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    try:
        before, began = machine.busy_ns([core]), time.thread_time_ns()
        while time.thread_time_ns() - began < 200_000_000:
            pass
        grown = machine.busy_ns([core]) - before
    finally:
        os.sched_setaffinity(0, before_mask)
    assert grown >= 150_000_000
    assert machine.busy_ns([]) == machine.steal_ns([]) == 0
    assert machine.steal_ns([core]) >= 0


class World:
    """A clock that only sleeping moves, and a machine busy by a script of shares."""

    def __init__(self, shares: Iterable[float], cores: int) -> None:
        self.now_s = self.busy_ns = 0.0
        self.shares, self.cores, self.last = iter(shares), cores, 0.0

    def clock(self) -> float:
        return self.now_s

    def sleep(self, length_s: float) -> None:
        self.last = next(self.shares, self.last)
        self.now_s += length_s
        self.busy_ns += self.last * length_s * 1e9 * self.cores

    def busy(self, cores: Iterable[int]) -> int:
        return round(self.busy_ns)


def test_waiting_ends_with_the_first_quiet_window() -> None:
    """Each window is judged alone: what was before doesn't count."""
    world = World([0.9, 0.5, 0.05, 0.9], cores=2)
    share = wait_for_quiet([0, 1], busy=world.busy, clock=world.clock, sleep=world.sleep)
    assert share == pytest.approx(0.05)
    assert world.now_s == pytest.approx(3 * machine.WINDOW_S)


def test_waiting_gives_up_in_time_and_says_how_busy_it_still_was() -> None:
    """It never hangs on a busy machine; the caller decides what that means."""
    world = World([0.7], cores=1)
    share = wait_for_quiet([0], at_most_s=2.0, busy=world.busy, clock=world.clock, sleep=world.sleep)
    assert share == pytest.approx(0.7)
    assert 2.0 <= world.now_s < 2.0 + 2 * machine.WINDOW_S


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_bounded_command_ends_with_whoever_started_it(tmp_path: Path, number: signal.Signals) -> None:
    """A build's whole session, whatever ends Dragstrip: compilers would go on for minutes."""
    command = f"sleep 300 & echo $! > {tmp_path}/half && mv {tmp_path}/half {tmp_path}/pid && wait"
    code = f"from dragstrip.machine.bounded_command import bounded; bounded(['/bin/sh', '-c', {command!r}], 300)"
    with subprocess.Popen([sys.executable, "-c", code]) as asking:
        until(lambda: (tmp_path / "pid").exists(), 60, "the command did not begin")
        asking.send_signal(number)
    pid = int((tmp_path / "pid").read_text())
    until(lambda: not psutil.pid_exists(pid), 60, "the command outlived who started it")
