"""Helpers for tests of whole races: the command as a user types it, servers with an injected fault, and leftovers."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import commands
import hints
import psutil

import dragstrip
from dragstrip.process.ports import free_port
from dragstrip.process.scratch import BASES

HERE = Path(__file__).parent
DRAGSTRIP = [sys.executable, "-m", "dragstrip"]
SCHEMA = json.loads((Path(dragstrip.__file__).parent / "data" / "schema" / "race.schema.json").read_text())
PYTHON = "/usr/bin/python3"  # an unprivileged user may execute this one

#: Process ids of races that the running test has started; what they leave has the id in its name.
begun: set[int] = set()


def misbehaving(name: str, fault: str, *more: str, address: str = "{port}") -> list[str]:
    """The words that add a server with a fault (``servers/misbehaving.py``) to a race."""
    return ["--serve", f"{name}={PYTHON} {HERE}/servers/misbehaving.py {address} {fault} {' '.join(more)}"]


def settings(folder: Path) -> dict[str, str]:
    """The environment of a command whose store is in this folder."""
    return {**os.environ, "DRAGSTRIP_STORE": str(folder / "races.sqlite"), "COLUMNS": "200"}


def begin(env: Mapping[str, str], *words: str, **more: Any) -> subprocess.Popen[str]:
    """Starts a command and records its process id."""
    process = subprocess.Popen([*DRAGSTRIP, *words], env=env, text=True, **more)
    begun.add(process.pid)
    return process


def dragstrip_run(env: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end."""
    with begin(env, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            out, err = process.communicate(timeout=280)
        except BaseException:
            process.kill()
            raise
    hints.check(out + err, " ".join(words), env, commands.dragstrip)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def until(condition: Callable[[], bool], seconds: float, otherwise: str) -> None:
    """Waits for an event that must come; ``seconds`` only bounds a failing test."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, otherwise
        time.sleep(0.05)


def scratches() -> list[Path]:
    """Remaining scratch folders of races that this process started."""
    return [place for pid in begun for base in BASES for place in base.glob(f"dragstrip-{pid}-*") if place.is_dir()]


def servers(of: Collection[int] | None = None) -> list[str]:
    """Processes whose command line or working directory names the scratch directory of a race started here.

    Args:
        of: process ids of these races alone.
    """
    found, ours = [], tuple(f"{base}/dragstrip-{pid}-" for pid in (begun if of is None else of) for base in BASES)
    for process in psutil.process_iter():
        try:
            words, cwd = " ".join(process.cmdline()), process.cwd()
        except psutil.Error:
            continue
        if any(place in words or cwd.startswith(place) for place in ours):
            found.append(f"{process.pid} {cwd} {words}")
    return found


def assert_nothing_left() -> None:
    """Asserts that no scratch directory of a race started here is left, and no process that uses one."""
    until(lambda: not scratches(), 20, f"left: {scratches()}")
    assert not servers()


def rounds_in(env: Mapping[str, str]) -> int:
    """Number of rounds in the store, read while a race may write."""
    try:
        with sqlite3.connect(f"file:{env['DRAGSTRIP_STORE']}?mode=ro", uri=True) as store:
            return int(store.execute("select count(distinct round) from block").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


@contextlib.contextmanager
def running_server() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A correct server outside any race: its URL and its process. It is ended at the end, if it still runs."""
    port = free_port()
    server = subprocess.Popen([PYTHON, str(HERE / "servers" / "misbehaving.py"), str(port), "none"])
    try:
        until(lambda: _listens(port), 60, "the server never listened")
        yield f"http://127.0.0.1:{port}/", server
    finally:
        server.kill()
        server.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
