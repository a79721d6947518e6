"""A co-tenant to order: bursts of work at random on every race core, as another program on the machine has them.

    python benchmarks/disturb.py --duty 20 --seconds 60
    python benchmarks/disturb.py --duty 20 --seconds 60 --cores 0,1 --seed 7 --caches
    python benchmarks/disturb.py --duty 40 --seconds 60 --only-pattern '/\\./' --exec dragstrip race node nginx-return

Each core has a process of its own, pinned to it, of ordinary priority. A burst is 1 to 50 ms of CPU time (uniform), the
pauses between bursts are exponential, and all of it is drawn beforehand: where the core is contended a burst takes
longer and the next begins the sooner, so that the CPU time taken is the duty that was ordered. It can't be more than
the share that the scheduler gives to one program of several.

``--only`` works only while one server works: its CPU time (schedstat, all threads) is read about every millisecond on
each core, and duty, bursts and pauses run on the clock of that server's own work. ``--caches`` walks through memory of
twice the last-level cache in every burst. It ends by itself after ``--seconds``, or with the command behind ``--exec``,
and none of its processes outlives it. At the end it prints what it used, as JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import random
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

#: A burst's CPU time, uniform between these.
MIN_MS, MAX_MS = 1.0, 50.0
#: A burst that could not begin for this long is dropped, as are those planned during that time.
LATE_MOST_S = 1.0
#: Seconds between two looks at the one server; between two looks for new processes of it.
LOOK_S, FIND_S = 0.001, 0.1
#: While a burst runs, the server is still at work if it ran, or could have run, within this time.
STILL_S = 0.00075
#: It is at work that ran for this share of the time since the last look: an idle one's timers don't count.
WORKS = 0.1
#: A new process's command line is read so often: between fork and exec it is its parent's.
READ_TIMES = 5
#: Bytes walked through between two readings of the clock.
WALK = 1 << 20
LINE = 64

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def ends_with_its_parent(number: int = signal.SIGKILL) -> None:
    """This process gets the signal when its parent dies, however that dies (prctl(2))."""
    _libc.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)


# --- what a burst does ------------------------------------------------------------------------------------------


def burn() -> None:
    """About 50 µs of arithmetic."""
    for _ in range(1500):
        pass


def last_level_cache() -> int:
    """Its bytes, by the kernel's word; 32 MiB where that says nothing."""
    found = [32 << 20]
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        with contextlib.suppress(OSError, ValueError):
            text = path.read_text().strip()
            found.append(int(text[:-1]) << {"K": 10, "M": 20}[text[-1]])
    return max(found[1:] or found)


def walker(size: int) -> Callable[[], None]:
    """Writes to one word of every cache line of ``size`` bytes, WALK of them per call, in a cycle."""
    import numpy as np

    memory = np.ones(size // 8, dtype=np.int64)
    step, at = WALK // 8, 0

    def walk() -> None:
        nonlocal at
        memory[at : at + step : LINE // 8] += 1
        at = (at + step) % len(memory)

    return walk


# --- the one server ---------------------------------------------------------------------------------------------


class Watch:
    """Whether the processes that a pattern or a file of process ids names are at work.

    Args:
        pattern: of command lines; processes below a match count with it. Not this program, whatever started it,
            nor a running race, whose command line names its contenders.
        pid_file: process ids, one per line; read again at each search.
    """

    def __init__(self, pattern: re.Pattern[str] | None, pid_file: Path | None) -> None:
        self._pattern, self._pid_file = pattern, pid_file
        self._seen: dict[int, tuple[int, str]] = {}
        self._files: dict[tuple[int, int], tuple[int, int]] = {}
        self._ran_ns, self._looked_s, self._found_s, self._at_work_s = -1, 0.0, 0.0, 0.0

    def at_work(self, *, bursting: bool) -> bool:
        """It ran for a good part of the time since the last call; in a burst also: it could run, or did just now."""
        now = time.monotonic()
        if now - self._found_s > FIND_S:
            self._find()
            self._found_s = now
        ran_ns, before_ns, passed_s = self._ran(), self._ran_ns, now - self._looked_s
        self._ran_ns, self._looked_s = ran_ns, now
        if before_ns >= 0 and (ran_ns - before_ns > WORKS * passed_s * 1e9 or (bursting and self._waits())):
            self._at_work_s = now
            return True
        return bursting and now - self._at_work_s < STILL_S

    def _ran(self) -> int:
        """CPU ns of all its threads."""
        total = 0
        for name, (schedstat, _) in list(self._files.items()):
            try:
                total += int(os.pread(schedstat, 64, 0).split()[0])
            except (OSError, IndexError):
                self._drop(name)
        return total

    def _waits(self) -> bool:
        """A thread of it is running or could run."""
        for _, stat in self._files.values():
            with contextlib.suppress(OSError, IndexError):
                if os.pread(stat, 512, 0).rsplit(b")", 1)[1][1:2] == b"R":
                    return True
        return False

    def _find(self) -> None:
        """Finds its processes and threads again."""
        wanted = set()
        for root in self._roots():
            for pid in _tree(root):
                with contextlib.suppress(OSError):
                    wanted |= {(pid, task) for task in _numbers(f"/proc/{pid}/task")}
        for name in set(self._files) - wanted:
            self._drop(name)
        for pid, task in wanted - set(self._files):
            with contextlib.suppress(OSError):
                folder = f"/proc/{pid}/task/{task}"
                self._files[pid, task] = (
                    os.open(f"{folder}/schedstat", os.O_RDONLY),
                    os.open(f"{folder}/stat", os.O_RDONLY),
                )
                self._ran_ns = -1  # another sum from now on

    def _drop(self, name: tuple[int, int]) -> None:
        for file in self._files.pop(name):
            os.close(file)
        self._ran_ns = -1

    def _roots(self) -> list[int]:
        if self._pid_file is not None:
            with contextlib.suppress(OSError):
                return [int(word) for word in self._pid_file.read_text().split() if word.isdigit()]
            return []
        assert self._pattern is not None
        alive = set(_numbers("/proc"))
        self._seen = {pid: known for pid, known in self._seen.items() if pid in alive}
        for pid in alive:
            times, line = self._seen.get(pid, (0, ""))
            if times < READ_TIMES:
                with contextlib.suppress(OSError):
                    line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                self._seen[pid] = times + 1, line
        own = {*_above(os.getpid())}
        for pid, (_, line) in self._seen.items():
            if "supervisor.py" in line:
                own |= {pid, *_above(pid)}
        return [pid for pid, (_, line) in self._seen.items() if pid not in own and self._pattern.search(line)]


def _numbers(folder: str) -> list[int]:
    """The processes, or threads, of a folder of /proc."""
    with os.scandir(folder) as entries:
        return [int(entry.name) for entry in entries if entry.name.isdigit()]


def _above(pid: int) -> Iterator[int]:
    """A process and those that it comes from."""
    while pid > 1:
        yield pid
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):
            return


def _tree(pid: int) -> Iterator[int]:
    """A process and all below it."""
    yield pid
    with contextlib.suppress(OSError):
        for task in _numbers(f"/proc/{pid}/task"):
            for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                yield from _tree(int(child))


# --- one core ---------------------------------------------------------------------------------------------------


class Core:
    """The bursts on one core; ``took`` says afterwards what came of them.

    Args:
        duty: share of the core's time, or of the one server's working time; 0 to 1.
        work: what a burst repeats, some 50 to 300 µs at a time.
    """

    def __init__(self, duty: float, chance: random.Random, work: Callable[[], None]) -> None:
        self._duty, self._chance, self._work = duty, chance, work
        self.bursts, self.burst_ns, self.worked_s = 0, 0, 0.0

    def draw(self) -> tuple[float, float]:
        """Seconds of a pause, and of CPU time of the burst that follows it."""
        if not self._duty:
            return 3600.0, 0.0
        usual_s = (MIN_MS + MAX_MS) / 2e3
        pause_s = self._chance.expovariate(1.0) * usual_s * (1 / self._duty - 1)
        return pause_s, self._chance.uniform(MIN_MS, MAX_MS) / 1e3

    def all_the_time(self, until_s: float) -> None:
        """Bursts by the clock."""
        planned_s = time.monotonic()
        while True:
            pause_s, burst_s = self.draw()
            planned_s = max(planned_s + pause_s, time.monotonic() - LATE_MOST_S)
            if (left_s := min(planned_s, until_s) - time.monotonic()) > 0:
                time.sleep(left_s)
            if planned_s >= until_s:
                return
            before_ns, left_ns = time.thread_time_ns(), int(burst_s * 1e9)
            while left_ns > 0 and time.monotonic() < until_s:
                self._work()
                took_ns, before_ns = time.thread_time_ns() - before_ns, time.thread_time_ns()
                left_ns, self.burst_ns = left_ns - took_ns, self.burst_ns + took_ns
            self.bursts += 1
            planned_s += burst_s

    def while_at_work(self, watch: Watch, until_s: float) -> None:
        """Bursts by the clock of the one server's work, of which ``worked_s`` tells how long it was."""
        pause_s, burst_s = self.draw()
        before_s = time.monotonic()
        while (now_s := time.monotonic()) < until_s:
            bursting = pause_s <= 0
            if not watch.at_work(bursting=bursting):
                before_s = time.monotonic()
                time.sleep(LOOK_S)
                continue
            passed_s, before_s = now_s - before_s, now_s
            self.worked_s, pause_s = self.worked_s + passed_s, pause_s - passed_s
            if pause_s > 0:
                time.sleep(LOOK_S)
                continue
            began_ns = time.thread_time_ns()
            while (took_ns := time.thread_time_ns() - began_ns) < min(burst_s, LOOK_S / 4) * 1e9:
                self._work()
            burst_s, self.burst_ns = burst_s - took_ns / 1e9, self.burst_ns + took_ns
            if burst_s <= 0:
                self.bursts += 1
                more_s, burst_s = self.draw()
                pause_s += more_s


class Enough(BaseException):
    """The parent's word that it is over."""


def _enough(_number: int, _frame: object) -> NoReturn:
    raise Enough


def on_core(core: int, told: argparse.Namespace) -> dict[str, Any]:
    """All that one core's process does; what it took."""
    os.sched_setaffinity(0, {core})
    work = walker(2 * last_level_cache()) if told.caches else burn
    bursts = Core(told.duty / 100, random.Random(f"{told.seed}/{core}"), work)
    began_s, cpu_ns = time.monotonic(), time.process_time_ns()
    until_s = began_s + told.seconds
    with contextlib.suppress(Enough):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        if told.only_pattern or told.pid_file:
            bursts.while_at_work(Watch(told.only_pattern, told.pid_file), until_s)
        else:
            bursts.all_the_time(until_s)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    took_s = time.monotonic() - began_s
    worked_s = bursts.worked_s if told.only_pattern or told.pid_file else None
    of_s = took_s if worked_s is None else worked_s
    return {
        "core": core,
        "seconds": round(took_s, 3),
        "bursts": bursts.bursts,
        "duty": round(bursts.burst_ns / 1e9 / of_s, 4) if of_s else None,
        "beside": round((time.process_time_ns() - cpu_ns - bursts.burst_ns) / 1e9 / took_s, 4) if took_s else 0.0,
        "worked_s": None if worked_s is None else round(worked_s, 3),
    }


# --- all of it --------------------------------------------------------------------------------------------------


def start(core: int, told: argparse.Namespace, cores: list[tuple[int, int]]) -> None:
    """Forks one core's process and notes its id, and the pipe on which it will say what it took."""
    reading, writing = os.pipe()
    parent = os.getpid()
    asked = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, asked)  # until the one can tell what it took, the other has noted it
    pid = os.fork()
    if pid:
        os.close(writing)
        cores.append((pid, reading))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, asked)
        return
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C: the parent's affair
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.signal(signal.SIGTERM, _enough)
        ends_with_its_parent()
        if os.getppid() == parent:
            os.write(writing, json.dumps(on_core(core, told)).encode())
        os._exit(0)
    except BaseException as error:
        os.write(2, f"disturb: core {core}: {error!r}\n".encode())
        os._exit(1)


def run(told: argparse.Namespace) -> int:
    """Starts the cores' processes and the command, waits for the end of either, leaves nothing; the exit code."""
    cores: list[tuple[int, int]] = []
    try:
        for core in told.cores:
            start(core, told, cores)
        if told.exec:
            return _command(told.exec, told.seconds)
        return max(_status(pid, reading) for pid, reading in cores)
    finally:
        _tell(_end(cores), told)


def _status(pid: int, reading: int) -> int:
    """Waits for the end of a core's process, whose pipe is readable then; its exit code."""
    while not (ended := os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)):
        # Python runs a signal's handler between two calls only: one that comes just before a call waits for its end.
        select.select([reading], [], [], 1.0)
    return ended.si_status


def _tell(took: Sequence[dict[str, Any]], told: argparse.Namespace) -> None:
    """What came of it, also where it was asked to end early."""
    text = json.dumps({"ordered": told.duty / 100, "seed": told.seed, "cores": took})
    if told.json:
        told.json.write_text(text + "\n")
    else:
        print(text, file=sys.stderr, flush=True)


def _command(words: Sequence[str], most_s: float) -> int:
    """Runs a command to its end, which is asked for when the time is over; its exit code."""
    process = subprocess.Popen(words, preexec_fn=lambda: ends_with_its_parent(signal.SIGTERM))
    try:
        return process.wait(most_s)
    except subprocess.TimeoutExpired:
        return 124  # as timeout(1) has it
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()


def _end(cores: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """Ends the cores' processes, and gives what they told."""
    took = []
    for pid, reading in cores:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        with os.fdopen(reading, "rb") as pipe:
            if select.select([pipe], [], [], 10.0)[0] and (text := pipe.read()):
                took.append(json.loads(text))
        os.kill(pid, signal.SIGKILL)  # its own child, not yet waited for, so the id can't have been reused
        os.waitpid(pid, 0)
    return took


def cores_of(text: str) -> tuple[int, ...]:
    """``0,1`` or ``0-3``: cores that this process may use."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            raise argparse.ArgumentTypeError(f"{text!r} is no list of cores; give one such as 0,1 or 0-3")
        found |= set(range(int(first), int(last or first) + 1))
    if missing := found - os.sched_getaffinity(0):
        raise argparse.ArgumentTypeError(
            f"cores {sorted(missing)} can't be used here; there are {sorted(os.sched_getaffinity(0))}"
        )
    return tuple(sorted(found))


def duty(text: str) -> float:
    """Per cent, 0 to 95."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 95:
        raise argparse.ArgumentTypeError(f"{text!r} is no duty; give per cent of a core from 0 to 95")
    return value


def seconds(text: str) -> float:
    """Above 0, up to a day."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; give seconds above 0, up to 86400")
    return value


def pattern(text: str) -> re.Pattern[str]:
    """A regular expression of the command line."""
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from error


def main() -> NoReturn:
    """The command line."""
    wanted = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted.add_argument("--duty", type=duty, default=20.0, help="per cent of each core's time (default 20)")
    wanted.add_argument("--seconds", type=seconds, default=60.0, help="ends by itself after so long (default 60)")
    wanted.add_argument("--cores", type=cores_of, default=tuple(sorted(os.sched_getaffinity(0))), help="default: all")
    wanted.add_argument("--seed", type=int, default=None, help="of lengths and times; default: another each time")
    wanted.add_argument("--caches", action="store_true", help="bursts walk through memory instead of counting")
    which = wanted.add_mutually_exclusive_group()
    which.add_argument("--only", metavar="WORDS", help="only while processes work whose command line has these words")
    which.add_argument("--only-pattern", type=pattern, metavar="REGEX", help="the same by a regular expression")
    which.add_argument("--pid-file", type=Path, metavar="FILE", help="the same by process ids in a file")
    wanted.add_argument("--json", type=Path, metavar="FILE", help="what it took, instead of on standard error")
    wanted.add_argument("--exec", nargs=argparse.REMAINDER, metavar="COMMAND", help="ends with it, with its exit code")
    told = wanted.parse_args()
    if told.exec is not None and not told.exec:
        wanted.error("--exec has no command behind it")
    if told.only is not None:
        told.only_pattern = re.compile(re.escape(told.only))
    if told.seed is None:
        told.seed = random.SystemRandom().randrange(1 << 32)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
    try:
        sys.exit(run(told))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
