"""Dragstrip's command line within the tests' own process: a second less for each command than a process of its own.

Signals, exit codes of a process, and what is loaded at the start want a real one: ``process`` here, and
``races.dragstrip_run``. One test of each command that measures takes it that way.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from click.testing import CliRunner

from dragstrip.cli.main import run


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


def dragstrip(*words: str, env: Mapping[str, str] | None = None) -> Done:
    """Runs one command to its end; ``env``: variables set for it, beside those of the tests."""
    with CliRunner().isolation(env=env) as (out, err, _):
        code = run(list(words))
    return Done(code, out.getvalue().decode(), err.getvalue().decode())


def process(*words: str, env: Mapping[str, str] | None = None) -> Done:
    """The same in a process of its own, as a user has it; its time limit only ends one that hangs."""
    command, kept = [sys.executable, "-m", "dragstrip", *words], {**os.environ, **(env or {})}
    done = subprocess.run(command, env=kept, capture_output=True, text=True, timeout=280)
    return Done(done.returncode, done.stdout, done.stderr)
