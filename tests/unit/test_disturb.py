"""The simulated co-tenant uses what was ordered, affects only its target, ends by itself and leaves nothing."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import disturb
import pytest

SCRIPT = disturb.__file__
CORE = min(os.sched_getaffinity(0))

#: A server that works for most of the time if the word behind its name says so, and is idle but for a timer if not.
WORKER = """
import sys, time
while True:
    if sys.argv[1].startswith("busy"):
        for _ in range(50000): pass
        time.sleep(0.002)
    else:
        time.sleep(0.05)
"""


def order(*words: str, seconds: float = 2.0) -> subprocess.Popen[str]:
    """A co-tenant on one core."""
    command = [sys.executable, SCRIPT, "--cores", str(CORE), "--seed", "1", "--seconds", str(seconds), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def report_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What it reports about its only core."""
    _, errors = process.communicate(timeout=60)
    (core,) = json.loads(errors)["cores"]
    return dict(core)


def children(pid: int) -> list[int]:
    """Process ids of the children of a process with one thread."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def until(look: Any, seconds: float = 30.0) -> Any:
    """Waits until a call returns something; fails if it never does."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := look():
            return value
        time.sleep(0.01)
    raise AssertionError("not seen in time")


@pytest.mark.parametrize("ordered", [0.1, 0.2, 0.4])
def test_what_is_drawn_comes_to_the_duty_ordered(ordered: float) -> None:
    """Bursts of 1 to 50 ms and the pauses between them, whatever the machine then does with them."""
    core = disturb.Core(ordered, random.Random(1), disturb.burn)
    pauses, bursts = zip(*(core.draw() for _ in range(20_000)), strict=True)
    assert sum(bursts) / (sum(bursts) + sum(pauses)) == pytest.approx(ordered, rel=0.03)
    assert 0.001 <= min(bursts) < 0.002
    assert 0.049 < max(bursts) <= 0.050


@pytest.mark.parametrize("words", [(), ("--caches",)], ids=["counting", "caches"])
def test_it_takes_its_own_cpu_time_and_no_more_than_ordered(words: tuple[str, ...]) -> None:
    """Other programs can keep it from its duty; nothing makes it take much more. The kernel's account has it, too."""
    before = os.times()
    core = report_of(order("--duty", "30", *words))
    after = os.times()
    spent_s = after.children_user + after.children_system - before.children_user - before.children_system
    assert core["bursts"] >= 1
    assert 0 < core["duty"] < 0.6
    assert spent_s > 0.8 * core["duty"] * core["seconds"]


def test_no_duty_takes_nothing() -> None:
    """A co-tenant of 0 % is there and does nothing: a race beside it differs from others in that alone."""
    core = report_of(order("--duty", "0", seconds=0.5))
    assert (core["bursts"], core["duty"]) == (0, 0.0)


@pytest.mark.thorough
def test_only_while_the_server_that_it_was_told_works(tmp_path: Path) -> None:
    """Two servers, of which one rests: told to hit that one it does nothing, told to hit the other it works."""
    names = (f"busy-{os.getpid()}", f"idle-{os.getpid()}")
    servers = [subprocess.Popen([sys.executable, "-c", WORKER, name]) for name in names]
    try:
        numbers = tmp_path / "numbers"
        numbers.write_text(f"{servers[0].pid}\n")
        ways = (("--only", names[0]), ("--only-pattern", f"{names[0][:-1]}[0-9]"), ("--pid-file", str(numbers)))
        hit = [report_of(order("--duty", "60", *way)) for way in ways]
        spared = report_of(order("--duty", "60", "--only", names[1]))
    finally:
        for server in servers:
            server.kill()
            server.wait()
    assert all(core["worked_s"] > 0 and core["duty"] > 0 for core in hit)
    assert spared["worked_s"] < 0.5 * min(core["worked_s"] for core in hit)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=["TERM", "INT", "KILL"])
def test_however_it_ends_nothing_is_left(number: signal.Signals) -> None:
    """Its cores' processes end with it."""
    process = order("--duty", "20", seconds=60.0)
    mine = until(lambda: children(process.pid))
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in mine))
    assert process.returncode != 0
    if number != signal.SIGKILL:
        assert len(json.loads(errors.splitlines()[-1])["cores"]) == 1, "the CPU time that it took is still reported"


def test_it_ends_with_the_command_that_it_runs_beside_and_with_its_exit_code() -> None:
    """Long before its own time, and the command's words are passed on as they are."""
    process = order("--duty", "20", "--exec", sys.executable, "-c", "import sys; sys.exit(3)", seconds=600.0)
    core = report_of(process)
    assert process.returncode == 3
    assert core["seconds"] < 60


def test_a_command_that_stays_longer_than_ordered_is_ended() -> None:
    """What was ordered for half a second doesn't hold its caller for a minute."""
    process = order("--duty", "20", "--exec", "sleep", "60", seconds=0.5)
    process.communicate(timeout=30)
    assert process.returncode == 124


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (("--duty", "120"), "'120' is no duty; give per cent of a core from 0 to 95"),
        (("--seconds", "0"), "'0' is no time; give seconds above 0"),
        (("--cores", "x"), "'x' is no list of cores"),
        (("--cores", "99999"), "cores [99999] can't be used here"),
        (("--only-pattern", "("), "'(' is no regular expression"),
        (("--exec",), "--exec has no command behind it"),
    ],
)
def test_words_that_make_no_order_are_refused_with_what_would_do(words: tuple[str, ...], refusal: str) -> None:
    """And nothing is started."""
    done = subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert refusal in done.stderr
