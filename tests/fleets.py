"""Simulated machines on this machine: each has a network namespace, an sshd in it, a cgroup and another clock.

A ``switch`` namespace has two bridges: ``control`` (10.77.0.0/24), which a client and all machines are on, and
``data`` (10.78.0.0/24) without the client. Nothing is added to the machine's own namespace. ``close`` removes
everything, also after a failure, except the folder /run/sshd; ``left_over`` lists what remains.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

SOURCE = Path(__file__).parents[1] / "src"
#: Where cgroups are made: of version 2, otherwise of a version 1 controller that only lists processes.
CGROUPS = next(
    (
        Path(words[1])
        for kind, more in (("cgroup2", ""), ("cgroup", "pids"))
        for words in map(str.split, Path("/proc/mounts").read_text().splitlines())
        if words[2] == kind and more in words[1]
    ),
    Path("/sys/fs/cgroup"),
)
SSH_PORT = 20022
SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")

#: A slow link's bytes per second, and its burst.
SLOW_BYTES_PER_S, SLOW_BURST = 32_000, 1_600

#: By machine: its number in both networks, and how many seconds its monotonic clock is ahead.
NUMBERS = {"client": (1, 0), "server": (2, 86_400), "one": (3, 7_000), "two": (4, 1_000_000)}


def why_not() -> str | None:
    """Why machines can't be made here; None: they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program in ("ip", "unshare", "ssh", "ssh-keygen"):
        if shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
            return f"{program} is not installed"
    if SSHD is None:
        return "sshd is not installed (openssh-server)"
    name = f"dst{os.getpid()}-try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode:
        return f"network namespaces are not permitted here: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "delete", name], check=True)
    return None


def _clocks_apart() -> bool:
    return subprocess.run(["unshare", "-T", "--monotonic", "9", "true"], capture_output=True).returncode == 0


class Machines:
    """A client, a server and two generators, connected; leaving the ``with`` removes all of it."""

    def __init__(self) -> None:
        self.prefix = f"dst{os.getpid()}"
        self.folder = Path(tempfile.mkdtemp(prefix="dragstrip-fleet-test-"))
        self.folder.chmod(0o711)
        self.clocks_apart = _clocks_apart()
        self._sshds: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            self._make()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def namespace(self, name: str) -> str:
        """A machine's network namespace."""
        return f"{self.prefix}-{name}"

    def cgroup(self, name: str) -> Path:
        """A machine's cgroup."""
        return CGROUPS / self.namespace(name)

    def inside(self, name: str, *words: str) -> list[str]:
        """A command that runs in a machine's namespace."""
        return ["ip", "netns", "exec", self.namespace(name), *words]

    def run(self, name: str, *words: str, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Runs a command in a machine's namespace."""
        return subprocess.run(self.inside(name, *words), capture_output=True, text=True, timeout=timeout)

    def client(self, *words: str, timeout: float = 240.0) -> subprocess.CompletedProcess[str]:
        """Runs ``dragstrip`` on the client."""
        return subprocess.run(
            self.inside("client", *self.dragstrip(), *words), capture_output=True, text=True, timeout=timeout,
            env=self.environment(), cwd=self.folder,
        )  # fmt: skip

    def begin_client(self, *words: str, **more: Any) -> subprocess.Popen[str]:
        """Starts ``dragstrip`` on the client; the process is the command's own (``ip netns exec`` becomes it)."""
        return subprocess.Popen(
            self.inside("client", *self.dragstrip(), *words), text=True, env=self.environment(), cwd=self.folder,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more,
        )  # fmt: skip

    @staticmethod
    def dragstrip() -> list[str]:
        """Dragstrip's command in a test."""
        return [sys.executable, "-m", "dragstrip"]

    def environment(self) -> dict[str, str]:
        """The environment, with the test's own store."""
        return {**os.environ, "PYTHONPATH": str(SOURCE), "XDG_DATA_HOME": str(self.folder), "COLUMNS": "200"}

    def fleet(
        self,
        *,
        generators: Sequence[str] = ("one", "two"),
        key: str = "key",
        file: str = "fleet.toml",
        path: str = "",
        command: str = "",
    ) -> Path:
        """Writes a fleet's file, and ssh's own beside it.

        Args:
            path: first entry of the agents' PATH. command: Dragstrip's command there. [default: as in this test]
        """
        config = self.folder / f"ssh_config_{key}"
        known = self.folder / "known_hosts"
        config.write_text(
            f"Host *\n  Port {SSH_PORT}\n  IdentityFile {self.folder / key}\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {known}\n  StrictHostKeyChecking yes\n  LogLevel ERROR\n"
        )
        first = f"PATH={path}:{os.environ['PATH']} " if path else ""
        called = f"env {first}PYTHONPATH={SOURCE} XDG_DATA_HOME={self.folder} {sys.executable} -m dragstrip"
        text = f'[ssh]\noptions = ["-F", "{config.name}"]\n'
        for name in ("server", *generators):
            role, cores = ("server", "1") if name == "server" else ("load", "0")
            text += (
                f'\n[[machines]]\nname = "{name}"\nrole = "{role}"\nssh = "root@{self.control(name)}"\n'
                f'address = "{self.data(name)}"\ncores = "{cores}"\ndragstrip = "{command or called}"\n'
            )
        place = self.folder / file
        place.write_text(text)
        return place

    @staticmethod
    def control(name: str) -> str:
        """A machine's address on the control link."""
        return f"10.77.0.{NUMBERS[name][0]}"

    @staticmethod
    def data(name: str) -> str:
        """A machine's address on the data link."""
        return f"10.78.0.{NUMBERS[name][0]}"

    def cut(self, name: str, *links: str) -> None:
        """Takes a machine's links down silently: nothing gets through any more."""
        for link in links or ("control", "data"):
            self._ip("netns", "exec", self.namespace(name), "ip", "link", "set", link, "down")

    def mend(self, name: str, *links: str) -> None:
        """Takes a machine's links up again."""
        for link in links or ("control", "data"):
            self._ip("netns", "exec", self.namespace(name), "ip", "link", "set", link, "up")

    @contextlib.contextmanager
    def slow(self, name: str) -> Iterator[str]:
        """Limits a machine's data link to 256 kbit/s; yields why that is impossible, "" if it is possible."""
        queue = ("dev", "data", "root")
        shape = ("tbf", "rate", f"{8 * SLOW_BYTES_PER_S}bit", "burst", str(SLOW_BURST), "latency", "50ms")
        added = self.run(name, "tc", "qdisc", "add", *queue, *shape)
        try:
            yield f"this kernel shapes no link (tbf): {added.stderr.strip()}" if added.returncode else ""
        finally:
            self.run(name, "tc", "qdisc", "delete", *queue)

    def packets(self, name: str, link: str) -> int:
        """Packets that a machine's link has carried so far, both ways."""
        folder = f"/sys/class/net/{link}/statistics"
        told = self.run(name, "cat", f"{folder}/rx_packets", f"{folder}/tx_packets").stdout.split()
        return sum(map(int, told))

    def processes(self, name: str) -> list[int]:
        """Processes of a machine, except its listening sshd."""
        listening = {sshd.pid for sshd in self._sshds}
        found = []
        for file in self.cgroup(name).rglob("cgroup.procs") if self.cgroup(name).is_dir() else ():
            with contextlib.suppress(OSError):
                found += [int(line) for line in file.read_text().split()]
        return [pid for pid in found if pid not in listening]

    def kill(self, name: str) -> None:
        """Sends SIGKILL to every process of a machine except its listening sshd."""
        for pid in self.processes(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def ours(self, name: str) -> list[str]:
        """Commands running on a machine, except sshd, whose sessions over a cut link end only when TCP gives up."""
        found = []
        for pid in self.processes(name):
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
                if command and not command.startswith("sshd: "):  # a zombie has none
                    found.append(command)
        return found

    def idle_within(self, name: str, seconds: float) -> bool:
        """Whether everything on a machine ends within ``seconds``."""
        until = time.monotonic() + seconds
        while self.ours(name):
            if time.monotonic() > until:
                return False
            time.sleep(0.1)
        return True

    def close(self) -> None:
        """Ends and removes everything."""
        for name in NUMBERS:
            self.kill(name)
        for sshd in self._sshds:
            sshd.kill()
            sshd.wait()
        for name in (*NUMBERS, "switch"):
            subprocess.run(["ip", "netns", "delete", self.namespace(name)], capture_output=True)
        for name in NUMBERS:
            self._remove_cgroup(self.cgroup(name))
        shutil.rmtree(self.folder, ignore_errors=True)

    def left_over(self) -> list[str]:
        """What remains of the machines."""
        spaces = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout.split()
        found = [name for name in spaces if name.startswith(f"{self.prefix}-")]
        found += [str(self.cgroup(name)) for name in NUMBERS if self.cgroup(name).exists()]
        return found + ([str(self.folder)] if self.folder.exists() else [])

    def _make(self) -> None:
        self._ip("netns", "add", self.namespace("switch"))
        for bridge in ("control", "data"):
            self._ip("-n", self.namespace("switch"), "link", "add", bridge, "type", "bridge")
            self._ip("-n", self.namespace("switch"), "link", "set", bridge, "up")
        for name in NUMBERS:
            self._ip("netns", "add", self.namespace(name))
            self._ip("-n", self.namespace(name), "link", "set", "lo", "up")
            for link in ("control", *(("data",) if name != "client" else ())):
                self._connect(name, link)
        self._keys()
        # As at the machine's own start. It stays: without it, other fleets' sshds refuse connections.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        for name in NUMBERS:
            if name != "client":
                self._start_sshd(name)

    def _connect(self, name: str, link: str) -> None:
        switch, space, port = self.namespace("switch"), self.namespace(name), f"{link[0]}-{name}"
        self._ip("-n", switch, "link", "add", port, "type", "veth", "peer", "name", link, "netns", space)
        self._ip("-n", switch, "link", "set", port, "master", link, "up")
        address = self.control(name) if link == "control" else self.data(name)
        self._ip("-n", space, "address", "add", f"{address}/24", "dev", link)
        self._ip("-n", space, "link", "set", link, "up")

    def _keys(self) -> None:
        for key in ("key", "stranger", "host"):
            file = self.folder / key
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", key, "-f", str(file)], check=True)
        (self.folder / "authorized_keys").write_text((self.folder / "key.pub").read_text())
        kind, key, _ = (self.folder / "host.pub").read_text().split()
        lines = [f"[{self.control(name)}]:{SSH_PORT} {kind} {key}" for name in NUMBERS if name != "client"]
        (self.folder / "known_hosts").write_text("\n".join(lines) + "\n")

    def _start_sshd(self, name: str) -> None:
        config, cgroup = self.folder / f"sshd_{name}", self.cgroup(name)
        config.write_text(
            f"ListenAddress {self.control(name)}\nPort {SSH_PORT}\nHostKey {self.folder / 'host'}\nPidFile none\n"
            f"AuthorizedKeysFile {self.folder / 'authorized_keys'}\nStrictModes no\nUsePAM no\n"
            "PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            "LogLevel ERROR\nPrintMotd no\nMaxStartups 100\n"
        )
        cgroup.mkdir(exist_ok=True)
        clock = ["unshare", "-T", "--monotonic", str(NUMBERS[name][1])] if self.clocks_apart else []
        assert SSHD is not None
        words = self.inside(name, *clock, SSHD, "-D", "-e", "-f", str(config))

        def join() -> None:
            (cgroup / "cgroup.procs").write_text("0")

        log = (self.folder / f"sshd_{name}.log").open("wb")
        with log:
            self._sshds.append(
                subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=join)
            )
        until = time.monotonic() + 20
        while f"{SSH_PORT}" not in self.run(name, "ss", "-Hltn").stdout:
            if self._sshds[-1].poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"sshd of {name}: {(self.folder / f'sshd_{name}.log').read_text()}")
            time.sleep(0.05)

    @staticmethod
    def _remove_cgroup(cgroup: Path) -> None:
        until = time.monotonic() + 5
        while cgroup.exists() and time.monotonic() < until:
            for folder in sorted((one for one in cgroup.rglob("*") if one.is_dir()), reverse=True):
                with contextlib.suppress(OSError):
                    folder.rmdir()
            with contextlib.suppress(OSError):
                cgroup.rmdir()
            time.sleep(0.02)

    @staticmethod
    def _ip(*words: str) -> None:
        done = subprocess.run(["ip", *words], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def machines() -> Iterator[Machines]:
    """For a fixture; asserts that nothing is left, whatever the test did."""
    made = Machines()
    try:
        with made:
            yield made
    finally:
        assert made.left_over() == []


def begin_run(machines: Machines, *words: str) -> subprocess.Popen[str]:
    """Starts ``fleet_run.py`` on the client; everything is open, and no block has run yet."""
    script = Path(__file__).with_name("fleet_run.py")
    running = subprocess.Popen(
        machines.inside("client", sys.executable, str(script), str(machines.fleet()), *words), text=True,
        env=machines.environment(), stdout=subprocess.PIPE, stdin=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert running.stdout is not None
    said = running.stdout.readline()
    if said.strip() != "running":
        running.kill()
        raise AssertionError(said + running.communicate()[0])
    return running


def finish_run(running: subprocess.Popen[str]) -> dict[str, Any]:
    """Lets the blocks run, and returns the printed results."""
    try:
        said = running.communicate("go\n", timeout=150)[0]
        assert running.returncode == 0, said
        return dict(json.loads(said))
    finally:
        running.kill()
        running.wait()
