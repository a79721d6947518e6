"""Slurm as the way to a strip: one exclusive batch job for each slice, so that a race outlives its client.

The record is in the strip's outbox, as with every carrier. If a controller forgets a job, nothing is lost: the
outbox is looked into by a further job on the same machine, which waits until the machine is free.

That further job is an ``srun``, which needs care. If the controller is killed while it waits, the controller forgets
it, and it waits for ever. If it is killed itself, or the controller recovers a state that is some seconds old, its
machine stays allocated for nothing. So each has a name of its own, by which it is watched and cancelled.
"""

from __future__ import annotations

import os
import secrets
import shlex
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from dragstrip.errors import MachineLost
from dragstrip.extras.lab import pipes

#: Seconds between two looks at a job: the least, and the most; and for a reply of Slurm's commands.
LOOK_S, LONGEST_S, REPLY_S = 0.5, 5.0, 60.0

#: Seconds after which a controller that does not reply is given up.
CONTROLLER_S = 300.0

#: Seconds for an ``srun`` without a job to end by itself; and for which a job waits before leftovers are looked for.
FORGOTTEN_S, LEFTOVER_S = 10.0, 10.0

#: Times that Slurm may fail to run a command, and seconds before it is tried again.
MOST_TRIES, AGAIN_S = 5, 1.0

#: States of jobs that wait or run.
ALIVE = "PENDING,CONFIGURING,RUNNING,SUSPENDED,STOPPED"

#: What this process waits for, by the names of jobs; set if it shall end.
_awaited: dict[str, threading.Event] = {}


@dataclass(frozen=True, slots=True)
class Jobs:
    """The jobs of a lab's strip.

    Args:
        strip: its name. work: its folder of this lab. options: of ``sbatch`` and ``srun``, which choose its machine.
        folder: in which commands start.
    """

    strip: str
    work: str
    options: Sequence[str]
    folder: Path

    def race(
        self,
        stem: str,
        command: Sequence[str],
        text: str,
        limit_s: float,
        started: Callable[[Callable[[], None]], None],
    ) -> None:
        """Runs a command as an attempt's batch job, and waits for its end.

        Args:
            stem: the attempt. text: the command's input. limit_s: seconds after its begin at which it is cancelled.
            started: receives what cancels it.

        Raises:
            MachineLost: Slurm refuses the job, or its controller is away.
        """
        name = self._name(stem)
        script = f"#!/bin/sh\nexec {shlex.join(command)} <<'DRAGSTRIP'\n{text}\nDRAGSTRIP\n"
        fixed = ["--parsable", "--exclusive", "--ntasks=1", "--no-requeue", "--output=/dev/null"]
        words = ["sbatch", *fixed, f"--job-name={name}", f"--chdir={self.folder}", *self.options]
        while True:
            code, _, why = _asked(words, script)
            if code == 0 or _states(name):  # it may have been accepted anyway
                break
            if not self._was_away():
                raise MachineLost(self.strip, f"sbatch: {why}")
        started(lambda: _cancel(name))
        self._wait(name, limit_s)

    def settle(self, stem: str) -> None:
        """Waits for the end of an attempt's job, and cancels it if it has not begun.

        Raises:
            MachineLost: the controller is away.
        """
        name = self._name(stem)
        _asked(["scancel", *_own(), f"--name={name}", "--state=PENDING"])
        self._wait(name)

    def output_of(self, command: Sequence[str], text: str, limit_s: float, wait_s: float = float("inf")) -> bytes:
        """What a command prints on the machine, where it runs as soon as that is free.

        Args:
            text: its input. limit_s: seconds that it may run. wait_s: seconds that it may wait until it runs.

        Raises:
            MachineLost: it failed, or took too long, or the controller is away.
        """
        fixed = ["--quiet", "--ntasks=1", "--exclusive", *self.options]
        minutes = int(limit_s // 60) + 2  # Slurm's own limit, if nothing cancels it
        why = ""
        for _ in range(MOST_TRIES):
            name = self._name(f"asks-{secrets.token_hex(6)}")
            with _awaiting(name) as ended:
                words = ["srun", *fixed, f"--job-name={name}", f"--time={minutes}", *command]
                code, printed, errors = self._printed(words, name, text, ended, limit_s, wait_s)
            lines = errors.decode(errors="replace").strip().splitlines() or [f"exit code {code}"]
            if code == 0:
                return printed
            if any("Exited with exit code" in line for line in lines):  # the command's own failure
                own = [line for line in lines if not line.startswith("srun:")] or ["no reason given"]
                raise MachineLost(self.strip, f"{own[-1][:300]} (exit code {code})")
            why = lines[-1].removeprefix("srun: ")[:300]
            if not self._was_away():
                time.sleep(AGAIN_S)
        raise MachineLost(self.strip, f"srun: {why}")

    def _name(self, what: str) -> str:
        return f"dragstrip-{self.work.replace('/', '.')}-{what}"

    def _printed(
        self, words: Sequence[str], name: str, text: str, ended: threading.Event, limit_s: float, wait_s: float
    ) -> tuple[int, bytes, bytes]:
        """Runs an ``srun``: exit code, output and errors.

        Raises:
            MachineLost: it can't be run, took too long, or shall end.
        """
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as said:
            given.write(text.encode())
            given.seek(0)
            try:
                process = subprocess.Popen(words, cwd=self.folder, stdin=given, stdout=printed, stderr=said)
            except OSError as error:
                raise MachineLost(self.strip, f"srun can't be run ({error.strerror})") from error
            with process:
                try:
                    self._watch(process, name, printed, ended, limit_s, wait_s)
                finally:
                    _end(process, name)
            for stream in (printed, said):
                stream.seek(0)
            return process.returncode, printed.read(), said.read()[-10_000:]

    def _watch(
        self,
        process: subprocess.Popen[bytes],
        name: str,
        printed: IO[bytes],
        ended: threading.Event,
        limit_s: float,
        wait_s: float,
    ) -> None:
        """Waits for the end of an ``srun``, and kills it if Slurm has forgotten it.

        Raises:
            MachineLost: it took too long, printed too much, or shall end.
        """
        begun_s, ran_s, waited_s, forgotten_s = time.monotonic(), 0.0, 0.0, 0.0
        while True:
            pause_s = _pause_s(begun_s)
            pipes.talk(process, b"", pause_s, self.strip)
            if (size := os.fstat(printed.fileno()).st_size) > pipes.MOST_BYTES:
                raise MachineLost(self.strip, f"it printed {size:,} bytes; the maximum is {pipes.MOST_BYTES:,}")
            if process.poll() is not None:
                return
            states = _states(name)
            if states and "PENDING" in states:
                waited_s += pause_s
                self._free(waited_s)
            elif states:
                ran_s += pause_s
            forgotten_s = forgotten_s + pause_s if states == "" else 0.0
            if forgotten_s > FORGOTTEN_S:
                process.kill()
            if ended.is_set():
                raise MachineLost(self.strip, "interrupted")
            if ran_s > limit_s:
                raise MachineLost(self.strip, f"no reply within {limit_s:g} s")
            if waited_s > wait_s:
                raise MachineLost(self.strip, f"its machine was not free within {wait_s:g} s")

    def _wait(self, name: str, limit_s: float = float("inf")) -> None:
        """Waits until no job of that name waits or runs.

        Raises:
            MachineLost: the controller is away, or the wait shall end.
        """
        begun_s = heard_s = time.monotonic()
        pause_s, ran_s, waited_s = LOOK_S, 0.0, 0.0
        with _awaiting(name) as ended:
            while (states := _states(name)) != "":
                now_s = time.monotonic()
                if states is None and now_s > heard_s + CONTROLLER_S:
                    raise MachineLost(self.strip, f"Slurm's controller has been away for {CONTROLLER_S:g} s")
                if states is not None:
                    heard_s = now_s
                    if "PENDING" in states:
                        waited_s += pause_s
                        self._free(waited_s)
                    else:
                        ran_s += pause_s
                if ran_s > limit_s:
                    _cancel(name)
                if ended.wait(pause_s):
                    raise MachineLost(self.strip, "interrupted")
                pause_s = _pause_s(begun_s)

    def _free(self, waited_s: float) -> None:
        """Ends jobs that have asked for a client that is gone, if another one has waited for a while."""
        if waited_s < LEFTOVER_S:
            return
        _, said, _ = _asked(["squeue", "--noheader", *_own(), "--states=RUNNING", "--format=%i %j"])
        for line in said.splitlines():
            number, _, name = line.strip().partition(" ")
            if name.startswith(self._name("asks-")) and name not in _awaited:
                _asked(["scancel", number])

    def _was_away(self) -> bool:
        """Whether the controller is away; waits until it replies.

        Raises:
            MachineLost: it stays away.
        """
        until_s, was = time.monotonic() + CONTROLLER_S, False
        while _states("dragstrip") is None:
            was = True
            if time.monotonic() > until_s:
                raise MachineLost(self.strip, f"Slurm's controller has been away for {CONTROLLER_S:g} s")
            time.sleep(AGAIN_S)
        return was


def interrupt() -> None:
    """Ends all waiting of this process."""
    for ended in list(_awaited.values()):
        ended.set()


@contextmanager
def _awaiting(name: str) -> Iterator[threading.Event]:
    """Notes what is waited for; yields what is set if that shall end."""
    ended = _awaited[name] = threading.Event()
    try:
        yield ended
    finally:
        _awaited.pop(name, None)


def _end(process: subprocess.Popen[bytes], name: str) -> None:
    """Ends an ``srun``, and gives its machine back; waits for a controller that is away."""
    until_s = time.monotonic() + CONTROLLER_S
    while _states(name) != "" and time.monotonic() < until_s:
        _cancel(name)
        if process.poll() is None:
            break
        time.sleep(LOOK_S)
    for end in (process.terminate, process.kill):
        with suppress(subprocess.TimeoutExpired):
            process.wait(LONGEST_S)
            return
        end()
    process.wait()


def _pause_s(begun_s: float) -> float:
    """Seconds until the next look: a twentieth of what has passed."""
    return min(max(LOOK_S, (time.monotonic() - begun_s) / 20), LONGEST_S)


def _cancel(name: str) -> None:
    _asked(["scancel", *_own(), f"--name={name}"])


def _states(name: str) -> str | None:
    """The states of jobs of that name that wait or run; "" without one, None if the controller does not reply."""
    code, said, _ = _asked(["squeue", "--noheader", *_own(), f"--states={ALIVE}", f"--name={name}", "--format=%T"])
    return said if code == 0 else None


def _own() -> list[str]:
    """The option for jobs of this user only."""
    return [f"--user={os.getuid()}"]


def _asked(words: Sequence[str], text: str = "") -> tuple[int, str, str]:
    """A command of Slurm's: exit code, output, and the last line of its errors."""
    try:
        done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=REPLY_S, check=False)
    except subprocess.TimeoutExpired:
        return 1, "", f"no reply within {REPLY_S:g} s"
    except OSError as error:
        return 1, "", f"{words[0]} can't be run ({error.strerror})"
    return done.returncode, done.stdout.strip(), (done.stderr.strip().splitlines() or ["no reason given"])[-1][:300]
