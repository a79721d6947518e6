"""Dragstrip's command line within the tests' process, which is a second faster per command than a new process.

Tests of signals, exit codes and imports at the start need a real process: ``process`` here, and
``races.dragstrip_run``. Each command that measures has one such test.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

import hints
from click.testing import CliRunner

from dragstrip.commands.main import run


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


def dragstrip(*words: str, env: Mapping[str, str] | None = None) -> Done:
    """Runs one command to its end; ``env``: variables in addition to the tests' own.

    What it prints as a hint must be a command (``hints``).
    """
    done = _run(*words, env=env)
    hints.check(done.stdout + done.stderr, " ".join(words), env, _run)
    return done


def _run(*words: str, env: Mapping[str, str] | None = None) -> Done:
    with CliRunner().isolation(env=env) as (out, err, _):
        code = run(list(words))
    return Done(code, out.getvalue().decode(), err.getvalue().decode())


def process(*words: str, env: Mapping[str, str] | None = None) -> Done:
    """The same in a new process, as a user runs it; its time limit only ends one that hangs."""
    command, kept = [sys.executable, "-m", "dragstrip", *words], {**os.environ, **(env or {})}
    done = subprocess.run(command, env=kept, capture_output=True, text=True, timeout=280)
    hints.check(done.stdout + done.stderr, " ".join(words), kept, _run)
    return Done(done.returncode, done.stdout, done.stderr)
