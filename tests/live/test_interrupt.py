"""Races that are interrupted, resumed and killed: what was measured is kept, and nothing is left running."""

from __future__ import annotations

import contextlib
import json
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from races import (
    assert_nothing_left,
    begin,
    begun,
    dragstrip_run,
    misbehaving,
    rounds_in,
    running_server,
    servers,
    settings,
    until,
)

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """After each test: no scratch directory of a race begun in it, and no process with a foot in one."""
    begun.clear()
    yield
    assert_nothing_left()


def racing(env: dict[str, str], *words: str) -> subprocess.Popen[str]:
    """A race that has added at least two rounds to its store, and goes on.

    The environment doesn't name the store to it, so that what it prints must."""
    before = rounds_in(env)
    assert "--store" in words
    without = {name: value for name, value in env.items() if name != "DRAGSTRIP_STORE"}
    race = begin(without, *words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    until(lambda: rounds_in(env) >= before + 2 or race.poll() is not None, 120, "no round was recorded")
    assert race.poll() is None, race.stdout.read() if race.stdout else ""
    return race


def ended(env: dict[str, str], race: subprocess.Popen[str], number: signal.Signals) -> list[str]:
    """A signal; its exit code and its last line say so. Returns the line's command, without the program."""
    race.send_signal(number)
    out, _ = race.communicate(timeout=120)
    assert race.returncode == 128 + number, out
    line, _, command = out.rstrip("\n").rpartition("\n")[2].partition("; to continue: ")
    assert line == f"dragstrip: ended by {number.name}: {rounds_in(env)} rounds are kept"
    program, *words = shlex.split(command)
    assert (program, words[:2], words[-2:]) == ("dragstrip", ["race", "--resume"], ["--store", env["DRAGSTRIP_STORE"]])
    return words


def runs(env: dict[str, str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(dragstrip_run(env, "runs", "--json").stdout)
    return found


def shown(env: dict[str, str]) -> dict[str, Any]:
    done = dragstrip_run(env, "show", "last", "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.thorough
def test_a_race_is_ended_by_each_signal_resumed_without_one_of_three_and_killed(tmp_path: Path) -> None:
    """One race through all of it; seed, plan and rounds stay, and every resume counts on.

    1. Each signal: the exit code and the last line name it, the servers are stopped, what was measured is kept, the
       race counts as interrupted, and the very command of the line resumes it.
    2. Resumed after a server that was already running has gone: named in the record, in no pair, the others go on.
       Meanwhile no other process may resume it.
    3. `kill -9`: the supervisors end what is left, `show` prints every finished round, and it resumes.
    """
    store = ["--store", str(tmp_path / "own store.sqlite")]
    env = settings(tmp_path) | {"DRAGSTRIP_STORE": store[1]}
    with running_server() as (url, _):
        race = racing(env, "race", "nginx-return", "nginx-static", url, "--rounds", "500", *store)
        resume = ended(env, race, signal.SIGTERM)
        assert_nothing_left()
    (run,) = runs(env)
    assert run["finished"] == "interrupted"
    assert run["rounds"] == rounds_in(env) >= 2
    seed = shown(env)["seed"]

    race = racing(env, *resume)
    second = dragstrip_run(env, *resume)
    assert second.returncode == 2, second.stdout + second.stderr
    assert "is being raced by another process" in second.stderr
    resume = ended(env, race, signal.SIGHUP)
    (run,) = runs(env)
    assert run["rounds"] == rounds_in(env) >= 4
    told = shown(env)
    out = {one["name"]: one["out"] for one in told["contenders"]}
    assert "refused" in out[url].lower()
    assert not out["nginx-return"]
    assert all(url not in (pair["a"], pair["b"]) for pair in told["pairs"])
    assert told["seed"] == seed

    resume = ended(env, racing(env, *resume), signal.SIGQUIT)
    race = racing(env, *resume)
    race.kill()
    race.wait()
    until(lambda: not servers(), 20, "servers outlive the race")
    (run,) = runs(env)
    assert len(shown(env)["order"]) == rounds_in(env) >= 8
    ended(env, racing(env, "race", "--resume", "last", *store), signal.SIGINT)  # the killed process holds it no more
    (run,) = runs(env)
    assert (run["finished"], run["rounds"]) == ("interrupted", rounds_in(env))
    assert not list(tmp_path.glob("*.lock"))


#: Signals that end a race in an orderly way.
ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGINT)


def test_a_signal_before_the_first_round_ends_a_race_and_says_that_nothing_was_measured(tmp_path: Path) -> None:
    """Four races that wait for a server at the same time, each ended by its own signal."""
    waiting = []
    for number in ENDING:
        env = settings(tmp_path) | {"DRAGSTRIP_STORE": str(tmp_path / f"{number.name}.sqlite")}
        words = ["race", *misbehaving("one", "sleeps", "60"), "nginx-return", "--wake", "120s"]
        waiting.append((number, begin(env, *words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)))
    for number, race in waiting:
        until(lambda: len(servers([race.pid])) > 1 or race.poll() is not None, 60, "no server was started")  # noqa: B023
        race.send_signal(number)
    for number, race in waiting:
        _, said = race.communicate(timeout=60)
        nothing = f"dragstrip: ended by {number.name}: no round was complete, so nothing was measured\n"
        assert (race.returncode, said.endswith(nothing)) == (128 + number, True), said


@pytest.mark.thorough
def test_ctrl_c_while_servers_are_asked_side_by_side_leaves_nothing(tmp_path: Path) -> None:
    """Two that hold every request are waited for in threads; the interrupt ends them with their servers."""
    env = settings(tmp_path)
    words = ["race", "nginx-return", *misbehaving("one", "holds"), *misbehaving("two", "holds")]
    race = begin(env, *words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    below = psutil.Process(race.pid)

    def held() -> int:
        count = 0
        for one in below.children(recursive=True):
            with contextlib.suppress(psutil.Error):  # a version command that has just ended
                count += "misbehaving.py" in " ".join(one.cmdline())
        return count

    until(lambda: held() >= 2, 60, "they were never up together")
    race.send_signal(signal.SIGINT)
    out, _ = race.communicate(timeout=60)
    assert race.returncode == 130, out
    assert "Traceback" not in out
    assert runs(env) == []
