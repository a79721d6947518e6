"""Programs that carry labs in tests, on this machine; they are started again when they were killed."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import labs

#: The programs of Slurm, by Debian's packages.
SLURM_PACKAGES = {"slurmctld": "slurmctld", "slurmd": "slurmd", "srun": "slurm-client", "munged": "munge"}

#: Seconds for Slurm to reply, and between two looks of its administrator: Slurm believes jobs younger than 20 s.
READY_S, REGISTER_S = 120.0, 22.0


def slurm_lacks() -> str:
    """Why Slurm can't be run here; "" if it can."""
    if os.geteuid() != 0:
        return "Slurm's daemons need root"
    lacking = [package for program, package in SLURM_PACKAGES.items() if not shutil.which(program)]
    return f"Slurm is not installed: apt-get install {' '.join(lacking)}" if lacking else ""


@dataclass
class Kept:
    """Processes that are started again when they have ended."""

    commands: Mapping[str, Sequence[str]]
    folder: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        """Starts them, and a thread that looks after them."""
        self.look()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends all."""
        self.ended.set()
        self._watcher.join()
        for process in self.processes.values():
            process.kill()
            process.wait()

    def _watch(self) -> None:
        while not self.ended.wait(0.5):
            self.look()

    def look(self) -> None:
        """Starts those that do not run."""
        for name, words in self.commands.items():
            if name not in self.processes or self.processes[name].poll() is not None:
                with (self.folder / f"{name}.log").open("ab") as log:
                    self.processes[name] = subprocess.Popen(
                        words,
                        cwd=self.folder,
                        stdout=log,
                        stderr=log,
                        env=os.environ | {"PYTHONPATH": str(labs.STUB.parent)},
                    )

    def pid(self, *names: str) -> int:
        """One of these processes at random; 0 if it does not run."""
        process = self.processes[random.choice(names)]
        return process.pid if process.poll() is None else 0


SLURM = """
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdSpoolDir={folder}/spool-%n
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
JobRequeue=0
SlurmdTimeout=15
KillWait=5
SchedulerParameters=batch_sched_delay=1,sched_interval=1
{nodes}
PartitionName=lab Nodes=ALL Default=YES State=UP OverSubscribe=EXCLUSIVE
"""


def munge(folder: Path) -> list[str]:
    """The command of a munge of its own, with a new key."""
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    words = ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={key}"]
    words += [f"--{name}={folder}/munged.{name.partition('-')[0]}" for name in ("pid-file", "log-file", "seed-file")]
    return words


def administer(ended: threading.Event) -> None:
    """What an administrator does after a controller or a daemon was killed.

    Drained nodes are resumed ("Duplicate jobid"), and nodes register again, so that jobs that have ended are noticed.
    """
    while not ended.wait(REGISTER_S):
        drained = ["sinfo", "--noheader", "--states=drain,down", "--format=%N"]
        said = subprocess.run(drained, capture_output=True, text=True, check=False).stdout
        orders = [["update", f"nodename={names}", "state=resume"] for names in said.split()]
        for order in [*orders, ["reconfigure"]]:
            subprocess.run(["scontrol", *order], capture_output=True, check=False)


@contextmanager
def slurm(folder: Path, strips: Sequence[str]) -> Iterator[Kept]:
    """Slurm of Debian's packages on this machine: munge, "controller", and a daemon by the name of each strip."""
    host = os.uname().nodename
    with ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(len(strips) + 1)]
        for free in sockets:
            free.bind(("127.0.0.1", 0))
        ports = [free.getsockname()[1] for free in sockets]
    nodes = "\n".join(
        f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1 State=UNKNOWN"
        for name, port in zip(strips, ports[1:], strict=True)
    )
    file = folder / "slurm.conf"
    file.write_text(SLURM.format(host=host, ports=ports, folder=folder, nodes=nodes))
    (folder / "state").mkdir()
    for name in strips:
        (folder / f"spool-{name}").mkdir()
    os.environ["SLURM_CONF"] = str(file)  # for every client
    commands = {"munge": munge(folder), "controller": ["slurmctld", "-D", "-f", str(file)]}
    commands |= {name: ["slurmd", "-D", "-N", name, "-f", str(file)] for name in strips}
    with Kept(commands, folder) as kept:
        until_s = time.monotonic() + READY_S
        while subprocess.run(["sinfo"], capture_output=True, check=False).returncode:
            assert time.monotonic() < until_s, (folder / "controller.log").read_text()[-3000:]
            time.sleep(0.2)
        administrator = threading.Thread(target=administer, args=(kept.ended,), daemon=True)
        administrator.start()
        yield kept
        kept.ended.set()
        administrator.join()
        subprocess.run(["scancel", "--partition=lab"], check=False)
