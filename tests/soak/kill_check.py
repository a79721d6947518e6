"""What is left, and what is lost, after `kill -9` at random moments of a race? Run as root or not, on any machine.

python tests/soak/kill_check.py [--kills 100] [--seed 1] [--resume-every 10] [--minutes 12]
python tests/soak/kill_check.py --image [--kills 100]

A short race of two is started again and again. Each time one process gets SIGKILL: mostly the program itself, in turn
also a supervisor, a server's main process, or what keeps the cores awake. The moments are drawn from the seed:
evenly over the four phases (start, scrutineering, rounds, report), and within a phase evenly over what an undisturbed
race took for it.
Four of five report kills hit `dragstrip report` on the undisturbed race's store, which takes less time.

Afterwards, within 5 s: no process of the race lives (found by its session, its environment, its working folder), no
scratch folder, no cgroup, no changed resume latency of a core. The store opens and passes SQLite's integrity check,
every round that was in it before the kill still is, `dragstrip show` reads the race, a page is whole or absent; every
tenth race that was cut off is resumed. Exit status 1 if anything was left or lost.

With ``--image`` a race of two containers is killed: in turn the program, a supervisor, bubblewrap's monitor, its
process 1, and the server. Then no process or descriptor may hold a namespace of them, no mount may name their folders,
and the cache has no unfinished image once the next race has begun. A run with ``--minutes``
that ends early goes on where it ended.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from click.testing import CliRunner

from dragstrip.commands.main import cli
from dragstrip.process.supervisor import box_processes

ROOT = Path(__file__).resolve().parents[2]

PHASES = ("start", "scrutineering", "rounds", "report")
VICTIMS = ("program", "supervisor", "server", "awake")
#: Of containers: bubblewrap's own two processes too.
BOX_VICTIMS = ("program", "supervisor", "monitor", "process 1", "server")
BOX_PHASES = ("start", "scrutineering", "rounds", "scrutineering", "rounds")
#: Seconds to wait for a container that is just being started.
THERE_S = 3.0
#: Seconds after which nothing of a race may live any more.
GONE_S = 5.0
#: Seconds that a race whose supervisor or server was killed may take to end by itself.
ENDS_S = 60.0
RACE = ("race", "nginx-return", "lua", "--budget", "1s")
#: Kinds of namespaces that a container has of its own.
NAMESPACES = ("net", "pid", "mnt", "user", "ipc", "uts")
MARK = "DRAGSTRIP_KILL_CHECK"
SCRIPT, AWAKE = "supervisor.py", "keep_awake.py"


@dataclass
class Result:
    """One kill: the killed process, the phase, and what was wrong afterwards."""

    victim: str
    phase: str
    gone_s: float = 0.0
    rounds: int = 0
    resumed: bool = False
    wrong: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Process:
    """One line of /proc; ``started`` tells it from another that got its number later."""

    pid: int
    parent: int
    session: int
    started: int


def processes() -> dict[int, Process]:
    """Every process except zombies, by its id."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            words = stat.read_text().rpartition(")")[2].split()
            if words[0] not in "ZX":
                pid = int(stat.parent.name)
                found[pid] = Process(pid, int(words[1]), int(words[3]), int(words[19]))
    return found


def namespaces_of(pid: int) -> set[str]:
    """Names of a process's namespaces, like ``net:[4026531840]``; none once it is gone."""
    found = set()
    for kind in NAMESPACES:
        with suppress(OSError):
            found.add(str(Path(f"/proc/{pid}/ns/{kind}").readlink()))
    return found


def command_of(pid: int) -> str:
    """Its command line; "" once it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


class Watch:
    """Everything that one race starts, as far as it can be seen from outside.

    Args:
        pid: the program's; mark: a text that stands in its environment.
    """

    def __init__(self, pid: int, mark: str) -> None:
        self.pid, self._mark = pid, mark.encode()
        self._known: dict[int, int] = {}
        self._sessions = {pid}
        self._own_namespaces = namespaces_of(os.getpid())
        self.namespaces: set[str] = set()

    def look(self) -> dict[int, Process]:
        """All living descendants now; remembers them and their sessions."""
        now = processes()
        below: dict[int, list[Process]] = {}
        for one in now.values():
            below.setdefault(one.parent, []).append(one)
        queue, found = [self.pid], {}
        while queue:
            for one in below.get(queue.pop(), ()):
                found[one.pid] = one
                queue.append(one.pid)
        self._known |= {one.pid: one.started for one in found.values()}
        for one in found.values():
            self.namespaces |= namespaces_of(one.pid) - self._own_namespaces
        own = os.getsid(0)
        self._sessions |= {one.session for one in found.values() if one.session != own}
        return found

    def _is_ours(self, one: Process) -> bool:
        if self._known.get(one.pid) == one.started or one.session in self._sessions:
            return True
        with suppress(OSError):
            if f"/dragstrip-{self.pid}-" in str(Path(f"/proc/{one.pid}/cwd").readlink()):
                return True
        with suppress(OSError):
            return self._mark in Path(f"/proc/{one.pid}/environ").read_bytes()
        return False

    def left(self) -> list[str]:
        """What of it is still there, in words; [] once nothing is."""
        there = [
            f"process {one.pid} ({command_of(one.pid)[:80]})" for one in processes().values() if self._is_ours(one)
        ]
        there += [f"folder {path}" for path in Path("/tmp").glob(f"dragstrip-{self.pid}-*")]
        for mount in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")):
            # os.walk passes over a group that ends while it is looked at; pathlib's glob does not.
            folders = (Path(parent, name) for parent, names, _ in os.walk(mount) for name in names)
            there += [f"cgroup {path}" for path in folders if path.name.startswith(f"dragstrip-{self.pid}-")]
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        there += [f"mount {line}" for line in mounts if f"/dragstrip-{self.pid}-" in line]
        return there + (self._held() if self.namespaces else [])

    def _held(self) -> list[str]:
        """Processes of the race that hold a namespace, by their own or by a descriptor.

        Others can't: the kernel gives a namespace's number to a later one, which may be another program's.
        """
        found = []
        for one in processes().values():
            if not self._is_ours(one):
                continue
            held = namespaces_of(one.pid) & self.namespaces
            with suppress(OSError):
                for link in Path(f"/proc/{one.pid}/fd").iterdir():
                    with suppress(OSError):
                        held |= {str(link.readlink())} & self.namespaces
            found += [f"namespace {name} of process {one.pid} ({command_of(one.pid)[:80]})" for name in held]
        return found


def latencies() -> dict[str, str]:
    """The resume latency that is asked of each core: what keeps cores awake may set it and must put it back.

    {} while another race runs on this machine, which may set it for itself.
    """
    found: dict[str, str] = {}
    if any(SCRIPT in command_of(pid) for pid in processes()):
        return found
    for path in sorted(Path("/sys/devices/system/cpu").glob("cpu[0-9]*/power/pm_qos_resume_latency_us")):
        with suppress(OSError):
            found[str(path)] = path.read_text().strip()
    return found


def in_store(store: Path) -> list[tuple[str, int, bool]]:
    """Each race's id, number of rounds and whether it has ended; [] without a store. Writes nothing."""
    if not store.exists():
        return []
    sql = (
        "SELECT id, (SELECT count(*) FROM round WHERE round.race = race.id),"
        " EXISTS (SELECT 1 FROM event WHERE event.race = race.id AND kind = 'finished') FROM race"
    )
    try:
        with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=5)) as db:
            return [(name, rounds, bool(ended)) for name, rounds, ended in db.execute(sql)]
    except sqlite3.OperationalError:
        return []  # no tables yet


class Run:
    """One race in a folder of its own.

    Args:
        recorded: a store to report from, instead of a race.
        images: saved images to race, instead of programs.
    """

    def __init__(
        self, folder: Path, number: int, seed: int, recorded: Path | None = None, images: Sequence[Path] = ()
    ) -> None:
        self.store, self.page = folder / "races.sqlite", folder / "page.html"
        self.mark = f"{os.getpid()}-{number}-{seed}"
        self.log = (folder / "output").open("w+b")
        where = ("--store", str(self.store), "--html", str(self.page))
        words: tuple[str, ...] = (*RACE, "--seed", str(seed))
        if images:
            boxed = (word for number, image in enumerate(images) for word in ("--image", f"box{number}={image}"))
            words = ("race", *boxed, "--workload", "hello", "--budget", "1s", "--seed", str(seed))
        if recorded:
            shutil.copy(recorded, self.store)
            words = ("report", "last")
        self.held: list[tuple[str, int, bool]] = []
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            dragstrip(*words, *where), env={**os.environ, MARK: self.mark},
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True,
        )  # fmt: skip
        self.watch = Watch(self.process.pid, f"{MARK}={self.mark}")

    def phase(self) -> str:
        """What it is at now, by what can be seen: supervisors, a race in the store (noted in ``held``), its end."""
        if self.process.poll() is not None:
            return "ended"
        if found := in_store(self.store):
            self.held = found
            return "report" if self.held[-1][2] else "rounds"
        return "scrutineering" if any(SCRIPT in command_of(pid) for pid in self.watch.look()) else "start"

    def reach(self, phase: str) -> None:
        """Waits until it is in a phase, or past it, or at its end."""
        while (now := self.phase()) != "ended":
            if PHASES.index(now) >= PHASES.index(phase):
                return
            time.sleep(0.001)

    def told(self) -> str:
        """Its last words."""
        self.log.seek(0)
        return self.log.read().decode("utf-8", "replace")


def dragstrip(*words: str) -> list[str]:
    """The command line of the package that this interpreter has."""
    return [sys.executable, "-m", "dragstrip", *words]


def undisturbed(folder: Path, images: Sequence[Path] = ()) -> dict[str, float]:
    """Seconds of each phase of a race without kills; its store stays in the folder."""
    folder.mkdir()
    run = Run(folder, 0, 0, images=images)
    began, times = {"start": run.began}, {}
    for phase in PHASES[1:]:
        run.reach(phase)
        began[phase] = time.monotonic()
    run.process.wait(ENDS_S)
    ends = [*list(began.values())[1:], time.monotonic()]
    times = {phase: max(end - began[phase], 0.05) for phase, end in zip(PHASES, ends, strict=True)}
    run.log.close()
    return times


def pick(run: Run, victim: str, *, boxed: bool = False) -> tuple[str, int]:
    """The process to kill: the program itself where there is none of that kind just now."""
    if victim == "program":
        return victim, run.process.pid
    below = run.watch.look()
    supervisors = sorted(pid for pid in below if SCRIPT in command_of(pid))
    if boxed and victim != "supervisor":
        until = time.monotonic() + THERE_S
        while time.monotonic() < until and run.process.poll() is None:
            for monitor in sorted(one.pid for one in run.watch.look().values() if one.parent in supervisors):
                line = box_processes(monitor)
                if len(line) == 3:
                    run.watch.look()
                    return victim, line[BOX_VICTIMS.index(victim) - 2]
            supervisors = sorted(pid for pid in run.watch.look() if SCRIPT in command_of(pid))
        return "program", run.process.pid
    there = {
        "supervisor": supervisors,
        "server": sorted(one.pid for one in below.values() if one.parent in supervisors),
        "awake": sorted(pid for pid in below if AWAKE in command_of(pid)),
    }[victim]
    return (victim, there[0]) if there else ("program", run.process.pid)


def kill_report(folder: Path, number: int, dice: random.Random, recorded: Path, times: Mapping[str, float]) -> Result:
    """One `dragstrip report`, killed within the time that the program takes to start and that of a report."""
    folder.mkdir()
    run, result = Run(folder, number, number + 1, recorded), Result("program", "report")
    before, run.held = latencies(), in_store(recorded)
    time.sleep(dice.random() * (times["start"] + times["report"]))
    run.process.kill()
    if run.process.wait() != -signal.SIGKILL:
        result.phase = "ended"
    result.gone_s = await_nothing(run, result, before)
    look_into(run, result, resume=False)
    run.log.close()
    return result


def kill_once(
    folder: Path, number: int, dice: random.Random, times: Mapping[str, float], resume: bool,
    images: Sequence[Path] = (),
) -> Result:  # fmt: skip
    """One race, one kill, and everything that must hold afterwards."""
    folder.mkdir()
    wanted = PHASES[number % len(PHASES)]
    victim = dice.choices(VICTIMS, (7, 1, 1, 1))[0] if wanted in ("scrutineering", "rounds") else "program"
    if images:
        wanted = BOX_PHASES[number % len(BOX_PHASES)]
        victim = (
            "program" if wanted == "start" else BOX_VICTIMS[(number - number // len(BOX_PHASES)) % len(BOX_VICTIMS)]
        )
    before = latencies()
    run = Run(folder, number, number + 1, images=images)
    run.reach(wanted)
    time.sleep(dice.random() * times[wanted])
    phase = wanted if wanted == "report" else run.phase()  # may be over at once: no time to look
    victim, pid = pick(run, victim, boxed=bool(images))
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    result = Result(victim, phase)
    try:
        status = run.process.wait(ENDS_S)
    except subprocess.TimeoutExpired:
        run.process.kill()
        status = run.process.wait()
        result.wrong.append(f"it did not end within {ENDS_S:g} s of the {victim}'s death")
    if victim == "program" and status != -signal.SIGKILL:
        result.phase = "ended"  # it was quicker
    elif victim != "program" and (status not in (0, 1, 3) or "Traceback" in run.told()):
        result.wrong.append(f"exit status {status}: {run.told()[-300:]}")
    result.gone_s = await_nothing(run, result, before)
    look_into(run, result, resume)
    run.log.close()
    return result


def await_nothing(run: Run, result: Result, before: dict[str, str]) -> float:
    """Seconds until nothing of the race was left; what is left after 5 s goes into the result, and is ended."""
    died = time.monotonic()

    def there() -> list[str]:
        changed = [path for path, value in latencies().items() if before.get(path, value) != value]
        return [*run.watch.left(), *(f"changed {path}" for path in changed)]

    while left := there():
        if time.monotonic() - died > GONE_S:
            result.wrong += [f"left: {one}" for one in left]
            for one in left:
                if one.startswith("process "):
                    with suppress(ProcessLookupError):
                        os.kill(int(one.split()[1]), signal.SIGKILL)
            break
        time.sleep(0.02)
    return time.monotonic() - died


def look_into(run: Run, result: Result, resume: bool) -> None:
    """The store, the race and the page after the kill."""
    if run.page.exists() and not run.page.read_text(encoding="utf-8").rstrip().endswith("</html>"):
        result.wrong.append("the page is cut off")
    if not run.store.exists():
        return
    with closing(sqlite3.connect(run.store)) as db:
        if (said := db.execute("PRAGMA integrity_check").fetchone()[0]) != "ok":
            result.wrong.append(f"integrity check: {said}")
    now = {name: (rounds, ended) for name, rounds, ended in in_store(run.store)}
    for name, rounds, _ in run.held:
        if now.get(name, (-1, False))[0] < rounds:
            result.wrong.append(f"race {name} had {rounds} rounds before the kill, now {now.get(name)}")
    for name, (rounds, ended) in now.items():
        result.rounds = rounds
        shown = CliRunner().invoke(cli, ["show", name, "--store", str(run.store)])
        if shown.exit_code not in (0, 3):
            result.wrong.append(f"show: exit status {shown.exit_code}: {shown.exception!r} {shown.output[-300:]}")
        if resume and not ended:
            words = ("race", "--resume", name, "--store", str(run.store), "-q")
            said = subprocess.run(dragstrip(*words), capture_output=True, text=True, timeout=120)
            result.resumed = True
            if said.returncode not in (0, 3) or in_store(run.store)[-1][1] < max(rounds, 1):
                result.wrong.append(f"resume: exit status {said.returncode}: {said.stderr[-300:]}")


def table(results: Sequence[Result]) -> str:
    """One row per phase and victim: kills, what was left or lost, how long it took to be gone."""
    lines = ["| killed | while | kills | wrong | gone after, median / most |", "|-|-|-:|-:|-:|"]
    for (victim, phase), times in sorted(
        Counter((one.victim, one.phase) for one in results if one.phase != "ended").items()
    ):
        rows = [one for one in results if (one.victim, one.phase) == (victim, phase)]
        took = [one.gone_s for one in rows]
        wrong = sum(bool(one.wrong) for one in rows)
        lines.append(f"| {victim} | {phase} | {times} | {wrong} | {statistics.median(took):.2f} / {max(took):.2f} s |")
    kept, resumed = sum(one.rounds for one in results), sum(one.resumed for one in results)
    kills = sum(one.phase != "ended" for one in results)
    lines.append(f"\n{kills} kills; {kept} finished rounds kept and readable; {resumed} races resumed")
    return "\n".join(lines)


def check(
    kills: int, *, seed: int = 1, resume_every: int = 10, minutes: float = 12.0, say: Callable[[str], object] = print,
    times: Mapping[str, float] | None = None, recorded: Path | None = None, images: Sequence[Path] = (),
    begun: Sequence[Result] = (), keep: Callable[[Result], object] = lambda one: None,
) -> list[Result]:  # fmt: skip
    """Runs this many kills, or as many as fit into the minutes; prints each outcome.

    Args:
        times: seconds of each phase, to draw the moments from; None: an undisturbed race shows them.
        recorded: a store to report from; None: the undisturbed race's, and every fifth report is a race's own.
        images: saved images to race, instead of programs. begun: results of earlier kills. keep: gets each result.
    """
    dice, results, ends = random.Random(seed + len(begun)), list(begun), time.monotonic() + minutes * 60
    with tempfile.TemporaryDirectory() as place:
        times = times or undisturbed(Path(place) / "undisturbed", images)
        say("phases: " + ", ".join(f"{phase} {spent:.1f} s" for phase, spent in times.items()))
        cut_off, number = 0, len(begun)
        while sum(one.phase != "ended" for one in results) < kills and number < 3 * kills:
            if time.monotonic() > ends:
                say(f"stopped after {minutes:g} minutes")
                break
            due = cut_off % resume_every == resume_every - 1
            folder, own = Path(place) / str(number), Path(place) / "undisturbed" / "races.sqlite"
            if not images and PHASES[number % 4] == "report" and (recorded or number % 20 != 3):
                one = kill_report(folder, number, dice, recorded or own, times)
            else:
                one = kill_once(folder, number, dice, times, resume=due, images=images)
            number += 1
            cut_off += one.resumed or (one.phase == "rounds" and not due)
            results.append(one)
            keep(one)
            said = "; ".join(one.wrong) or "nothing left, nothing lost"
            say(f"{number:4} {one.victim} while {one.phase}, {one.rounds} rounds, {one.gone_s:.2f} s: {said}")
    return results


def made_images(place: Path) -> list[Path]:
    """Two saved images of the tests' server, which has children; other users may read them.

    Raises:
        SystemExit: no C compiler here links statically.
    """
    sys.path.insert(0, str(ROOT / "tests"))
    import images

    place.chmod(0o755)
    if (server := images.compiled_server(place / "server")) is None:
        raise SystemExit("`cc -static` does not work here: no image can be made")
    files = [place / "one.tar", place / "two.tar"]
    for file in files:
        layer = images.layer(images.entry("srv/server", server, mode=0o755), images.entry("name", file.name.encode()))
        images.save(file, [layer], Entrypoint=["/srv/server"], Cmd=["family"])
    return files


def unfinished(cache: Path) -> list[str]:
    """Images in a cache that were not unpacked whole."""
    return [str(place) for place in cache.glob("images/*/") if not (place / "image.json").exists()]


def check_images(
    kills: int, *, seed: int, minutes: float, say: Callable[[str], object] = print, state: Path | None = None,
    times: Mapping[str, float] | None = None, resume_every: int = 10,
) -> list[Result]:  # fmt: skip
    """Kills races of containers, with a cache of their own.

    Args:
        state: a file with a line for each kill; with earlier lines the check goes on.
    """
    lines = state.read_text().splitlines() if state and state.exists() else []

    def keep(one: Result) -> None:
        if state:
            with state.open("a") as file:
                file.write(json.dumps(asdict(one)) + "\n")

    with tempfile.TemporaryDirectory(prefix="kill-check-", dir="/tmp") as place:
        os.environ["DRAGSTRIP_CACHE"] = f"{place}/cache"
        results = check(
            kills, seed=seed, minutes=minutes, say=say, images=made_images(Path(place)), times=times, keep=keep,
            begun=[Result(**json.loads(line)) for line in lines], resume_every=resume_every,
        )  # fmt: skip
        last = Run(Path(place), 0, 0, images=[Path(place) / "one.tar", Path(place) / "two.tar"])
        last.process.wait(ENDS_S)
        last.log.close()
        if left := unfinished(Path(place) / "cache"):
            results[-1].wrong.append(f"left after the next race: {left}")
    return results


def main() -> None:
    """The command line."""
    wanted = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted.add_argument("--kills", type=int, default=100)
    wanted.add_argument("--seed", type=int, default=1)
    wanted.add_argument("--resume-every", type=int, default=10, help="of the races cut off within their rounds")
    wanted.add_argument("--minutes", type=float, default=12.0)
    wanted.add_argument("--image", action="store_true", help="kill races of containers")
    told = wanted.parse_args()

    def say(line: str) -> None:
        print(line, flush=True)

    if told.image:
        state = ROOT / "runs" / "killed-images.jsonl"
        state.parent.mkdir(exist_ok=True)
        results = check_images(told.kills, seed=told.seed, minutes=told.minutes, say=say, state=state)
        print(table(results))
        if sum(one.phase != "ended" for one in results) < told.kills:
            sys.exit("too few kills yet: start it again, and it continues")
        state.unlink()
        sys.exit(1 if any(one.wrong for one in results) else 0)
    results = check(told.kills, seed=told.seed, resume_every=told.resume_every, minutes=told.minutes, say=say)
    print(table(results))
    sys.exit(1 if any(one.wrong for one in results) else 0)


if __name__ == "__main__":
    main()
