"""The client's way to a strip: a process of Dragstrip there, by ssh or as a child, and what it leaves in its outbox."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dragstrip.errors import MachineLost
from dragstrip.extras.fleet.channel import words_to_reach
from dragstrip.extras.fleet.definition import Fleet, Machine
from dragstrip.extras.lab import slurm, strip_side
from dragstrip.extras.lab.matrix import Strip
from dragstrip.extras.lab.pipes import talk
from dragstrip.extras.lab.strip_side import received
from dragstrip.extras.lab.task import Inquiry, Taken, Task, TaskReply, from_json, to_json

#: Seconds for a strip's reply, and for a process that was interrupted to end by itself.
REPLY_S, END_S = 120.0, 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StripLink:
    """A strip and how it is reached.

    Args:
        fields: the strip's table. folder: the matrix's folder, in which commands of this machine run.
        work: the strip's folder of this lab: a path here, or a name below the cache of its machine.
    """

    fields: Strip
    folder: Path
    work: str

    @property
    def is_here(self) -> bool:
        """Whether its processes run on this machine."""
        return not (self.fields.ssh or self.fields.via or self.fields.slurm)

    def words(self, *arguments: str) -> list[str]:
        """The command that runs this lab's part there."""
        fields = self.fields
        machine = Machine(name="strip", role="server", ssh=fields.ssh, via=fields.via, dragstrip=fields.dragstrip)
        fleet = Fleet(file=self.folder, server=machine, generators=(), ssh_options=fields.ssh_options)
        return words_to_reach(machine, fleet, ("lab", *arguments))

    def inquire(self, inquiry: Inquiry) -> TaskReply:
        """What the strip has.

        Raises:
            MachineLost: it can't be reached, or its reply is not valid. BadUsage: it refuses the inquiry.
        """
        if self.is_here and self.fields.dragstrip == "dragstrip":
            before = Path.cwd()
            os.chdir(self.folder)
            try:
                return strip_side.reply_to(inquiry)
            finally:
                os.chdir(before)
        done = self._asked("inquire", text=to_json(inquiry))
        return from_json(TaskReply, done, f"strip {self.fields.name}: its reply")

    def race(self, task: Task, limit_s: float, started: Callable[[Callable[[], None]], None]) -> tuple[bytes, bytes]:
        """Runs a slice there, waits for its end, and returns what it left: outcome and record.

        Args:
            limit_s: seconds after which it is ended. started: receives what interrupts it.

        Raises:
            MachineLost: it left nothing, or the strip can't be reached.
        """
        if self.fields.slurm:
            self._jobs.race(task.stem, self.words("race", "--work", self.work), to_json(task), limit_s, started)
            return self._left(task, "its job has ended")
        words = self.words("race", "--work", self.work, *([] if self.is_here else ["--deliver"]))
        where = subprocess.DEVNULL if self.is_here else subprocess.PIPE
        with (
            tempfile.TemporaryFile() as said,  # a pipe would be held open by what a killed race leaves
            subprocess.Popen(
                words, cwd=self.folder, stdin=subprocess.PIPE, stdout=where, stderr=said, start_new_session=True
            ) as process,
        ):
            started(partial(interrupt, process))
            try:
                delivered = talk(process, to_json(task).encode(), limit_s, self.fields.name)
            finally:
                interrupt(process)
            said.seek(0)
            why = _last_line(said.read()[-10_000:], process.returncode)
        left = received(delivered)
        return left if left[0] else self._left(task, why)

    def _left(self, task: Task, why: str) -> tuple[bytes, bytes]:
        left = self.collect(task.cell, task.attempt)
        if not left[0]:
            raise MachineLost(self.fields.name, f"it left no record: {why}")
        return left

    def collect(self, cell: str, attempt: int) -> tuple[bytes, bytes]:
        """What an attempt left: outcome and record; waits while the attempt lives.

        Raises:
            MachineLost: the strip can't be reached.
        """
        if self.is_here:
            return strip_side.collected(Path(self.work), cell, attempt)
        if self.fields.slurm:
            self._jobs.settle(f"{cell}.{attempt}")
        return received(self._asked("collect", "--work", self.work, f"{cell}.{attempt}", limit_s=float("inf")))

    def clear(self, taken: Sequence[Taken]) -> None:
        """Removes what the client has settled from the outbox; a strip that is away keeps it."""
        if self.is_here:
            strip_side.clear(Path(self.work), taken)
            return
        stems = [
            word for part in taken for word in (["--whole"] if part.whole else []) + [f"{part.cell}.{part.attempt}"]
        ]
        with suppress(MachineLost):
            self._asked("clear", "--work", self.work, *stems, wait_s=REPLY_S)

    @property
    def _jobs(self) -> slurm.Jobs:
        return slurm.Jobs(self.fields.name, self.work, self.fields.slurm, self.folder)

    def _asked(self, *arguments: str, text: str = "", limit_s: float = REPLY_S, wait_s: float = float("inf")) -> bytes:
        """What a call prints; wait_s: for a machine that Slurm has given to others."""
        name, words = self.fields.name, self.words(*arguments)
        if self.fields.slurm:
            return self._jobs.output_of(words, text, min(limit_s, REPLY_S), wait_s)
        try:
            with (
                tempfile.TemporaryFile() as said,
                subprocess.Popen(
                    words, cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said
                ) as process,
            ):
                try:
                    printed = talk(process, text.encode(), limit_s, name)
                    in_time = process.poll() is not None
                finally:
                    process.kill()
                process.wait()
                said.seek(0)
                errors = said.read()[-10_000:]
        except OSError as error:
            raise MachineLost(name, f"{shutil.which(words[0]) or words[0]} can't be run ({error.strerror})") from error
        if not in_time:
            raise MachineLost(name, f"no reply within {limit_s:g} s")
        if process.returncode != 0:
            raise MachineLost(name, _last_line(errors, process.returncode))
        return printed


def _last_line(text: bytes, code: int) -> str:
    """Why a process failed."""
    last = text.decode(errors="replace").strip().splitlines()[-1:] or ["no reason given"]
    return f"{last[0][:300]} (exit code {code})"


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Ends a race's process so that its servers end with it; one that has ended stays as it is."""
    for number in (signal.SIGINT, signal.SIGKILL):
        if process.poll() is not None:
            return
        with suppress(ProcessLookupError):
            process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
