"""Cores kept awake: which way is taken, that it works while held, and that all is put back, also after ``kill -9``."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import dragstrip

from dragstrip import machine
from dragstrip.process import keep_awake
from dragstrip.process.supervisor import descendants
from dragstrip.racing.resume import awake_and_wait_of
from dragstrip.store.database import Store

CORE = max(os.sched_getaffinity(0))
RESUME = Path(keep_awake.RESUME.format(core=CORE))
AS_ROOT = pytest.mark.skipif(
    not os.access(RESUME, os.W_OK) or os.geteuid() != 0, reason="the kernel's settings are root's, and may be missing"
)


def until(true: Callable[[], bool], at_most_s: float = 20.0) -> bool:
    """Waits for it; how long it takes decides nothing."""
    end = time.monotonic() + at_most_s
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def spinners(root: int) -> list[int]:
    """Descendants of a process that have the SCHED_IDLE policy, dead ones apart."""
    pids = []
    for pid, (_, state) in descendants(root).items():
        try:
            if state != "Z" and os.sched_getscheduler(pid) == os.SCHED_IDLE:
                pids.append(pid)
        except ProcessLookupError:
            continue
    return pids


def running(pid: int) -> bool:
    """Alive, and not just waiting to be collected by whoever adopted it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def opened() -> list[str]:
    """Files that this process and its children have open."""
    links = (link for pid in (os.getpid(), *descendants(os.getpid())) for link in Path(f"/proc/{pid}/fd").iterdir())
    return sorted(str(link.readlink()) for link in links if link.is_symlink())


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.fixture
def holder():
    """A process of its own that holds cores awake by a way, to be killed; it says "held" and then waits."""
    made = []

    def start(way: str) -> subprocess.Popen[str]:
        script = f"""
            import sys
            from dragstrip.process import keep_awake
            with keep_awake.hold([{CORE}], ways=({way!r},)) as kept, kept.held():
                print(kept.text, flush=True)
                sys.stdin.read()
        """
        words = [sys.executable, "-c", textwrap.dedent(script)]
        made.append(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        assert made[-1].stdout is not None
        assert select.select([made[-1].stdout], [], [], 60)[0], "it never held"
        return made[-1]

    yield start
    for process in made:
        process.kill()
        process.communicate()


def test_off_does_nothing() -> None:
    """No process is started, no file is opened, and the record says off."""
    before = descendants(os.getpid()).keys(), opened()
    with keep_awake.hold([CORE], on=False) as kept, kept.held():
        assert (kept.text, kept.way) == ("off", None)
        assert (descendants(os.getpid()).keys(), opened()) == before


@pytest.mark.skipif(not os.access(keep_awake.DEVICE, os.W_OK), reason="the device is not there, or not ours to open")
def test_the_device_is_open_while_held_and_only_then() -> None:
    """The kernel takes the wish back with the file: so it is closed between blocks, and gone with the process."""
    with keep_awake.hold([CORE], ways=("device", "idle")) as kept:
        assert kept.text == "cpu_dma_latency held at 0"
        assert keep_awake.DEVICE not in opened()
        with kept.held():
            assert keep_awake.DEVICE in opened()
        assert keep_awake.DEVICE not in opened()


def test_without_an_idle_driver_its_settings_are_passed_over() -> None:
    """There they would do nothing, and a record that said that they did would be wrong."""
    with keep_awake.hold([CORE]) as kept:
        if keep_awake._text(keep_awake.DRIVER) in ("", "none"):
            assert kept.way not in ("device", "resume")
            assert "no idle driver" in kept.text
        elif os.access(keep_awake.DEVICE, os.W_OK):
            assert kept.way == "device"


@AS_ROOT
def test_the_resume_latency_is_set_while_held_and_put_back() -> None:
    """What was there before comes back, also where it was not the kernel's own value."""
    before = RESUME.read_text()
    try:
        RESUME.write_text("250")
        with keep_awake.hold([CORE], ways=("resume",)) as kept:
            assert kept.text == "resume latency n/a on each core"
            with kept.held():
                assert RESUME.read_text().strip() == "n/a"
            assert RESUME.read_text().strip() == "250"
    finally:
        RESUME.write_text(before)


@AS_ROOT
def test_the_resume_latency_is_put_back_after_kill_9(holder) -> None:
    """Its supervisor sees that its race is gone."""
    before = RESUME.read_text()
    process = holder("resume")
    assert RESUME.read_text().strip() == "n/a"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert until(lambda: RESUME.read_text() == before)


def test_spinners_run_at_the_lowest_priority_while_held_and_stand_still_in_between() -> None:
    """One on each core; they are of our own family, so that no race takes them for another program."""
    with keep_awake.hold([CORE], ways=("idle",)) as kept:
        assert kept.text == "a SCHED_IDLE spinner on each core"
        with kept.held():
            (pid,) = spinners(os.getpid())
            assert os.sched_getaffinity(pid) == {CORE}
            assert until(lambda: state(pid) == "R")
            spent = machine.cpu_by_process([CORE])
            assert until(lambda: machine.cpu_by_process([CORE])[pid][1] > spent[pid][1]), "it never had the core"
        assert until(lambda: state(pid) == "T")
    assert until(lambda: not running(pid))


def test_spinners_are_gone_after_kill_9(holder) -> None:
    """Of the race, and of the helper between them."""
    process = holder("idle")
    pids = spinners(process.pid)
    assert len(pids) == 1
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert until(lambda: not any(map(running, pids)))

    process = holder("idle")
    (pid,) = spinners(process.pid)
    (helper,) = (child for child in descendants(process.pid) if pid in descendants(child))
    os.kill(helper, signal.SIGKILL)
    assert until(lambda: not running(pid))


def test_a_way_that_is_barred_is_said_with_its_reason() -> None:
    """The record says why the cores sleep; nothing is left running."""
    nowhere = 4095
    with keep_awake.hold([nowhere], ways=("resume", "idle")) as kept, kept.held():
        assert kept.way is None
        assert kept.text.startswith("off: resume: No such file or directory")
        assert "idle: " in kept.text
    assert not spinners(os.getpid())
    with keep_awake.hold([CORE], ways=("idle",), against="nobody wants it") as kept:
        assert kept.text == "off: nobody wants it"


@pytest.mark.live
@pytest.mark.parametrize("word", keep_awake.CHOICES)
@pytest.mark.thorough
def test_a_race_records_what_kept_its_cores_awake_and_how_its_engine_waited(tmp_path: Path, word: str) -> None:
    """Its parity sheet tells it, and a resumed race goes on the same way."""
    store = tmp_path / "races.sqlite"
    words = ["--rounds", "2", "--budget", "5s", "--awake", word, "--store", str(store), "--quiet"]
    done = dragstrip("race", "nginx-return", "one=nginx-return", *words)
    with Store(store) as kept:
        race = kept.load("last")
    assert race.rounds, done.stderr
    own_cores = len(os.sched_getaffinity(0)) > 1 and not keep_awake.against_spinning([CORE], [])
    assert race.machine.engine_wait == ("poll" if own_cores else "sleep")
    assert (race.machine.awake == "off") == (word == "off")
    assert awake_and_wait_of(race) == (word, race.machine.engine_wait)
    assert all(block.server_runs for round_ in race.rounds for block in round_.blocks)
    shown = dragstrip("show", "--parity", "--store", str(store))
    assert shown.returncode == 0, shown.stderr
    assert f"cores kept awake: {(race.machine.awake or '').split(' (')[0]}" in " ".join(shown.stdout.split())
