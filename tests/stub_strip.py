"""A strip of a lab without a server: all of a real strip, but its race is a sample that takes a moment.

As ``dragstrip`` in a strip of a matrix: ``python stub_strip.py FOLDER NAME lab race --work …``. FOLDER has a log for
each strip, in which a race that meets another one says so.
"""

from __future__ import annotations

import os
import random
import secrets
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import samples

from dragstrip.cli import main
from dragstrip.lab import strip_side
from dragstrip.lab.task import Inquiry, Reply, State, Task
from dragstrip.process import machine_lock
from dragstrip.record import Ending, Event, EventKind
from dragstrip.store.database import Store

FOLDER, NAME = Path(sys.argv[1]), sys.argv[2]


def _alive(pid: int) -> bool:
    """Whether a process runs; one that was killed and not waited for does not."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def _note(word: str) -> None:
    number = os.open(FOLDER / f"{NAME}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(number, f"{word} {os.getpid()}\n".encode())
    os.close(number)


def _met() -> bool:
    """Whether a race that has begun on this strip, and not ended, is alive."""
    log = FOLDER / f"{NAME}.log"
    lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
    ended = {pid for word, pid in lines if word == "end"}
    return any(word == "begin" and pid not in ended and _alive(int(pid)) for word, pid in lines)


def race(task: Task, store: Store) -> None:
    """A sample race of the task's rounds, unless an earlier attempt has left one."""
    with machine_lock.held([f"stub-{NAME}"], print, [FOLDER]):
        if _met():
            _note("overlap")
        _note("begin")
        time.sleep(random.uniform(0.02, float(os.environ.get("STUB_S", "0.2"))))
        if not store.runs():
            made = samples.race(rounds=task.rounds, seed=random.randrange(1000))
            noted = Event(at_ns=1, kind=EventKind.LAB, subject=task.cell, names=(str(task.attempt),))
            events = (noted, *made.events)
            store.begin(replace(made, id=secrets.token_hex(6), events=events, finished=Ending.DECIDED))
        _note("end")


def reply_to(inquiry: Inquiry) -> Reply:
    """Every contender is there."""
    states = tuple(State(key=contestant.word) for contestant in inquiry.contestants)
    return Reply(contestants=states, workloads=inquiry.workloads, machine={"processor": "stub"}, version="stub")


if __name__ == "__main__":
    strip_side._race = race
    strip_side.reply_to = reply_to
    sys.exit(main.run(sys.argv[3:]))
