"""Labs over strips that race samples: their matrices, and what kills their processes at random."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import samples
from races import until
from stub_strip import begun_at

from dragstrip.extras.lab.ledger import STORE_NAME, CellRow, Ledger, Stored
from dragstrip.extras.lab.task import TaskEnding
from dragstrip.record import Ending, EventKind, Race
from dragstrip.store.database import Store

#: Workloads of the sampled lab.
WORKLOADS = ("hello", "json", "multiply", "post")

#: How a strip is reached: by a command, with an outbox below its cache; or by Slurm.
VIA = 'via = ["env", "DRAGSTRIP_CACHE={cache}"]\n'
SLURM = 'slurm = ["--nodelist={name}", "--export=ALL,DRAGSTRIP_CACHE={cache}"]\n'

STUB, DOOR = (Path(__file__).with_name(name) for name in ("stub_strip.py", "stub_door.py"))


def matrix(folder: Path, *, cells: int, strips: int, more: str = "", how: str = "", door: Path | None = None) -> Path:
    """A matrix of this many cells over strips that race samples.

    Args:
        how: strips are reached, as a line of their tables: ``VIA`` or ``SLURM``.
        door: the socket of a ``stub_strip.py --serve``, which is quicker than a process of its own for each call.
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
    text += "".join(strip(folder, f"s{at}", how=how, door=door) for at in range(strips))
    file = folder / "matrix.toml"
    file.write_text(text)
    return file


def strip(folder: Path, name: str, *, how: str = "", door: Path | None = None) -> str:
    """A strip's table."""
    words = [sys.executable, "-I", "-S", "-E", str(DOOR), str(door)] if door else [sys.executable, str(STUB)]
    text = f'[[strips]]\nname = "{name}"\nclass = "stub"\ndragstrip = "{" ".join(words)} {folder / "logs"} {name}"\n'
    return text + how.format(cache=folder / "cache", name=name)


@contextmanager
def door(folder: Path) -> Iterator[Path]:
    """A process that forks a stub for each call."""
    place = folder / "door"
    env = os.environ | {"PYTHONPATH": str(STUB.parent)}
    with subprocess.Popen([sys.executable, str(STUB), "--serve", str(place)], env=env) as process:
        try:
            while not place.exists():
                time.sleep(0.05)
            yield place
        finally:
            process.kill()


def client(file: Path, *options: str, log: Path | None = None, **more: str) -> subprocess.Popen[bytes]:
    """Starts ``lab run``; log: where its lines are added, instead of a pipe."""
    words = [sys.executable, "-m", "dragstrip", "lab", "run", str(file), "--folder", str(file.parent / "lab"), *options]
    env = os.environ | {"PYTHONPATH": str(STUB.parent)} | more
    with log.open("ab") if log else nullcontext(subprocess.PIPE) as where:
        return subprocess.Popen(words, env=env, stdout=where, stderr=subprocess.STDOUT)


def races(file: Path) -> list[int]:
    """Process ids of races of this lab that are running, with or without their client; no other process's."""
    found = []
    for log in (file.parent / "logs").glob("*.log"):
        lines = [line.split() for line in log.read_text().splitlines()]
        ended = {(pid, begun) for word, pid, begun in lines if word == "end"}
        alive = [(pid, begun) for word, pid, begun in lines if word == "begin" and begun_at(pid) == begun]
        found += [int(pid) for pid, begun in alive if (pid, begun) not in ended]
    return found


@contextmanager
def held_race(file: Path) -> Iterator[Callable[[], int]]:
    """Within it, no race of strip s0 ends; what it gives waits for a race to begin, and returns its process id."""
    place = file.parent / "logs" / "hold-s0"
    place.touch()

    def begun() -> int:
        until(lambda: bool(races(file)), 120, "no race began")
        return races(file)[0]

    try:
        yield begun
    finally:
        place.unlink()


def wakes(pid: int) -> int:
    """How often threads of a process were put on a core."""
    return sum(int(place.read_text().split()[2]) for place in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def raced(file: Path) -> int:
    """How many races were raced to their end."""
    return sum(log.read_text().count("raced") for log in (file.parent / "logs").glob("*.log"))


def chaos(
    file: Path,
    *,
    kills: int,
    seed: int,
    pause_s: float,
    stub_s: float = 0.2,
    options: Sequence[str] = (),
    others: Mapping[str, Callable[[], int]] | None = None,
    cells: int = 0,
    now_and_then: Callable[[], None] = lambda: None,
) -> dict[str, int]:
    """Runs a lab to its end, and kills races, clients and others at random until ``kills`` are reached.

    Args:
        options: of ``lab run``. others: what else is killed: the process id, or 0, by its name.
        cells: of the lab, over which the kills are spread; 0: they come as soon as possible.
        now_and_then: is called before each kill, and at the end.

    Returns:
        What was killed, by its name.
    """
    drawn, killed = random.Random(seed), Counter(races=0, clients=0)
    # Races are killed most often, then the client.
    names = ["races", "races", "races", "clients", *(others or ()), *(others or ())]
    log = file.parent / "client.log"
    running = client(file, *options, log=log, STUB_S=str(stub_s))
    while True:
        if sum(killed.values()) < kills:
            time.sleep(drawn.uniform(0.0, pause_s))
            now_and_then()
            while running.poll() is None and raced(file) < 0.9 * cells * sum(killed.values()) / kills:
                now_and_then()
                time.sleep(0.2)
            name = drawn.choice(names)
            pid = running.pid
            if name == "races":
                while not (pids := races(file)) and running.poll() is None:
                    time.sleep(0.01)
                pid = drawn.choice(pids) if pids else 0
            elif name != "clients":
                pid = others[name]() if others else 0
            if pid and (name != "clients" or running.poll() is None):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed[name] += 1
            if running.poll() is None:
                continue
        while running.poll() is None:
            now_and_then()
            time.sleep(0.5)
        if running.returncode == 0:
            return dict(killed)
        assert running.returncode == -signal.SIGKILL, log.read_text()[-3000:]
        running = client(file, *options, log=log, STUB_S=str(stub_s))


def refusals(file: Path) -> list[tuple[str, str, str]]:
    """Records that the client refused."""
    with closing(Ledger(file.parent / "lab", write=False)) as ledger:
        return ledger.refusals()


def used(file: Path) -> set[str]:
    """The strips that raced a stored cell."""
    with closing(Ledger(file.parent / "lab", write=False)) as ledger:
        return {stored.strip for stored in ledger.stored().values()}


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
    for log in (file.parent / "logs").glob("*.log"):
        assert "overlap" not in log.read_text(), log
    left = [place.name for place in file.parent.rglob("outbox/*.*") if place.suffix == ".json"]
    assert not left, [attempt for attempt in attempts if f"{attempt.cell}.{attempt.n}.json" in left]
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
    ledger.end(ledger.begin("a", "e1", 10), TaskEnding.LOST, "it left no record")
    with Store(place / STORE_NAME) as store:
        for name, race in races.items():
            store.begin(race)
            void, open_ = name == "c", name == "b"
            kept = Stored(
                cell=name, race=race.id, strip="e1", rounds=12, decided=not (void or open_), over=not open_, void=void,
                more=None,
            )  # fmt: skip
            ledger.end(ledger.begin(name, "e1", 10), TaskEnding.VOID if void else TaskEnding.STORED, "", kept)
    ledger.close()
    return place
