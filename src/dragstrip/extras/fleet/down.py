"""``dragstrip fleet down``: ends agents left on a fleet's machines, and removes what dead agents left behind.

An agent ends by itself after its pipe closes, or after seconds of silence. Only an agent that hangs can be left.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

from dragstrip.errors import MachineLost
from dragstrip.extras.fleet.agent import WORDS
from dragstrip.extras.fleet.channel import words_to_reach
from dragstrip.extras.fleet.definition import Fleet
from dragstrip.process.launcher import sweep_stale

#: Seconds that an agent gets to end what it has started, and seconds for the whole command on one machine.
GRACE_S, COMMAND_S = 6.0, 60.0


def end_agents(name: str) -> list[int]:
    """Ends this user's agents on this machine for the machine ``name`` of a fleet; returns their process ids.

    Agents in another network namespace belong to another machine.
    """
    namespace, agents = Path("/proc/self/ns/net").readlink(), list[int]()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            ours = folder.stat().st_uid == os.geteuid() and (folder / "ns/net").readlink() == namespace
            if ours and words[-5:-2] == [*WORDS, name] and int(folder.name) != os.getpid():
                agents.append(int(folder.name))
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in agents:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        until = time.monotonic() + GRACE_S
        while any(Path(f"/proc/{pid}/stat").exists() for pid in agents) and time.monotonic() < until:
            time.sleep(0.05)
    sweep_stale()
    return agents


def end_everywhere(fleet: Fleet) -> dict[str, int]:
    """Ends the agents on every machine of a fleet; returns how many were ended on each.

    Raises:
        MachineLost: a machine can't be reached, or its output is not valid.
    """
    ended = {}
    for machine in fleet.machines:
        command = words_to_reach(machine, fleet, [*WORDS, machine.name, "--end"])
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MachineLost(machine.name, f"can't end its agents ({error})") from error
        if done.returncode or not done.stdout.strip().isdigit():
            output = "; ".join((done.stderr or done.stdout).strip().splitlines()[-3:])[:500]
            raise MachineLost(machine.name, f"did not end its agents (exit status {done.returncode}): {output}")
        ended[machine.name] = int(done.stdout)
    return ended
