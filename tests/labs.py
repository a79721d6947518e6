"""Labs over strips that race samples: their matrices, and what kills their processes at random."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import samples

from dragstrip.lab.ledger import STORE_NAME, CellRow, Ledger, Stored
from dragstrip.lab.task import Kind
from dragstrip.record import Ending, EventKind, Race
from dragstrip.store.database import Store

#: Workloads of the sampled lab.
WORKLOADS = ("hello", "json", "multiply", "post")

STUB = Path(__file__).with_name("stub_strip.py")


def matrix(folder: Path, *, cells: int, strips: int, more: str = "", elsewhere: bool = False) -> Path:
    """A matrix of this many cells over strips that race samples.

    Args:
        elsewhere: strips are reached by a command, and have their outboxes below their cache.
    """
    logs = folder / "logs"
    logs.mkdir(exist_ok=True)
    loads = ", ".join(f"{{connections = {at + 1}}}" for at in range(cells))
    text = f"""
[lab]
name = "chaos"
most_rounds = 10
{more}
[[line_ups]]
name = "two"
contenders = ["quick", "steady"]
[axes]
loads = [{loads}]
"""
    for at in range(strips):
        text += f'[[strips]]\nname = "s{at}"\nclass = "stub"\ndragstrip = "{sys.executable} {STUB} {logs} s{at}"\n'
        text += f'via = ["env", "DRAGSTRIP_CACHE={folder / "cache"}"]\n' if elsewhere else ""
    file = folder / "matrix.toml"
    file.write_text(text)
    return file


def client(file: Path, *options: str, **more: str) -> subprocess.Popen[bytes]:
    """Starts ``lab run``."""
    words = [sys.executable, "-m", "dragstrip", "lab", "run", str(file), "--folder", str(file.parent / "lab"), *options]
    env = os.environ | {"PYTHONPATH": str(STUB.parent)} | more
    return subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def races(file: Path) -> list[int]:
    """Process ids of races of this lab that are running, with or without their client."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = process.cmdline()
            if str(STUB) in words and str(file.parent / "logs") in words:
                found.append(process.pid)
    return found


def chaos(file: Path, *, kills: int, seed: int, pause_s: float, stub_s: float = 0.2) -> dict[str, int]:
    """Runs a lab to its end, and kills races and clients at random until ``kills`` are reached; what was killed."""
    drawn, killed = random.Random(seed), {"races": 0, "clients": 0}
    running = client(file, STUB_S=str(stub_s))
    while True:
        if sum(killed.values()) < kills:
            time.sleep(drawn.uniform(0.0, pause_s))
            if drawn.random() < 0.25:
                running.kill()
                killed["clients"] += 1
            else:
                while not (pids := races(file)) and running.poll() is None:
                    time.sleep(0.01)
                with suppress(ProcessLookupError, IndexError):
                    os.kill(drawn.choice(pids), signal.SIGKILL)
                    killed["races"] += 1
            if running.poll() is None:
                continue
        output, _ = running.communicate()
        if running.returncode == 0:
            return killed
        assert running.returncode == -signal.SIGKILL, output.decode()
        running = client(file, STUB_S=str(stub_s))


def assert_each_once(file: Path, cells: int) -> int:
    """Every cell has one race, in the ledger and in the store, and no two races met; returns lost attempts."""
    ledger = Ledger(file.parent / "lab", write=False)
    stored, attempts = ledger.stored(), ledger.attempts()
    ledger.close()
    with Store(file.parent / "lab" / STORE_NAME, write=False) as store:
        raced = {race: event.subject for race, event in store.noted(EventKind.LAB)}
        assert len(store.runs()) == cells
    assert len(stored) == cells
    assert {cell.race: name for name, cell in stored.items()} == raced
    for log in (file.parent / "logs").iterdir():
        assert "overlap" not in log.read_text(), log
    assert not [place for place in file.parent.rglob("outbox/*.*") if place.suffix == ".json"]
    return sum(attempt.outcome == "lost" for attempt in attempts)


MATRIX = """
[lab]
name = "sampled"
[[line_ups]]
name = "two"
contenders = ["quick", "steady"]
"""


def _cell(name: str, place: int, workload: str, why: str = "") -> CellRow:
    return CellRow(
        name=name, line_up="two", workload=workload, load="32 connections", revision="", machine="epyc", weight=1.0,
        place=place, why=why,
    )  # fmt: skip


def sampled(folder: Path) -> Path:
    """A lab of samples in ``folder/lab``, and ``folder/matrix.toml``.

    Its cells: a decided race, an open one, a void one, a cell that can't run, and one that waits; a lost attempt.
    """
    (folder / "matrix.toml").write_text(MATRIX)
    place = folder / "lab"
    place.mkdir()
    apart = samples.race()
    races: dict[str, Race] = {
        "a": replace(apart, id="a" * 12),
        "b": samples.race({"quick": 3e4, "steady": 3e4}, id="b" * 12, noise=0.1, finished=Ending.INTERRUPTED),
        "c": replace(apart, id="c" * 12, finished=Ending.VOID),
    }
    ledger = Ledger(place)
    cells = [_cell(name, at, workload) for at, (name, workload) in enumerate(zip("abce", WORKLOADS, strict=True))]
    ledger.plan([*cells, _cell("d", len(cells), "db", "quick: <no program>; install it")])
    ledger.end(ledger.begin("a", "e1", 10), Kind.LOST, "it left no record")
    with Store(place / STORE_NAME) as store:
        for name, race in races.items():
            store.begin(race)
            void, open_ = name == "c", name == "b"
            kept = Stored(
                cell=name, race=race.id, strip="e1", rounds=12, decided=not (void or open_), over=not open_, void=void,
                more=None,
            )  # fmt: skip
            ledger.end(ledger.begin(name, "e1", 10), Kind.VOID if void else Kind.STORED, "", kept)
    ledger.close()
    return place
