"""Many dragstrip commands one after the other in one process, as ``main`` runs them: a start costs a second each.

As a program: reads argument lists as JSON from the standard input; writes, as JSON, each command's output and exit
code, and the process's own peak of memory.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

#: Processes at a time: their waiting overlaps.
PROCESSES = 6


@dataclass(frozen=True)
class Done:
    """How one command ended."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str
    peak_mb: float

    @property
    def said(self) -> str:
        """All its output, on one line."""
        return " ".join((self.out + " " + self.err).split())


def run_all(commands: list[list[str]], store: Path, processes: int = PROCESSES) -> list[Done]:
    """Runs all commands, spread over some processes, and returns them in order; ``peak_mb`` is the process's so far."""
    shares = [commands[at::processes] for at in range(min(processes, len(commands)))]

    def run(share: list[list[str]]) -> list[Done]:
        environment = {**os.environ, "DRAGSTRIP_STORE": f"{store}-{commands.index(share[0])}.sqlite"}
        done = subprocess.run(
            [sys.executable, __file__], input=json.dumps(share), capture_output=True, text=True, env=environment
        )
        assert done.returncode == 0, done.stderr
        return [Done(tuple(words), *rest) for words, *rest in json.loads(done.stdout)]

    with ThreadPoolExecutor(len(shares)) as pool:
        found = list(pool.map(run, shares))
    return [found[at % len(shares)][at // len(shares)] for at in range(len(commands))]


def peak_mb(process: int | str = "self") -> float:
    """Peak resident memory of this process or another one, without its children; 0 if it has ended."""
    told = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    return int(told[1]) / 1024 if told else 0.0


def _one(words: list[str]) -> tuple[int, str, str]:
    from dragstrip.commands.main import main

    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch("sys.argv", ["dragstrip", *words]),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
            code = -1
    return code, out.getvalue(), err.getvalue()


if __name__ == "__main__":
    told = [(words, *_one(words), peak_mb()) for words in json.load(sys.stdin)]
    json.dump(told, sys.stdout)
