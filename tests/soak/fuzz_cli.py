"""Command lines and definition files at random: no traceback, no hang beyond 5 s, always an exit code that is known.

``make fuzz-cli``, or ``tests/soak/fuzz_cli.py --lines 1000 --files 1000 --seed 1``. Command lines are made from the
commands' own options with fitting and unfitting values; files are shipped definitions with random damage. Most run in
this process, under an alarm; a sample runs as processes, as a user runs them. Nothing is installed and no race of two
good contenders is run: what a command line can start is one that is refused, or a short load on a server of our own.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import click

from dragstrip.commands import main as cli_main
from dragstrip.commands.streams import EXIT_OURS
from dragstrip.store.database import Store

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "src" / "dragstrip" / "data"
CLAIMS = DATA.parent / "extras" / "claims" / "data"

#: Time limit for one command in this process; more for a separate process's start on a busy machine.
MAX_S, START_S = 5.0, 5.0

#: Those that ask some forty programs for their versions, which takes as long as it takes.
ASKING, ASKING_S = (["claims"], ["contenders"]), 60.0

#: Exit codes that commands have: done, failed, refused, void, interrupted.
KNOWN = (0, 1, 2, 3, 130)

#: Nonsense values, and values that a user might give.
ODD = [
    "", " ", "-", "--", "-1", "0", "1", "2", "17", "1e9", "nan", "inf", "-inf", "9" * 20, "9" * 5000, "0x10", "١٢",
    "x", "é", "💥", "\x1b[2J", "a\nb", "../../../etc/passwd", "/", "/proc", "/proc/self/mem", "/dev/null", "/dev/zero",
    "/nonexistent/x", ".", "..", "~", "*", "$HOME", "a=b", "=", ":", "::", "a:b", "nginx-return:workers=", "node:x=1",
    "mine=", "=node", "http://", "http://127.0.0.1:9/", "http://[::1]:9/", "http://example.org/", "unix:/x", "1k:2k:3",
    "1k:10s", "p99=5ms", "p50=0", "100%", "-5%", "1.0", "10%", "5ms", "0.1s", "1us", "9" * 400 + "h", "+2m", "last",
    "000000000001", "0" * 12, "None", "true", "[]", "{}", "{port}", "mine=sleep {port}", "mine=/bin/false {port}",
    "a" * 300, "a/" * 2000, "hello", "multiply", "default", "auto", "epoll", "slower:3%", "K: V", "K", "@/dev/zero",
]  # fmt: skip

#: Flags that other tools have, beside those of the command.
FOREIGN = ["--vus", "--qps", "--warmup", "--runs", "--export-json", "--name", "-q", "-z", "-w", "--http2", "--no-such"]

#: Never given: they would install something, listen for good, or run until the budget ends.
NEVER = {"--yes", "--line-up", "--all", "--everything", "--null-race"}

#: Subcommands that end the process that they run in: ours.
ENDS_ITS_PROCESS = {"agent"}

#: Commands that would start a server or measure for long if all they were given was right: one word of theirs is not.
SPOILED = {"race": "nobody", "sweep": "nobody", "verify": "nobody", "install": "nobody", "doctor": "--no-such"}
SPOILED |= {"serve": "--no-such", "rerun": "/nonexistent"}


class Late(BaseException):
    """The alarm: a command took longer than it may."""


@dataclass
class Findings:
    """What came of all; ``faults`` is what must not be."""

    codes: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    slowest_s: float = 0.0
    slowest: str = ""

    def took(self, words: list[str], code: int, said: str, spent_s: float, bound_s: float) -> None:
        """Judges one command by its exit code, its words and its time."""
        self.codes[code] += 1
        shown = " ".join(f"{word!r:.80}" for word in words)
        if spent_s > self.slowest_s:
            self.slowest_s, self.slowest = spent_s, shown
        if "Traceback (most recent" in said:
            self.faults.append(f"traceback: {shown}\n{said[-2000:]}")
        elif code == EXIT_OURS:
            self.faults.append(f"not foreseen: {shown}\n{said[-600:]}")
        elif code not in KNOWN:
            self.faults.append(f"exit code {code}: {shown}\n{said[-600:]}")
        if spent_s > bound_s:
            self.faults.append(f"took {spent_s:.1f} s: {shown}")
        if code == 2 and not said.strip():
            self.faults.append(f"refused without a word: {shown}")


def line(rng: random.Random, place: Path, url: str) -> list[str]:
    """A random command line."""
    name = rng.choice(sorted(cli_main.COMMANDS))
    command = cli_main.cli.get_command(click.Context(cli_main.cli), name)
    assert command is not None
    words, odd = [name], rng.choice((0.0, 0.1, 0.5))
    if isinstance(command, click.Group) and rng.random() < 0.7:
        sub = rng.choice(sorted(set(command.commands) - ENDS_ITS_PROCESS))
        command, words = command.commands[sub], [*words, sub]
        if sub == "check":
            words.append("nobody")
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            if rng.random() < 0.8:
                words += [_value(rng, parameter, place, url, odd) for _ in range(rng.choice((1, 1, 2, 3)))]
        elif rng.random() < 0.12 and not set(parameter.opts) & NEVER:
            words.append(rng.choice([*parameter.opts, *parameter.secondary_opts]))
            if not (isinstance(parameter, click.Option) and parameter.is_flag):
                words += [_value(rng, parameter, place, url, odd) for _ in range(parameter.nargs)]
    if rng.random() < 0.06:
        words.insert(rng.randint(1, len(words)), rng.choice(FOREIGN))
    if rng.random() < 0.04:
        words.insert(rng.randint(1, len(words)), rng.choice(["--help", "--version", "-h"]))
    if name == "load":
        words += ["-d", "100ms", "--timeout", "300ms"]
    if name in SPOILED:
        words.append(SPOILED[name])
    return [word for word in words if "\0" not in word]


def _value(rng: random.Random, parameter: click.Parameter, place: Path, url: str, odd: float) -> str:
    """A value that may fit; with a probability of ``odd`` one that hardly does."""
    if rng.random() < odd:
        return rng.choice(ODD)
    kind = parameter.type
    if isinstance(kind, click.Choice):
        return str(rng.choice(list(kind.choices)))
    if isinstance(kind, click.types.IntParamType):
        return str(rng.choice([1, 2, 3, 10, 32, 1000]))
    if parameter.name == "url":
        return url
    if parameter.name in ("run", "old", "new"):
        return rng.choice(["last", "000000000001", "000000000002", "00000000000", str(place / "good.race")])
    if parameter.name == "store_path":
        return str(place / rng.choice(["races.sqlite", "races.sqlite", "none.sqlite"]))
    if kind.name in ("path", "file", "directory"):
        kinds = ("json", "html", "csv", "hgrm", "race", "xml", "svg", "prom")
        return str(place / f"{rng.randrange(10**6)}.{rng.choice(kinds)}")
    if kind.name in ("duration", "share", "rate", "count", "objective", "rates", "ramp", "steps", "header", "rule"):
        fitting = {
            "duration": "50ms",
            "share": "5%",
            "rate": "500",
            "count": "20",
            "objective": "p99=5ms",
            "rates": "1k:2k:3",
        }
        fitting |= {"ramp": "100:500", "steps": "100:50ms,200:50ms", "header": "K: V", "rule": "slower:3%"}
        return fitting[kind.name]
    return rng.choice(["last", "000000000001", "1", "10", "1ms", "5%", "1k", "1k:2k", "K: V", "x", "tornado"])


def damaged(rng: random.Random, text: str) -> bytes:
    """A file's text with one to four faults."""
    lines = text.splitlines(keepends=True)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(lines)) if lines else 0
        fault = rng.randrange(9)
        if fault == 0 and lines:
            del lines[at]
        elif fault == 1 and lines:
            lines.insert(rng.randrange(len(lines)), lines[at])
        elif fault == 2 and lines and "=" in lines[at]:
            key = lines[at].partition("=")[0]
            lines[at] = f"{key} = {rng.choice(VALUES)}\n"
        elif fault == 3 and lines and ":" in lines[at]:
            lines[at] = lines[at].replace(":", rng.choice([":" + rng.choice(VALUES), "", "::"]), 1)
        elif fault == 4:
            lines.insert(at, rng.choice(["[", "]", "[[request]]\n", "[a.b.c]\n", "x = 1\n", "\ufeff", "{", '"""', "'"]))
        elif fault == 5 and lines:
            cut = rng.randrange(len(lines[at]) + 1)
            lines[at] = (
                lines[at][:cut] + rng.choice(["\x00", "é", "{port}", "{nobody}", "\\u0000", '"']) + lines[at][cut:]
            )
        elif fault == 6:
            lines = lines[: at + 1]
        elif fault == 7:
            lines.insert(
                at, rng.choice(["a = " + "[" * 5000, "a = " + "9" * 5000, "a." * 3000 + "b = 1", "#" * 100_000]) + "\n"
            )
        elif lines:
            lines[at] = lines[at].swapcase()
    data = "".join(lines).encode()
    if rng.random() < 0.1 and data:
        at = rng.randrange(len(data))
        data = data[:at] + bytes(rng.randrange(256) for _ in range(8)) + data[at:]
    return data


#: In place of a definition's value.
VALUES = [
    '""', '"x"', "1", "-1", "0", "1e400", "nan", "inf", "true", "[]", "[1]", '["x"]', "{}", "{ a = 1 }", "9" * 30,
    "1979-05-27",
    '"{port}"', '"{nobody}"', '"{"', '"("', '"(a+)+$"', '["", ""]', '"/etc/passwd"', '"../../x"',
    '["../../../../etc/passwd"]',
    '"\\u0000"', "null", '"\\ud800"', "[[[[[[]]]]]]", '"' + "a" * 10_000 + '"', '["{scratch}/x", "{port}"]',
]  # fmt: skip


def seeds() -> dict[str, list[tuple[str, str]]]:
    """Good files by kind: name and text."""
    pools = [
        ("pool.toml", '[[request]]\npath = "/a?b=1"\nanswer = "hello"\n\n[[request]]\nmethod = "POST"\nbody = "x"\n'),
        ("pool.jsonl", '{"path": "/a"}\n{"path": "/b", "headers": {"K": "V"}, "status": 200, "answer": "x"}\n'),
    ]  # fmt: skip
    return {
        "contender": [(f"{f.parent.name}.toml", f.read_text()) for f in sorted(DATA.glob("contenders/*/*.toml"))],
        "workload": [(f.name, f.read_text()) for f in sorted(DATA.glob("workloads/*.toml"))],
        "claim": [(f.name, f.read_text()) for f in sorted(CLAIMS.glob("*.toml"))],
        "pool": pools,
    }  # fmt: skip


def file_line(rng: random.Random, good: dict[str, list[tuple[str, str]]], place: Path, url: str) -> list[str]:
    """Writes a damaged file, and the command that reads it, which is also made unable to start anything."""
    kind = rng.choice([*sorted(good), "export"])
    if kind == "export":
        data = bytearray((place / "good.race").read_bytes())
        for _ in range(rng.randint(1, 20)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        (place / "bad.race").write_bytes(data[: rng.choice((len(data), rng.randrange(len(data))))])
        return [*rng.choice([["import"], ["show"], ["compare", "last"]]), str(place / "bad.race")]
    name, text = rng.choice(good[kind])
    file = place / f"{kind}-{name}"
    file.write_bytes(damaged(rng, text))
    return {
        "contender": ["race", str(file), "nobody"],
        "workload": ["race", "nobody", "--workload", str(file)],
        "claim": ["claims", "check", str(file), "nobody"],
        "pool": ["load", url, "--pool", str(file), "-c", "2", "-n", "60", "-d", "100ms", "--timeout", "300ms"],
    }[kind]


def in_process(words: list[str], found: Findings) -> None:
    """One command line in this process, with an alarm; a late one is tried again: the machine may have been busy."""
    code, said, spent_s = _tried(words)
    bound_s = ASKING_S if words[:1] in ASKING else MAX_S
    if spent_s > bound_s:
        bound_s *= slowdown()
        code, said, spent_s = min((code, said, spent_s), _tried(words), key=lambda one: one[2])
    found.took(words, code, said, spent_s, bound_s)


def slowdown() -> float:
    """How many times slower than alone this machine runs now: the time of a small process over its CPU time."""
    before, began = os.times(), time.monotonic()
    subprocess.run([sys.executable, "-c", "import decimal, json, email.message"], check=True)
    after, spent_s = os.times(), time.monotonic() - began
    worked_s = after.children_user + after.children_system - before.children_user - before.children_system
    return max(1.0, spent_s / max(worked_s, 0.01))


def _tried(words: list[str]) -> tuple[int, str, float]:
    out, err = _Text(), _Text()

    def ring(_number: int, _frame: object) -> None:
        raise Late

    before = signal.signal(signal.SIGALRM, ring)
    began = time.monotonic()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            signal.setitimer(signal.ITIMER_REAL, ASKING_S, 0.5)
            code = cli_main.run(words)
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Late:
        code = EXIT_OURS
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return code, out.text() + err.text(), time.monotonic() - began


class _Text(io.TextIOWrapper):
    """A stream as strict about what it encodes as a terminal's, kept in memory."""

    def __init__(self) -> None:
        self._kept = io.BytesIO()
        super().__init__(self._kept, encoding="utf-8", errors="surrogateescape", write_through=True)

    def text(self) -> str:
        """All that was written."""
        self.flush()
        return self._kept.getvalue().decode("utf-8", "replace")


def _fill(place: Path) -> None:
    """Two stored races, an export of one, and a race that no command can read."""
    sys.path.insert(0, str(ROOT / "tests"))
    import samples

    with Store(place / "races.sqlite") as store:
        store.begin(samples.race(seed=1, rounds=11))
        store.begin(samples.race({"quick": 4e4, "<b>`slow`": 3e4, "third": 2e4}, seed=2, rounds=11))
        store.export_race("000000000001", place / "good.race")
    with samples.unguarded(place / "races.sqlite") as db:
        columns = [row[1] for row in db.execute("PRAGMA table_info(race)")]
        odd = {"id": "'00000000000f'", "started": "'2030-01-01T00:00:00+00:00'", "planned_rounds": "'x'"}
        told = ", ".join(odd.get(name, name) for name in columns)
        db.execute(f"INSERT INTO race SELECT {told} FROM race WHERE id = '000000000001'")


def as_process(words: list[str], found: Findings, env: dict[str, str]) -> None:
    """One command line as a user runs it."""
    bound_s = (MAX_S + START_S) * slowdown()
    began = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "dragstrip", *words], env=env, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=max(bound_s, ASKING_S), check=False,
        )  # fmt: skip
        code, said = done.returncode, (done.stdout + done.stderr).decode("utf-8", "replace")
    except subprocess.TimeoutExpired as late:
        code, said = EXIT_OURS, str(late)
    found.took(words, code, said, time.monotonic() - began, bound_s)


_SERVER = """
import http.server, sys
class One(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "5"); self.end_headers(); self.wfile.write(b"hello")
    do_POST = do_PUT = do_HEAD = do_GET
    def log_message(self, *words): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), One)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@contextlib.contextmanager
def stand(place: Path) -> Iterator[str]:
    """A folder of our own as home, store and cache, and a small server in a process of its own; gives its URL."""
    own = {
        "DRAGSTRIP_STORE": str(place / "races.sqlite"),
        "XDG_STATE_HOME": str(place / "state"),
        "XDG_DATA_HOME": str(place / "data"),
        "COLUMNS": "100",
        "NO_COLOR": "1",
    }
    before, here, stdin = dict(os.environ), Path.cwd(), sys.stdin
    os.environ.update(own)
    os.chdir(place)  # what a random path names is made here
    _fill(place)
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        with Path(os.devnull).open(encoding="utf-8") as nothing:
            sys.stdin = nothing
            assert server.stdout is not None
            yield f"http://127.0.0.1:{int(server.stdout.readline())}/"
    finally:
        sys.stdin = stdin
        server.kill()
        server.communicate()
        os.chdir(here)
        os.environ.clear()
        os.environ.update(before)


def fuzz(*, lines: int, files: int, processes: int, seed: int, say: Callable[[str], None] = lambda _: None) -> Findings:
    """Runs these numbers of each kind from one seed; the same seed gives the same commands."""
    rng, found, good = random.Random(seed), Findings(), seeds()
    place = Path(tempfile.mkdtemp(prefix="dragstrip-fuzz-"))
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    try:
        with stand(place) as url:
            made = [line(rng, place, url) for _ in range(lines)]
            for number, words in enumerate(made, 1):
                in_process(words, found)
                if number % 100 == 0:
                    say(f"{number} command lines, {len(found.faults)} faults")
            for number in range(1, files + 1):
                in_process(file_line(rng, good, place, url), found)
                if number % 100 == 0:
                    say(f"{number} files, {len(found.faults)} faults")
            for words in rng.sample(made, min(processes, len(made))):
                as_process(words, found, dict(os.environ))
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
        shutil.rmtree(place, ignore_errors=True)
    return found


def main() -> None:
    """The command line of this program."""
    asked = argparse.ArgumentParser(description=__doc__)
    for name, usual in (("lines", 1000), ("files", 1000), ("processes", 40), ("seed", 1)):
        asked.add_argument(f"--{name}", type=int, default=usual)
    words = asked.parse_args()
    began = time.monotonic()
    found = fuzz(
        lines=words.lines, files=words.files, processes=words.processes, seed=words.seed,
        say=lambda text: print(text, file=sys.stderr, flush=True),
    )  # fmt: skip
    for fault in found.faults:
        print(fault, "\n")
    told = {"seed": words.seed, "lines": words.lines, "files": words.files, "processes": words.processes}
    told |= {"exit codes": dict(sorted(found.codes.items())), "faults": len(found.faults)}
    told |= {"slowest_s": round(found.slowest_s, 2), "spent_s": round(time.monotonic() - began)}
    print(json.dumps(told))
    print(f"slowest: {found.slowest[:300]}")
    sys.exit(1 if found.faults else 0)


if __name__ == "__main__":
    main()
