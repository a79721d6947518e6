"""Launches servers under a supervisor, waits until they respond correctly, stops them, and leaves no trace.

A ``Launcher`` drives a small process (``supervisor.py``) over a pipe. However the race ends, the pipe closes, and the
supervisor ends every process and removes every file.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import pwd
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self, TypeVar

import psutil

from dragstrip.contender.elsewhere import bracketed
from dragstrip.errors import PortTaken, StageError
from dragstrip.machine.network_namespace import within
from dragstrip.process.ports import (
    HOST,
    HOST_TABLES,
    is_held,
    listening,
    listens_alone,
    listens_elsewhere,
    ways_to,
)
from dragstrip.process.processes_here import ProcessesHere, looked_at, threads_of
from dragstrip.process.running import GRACE_S, ServerEnd
from dragstrip.process.scratch import make_cgroup, remove_cgroup, scratch_root, strays, sweep_stale
from dragstrip.process.supervisor import OWN_NETWORK, box_processes, descendants, remove_tree
from dragstrip.store.masking import hide

if TYPE_CHECKING:
    from dragstrip.contender import Start
    from dragstrip.process.orders import EndReport, FailedReport, Order, StartedReport, SupervisorReport

__all__ = ["Launcher", "ServerProcess", "scratch_root", "sweep_stale"]

#: Seconds from the stop signal to SIGKILL after Ctrl-C, while the user waits.
INTERRUPTED_GRACE_S = 0.5
#: Seconds between two tries to get a correct response, from the first to the longest.
FIRST_TRY_S, MAX_TRY_S = 0.002, 0.020
#: Seconds after which the same incorrect response won't change any more.
SAME_S = 1.0
#: Seconds beyond the grace after which a supervisor that does not report counts as lost.
LOST_S = 20.0
#: Seconds between two looks at where a server's processes listen, and from the first sight of another port to its use:
#: a server may open another port, as for metrics, before the one that it was asked for.
LOOK_S, SETTLED_S = 0.05, 0.2
#: The note of a server with a network of its own.
APART = "runs in a network of its own, with nothing but its own loopback"
#: Maximum size of a launch's log, which keeps the output's head and tail.
LOG_LIMIT_BYTES = 256 * 1024
#: What servers print if another program holds their port: the C library's words, and Node's name of the error.
IN_USE = "address already in use|EADDRINUSE"

_numbers = itertools.count(1)

_Report = TypeVar("_Report")


@dataclass(kw_only=True)
class ServerProcess(ProcessesHere):
    """One launch of a server that has sent its first correct response.

    Args:
        host: its address; "unix:PATH" for a socket file.
        pid: its main process; ready_ns: from the start to the first correct response.
        log: its output, bounded; removed when the launch is stopped (``Ended.log_tail`` stays).
        cgroup: its cgroup v2, None if none could be made.
        cpu_source: "cgroup" or "proc".
        note: a deviation from the start, like "runs as uid 0, for …"; "" if there is none.
        around: of a container, bubblewrap's two processes, which are not the server's.
    """

    name: str
    pid: int
    log: Path
    cgroup: Path | None
    stop_signal: str
    number: int
    scratch: Path
    launcher: Launcher = field(repr=False)
    around: frozenset[int] = frozenset()
    _ended: ServerEnd | None = field(default=None, repr=False)
    _frozen: bool = field(default=False, repr=False)

    def pids(self) -> tuple[int, ...]:
        """Every living process of the tree now, daemonised ones included; the main process is first."""
        living = [pid for pid, (_, state) in descendants(self.launcher.pid, looked_at()).items() if state not in "ZX"]
        return tuple(sorted(living, key=lambda pid: pid != self.pid))

    def own_pids(self) -> list[int]:
        return [pid for pid in self.pids() if pid not in self.around]

    def outside(self) -> tuple[str, ...]:
        found: list[str] = []
        if self.cgroup is None:
            return ()
        for pid in self.pids():
            with contextlib.suppress(OSError):
                groups = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
                name = Path(f"/proc/{pid}/comm").read_text().strip()
                own = next((line.removeprefix("0::") for line in groups if line.startswith("0::")), "")
                # A zombie is in the cgroup of all; its time was counted where it ran.
                if self.cgroup.name not in Path(own).parts and threads_of(pid):
                    found.append(f"{pid} ({name})")
        return tuple(found)

    def cpu_stat(self) -> str | None:
        return str(self.cgroup / "cpu.stat") if self.cgroup else None

    def alive(self) -> bool:
        return not (self._ended or self.launcher.has_ended(self.number)) and psutil.pid_exists(self.pid)

    def log_tail(self, lines: int = 20) -> str:
        text = self._ended.log_tail if self._ended else tail(self.log)
        return "\n".join(text.splitlines()[-lines:])

    def freeze(self) -> None:
        self._hold(hold=True)

    def thaw(self) -> None:
        self._hold(hold=False)

    def _hold(self, *, hold: bool) -> None:
        """Freezes or thaws every process, by its cgroup or by SIGSTOP."""
        self._frozen = hold
        if self.cgroup is not None:
            with contextlib.suppress(OSError):
                (self.cgroup / "cgroup.freeze").write_text("1" if hold else "0")
                return
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGSTOP if hold else signal.SIGCONT)

    def begin_stop(self, *, grace_s: float = GRACE_S) -> None:
        if self._ended is None:
            if self._frozen:
                self.thaw()
            self.launcher.begin_finish(self.number, self.stop_signal, grace_s)

    def stop(self, *, grace_s: float = GRACE_S) -> ServerEnd:
        """Also removes its scratch directory."""
        if self._ended is None:
            self.begin_stop(grace_s=grace_s)
            self._ended = self.launcher.finish(self.number, grace_s)
            _remove(self.scratch, self.log)
            self.launcher.forget(self)
            if self.namespace is not None:
                os.close(int(self.namespace.name))
                self.namespace = None
        return self._ended


class _AddressSearch:
    """Looks for the address at which a server responds that is not where it was asked to listen.

    Args:
        is_right: as in ``Launcher.launch``.
    """

    def __init__(self, running: ServerProcess, start: Start, is_right: Callable[[str, int], str | None]) -> None:
        self._running, self._start, self._is_right = running, start, is_right
        self._asked = (running.host, start.asked_port or running.port)
        self._looks_for_more, self._heard_late = 0, False
        self._look_at = time.monotonic()
        self._seen: tuple[str, ...] = ()
        self._settles_at = 0.0

    def tried(self, host: str, port: int) -> str | None:
        """None if the response from there is correct; otherwise the reason."""
        try:
            with within(self._running.namespace):
                return self._is_right(host, port)
        except OSError as error:
            return error.strerror or str(error)

    def listening(self) -> tuple[str, ...]:
        """Addresses where the server's processes listen now."""
        return listening(self._running.pids(), _tables(self._running))

    def patience_s(self, spent_s: float) -> float:
        """Seconds more for a server whose time is over: it may still load, as long as it listens nowhere; 0: none."""
        if spent_s >= self._start.listening_s or self._heard_late:
            return 0.0
        heard = bool(self.listening())
        if heard and not self._looks_for_more:
            return 0.0
        self._looks_for_more, self._heard_late = self._looks_for_more + 1, heard
        return self._start.wake_s / (2 if heard else 10)

    def elsewhere(self, reason: str | None) -> str | None:
        """Tries where the server listens instead, and sets its address if it responds there.

        Returns:
            As ``tried``, for the server's address as it is now; ``reason`` if that is still the same.
        """
        running, start = self._running, self._start
        if running.host.startswith("unix:") or time.monotonic() < self._look_at:
            return reason
        addresses = self.listening()
        self._look_at = time.monotonic() + LOOK_S
        if addresses != self._seen:
            self._seen, self._settles_at = addresses, time.monotonic() + SETTLED_S
        settled, ways = time.monotonic() >= self._settles_at, ways_to(addresses)
        # The present one first: it may listen there since the last try.
        for host, port in sorted(ways, key=lambda way: (way != (running.host, running.port), way[1] != self._asked[1])):
            if port != self._asked[1] and not (start.any_port and settled):
                continue
            if self._asked[0] != HOST and host != self._asked[0]:  # a fleet's address, which other machines reach
                continue
            found = self.tried(host, port)
            if found is None or getattr(found, "responded", False) > getattr(reason, "responded", False):
                running.host, running.port, reason = host, port, found
            if found is None:
                break
        return reason

    def settle(self) -> None:
        """Notes where the server responded correctly, if that is not where it was asked to listen.

        Raises:
            PortTaken: another process listens at that port, too, and would get a part of the requests.
        """
        running, (host, port) = self._running, self._asked
        if running.host.startswith("unix:") or (running.host, running.port) == self._asked:
            return
        where = f"listens at {bracketed(running.host)}"
        if running.port == port:
            where = f"{where} alone, not at {host}"
        elif listens_alone(running.pids(), running.port, _tables(running)):
            where = f"{where}:{running.port}, whatever PORT says"
        else:
            running.stop(grace_s=INTERRUPTED_GRACE_S)
            raise PortTaken(
                f"{running.name}: another program listens at port {running.port}, too, which it uses whatever PORT "
                "says; have it read PORT, or stop the other program"
            )
        running.note = "; ".join(filter(None, (running.note, where)))


def _tables(running: ServerProcess) -> Path:
    """proc(5)'s tables of the sockets in a server's network."""
    if running.namespace is None:
        return HOST_TABLES
    return Path(f"/proc/{max(running.around, default=running.pid)}/net")


class Launcher:
    """One contender's supervisor for the length of a race; leaving the ``with`` ends everything under it.

    Args:
        name: the contender's, for messages. scratch_root: the race's, see ``scratch_root()``.
    """

    def __init__(self, *, name: str, scratch_root: Path) -> None:
        self.name = name
        self._root = scratch_root.resolve()
        script = Path(__file__).with_name("supervisor.py")
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(script), str(self._root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # the terminal's Ctrl-C is the race's affair
        )
        self.pid = self._process.pid
        self._text = b""
        self._reading = threading.Lock()
        self._lost = False
        self._starts: dict[int, StartedReport | FailedReport] = {}
        self._ends: dict[int, EndReport] = {}
        self._stopping: set[int] = set()
        self._running: ServerProcess | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        interrupted = kind is not None and not issubclass(kind, Exception)
        try:
            # An interrupted stop continues with its long grace; closing the pipe cuts that short.
            if self._running is not None and not (interrupted and self._running.number in self._stopping):
                self._running.stop(grace_s=INTERRUPTED_GRACE_S if interrupted else GRACE_S)
            self._send({"do": "end"})
        finally:
            self._close()

    def launch(
        self, start: Start, *, scratch: Path, cores: tuple[int, ...], is_right: Callable[[str, int], str | None]
    ) -> ServerProcess:
        """Starts the server and waits for its first correct response.

        Args:
            start: the command; its environment is laid over the race's own.
            scratch: its directory, below the scratch root; removed when the launch ends. As root, with
                ``start.unprivileged``, it is given to ``nobody`` and the server runs as ``nobody``.
            cores: the cores that the server may run on.
            is_right: called repeatedly; None once the response is correct, otherwise the reason in words.

        Raises:
            StageError: the server could not be started, died, or sent no correct response within ``start.wake_s``; no
                trace of it is left.
            PortTaken: the same, because another program holds its port.
        """
        if self._running is not None:
            raise StageError(f"{self.name}: its launch {self._running.number} still runs; stop it before the next")
        scratch = scratch.resolve()
        if self._root not in scratch.parents:
            raise StageError(f"{self.name}: scratch directory {scratch} is not below {self._root}")
        user = unprivileged_user() if start.unprivileged and os.geteuid() == 0 else None
        if user is not None:
            for path in (scratch, *scratch.rglob("*")):
                os.chown(path, *user, follow_symlinks=False)
        began_ns = time.monotonic_ns()
        running = self._running = self._start(start, scratch, cores, user)
        try:
            self._wait_until_right(running, start, began_ns, is_right)
        except Exception:
            running.stop(grace_s=INTERRUPTED_GRACE_S)
            raise
        running.ready_ns = time.monotonic_ns() - began_ns
        return running

    def _start(
        self, start: Start, scratch: Path, cores: tuple[int, ...], user: tuple[int, int] | None
    ) -> ServerProcess:
        number, log = next(_numbers), self._root / f"{scratch.name}.log"
        environment = server_environment(os.environ)
        if user is not None:
            environment |= {"HOME": str(scratch), "TMPDIR": str(scratch), "USER": "nobody", "LOGNAME": "nobody"}
        # A container sees bubblewrap's environment, not the one that bubblewrap gives it.
        env = dict(start.env) if start.box else environment | dict(start.env)
        box, made = start.box, make_cgroup(number)
        self._send({
            "do": "start", "launch": number, "command": list(start.command), "env": env,
            "cwd": str(start.cwd), "cores": list(cores), "user": list(user) if user else None,
            "network": box.network if box else OWN_NETWORK if start.own_network else "",
            "box": list(box.options) if box else None, "ids": list(box.ids) if box and box.ids else None,
            "log": str(log), "log_limit_bytes": LOG_LIMIT_BYTES, "scratch": str(scratch),
            "cgroup": str(made) if made else None, "signal": start.stop_signal,
            "stop_all_after_s": start.stop_all_after_s,
        })  # fmt: skip
        report = self._await(self._starts, number, LOST_S)
        if report is None or report["kind"] == "failed":
            _remove(scratch, log)
            remove_cgroup(made)
            raise StageError(
                f"{start.name}: {report['why'] if report else 'its supervisor was lost before it started'}"
            )
        cgroup = Path(report["cgroup"]) if report["cgroup"] else None
        running = ServerProcess(
            name=start.name, host=f"unix:{start.socket}" if start.socket else start.address, port=start.port,
            pid=report["pid"], log=log, cgroup=cgroup, cpu_source="cgroup" if cgroup else "proc", note=report["note"],
            stop_signal=start.stop_signal, number=number, scratch=scratch, launcher=self,
        )  # fmt: skip
        if start.box is not None:
            self._look_into_box(running)
        elif start.own_network:
            running.note = "; ".join(filter(None, (running.note, APART)))
            with contextlib.suppress(OSError):  # it has ended
                number = os.open(f"/proc/{running.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
                running.namespace = Path(f"/proc/self/fd/{number}")
        return running

    def _look_into_box(self, running: ServerProcess) -> None:
        """Opens the network namespace of a container as soon as its process 1 is there, unless it ends before that."""
        until = time.monotonic() + LOST_S
        while running.alive() and time.monotonic() < until:
            found = box_processes(running.pid)
            if len(found) > 1:
                with contextlib.suppress(OSError):
                    number = os.open(f"/proc/{found[1]}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
                    running.namespace, running.around = Path(f"/proc/self/fd/{number}"), frozenset(found[:2])
                    return
            time.sleep(FIRST_TRY_S)

    def _wait_until_right(
        self, running: ServerProcess, start: Start, began_ns: int, is_right: Callable[[str, int], str | None]
    ) -> None:
        """Tries until the response is correct; every wait ends at once when the server dies.

        Raises:
            StageError: it is not, in time. PortTaken: another program holds its port.


        A response that stays the same incorrect one for a while won't change: then there is nothing to wait for.
        """
        pause_s, reason, answered = FIRST_TRY_S, None, ("", 0.0)
        search = _AddressSearch(running, start, is_right)
        until_s = start.wake_s
        while running.alive():
            reason = search.tried(running.host, running.port)
            came = getattr(reason, "responded", False)
            if reason is not None and (not came or running.port != start.asked_port):
                reason = search.elsewhere(reason)
                came = getattr(reason, "responded", False)
            if reason is None and running.alive():  # otherwise another server responded on that port
                search.settle()
                return
            if not came or reason != answered[0]:
                answered = (str(reason) if came else "", time.monotonic())
            elif time.monotonic() - answered[1] > SAME_S:
                break
            spent_s = (time.monotonic_ns() - began_ns) / 1e9
            if spent_s > until_s:
                if not (more_s := search.patience_s(spent_s)):
                    break
                until_s = min(spent_s + more_s, start.listening_s)
            self._await(self._ends, running.number, pause_s, lose=False)
            pause_s = min(pause_s * 1.5, MAX_TRY_S)
        waited_s = (time.monotonic_ns() - began_ns) / 1e9
        self._give_up(running, start, waited_s, until_s, reason, same=bool(answered[0]))

    def _give_up(
        self, running: ServerProcess, start: Start, waited_s: float, limit_s: float, reason: str | None, *, same: bool
    ) -> NoReturn:
        """Ends a launch that sent no correct response, and says why.

        Args:
            limit_s: the time that it had. same: it sent the same incorrect response until the end.
        """
        died = not running.alive()
        tcp = reason is not None and not died and not running.host.startswith("unix:")
        elsewhere = listens_elsewhere(running.pids(), running.host, running.port, _tables(running)) if tcp else ""
        ended = running.stop(grace_s=INTERRUPTED_GRACE_S)
        longer = "start.wake_s in its definition" if start.kind == "definition" else "--wake, for example --wake 60s"
        if ended.daemonized:
            what = str(ended)
        elif died:
            what = f"died {waited_s:.2f} s after its start ({ended})"
        elif same:
            what = f"sent no correct response; it sent the same incorrect one until {waited_s:.1f} s after its start"
        else:
            within_s = start.wake_s if limit_s == start.wake_s else round(limit_s)
            what = (
                f"sent no correct response within {within_s:g} s of its start{elsewhere}; if it needs longer, "
                f"set {longer}"
            )
        last = f"; the last try: {reason}" if reason else ""
        message = f"{running.name}: {what}{last}; its last lines:\n{without_repeats(ended.log_tail) or '(no output)'}"
        # The other program may have ended by now: the server's own words are a sign of it, too.
        asked = start.asked_port or running.port
        taken = is_held(asked, running.host) or (died and re.search(IN_USE, ended.log_tail, re.IGNORECASE))
        if taken and not (running.around or start.own_network or running.host.startswith("unix:")):
            raise PortTaken(f"{message}\nAnother program held port {asked}, which was free before its start.")
        raise StageError(message)

    def begin_finish(self, number: int, signal_name: str, grace_s: float) -> None:
        """Orders a launch's stop, unless it has ended; used by ``ServerProcess.begin_stop``."""
        if not self.has_ended(number) and number not in self._stopping:
            self._stopping.add(number)
            self._send({"do": "stop", "signal": signal_name, "grace_s": grace_s})

    def finish(self, number: int, grace_s: float) -> ServerEnd:
        """Waits for the supervisor's report of a launch's end; used by ``ServerProcess.stop``."""
        report = self._await(self._ends, number, grace_s + LOST_S)
        if report is None:
            self._clean_after_lost_supervisor()
            last = tail(self._running.log) if self._running else ""
            how = "its supervisor was lost; killed"
            return ServerEnd(exit_status=None, died=True, how=how, log_tail=last)
        return ServerEnd(
            exit_status=report["exit_status"], died=report["kind"] == "died" or number not in self._stopping,
            how=report["how"], log_tail=report["log_tail"], left_over=tuple(report["left_over"]),
            hidden_ns=report["hidden_ns"], counts=report["counts"],
        )  # fmt: skip

    def has_ended(self, number: int) -> bool:
        """Whether the supervisor has reported the end of a launch, or is gone itself."""
        self._read(0.0)
        return number in self._ends or self._lost

    def forget(self, running: ServerProcess) -> None:
        """The launch has ended: the next one may start."""
        if self._running is running:
            self._running = None
        self._ends.pop(running.number, None)

    def _send(self, order: Order) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            if error.errno != errno.EPIPE:
                raise
            self._lost = True

    def _await(
        self, reports: Mapping[int, _Report], number: int, at_most_s: float, *, lose: bool = True
    ) -> _Report | None:
        """A launch's report once it is there; None if the supervisor is lost, or (``lose``) does not report in time."""
        until = time.monotonic() + at_most_s
        while number not in reports and not self._lost:
            left_s = until - time.monotonic()
            if left_s <= 0:
                if lose:
                    self._process.kill()
                    self._lost = True
                break
            self._read(left_s)
        return reports.get(number)

    def _read(self, at_most_s: float) -> None:
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        poll = select.poll()  # select() supports no descriptor above 1023
        poll.register(fd, select.POLLIN)
        while not self._lost and poll.poll(at_most_s * 1000):
            # An interrupted race stops a server in one thread while another still waits for it.
            with self._reading:
                if not poll.poll(0):
                    return
                piece = os.read(fd, 1 << 16)
                self._lost = not piece
                *lines, self._text = (self._text + piece).split(b"\n")
            for line in lines:
                report: SupervisorReport = json.loads(line)
                if report["kind"] == "ended" or report["kind"] == "died":
                    self._ends[report["launch"]] = report
                else:
                    self._starts[report["launch"]] = report
            at_most_s = 0.0

    def _clean_after_lost_supervisor(self) -> None:
        """Kills the server's cgroup, and the processes that its session and its scratch folder identify."""
        if (running := self._running) is None:
            return
        if running.cgroup is not None:
            with contextlib.suppress(OSError):
                (running.cgroup / "cgroup.kill").write_text("1")
        for pid in strays(running.pid, running.scratch):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        remove_cgroup(running.cgroup)

    def _close(self) -> None:
        """Closes the pipe, which always ends the supervisor, and waits for it."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(LOST_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            self._clean_after_lost_supervisor()
        if self._running is not None:
            _remove(self._running.scratch, self._running.log)


def server_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment for servers: Dragstrip's own with C.UTF-8 and UTC; a start's own is laid over it.

    ``LC_*`` are removed instead of set, so that a definition that sets only ``LANG`` gets that locale.
    """
    kept = {key: value for key, value in inherited.items() if key != "LANGUAGE" and not key.startswith("LC_")}
    return kept | {"LANG": "C.UTF-8", "TZ": "UTC"}


def unprivileged_user() -> tuple[int, int] | None:
    """User and group that root's servers run as; None if this user does not exist."""
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        return None
    return entry.pw_uid, entry.pw_gid


def tail(log: Path) -> str:
    """The log's last 16 KiB as text, without secrets that this process was given."""
    try:
        return hide(log.read_bytes()[-(1 << 14) :].decode("utf-8", "replace"))
    except OSError:
        return ""


def without_repeats(text: str) -> str:
    """A log's lines; of consecutive lines that differ only in digits, as in an access log, the last and their count."""
    kept: list[tuple[str, str, int]] = []
    for line in text.splitlines():
        like = re.sub(r"\d+", "0", line)
        count = kept.pop()[2] if kept and kept[-1][0] == like else 0
        kept.append((like, line, count + 1))
    return "\n".join(f"{line} ({count} lines like it)" if count > 1 else line for _, line, count in kept)


def _remove(scratch: Path, log: Path) -> None:
    remove_tree(str(scratch))
    log.unlink(missing_ok=True)
