"""Records rounds under an ordered disturbance, none of them void for it, for study and for simulation.

    python benchmarks/disturbed_record.py --folder /tmp/disturbed
    python benchmarks/disturbed_record.py --folder /tmp/disturbed --pack tests/noise/disturbed.csv.gz

Each recording is one race of fixed rounds in a store of its own, run in turn; what is there already is not run again.
``--pack`` writes all of them as one table, a line for each block.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from dragstrip.record import Block, Race  # noqa: E402
from dragstrip.store.database import Store  # noqa: E402

DISTURB = ROOT / "benchmarks" / "disturb.py"
SHIPPED = ROOT / "src" / "dragstrip" / "data" / "contenders"

#: Runs the command line with nothing void for what other programs do: method 5 has that rule by itself.
UNVOIDED = """
import dragstrip.cli.main
from dragstrip import validity as inquiry
from dragstrip.validity import block as blocks
if hasattr(blocks, "_waits"):
    blocks._waits = lambda *_: ()
    inquiry.round_reasons = lambda *_, **__: ()
dragstrip.cli.main.main()
"""

#: Distinguishes a marked contender's command line from its twin's: the same file by another path.
MARK = "/\\./"

#: Fields of a block that the table has: nanoseconds, told in microseconds; ``MAY_LACK`` those that may not be readable.
TIMES = ("lead", "counted", "duration", "engine_cpu", "engine_wait")
MAY_LACK = ("server_cpu_ns", "server_wait_ns", "server_runs")


@dataclass(frozen=True)
class Recording:
    """One race to record: ``a`` against ``b`` beside a duty in per cent, of which b alone is hit if ``one_sided``."""

    a: str
    b: str
    duty: int
    one_sided: bool = False

    @property
    def name(self) -> str:
        """Of its files."""
        return f"{self.a}-{self.b}-{'only-b' if self.one_sided else 'all'}-{self.duty}"


SERVERS = ("nginx-return", "node", "go-native", "tornado")
RECORDINGS = (
    *(Recording(name, name, duty, True) for duty in (20, 40) for name in ("nginx-return", "node")),
    *(Recording(name, name, duty) for duty in (0, 20, 40) for name in SERVERS),
    *(Recording("nginx-return", "node", duty) for duty in (0, 20, 40)),
    *(Recording(name, name, 20, True) for name in ("go-native", "tornado")),
)


def marked(name: str, folder: Path) -> Path:
    """A copy of a shipped definition, ``b-NAME``, whose processes ``MARK`` finds; its folder of definitions."""
    copy = folder / "contenders" / f"b-{name}"
    if not copy.exists():
        shutil.copytree(SHIPPED / name, copy)
        toml = copy / "contender.toml"
        text = re.sub(r'^name = "', 'name = "b-', toml.read_text(), count=1, flags=re.MULTILINE)
        start = re.compile(r"(^\[start\]\ncommand = \[)([^\]]*)(\])", re.MULTILINE)

        def other_way(found: re.Match[str]) -> str:
            words = re.sub(r"\{(scratch|build)\}/", r"{\1}/./", found[2])
            return f"{found[1]}{words}{found[3]}"

        text, count = start.subn(other_way, text)
        if count != 1 or "/./" not in text:
            raise SystemExit(f"{toml}: its start command names no file in {{scratch}} or {{build}} to mark it by")
        toml.write_text(text)
    return folder / "contenders"


def record(this: Recording, folder: Path, rounds: int) -> None:
    """Runs one race into its store, whole or not at all."""
    store, part = folder / f"{this.name}.sqlite", folder / f"{this.name}.part"
    for left in folder.glob(f"{part.name}*"):
        left.unlink()
    b = f"b-{this.b}" if this.one_sided else f"b={this.b}"
    words = [f"a={this.a}", b, "--rounds", str(rounds), "-q", "--store", str(part), "--budget", "600s"]
    if this.one_sided:
        words += ["--contenders", str(marked(this.b, folder))]
    order = [sys.executable, str(DISTURB), "--duty", str(this.duty), "--seconds", "900"]
    order += ["--json", str(folder / f"{this.name}.took.json")]
    order += ["--only-pattern", MARK] if this.one_sided else []
    command = [*order, "--exec", sys.executable, "-c", UNVOIDED, "race", *words]
    env = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    with (folder / f"{this.name}.log").open("w") as log:
        code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, env=env).returncode
    with Store(part) as opened:
        (line, *_) = opened.runs()
        enough = len(opened.load(line.race).rounds) >= rounds
    if enough:
        part.rename(store)
    print(f"{this.name}: exit code {code}, {'recorded' if enough else 'too few rounds'}", flush=True)


def recorded(folder: Path) -> Iterator[tuple[str, Race]]:
    """Every recording's name and its race."""
    for path in sorted(folder.glob("*.sqlite")):
        with Store(path) as store:
            yield path.stem, store.load(store.runs()[0].race)


def pack(folder: Path, out: Path) -> None:
    """All recordings' blocks as one table."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    times = [*(f"{name}_ns" for name in TIMES), "steal_ns"]
    columns = ["race", "round", "pass", "position", "contender", "requests", "answered", *times, *MAY_LACK]
    columns += ["round_ns", "threads", "settled"]
    table.writerow(column.replace("_ns", "_us") for column in columns)
    for name, race in recorded(folder):
        for this in race.rounds:
            launches = {launch.contender: launch for launch in this.launches}
            for block in this.blocks:
                launch, side = launches[block.contender], "a" if block.contender == "a" else "b"
                told: list[object] = [name, this.index, block.pass_index, block.position, side]
                told += [block.requests, block.answered, *(_short(block, column) for column in (*times, *MAY_LACK))]
                told += [round((this.ended_ns - this.started_ns) / 1000), launch.threads, int(launch.settled)]
                table.writerow(told)
    with out.open("wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as file:
        file.write(text.getvalue().encode())


def _short(block: Block, column: str) -> int | None:
    """A field as the table has it."""
    value: int | None = getattr(block, column)
    return round(value / 1000) if value is not None and column.endswith("_ns") else value


def main() -> None:
    """The command line."""
    wanted = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted.add_argument("--folder", type=Path, required=True, help="stores, one for each recording")
    wanted.add_argument("--rounds", type=int, default=30)
    wanted.add_argument("--only", default="", help="recordings whose name matches this regular expression")
    wanted.add_argument("--pack", type=Path, help="record nothing, write the table")
    told = wanted.parse_args()
    told.folder.mkdir(parents=True, exist_ok=True)
    if told.pack:
        pack(told.folder, told.pack)
        return
    for this in RECORDINGS:
        if re.search(told.only, this.name) and not (told.folder / f"{this.name}.sqlite").exists():
            record(this, told.folder, told.rounds)


if __name__ == "__main__":
    main()
