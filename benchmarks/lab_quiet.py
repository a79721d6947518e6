"""What a lab's carrier does on the racing machine during blocks: python benchmarks/lab_quiet.py [CARRIER …] [--record]

The racing machine and the controller are network namespaces of this machine, with an sshd on the first
(``tests/fleets.py``); this needs root. Each carrier has the same cells of real races in turn. Packets of the link
between the two have the kernel's time; processes on the racing machine that are not of the race are sampled. What a
carrier left is stored, so that carriers can be measured in several runs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import clusters
import fleets
import quiet
from pages import ROOT, circumstances, splice

from dragstrip.lab.ledger import STORE_NAME
from dragstrip.record import Race
from dragstrip.store.database import Store

PAGE, RESULTS = ROOT / "docs" / "lab.md", ROOT / "runs" / "lab-quiet.json"

#: Protocols by which the kernel looks for its neighbours, with or without programs.
KERNELS = ("ARP", "IPv6", "IGMP", "ICMP")

MATRIX = """
[lab]
name = "quiet"
first_rounds = {rounds}
most_rounds = {most}
[[line_ups]]
name = "two"
contenders = ["nginx-return", "nginx-static"]
[axes]
loads = [{loads}]
[[strips]]
name = "e1"
server_cores = "1"
engine_cores = "0"
dragstrip = "{called}"
{how}
"""


@dataclass(frozen=True, slots=True)
class Carried:
    """What was measured with a carrier.

    Args:
        races, blocks, blocks_s: and the seconds of all blocks together; race_s: from first to last blocks.
        cpu_ns: CPU time of the processes on the racing machine that are not of the race, during blocks, by program:
            between samples that lie within one round's blocks.
        race_cpu_ns: the same from a race's first block to its last.
        packets, race_packets: of the link, by protocol and port, in the same times.
        controller_cpu_ns: CPU time of the carrier on the controller, from a race's first block to its last.
    """

    races: int
    blocks: int
    blocks_s: float
    cpu_ns: dict[str, int]
    race_cpu_ns: dict[str, int]
    race_s: float
    packets: dict[str, int]
    race_packets: dict[str, int]
    controller_cpu_ns: int
    where: str


def _joining(machines: fleets.Machines, name: str) -> Callable[[], None] | None:
    """What puts a process into a machine's cgroup before it begins."""

    def join() -> None:
        (machines.cgroup(name) / "cgroup.procs").write_text("0")

    return join if name else None


def begun(machines: fleets.Machines, name: str, *words: str) -> subprocess.Popen[str]:
    """Starts Dragstrip on a machine."""
    return subprocess.Popen(
        machines.inside(name, *machines.dragstrip(), *words), text=True, env=machines.environment(),
        cwd=machines.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        preexec_fn=_joining(machines, "" if name == "client" else name),
    )  # fmt: skip


@contextmanager
def slurm(machines: fleets.Machines) -> Iterator[str]:
    """A controller on one machine, a daemon on the other, of Debian's packages; yields the strip's line."""
    folder = machines.folder / "slurm"
    folder.mkdir()
    ends = [machines.control(name) for name in ("client", "server")]
    node = f"NodeName=e1 NodeHostname={os.uname().nodename} NodeAddr={ends[1]} Port=17003 CPUs=2 State=UNKNOWN"
    text = clusters.SLURM.format(host=os.uname().nodename, ports=(17002,), folder=folder, nodes=node)
    file = folder / "slurm.conf"
    usual = "SlurmdTimeout=300"  # as without a setting; a third of it is between two pings
    file.write_text(text.replace("127.0.0.1", ends[0]).replace("SlurmdTimeout=15", usual))
    for name in ("state", "spool-e1"):
        (folder / name).mkdir()
    # ``ip netns exec`` mounts /sys again without cgroups, which the daemon needs.
    enter = ["nsenter", f"--net=/run/netns/{machines.namespace('server')}"]
    os.environ["SLURM_CONF"] = str(file)
    with ExitStack() as started:
        for name, words, machine in (
            ("munged", clusters.munge(folder), ""),
            ("slurmctld", machines.inside("client", "slurmctld", "-D", "-f", str(file)), ""),
            ("slurmd", [*enter, "slurmd", "-D", "-N", "e1", "-f", str(file)], "server"),
        ):
            log = started.enter_context((folder / f"{name}.log").open("wb"))
            process = subprocess.Popen(words, stdout=log, stderr=log, preexec_fn=_joining(machines, machine))
            started.callback(process.wait)
            started.callback(process.kill)
        yield 'slurm = ["--nodelist=e1"]'


@contextmanager
def over_ssh(machines: fleets.Machines) -> Iterator[str]:
    """Nothing is started; yields the strip's lines."""
    machines.fleet()  # writes ssh's own file
    yield f'ssh = "root@{machines.control("server")}"\nssh_options = ["-F", "ssh_config_key"]'


@contextmanager
def on_it(machines: fleets.Machines) -> Iterator[str]:
    """Nothing is started: the client is on the racing machine."""
    yield ""


#: Each carrier: what it needs, its options of ``lab run``, and the client's machine.
CARRIERS: dict[str, tuple[Callable[[fleets.Machines], AbstractContextManager[str]], Sequence[str], str]] = {
    "children": (over_ssh, (), "client"),
    "children, all on one machine": (on_it, (), "server"),
    "dask": (over_ssh, ("--dask", "local"), "client"),
    "slurm": (slurm, (), "client"),
}


def matrix(machines: fleets.Machines, how: str, cells: int, rounds: int, folder: Path) -> Path:
    """A matrix of real races on the machine ``server``."""
    called = f"env PYTHONPATH={fleets.SOURCE} XDG_DATA_HOME={folder} DRAGSTRIP_CACHE={folder / 'cache'}"
    called += f" PATH={os.environ['PATH']} {sys.executable} -m dragstrip"
    loads = ", ".join(f"{{connections = {8 * (at + 1)}}}" for at in range(cells))
    file = machines.folder / f"{folder.name}.toml"
    file.write_text(MATRIX.format(rounds=rounds, most=max(rounds, 10), loads=loads, called=called, how=how))
    return file


def run(carrier: str, cells: int, rounds: int) -> Carried:
    """Runs a lab, and counts what its carrier does on the racing machine.

    Raises:
        SystemExit: the lab failed.
    """
    prepared, options, at = CARRIERS[carrier]
    with fleets.Machines() as machines, prepared(machines) as how:
        folder = machines.folder / "quiet"
        folder.mkdir()
        file = matrix(machines, how, cells, rounds, folder)
        place = folder / "lab"
        with (
            quiet.Link(machines.namespace("server"), "control") as link,
            quiet.Watch(quiet.BesideTheRace(machines.cgroup("server"))) as there,
            begun(machines, at, "lab", "run", str(file), "--folder", str(place), *options) as client,
            quiet.Watch(lambda: quiet.tree(client.pid), every_s=0.5) as here,
        ):
            said, _ = client.communicate()
        if client.returncode:
            raise SystemExit(f"{carrier}: exit code {client.returncode}\n{said[-3000:]}")
        with Store(place / STORE_NAME, write=False) as store:
            races = [store.load(line.race) for line in store.runs()]
        if len(races) < cells:
            raise SystemExit(f"{carrier}: {len(races)} of {cells} cells are stored\n{said[-3000:]}")
        ahead_ns = fleets.NUMBERS["server"][1] * 1_000_000_000 if machines.clocks_apart and "ssh" in how else 0
        spans = quiet.blocks(races, ahead_ns)
        of_races = sorted(_whole(race, ahead_ns) for race in races)
        if not (there.covers(spans) and here.covers(spans)):
            raise SystemExit(f"{carrier}: blocks and samples are at different times")
        return Carried(
            races=len(races),
            blocks=len(spans),
            blocks_s=sum(ended - begun for begun, ended in spans) / 1e9,
            cpu_ns=by_program(there, there.during(quiet.stretches(races, ahead_ns), inside=True)),
            race_cpu_ns=by_program(there, there.during(of_races)),
            race_s=sum(ended - begun for begun, ended in of_races) / 1e9,
            packets=dict(quiet.within(link.packets, spans)),
            race_packets=dict(quiet.within(link.packets, of_races)),
            controller_cpu_ns=here.during(of_races).total(),
            where=circumstances(),
        )


def _whole(race: Race, ahead_ns: int) -> quiet.Span:
    """From a race's first block to its last."""
    ends = [at for span in quiet.blocks([race], ahead_ns) for at in span]
    return min(ends), max(ends)


def by_program(watch: quiet.Watch, used_by: Mapping[int, int]) -> dict[str, int]:
    """Adds up the CPU time of processes, ns, by the program that each of them runs."""
    found: Counter[str] = Counter()
    for pid, used in used_by.items():
        found[_program(watch.names[pid])] += used
    return dict(found)


def _program(line: str) -> str:
    """A program's name from its command line."""
    return Path(line.split()[0].rstrip(":")).name if line.split() else "?"


def _times(found: dict[str, int]) -> str:
    """CPU times of programs, ms."""
    return ", ".join(f"{name} {used / 1e6:.2f}" for name, used in sorted(found.items()))


def _packets(found: dict[str, int]) -> str:
    """Counts of packets: of the carrier, then of the kernel."""
    kernels = sum(count for kind, count in found.items() if kind in KERNELS)
    ours = {kind: count for kind, count in found.items() if kind not in KERNELS}
    said = f"{sum(ours.values())}" + (f" ({', '.join(sorted(ours))})" if ours else "")
    return f"{said}, {kernels}"


def table(results: dict[str, Carried]) -> str:
    """The table of all carriers that were measured."""
    lines = [
        "| carrier | races, blocks, seconds of blocks | CPU on the racing machine during blocks, ms |"
        " packets during blocks: carrier's, kernel's | from first to last block: ms; packets | CPU on the controller |",
        "|-|-|-|-|-|-:|",
    ]
    for carrier, (_, _, at) in CARRIERS.items():
        if (one := results.get(carrier)) is None:
            continue
        there = f"{one.controller_cpu_ns / 1e9 / one.race_s:.2%}".replace("%", " %") if at == "client" else "–"
        fields = (
            carrier,
            f"{one.races}, {one.blocks:,}, {one.blocks_s:.0f}",
            _times(one.cpu_ns),
            _packets(one.packets),
            f"{_times(one.race_cpu_ns)}; {_packets(one.race_packets)}",
            there,
        )
        lines.append(f"| {' | '.join(fields)} |")
    return "\n".join([*lines, "", *dict.fromkeys(f"Measured {one.where}." for one in results.values())])


def main() -> None:
    """Measures, prints the table, and writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("carriers", nargs="*", help=f"of {', '.join(CARRIERS)}, none [default: all]")
    parser.add_argument("--cells", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--record", action="store_true", help="write the table into docs/lab.md")
    asked = parser.parse_args()
    if why := fleets.why_not():
        sys.exit(f"lab_quiet: {why}")
    lacks = clusters.slurm_lacks()
    if asked.record and not asked.carriers and lacks:
        sys.exit(f"lab_quiet: --record without Slurm would remove its row from the page: {lacks}")
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    usual = [name for name in CARRIERS if name != "slurm" or not lacks]
    for carrier in [name for name in asked.carriers or usual if name != "none"]:
        stored[carrier] = asdict(run(carrier, asked.cells, asked.rounds))
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(stored, indent=1))
        print(json.dumps({carrier: stored[carrier]}), flush=True)
    text = table({name: Carried(**one) for name, one in stored.items()})
    print(text)
    if asked.record:
        splice(PAGE, "lab-quiet", text)


if __name__ == "__main__":
    main()
