"""A strip of a lab without a server: all of a real strip, but its race is a sample that takes a moment.

As ``dragstrip`` in a strip of a matrix: ``python stub_strip.py FOLDER NAME lab race --work …``. FOLDER has a log for
each strip, in which a race that meets another one says so. If FOLDER has a file ``break-NAME``, the next record is
damaged; while it has a file ``gone-NAME``, the strip can't be reached; while it has a file ``fill-NAME``, a race fills
its disk; while it has a file ``hold-NAME``, a race does not end.

``python stub_strip.py --serve SOCKET`` does the same for ``stub_door.py``, by a process that it forks for each call:
1,000 cells in minutes, because nothing is imported again.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import samples

from dragstrip.commands import main
from dragstrip.extras.lab import strip_side
from dragstrip.extras.lab.task import Inquiry, State, Task, TaskOutcome, TaskReply, record_file
from dragstrip.process import machine_lock
from dragstrip.record import Ending, Event, EventKind
from dragstrip.store.database import Store

FOLDER, NAME = Path(), ""

#: How long a race is held at most: it ends also if its test has failed.
HOLD_S = 120.0


def begun_at(pid: int | str) -> str:
    """When a process began, in ticks since the system's start; "" if it has ended, also if nothing waits for it."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] == "Z" else fields[19]
    return ""


def _note(word: str) -> None:
    number = os.open(FOLDER / f"{NAME}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(number, f"{word} {os.getpid()} {begun_at(os.getpid())}\n".encode())
    os.close(number)


def _met() -> bool:
    """Whether a race that has begun on this strip, and not ended, is alive; its process id alone may be another's."""
    log = FOLDER / f"{NAME}.log"
    lines = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
    ended = {(pid, begun) for word, pid, begun in lines if word == "end"}
    return any(word == "begin" and (pid, begun) not in ended and begun_at(pid) == begun for word, pid, begun in lines)


def seconds(cell: str, attempt: int) -> float:
    """How long an attempt sleeps: at random between ``STUB_LEAST_S`` and ``STUB_S``, but the same for all carriers."""
    least, most = (float(os.environ.get(*pair)) for pair in (("STUB_LEAST_S", "0.02"), ("STUB_S", "0.2")))
    return random.Random(f"{cell}.{attempt}").uniform(least, most)


def filled(place: Path) -> None:
    """Leaves no room on a file's disk."""
    with suppress(OSError), place.open("wb", buffering=0) as file:
        for size in (1 << 20, 512):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))


def race(task: Task, store: Store) -> None:
    """A sample race of the task's rounds, unless an earlier attempt has left one."""
    with machine_lock.held([f"stub-{NAME}"], print, [FOLDER]):
        if _met():
            _note("overlap")
        _note("begin")
        if (FOLDER / f"fill-{NAME}").exists():
            filled(store.path.with_name("filler"))
        time.sleep(seconds(task.cell, task.attempt))
        held_until = time.monotonic() + HOLD_S
        while (FOLDER / f"hold-{NAME}").exists() and time.monotonic() < held_until:
            time.sleep(0.05)
        if not store.runs():
            made = samples.race(rounds=task.rounds, seed=random.randrange(1000))
            noted = Event(at_ns=1, kind=EventKind.LAB, subject=task.cell, names=(str(task.attempt),))
            events = (noted, *made.events)
            store.begin(replace(made, id=secrets.token_hex(6), events=events, finished=Ending.DECIDED))
            _note("raced")
        _note("end")


def sealed(task: Task, store: Store, work: Path) -> TaskOutcome:
    """As the product seals, but the next record is damaged if that was asked for."""
    outcome = _SEALED(task, store, work)
    with suppress(FileNotFoundError):
        (FOLDER / f"break-{NAME}").unlink()
        record = record_file(work, task.stem)
        record.write_bytes(record.read_bytes()[:-4000])
    return outcome


def reply_to(inquiry: Inquiry) -> TaskReply:
    """Every contender is there."""
    states = tuple(State(key=contestant.word) for contestant in inquiry.contestants)
    return TaskReply(contestants=states, workloads=inquiry.workloads, machine={"processor": "stub"}, version="stub")


def called(words: list[str]) -> int:
    """A call of Dragstrip on a strip; its exit code."""
    global FOLDER, NAME
    FOLDER, NAME = Path(words[0]), words[1]
    if (FOLDER / f"gone-{NAME}").exists():
        return 255
    strip_side._race, strip_side._sealed, strip_side.reply_to = race, sealed, reply_to
    return main.run(words[2:])


def serve(place: str) -> None:
    """Forks a process for each caller, which has the caller's streams, folder and environment."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(place)
        listening.listen(64)
        while True:
            caller, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                os._exit(_forked(caller))
            caller.close()


def _forked(caller: socket.socket) -> int:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    text, streams, _, _ = socket.recv_fds(caller, 1 << 16, 3)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    asked = json.loads(text)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    random.seed()
    caller.sendall(f"{os.getpid()}\n".encode())
    code = called(asked["words"])
    sys.stdout.flush()
    caller.sendall(f"{code}\n".encode())
    return code


_SEALED = strip_side._sealed

if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2])
    sys.exit(called(sys.argv[1:]))
