"""Templates, workloads, pools, scripts, claims, races and suites' entries at random, read in a jail.

``tests/soak/fuzz_files.py --cases 10000 --seed 1 [--record]``. Each worker is a process whose file system is read-only
but for its scratch folder (a mount namespace), and which the kernel kills if it starts another process (seccomp). An
audit hook reports each attempt to write elsewhere, to start a program or to connect. A case may take 2 s of CPU time
and 500 MB of addresses beside what the modules take, and ends with a result or a refusal of ours.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import platform
import random
import re
import resource
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import textwrap
import time
import zlib
from collections import Counter
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import pages

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "evidence" / "tests.md"

MAX_CPU_S, MAX_BYTES = 2.0, 500 * 2**20

#: execve, execveat, fork, vfork; clone; by machine.
SYSTEM_CALLS = {"x86_64": ((59, 322, 57, 58), 56), "aarch64": ((221, 281), 220)}
CLONE3, CLONE_THREAD = 435, 0x10000
KILL, ALLOW, NO_SUCH_CALL = 0x80000000, 0x7FFF0000, 0x00050026

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def enclose(place: Path) -> None:
    """Makes all but one folder read-only, for this process alone."""
    user = 0 if os.geteuid() == 0 else 0x10000000
    _checked(_libc.unshare(0x00020000 | user), "unshare")
    _checked(_libc.mount(None, b"/", None, 0x4000 | 0x40000, None), "private mounts")
    where = str(place).encode()
    _checked(_libc.mount(where, where, None, 0x1000, None), "bind")
    for path, flags, on, off in ((b"/", 0x8000, 1, 0), (where, 0, 0, 1)):
        wanted = struct.pack("QQQQ", on, off, 0, 0)
        _checked(_libc.syscall(442, -100, path, flags, wanted, ctypes.c_size_t(len(wanted))), "mount_setattr")


def forbid_processes() -> None:
    """From now on the kernel kills this process if it starts another one; threads are allowed."""
    ends, clone = SYSTEM_CALLS[platform.machine()]
    program = [(0x20, 0, 0, 0)]
    for number in ends:
        program += [(0x15, 0, 1, number), (0x06, 0, 0, KILL)]
    program += [(0x15, 0, 1, CLONE3), (0x06, 0, 0, NO_SUCH_CALL)]
    program += [(0x15, 0, 3, clone), (0x20, 0, 0, 16), (0x45, 1, 0, CLONE_THREAD), (0x06, 0, 0, KILL)]
    program += [(0x06, 0, 0, ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
    _checked(_libc.prctl(38, 1, 0, 0, 0), "no new privileges")
    _checked(_libc.prctl(22, 2, header, 0, 0), "seccomp")


def watch(place: Path, seen: list[str]) -> None:
    """Notes each attempt to write outside of a folder, to start a program, or to connect."""
    writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    changes = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod")
    starts = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "pty.spawn")

    def hook(event: str, args: tuple[object, ...]) -> None:
        if event in starts or event == "socket.connect":
            seen.append(f"{event} {args!r:.200}")
            return
        written = (event == "open" and isinstance(args[2], int) and args[2] & writes) or event in changes
        if written and isinstance(args[0], (str, bytes, os.PathLike)):
            path = Path(os.path.realpath(os.fsdecode(args[0])))
            if not path.is_relative_to(place) and path != Path(os.devnull):
                seen.append(f"{event} {path}")

    sys.addaudithook(hook)


#: What templates are made of: names that there are, ways out of a sandbox, and large things.
ATOMS = [
    "a", "b", "items", "rows", "mark", "loop.index", "1", "7", "0", "-1", "2.5", "'x'", "'é' ", "true", "none", "[]",
    "[1, 2]",
    "range(3)", "range(1000000000)", "range(2000)", "range(a)", "9" * 400, "'" + "y" * 500 + "'", "cycler", "lipsum",
    "self", "namespace()",
    "''.__class__.__mro__", "cycler.__init__.__globals__.os.popen('id').read()", "rows[0].id", "items[-1]", "items[1:]",
    "range.__self__", "10 ** 10 ** 10", "'a' * 20000000000", "joiner('x')", "dict(a=1)", "{'a': 1}", "request", "_",
]  # fmt: skip
OPERATORS = ["+", "-", "*", "/", "//", "%", "~", "**", "==", "<", "in", "not in", "and", "or", "is", "|", "."]
FILTERS = ["join", "length", "upper", "int", "center(10000000000)", "attr('__class__')", "format(1)", "urlencode",
           "abs", "string", "map('upper')", "tojson", "join('-')", "batch(1)", "replace('a', 'b')"]  # fmt: skip


def expression(rng: random.Random, depth: int = 0) -> str:
    """A random expression, of which some are valid."""
    chance = rng.random()
    if depth > 4 or chance < 0.4:
        return rng.choice(ATOMS)
    if chance < 0.65:
        return f"{expression(rng, depth + 1)} {rng.choice(OPERATORS)} {expression(rng, depth + 1)}"
    if chance < 0.8:
        return f"({expression(rng, depth + 1)}) | {rng.choice(FILTERS)}"
    if chance < 0.9:
        parts = [expression(rng, depth + 1) for _ in range(3)]
        return f"({parts[0]} if {parts[1]} else {parts[2]})"
    return f"({expression(rng, depth + 1)})[{expression(rng, depth + 1)}]"


def template(rng: random.Random, depth: int = 0) -> str:
    """A random template."""
    found = ""
    for _ in range(rng.randint(1, 4)):
        kind = rng.randrange(7 if depth < 4 else 2)
        if kind == 0:
            found += rng.choice(["text", "{", "}", "\n", "{#", "#}", "é", "{% raw %}{{ a }}{% endraw %}", "x" * 1000])
        elif kind < 4:
            found += "{{ " + expression(rng) + " }}"
        elif kind == 4:
            found += "{% if " + expression(rng) + " %}" + template(rng, depth + 1) + "{% else %}y{% endif %}"
        elif kind == 5:
            found += "{% for i in " + expression(rng) + " %}" + template(rng, depth + 1) + "{% endfor %}"
        else:
            found += rng.choice(
                ["{% include '/etc/passwd' %}", "{% set x = 1 %}", "{% import 'os' as os %}", "{% macro m() %}"]
            )
    if depth == 0 and rng.random() < 0.02:
        found += rng.choice(["(", "{{ " + "(" * 9000, "{{ " + "-" * 9000 + "1 }}", "{% if 1 %}" * 3000])
    return found


VALUES: dict[str, Any] = {"a": 7, "b": "text", "items": [1, 2, 3], "rows": [{"id": 1, "name": "x"}], "mark": "mark"}

SCRIPTS = [
    'wrk.method = "POST"\nwrk.body = "a=1"\nwrk.headers["K"] = "v"\n',
    "local n = 0\nfunction request()\n n = n + 1\n return wrk.format(nil, '/' .. n)\nend\n",
    "function setup(thread)\n thread:set('id', 1)\nend\n"
    "function init(args)\n local t = {}\n for i = 1, 100 do t[i] = i end\nend\n",
    "function response(status, headers, body)\n if status ~= 200 then print(status) end\nend\n"
    "function delay() return 5 end\n",
    "function done(summary, latency, requests)\n io.write(string.format('%d\\n', summary.requests))\nend\n",
]  # fmt: skip


#: Words in the files of entries that try to be something else.
ODD_WORDS = [
    '"\\"\\n[start]\\ncommand = [\\"sh\\"]\\n"',
    '"{port}"',
    '"{{ 9 }}"',
    '"\\u0000"',
    '"\\u001b[31m"',
    '"\\u2028"',
    "null",
    "[]",
    "{}",
    "-1",
    "1e999",
    "99999999999999999999",
    '"../../etc/passwd"',
    '"/dev/zero"',
    '"a b"',
    '"A"',
    '"%"',
    "true",
    '"' + "x" * 300 + '"',
    '"\\ud800"',
    '"#"',
    '"\'"',
    '"="',
    '"/é"',
    '"/a b"',
    '"$(touch /tmp/evil)"',
    '"\\\\"',
]


class Cases:
    """Every kind of file, written into a folder and read as a command reads it."""

    def __init__(self, place: Path) -> None:
        sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]
        import fuzz_cli
        import samples

        from dragstrip.contender import commands, find
        from dragstrip.contender.template import render
        from dragstrip.extras.claims import contenders, definition
        from dragstrip.extras.suites import suite_entries, suites
        from dragstrip.loading import request_pool
        from dragstrip.racing.request import request_of
        from dragstrip.report.race import export
        from dragstrip.report.race.summary import JudgedRace
        from dragstrip.store import export_file
        from dragstrip.store.database import Store
        from dragstrip.workload import load

        self.place, self.seeds, self.damaged = place, fuzz_cli.seeds(), fuzz_cli.damaged
        self.store, self.render, self.load, self.pool = Store, render, load, request_pool.read_pool
        self.claim, self.everyone, self.commands = definition.load, contenders.everyone, commands
        self.suites, self.definition, self.find = suites.read_all, suite_entries.definition, find
        self.request_of, self.export, self.digest = request_of, export.race_json, export_file._digest
        self.unguarded = samples.unguarded
        self.judged = JudgedRace.of
        with Store(place / "good.sqlite") as store:
            store.begin(samples.race(seed=1, rounds=5))
            store.export_race("000000000001", place / "good.race")
        self.kinds: dict[str, Callable[[random.Random], object]] = {
            "template": lambda rng: self.render(template(rng), VALUES),
            "workload": self.workload,
            "pool": self.a_pool,
            "script": self.script,
            "claim": self.a_claim,
            "race": self.race,
            "entry": self.entry,
        }

    def _written(self, rng: random.Random, kind: str, name: str, text: str) -> Path:
        file = self.place / f"{kind}-{name}"
        file.write_bytes(self.damaged(rng, text) if rng.random() < 0.7 else text.encode("utf-8", "replace"))
        return file

    def workload(self, rng: random.Random) -> object:
        """A shipped one with a random template, random figures and damage."""
        name, text = rng.choice(self.seeds["workload"])
        for _ in range(rng.randint(0, 2)):
            lines = text.splitlines(keepends=True)
            at = [
                n
                for n, line in enumerate(lines)
                if line.startswith(("body =", "path =", "content =", "count =", "rows ="))
            ]
            if at:
                one = rng.choice(at)
                key = lines[one].partition("=")[0]
                wide = str(rng.choice([1, 9999, 10000, 50000, 10**12]))
                lines[one] = f"{key}= {wide if key.strip() in ('count', 'rows') else json.dumps(template(rng))}\n"
            text = "".join(lines)
        if rng.random() < 0.2:
            named = rng.choice(["/dev/zero", "/etc/passwd", "../x", "good.race", "/proc/self/mem"])
            text = text.replace("[answer]", f'body_file = "{named}"\n[answer]', 1)
        return self.load(self._written(rng, "workload", name, text))

    def a_pool(self, rng: random.Random) -> object:
        """In both forms, with files of others named."""
        name, text = rng.choice(self.seeds["pool"])
        if rng.random() < 0.3:
            named = rng.choice(["/dev/zero", "/etc/shadow", "../../x", "good.race", "."])
            text = text.replace('body = "x"', f'body_file = "{named}"').replace(
                '"answer": "x"', f'"answer_file": "{named}"'
            )
        return self.pool(self._written(rng, "pool", name, text))

    def script(self, rng: random.Random) -> object:
        """One that does nothing but what wrk's do, damaged: what it says in Lua it may do."""
        from dragstrip import _engine as engine
        from dragstrip.errors import BadUsage, ScriptError

        text = self.damaged(rng, rng.choice(SCRIPTS))
        try:
            return engine.Script(
                "s.lua", text, scheme="http", host="127.0.0.1", port="9", path="/", method="GET", headers=[], body=None,
                args=["http://127.0.0.1:9/"], address=(ip_address("127.0.0.1"), 9), workers=1, done_elsewhere=False,
            )  # fmt: skip
        except ScriptError as error:
            raise BadUsage(str(error)) from error

    def a_claim(self, rng: random.Random) -> object:
        """What it would run is listed, and not run."""
        name, text = rng.choice(self.seeds["claim"])
        if rng.random() < 0.5:
            text += '\n[serve]\n"evil" = "touch /tmp/evil {port}"\n'
            text = text.replace("contenders = [", 'contenders = ["evil", ', 1)
        found = self.claim(self._written(rng, "claim", name, text))
        return [self.commands(one) for one in self.everyone(found, ("published", "fair"))]

    def race(self, rng: random.Random) -> object:
        """An export in which anything was changed, and the seal computed again; then imported, judged and listed."""
        file, target = self.place / "bad.race", self.place / "target.sqlite"
        shutil.copyfile(self.place / "good.race", file)
        target.unlink(missing_ok=True)
        if rng.random() < 0.25:
            data = bytearray(file.read_bytes())
            for _ in range(rng.randint(1, 20)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            file.write_bytes(data)
        else:
            with contextlib.suppress(sqlite3.Error):
                self._changed(rng, file)
        with self.store(target) as store:
            race = store.load(store.import_race(file))
            self.export(self.judged(race))
            return [self.commands(one) for one in self.request_of(race).entries]

    def entry(self, rng: random.Random) -> object:
        """An entry of a suite; a definition that it becomes must be valid, and has no key of the entry's own."""
        from dragstrip.errors import BadDefinition, BadUsage

        files = sorted((ROOT / "tests" / "suites").rglob("*.json"))
        chosen, folder = rng.choice(files), self.place / "entry"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(chosen.parent, folder)
        text = chosen.read_text(encoding="utf-8")
        for _ in range(rng.randint(0, 3)):
            word = rng.choice(re.findall(r'"[^"]*"|\d+', text) or ["{"])
            text = text.replace(word, rng.choice(ODD_WORDS), 1)
        damaged = self.damaged(rng, text) if rng.random() < 0.3 else text.encode("utf-8", "replace")
        (folder / chosen.name).write_bytes(damaged)
        found = self.suites(folder, ("tfb-json", "tfb-plaintext", "tfb-db", "arena-baseline", "arena-json-tls"))
        for entry in found.entries:
            file = self.place / "definition.toml"
            file.write_text(self.definition(entry, "auto"), encoding="utf-8")
            try:
                made = self.find(str(file)).fields
            except BadDefinition as error:
                raise AssertionError(f"a definition is not valid: {error}") from error
            if made.start.command or made.build or made.name != entry.name:
                raise AssertionError(f"an entry has put a key into its definition: {made}")
        if not found.entries:
            raise BadUsage("nothing is imported")
        return found

    def _changed(self, rng: random.Random, file: Path) -> None:
        odd = [
            0, -1, 2**62, 1e308, "", "x", "{}", "[]", "[" * 2000, '{"a": 1}', "serve", "url", "definition", b"\0" * 50,
            None,
            '{"command": "touch /tmp/evil {port}", "folder": "/"}', '{"url": "http://127.0.0.1:22/"}',
            "../../etc/passwd",
            '{"program:python": "/tmp/evil"}', b"\x1c\x84\x93\x04\0\0\0\0" + zlib.compress(bytes(2**23)), "hello",
            "a" * 10**6,
            json.dumps({"k": {"requests": 1, "failed": 0, "latency_sum_ns": 1, "latency_hdr": "eA=="}}),
        ]  # fmt: skip
        with self.unguarded(file) as db:
            for _ in range(rng.randint(1, 3)):
                table = rng.choice(("race", "column", "contender", "round", "launch", "block", "event"))
                column = rng.choice([row[1] for row in db.execute(f"PRAGMA table_info({table})")])
                some = "" if rng.random() < 0.5 else " WHERE rowid % 3 = 0"
                with contextlib.suppress(sqlite3.Error):
                    db.execute(f'UPDATE {table} SET "{column}" = ?{some}', (rng.choice(odd),))
            if rng.random() < 0.1:
                db.execute(rng.choice([
                    "CREATE VIEW v AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c",
                    "CREATE TRIGGER t BEFORE INSERT ON block BEGIN DELETE FROM race; END", "CREATE TABLE other (a)",
                ]))  # fmt: skip
            race = db.execute("SELECT id FROM race").fetchone()[0]
            db.execute("UPDATE seal SET sha256 = ?, race = ?", (self.digest(db, race), race))


class Late(BaseException):
    """The alarm: a case took five times what it may."""


def worker(place: Path, seed: int, first: int, last: int, step: int, prove: str) -> None:
    """Runs its share of the cases; tells each before it begins, and what came of it."""
    import signal

    from dragstrip.errors import DragstripError

    seen: list[str] = []
    os.chdir(place)
    cases = Cases(place)
    for kind in ("workload", "pool", "script", "claim", "race"):  # modules that are loaded late
        with contextlib.suppress(DragstripError):
            cases.kinds[kind](random.Random(1))
    enclose(place)
    forbid_processes()
    watch(place, seen)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MAX_BYTES,) * 2)

    def late(_number: int, _frame: object) -> None:
        raise Late

    signal.signal(signal.SIGPROF, late)
    for number in range(first, last, step):
        rng = random.Random(f"{seed} {number}")
        kind = prove or rng.choice(list(cases.kinds))
        print(json.dumps({"begins": number, "kind": kind}), flush=True)
        began, how, said = time.process_time(), "fault", ""
        signal.setitimer(signal.ITIMER_PROF, 5 * MAX_CPU_S)
        try:
            if prove == "process":
                os.system("true")
            elif prove == "file":
                Path(place).parent.joinpath("outside").write_text("x")
            else:
                cases.kinds[kind](rng)
            how = "read"
        except DragstripError as error:
            how, said = "refused", str(error)[:100]
        except BaseException as error:  # whatever it is, it is what this program looks for
            said = f"{type(error).__name__}: {error}"[:300]
        signal.setitimer(signal.ITIMER_PROF, 0)
        spent_s = time.process_time() - began
        if spent_s > MAX_CPU_S:
            how, said = "fault", f"took {spent_s:.1f} s of CPU time; {said}"
        if seen:
            how, said = "fault", "; ".join(seen)
            seen.clear()
        print(json.dumps({"ended": number, "kind": kind, "how": how, "said": said, "cpu_s": spent_s}), flush=True)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"resident_bytes": grown}), flush=True)


def fuzz(cases: int, seed: int, workers: int = 2, prove: str = "") -> dict[str, object]:
    """Runs the cases in some workers; a worker that is killed is a fault of the case that it had begun."""
    found: Counter[str] = Counter()
    faults: list[str] = []
    slowest, resident = (0.0, ""), 0
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # a store waits for its disk
    root = Path(tempfile.mkdtemp(prefix="dragstrip-fuzz-", dir=memory))
    own = {"DRAGSTRIP_CACHE": "cache", "XDG_DATA_HOME": "data", "HOME": "home", "TMPDIR": "tmp"}
    running = []
    try:
        for index in range(workers):
            place = root / str(index)
            (place / "tmp").mkdir(parents=True)
            env = (
                os.environ | {name: str(place / folder) for name, folder in own.items()} | {"OPENBLAS_NUM_THREADS": "1"}
            )
            words = [sys.executable, __file__, "--worker", str(place), "--seed", str(seed), "--cases", str(cases)]
            words += ["--first", str(index), "--step", str(workers), "--prove", prove]
            running.append(subprocess.Popen(words, env=env, stdout=(place / "said").open("w"), stderr=subprocess.PIPE))
        for index, process in enumerate(running):
            stderr = process.communicate()[1].decode("utf-8", "replace")
            lines = [json.loads(line) for line in (root / str(index) / "said").read_text().splitlines()]
            for line in lines:
                if "ended" in line:
                    found[f"{line['kind']} {line['how']}"] += 1
                    slowest = max(slowest, (line["cpu_s"], f"case {line['ended']}, {line['kind']}"))
                    if line["how"] == "fault":
                        faults.append(f"case {line['ended']}, {line['kind']}: {line['said']}")
                resident = max(resident, line.get("resident_bytes", 0))
            if process.returncode != 0:
                faults.append(f"worker {index} ended with {process.returncode} after {lines[-1:]}: {stderr[-400:]}")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return {
        "cases": sum(found.values()), "seed": seed, "kinds": dict(sorted(found.items())), "faults": faults,
        "slowest_cpu_s": round(slowest[0], 2), "slowest": slowest[1], "resident_mb": round(resident / 2**20),
    }  # fmt: skip


def record(told: dict[str, object]) -> None:
    """Writes the result into docs/evidence/tests.md."""
    kinds = told["kinds"]
    assert isinstance(kinds, dict)
    names = sorted({name.rpartition(" ")[0] for name in kinds})
    rows = [f"| {n} | {kinds.get(f'{n} read', 0):,} | {kinds.get(f'{n} refused', 0):,} |" for n in names]
    faults = told["faults"]
    assert isinstance(faults, list)
    sentences = (
        f"{told['cases']:,} cases with seed {told['seed']}: {len(faults)} faults. The slowest took "
        f"{told['slowest_cpu_s']} s of CPU time. A worker had at most {told['resident_mb']} MB resident."
    )
    text = "\n".join([
        *textwrap.wrap(sentences, 100),
        "", "| file | read | refused |", "|-|-:|-:|", *rows,
    ])  # fmt: skip
    pages.splice(PAGE, "fuzz-files", text)


def main() -> None:
    """The command line of this program."""
    asked = argparse.ArgumentParser(description=__doc__)
    for name, usual in (("cases", 10_000), ("seed", 1), ("first", 0), ("step", 1)):
        asked.add_argument(f"--{name}", type=int, default=usual)
    asked.add_argument("--record", action="store_true")
    asked.add_argument("--worker", type=Path)
    asked.add_argument("--prove", default="", choices=["", "process", "file"])
    words = asked.parse_args()
    if words.worker:
        worker(words.worker, words.seed, words.first, words.cases, words.step, words.prove)
        return
    told = fuzz(words.cases, words.seed, prove=words.prove)
    if words.record:
        record(told)
    print(json.dumps(told, indent=1))
    sys.exit(1 if told["faults"] else 0)


if __name__ == "__main__":
    main()
