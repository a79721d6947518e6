"""Keeps a race's cores out of idle states while blocks run, and restores all settings however the race ends.

A core that sleeps is woken by an interrupt. On a virtual machine that costs the waker time, and the sleeper waits for
the host. A server that lets the machine sleep more often would pay for it. There are three ways, tried in this order:

``device``: ``/dev/cpu_dma_latency`` held open at 0, for all cores; the kernel resets it when the holder dies.
``resume``: ``cpuN/power/pm_qos_resume_latency_us`` set to ``n/a``, for the race's cores alone.
``idle``: a process of the SCHED_IDLE policy that spins on each core, and yields to every other process.

The first two are settings of the kernel's idle driver: without a driver they do nothing and are skipped. This file
itself does the work, run as a script: ``python -I -S keep_awake.py WAY CORES``. It reads ``on`` and ``off`` from its
stdin and replies with ``ok``, or with what went wrong. If its stdin closes, the process that started it is gone
(``kill -9`` included): then it puts everything back and ends.
"""

# House: reads sentences: /proc has no other form.
from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import sys
import time

TYPE_CHECKING = False  # importing typing would slow the script's start
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from subprocess import Popen

#: The ways in the order in which they are tried, and the text of each in a record.
WAYS = {
    "device": "cpu_dma_latency held at 0",
    "resume": "resume latency n/a on each core",
    "idle": "a SCHED_IDLE spinner on each core",
}
#: The values of ``--awake``.
CHOICES = ("auto", "off")
OFF = "off"

DEVICE = "/dev/cpu_dma_latency"
RESUME = "/sys/devices/system/cpu/cpu{core}/power/pm_qos_resume_latency_us"
DRIVER = "/sys/devices/system/cpu/cpuidle/current_driver"

#: A spinner that finds this much time gone since its last look was preempted, by a program that may need the core
#: longer. The spinner then sleeps for as long, repeatedly, until it wakes no later than the second figure.
AWAY_NS, LATE_NS = 1_000_000, 300_000
#: Seconds to wait for the script's reply, which takes milliseconds.
LOST_S = 5.0

#: The script's reply if an order succeeded.
DONE = "ok"

PR_SET_PDEATHSIG = 1


class Awake:
    """Keeps the cores awake while ``held``.

    Args:
        text: the way, or "off" and the reason, for the record.
        way: one of ``WAYS``; None if the cores are not kept awake.
    """

    def __init__(self, text: str = OFF, way: str | None = None, helper: Popen[bytes] | None = None) -> None:
        self.text, self.way = text, way
        self._helper = helper

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keeps the cores awake until the end; does nothing without a way."""
        if self._helper is None:
            yield
            return
        _order(self._helper, "on")
        try:
            yield
        finally:
            _order(self._helper, "off")


@contextlib.contextmanager
def hold(
    cores: Sequence[int], *, on: bool = True, ways: Sequence[str] | None = None, against: str | None = None
) -> Iterator[Awake]:
    """Finds a way to keep these cores awake; restores everything at the end, also after a ``kill -9``.

    Args:
        cores: the race's.
        on: False: nothing is done.
        ways: to be tried in this order, whether or not they can have an effect here; None for the usual ways.
        against: why cores must not be kept busy here (``against_spinning``); None: they may be.
    """
    awake = _first_that_works(cores, ways, against) if on else Awake()
    try:
        yield awake
    finally:
        if awake._helper is not None:
            _dismiss(awake._helper)


def against_spinning(cores: Sequence[int], siblings: Sequence[Sequence[int]]) -> str | None:
    """The reason why no spinner may keep these cores busy; None if it may.

    Args:
        siblings: for each core, the hardware threads of its physical core.
    """
    chosen = set(cores)
    if any(len(chosen & set(threads)) > 1 for threads in siblings):
        return "two of the cores are hardware threads of one physical core, which would slow each other down"
    limit = cpu_quota()
    if limit is not None and limit < len(chosen):
        return f"CPU time here is limited to {limit:g} cores, which spinning would use up"
    return None


def usual_wait(against: str | None, *, shared: bool) -> str:
    """How a race's engine waits, "poll" or "sleep": it polls if it alone may keep its cores busy.

    Args:
        against: why they must not be kept busy (``against_spinning``). shared: servers also run on them.
    """
    return "sleep" if against or shared else "poll"


def against_spinners(wait: str, against: str | None) -> str | None:
    """Why no spinner may run with this ``wait`` of the engine; None if it may. ``against``: a reason with any ``wait``.

    An engine that polls keeps its own cores awake, and so does a loaded server. A spinner next to the server took up to
    6 % of its core, whenever it woke up, and doubled the scatter of its throughput (docs/evidence/verdicts.md).
    """
    if against is not None or wait == "sleep":
        return against
    return "the engine polls, and a spinner would take time from the servers"


def cpu_quota() -> float | None:
    """The CPU time that this process's control groups (v2 or v1) allow, as a number of cores; None: no limit."""
    limits: list[float] = []
    for line in _text("/proc/self/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        unified = number == "0"
        if not unified and "cpu" not in controllers.split(","):
            continue
        folder = ("/sys/fs/cgroup" if unified else "/sys/fs/cgroup/cpu") + path.rstrip("/")
        while folder.startswith("/sys/fs/cgroup"):
            names = ("cpu.max",) if unified else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            words = " ".join(_text(f"{folder}/{name}") for name in names).split()
            if len(words) == 2 and words[0].isdigit() and words[1].isdigit():
                limits.append(int(words[0]) / max(int(words[1]), 1))
            folder = folder.rpartition("/")[0]
    return min(limits, default=None)


def _first_that_works(cores: Sequence[int], ways: Sequence[str] | None, against: str | None) -> Awake:
    """The first way that works, with the reasons why earlier ways don't."""
    import subprocess

    reasons: list[str] = []
    if ways is None:
        ways = tuple(WAYS)
        if _text(DRIVER) in ("", "none"):
            ways, reasons = ("idle",), ["this kernel has no idle driver, so settings of it do nothing"]
    for way in ways:
        if way == "idle" and against is not None:
            reasons.append(against)
            continue
        helper = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, way, ",".join(map(str, cores))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # the terminal's Ctrl-C must not reach it, and it needs its own autogroup
        )
        failures = [reply for reply in (_order(helper, "on"), _order(helper, "off")) if reply != DONE]
        if not failures:
            return Awake(WAYS[way] + (f" ({'; '.join(reasons)})" if reasons else ""), way, helper)
        _dismiss(helper)
        reasons.append(f"{way}: {failures[0]}")
    return Awake(f"{OFF}: {'; '.join(reasons)}")


def _order(helper: Popen[bytes], order: str) -> str:
    """The helper's reply to "on" or "off": ``DONE``, or what went wrong, also if it is gone."""
    import select

    assert helper.stdin is not None
    assert helper.stdout is not None
    try:
        helper.stdin.write(order.encode() + b"\n")
        helper.stdin.flush()
        waiting = select.poll()
        waiting.register(helper.stdout, select.POLLIN)
        if not waiting.poll(LOST_S * 1000):
            return "it did not reply"
        return helper.stdout.readline().decode("utf-8", "replace").strip() or "it ended by itself"
    except OSError as error:
        return error.strerror or str(error)


def _dismiss(helper: Popen[bytes]) -> None:
    """Closes the helper's stdin, so that it restores everything and ends, and waits for its end."""
    import subprocess

    for pipe in (helper.stdin, helper.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    try:
        helper.wait(LOST_S)
    except subprocess.TimeoutExpired:
        helper.kill()
        helper.wait()


def _text(path: str) -> str:
    try:
        with open(path) as file:  # noqa: PTH123 (pathlib would double the script's start)
            return file.read().strip()
    except OSError:
        return ""


# The rest of this file runs in the script's process.


class Device:
    """The wake-up latency of all cores, which the kernel holds at 0 while the device is open."""

    def __init__(self, _cores: Sequence[int]) -> None:
        self._descriptor: int | None = None

    def on(self) -> None:
        """Opens the device; raises OSError if it may not."""
        self._descriptor = os.open(DEVICE, os.O_WRONLY)
        os.write(self._descriptor, struct.pack("i", 0))

    def off(self) -> None:
        """Closes the device, which ends the request."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    end = off


class Resume:
    """The kernel's limit on each core's wake-up time; ``n/a`` means none at all."""

    def __init__(self, cores: Sequence[int]) -> None:
        self._files = [RESUME.format(core=core) for core in cores]
        self._before: dict[str, str] = {}

    def on(self) -> None:
        """Notes the current settings and sets ``n/a``; raises OSError if not allowed, after putting all back."""
        try:
            for path in self._files:
                self._before.setdefault(path, _text(path))
                self._set(path, "n/a")
        except OSError:
            self.off()
            raise

    def off(self) -> None:
        """Puts the noted settings back."""
        while self._before:
            path, value = self._before.popitem()
            with contextlib.suppress(OSError):
                self._set(path, value)

    end = off

    @staticmethod
    def _set(path: str, value: str) -> None:
        with open(path, "w") as file:  # noqa: PTH123
            file.write(value)


class Spinners:
    """One process per core that spins at the lowest priority, stopped (SIGSTOP) while it is not needed."""

    def __init__(self, cores: Sequence[int]) -> None:
        self._cores = tuple(cores)
        self._pids: list[int] = []

    def on(self) -> None:
        """Lets them run; the first call makes them, and raises OSError if that is not allowed."""
        for core in self._cores[len(self._pids) :]:
            self._pids.append(self._spinner())
            # Its priority is lowered while it is stopped: it never spins at an ordinary one.
            os.sched_setaffinity(self._pids[-1], [core])
            os.sched_setscheduler(self._pids[-1], os.SCHED_IDLE, os.sched_param(0))
            # That weighs little within a scheduling group. If sessions are groups (sched(7), autogroup), this group
            # would weigh as much as the server's: so the group also gets the lowest weight.
            with contextlib.suppress(OSError), open(f"/proc/{self._pids[-1]}/autogroup", "w") as file:  # noqa: PTH123
                file.write("19")
        for pid in self._pids:
            os.kill(pid, signal.SIGCONT)

    def off(self) -> None:
        """Stops the spinners until ``on``: they stay on their cores and use no time."""
        for pid in self._pids:
            os.kill(pid, signal.SIGSTOP)

    def end(self) -> None:
        """Kills the spinners without waiting: each ends at its next turn, which may be late on a busy core."""
        for pid in self._pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(OSError):  # an ordinary user is not allowed to, and need not
                os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))
                os.sched_setaffinity(pid, range(os.cpu_count() or 1))
        self._pids = []

    @staticmethod
    def _spinner() -> int:
        """A stopped process, to be set up before it continues."""
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                os.setsid()
                ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                for number in (signal.SIGTERM, signal.SIGHUP):
                    signal.signal(number, signal.SIG_DFL)
                null = os.open(os.devnull, os.O_RDWR)
                os.dup2(null, 0)
                os.dup2(null, 1)  # otherwise a reader of our stdout would not see our end
                os.kill(os.getpid(), signal.SIGSTOP)
                if os.getppid() == parent:
                    _spin()
            os._exit(1)
        os.waitpid(pid, os.WUNTRACED)
        return pid


def _spin() -> None:
    """Spins forever. Any process that wakes up on this core preempts it at once; while that lasts, it sleeps.

    Otherwise the scheduler would give it a turn of some milliseconds now and then, despite its lowest weight. It took
    1.6 % of a busy core that way, and takes 0.1 % now (by the run-queue wait of a busy loop on the same core).
    """
    clock = time.monotonic_ns
    last_ns = clock()
    while True:
        now = clock()
        if now - last_ns > AWAY_NS:
            late_ns = AWAY_NS
            while late_ns > LATE_NS:
                due = clock() + AWAY_NS
                time.sleep(AWAY_NS / 1e9)
                now = clock()
                late_ns = now - due
        last_ns = now


def main(way: str, cores: Sequence[int]) -> None:
    """Carries out orders until stdin closes or a signal ends the process; then restores everything."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(0))
    kinds: dict[str, type[Device | Resume | Spinners]] = {"device": Device, "resume": Resume, "idle": Spinners}
    keeper = kinds[way](cores)
    try:
        for order in sys.stdin:
            try:
                keeper.on() if order.strip() == "on" else keeper.off()
                reply = DONE
            except OSError as error:
                reply = f"{error.strerror}{f' ({error.filename})' if error.filename else ''}"
            sys.stdout.write(f"{reply}\n")
            sys.stdout.flush()
    except BrokenPipeError:
        pass  # the reader is gone
    finally:
        keeper.end()


if __name__ == "__main__":
    main(sys.argv[1], [int(core) for core in sys.argv[2].split(",")])
