"""Breaks single lines of what must not be wrong, and looks whether a test fails each time.

    python tests/soak/mutations.py             # all of them; a line each, as a table
    python tests/soak/mutations.py --only extensions,subreaper
    python tests/soak/mutations.py --write     # into docs/evidence/tests.md; with --only, these rows of it

Each mutation is one line of the statistics, the validity checks, the supervisor or the engine's response parser. It is
made in a copy of the sources, never in the checkout; the tests named beside it run there until the first one fails.
One that survives is a gap: write the test. Exit code 1 where one survived, 2 where a line is no longer there as
written here.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from pages import ROOT, circumstances, part, splice

PAGE = ROOT / "docs" / "evidence" / "tests.md"
PACKAGE, CRATE = "src/dragstrip", "crates/engine/src"


@dataclass(frozen=True)
class Mutation:
    """One broken line: where, what stands there once, what takes its place, and the tests that should notice.

    Args:
        tests: for Python files of tests for pytest; for Rust words for ``cargo test``.
    """

    name: str
    file: str
    line: str
    broken: str
    tests: tuple[str, ...]

    @property
    def rust(self) -> bool:
        return self.file.endswith(".rs")


PARSER = ("-p", "dragstrip-engine", "--test", "response", "--test", "corpus")
STATISTICS = ("tests/statistics",)
VALIDITY = ("tests/unit/validity",)
SUPERVISOR = ("tests/unit/process/test_supervisor.py", "tests/live/test_launcher.py")

MUTATIONS = (
    Mutation(
        "one-sided", f"{PACKAGE}/analysis/interval.py",
        "stdtrit(freedom, level / 2)", "stdtrit(freedom, level)", STATISTICS,
    ),
    Mutation(
        "all pairs at once", f"{PACKAGE}/analysis/pairs.py",
        "range_factor(self.contenders, self.freedom, level) * self.error",
        "range_factor(2, self.freedom, level) * self.error", STATISTICS,
    ),
    Mutation(
        "void rounds", f"{PACKAGE}/analysis/numbers.py",
        "rounds = [r for r in race.rounds if not r.void]", "rounds = list(race.rounds)", STATISTICS,
    ),
    Mutation(
        "extensions", f"{PACKAGE}/analysis/group_sequential.py",
        "(1 - FIRST_SHARE) / 2**stage", "(1 - FIRST_SHARE)", ("tests/statistics/test_simultaneous.py",),
    ),
    Mutation(
        "in flight", f"{PACKAGE}/validity/block.py",
        "block.answered + block.failed + block.in_flight", "block.answered + block.failed", VALIDITY,
    ),
    Mutation("server idle", f"{PACKAGE}/validity/block.py", "busy < SERVER_IDLE", "busy > SERVER_IDLE", VALIDITY),
    Mutation(
        "rare launch", f"{PACKAGE}/validity/launch.py", "_rare(logs) & _rare(logs - met)", "_rare(logs)", VALIDITY
    ),
    Mutation(
        "subreaper", f"{PACKAGE}/process/supervisor.py",
        "_libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)", "pass", SUPERVISOR,
    ),
    Mutation(
        "abandoned", f"{PACKAGE}/process/supervisor.py",
        "        if not piece:\n            self._abandoned = True",
        "        if not piece:\n            pass", SUPERVISOR,
    ),
    Mutation(
        "body", f"{CRATE}/response.rs",
        "piece != &expect.body[from as usize..self.got as usize]", "self.got < from", PARSER,
    ),
    Mutation("chunk size", f"{CRATE}/response.rs", "digits < 15", "digits < 40", PARSER),
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What became of one mutation."""

    mutation: Mutation
    failed: str
    seconds: float


def copied(folder: Path) -> Path:
    """A copy of what is in git, as it stands in the checkout now, and of the compiled engine."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    for engine in (ROOT / PACKAGE).glob("_engine*.so"):
        shutil.copy(engine, folder / PACKAGE)
    return folder


def broken(mutation: Mutation, text: str) -> str:
    """The file's text with that one line broken.

    Raises:
        SystemExit: what is to be broken isn't there, or more than once.
    """
    if text.count(mutation.line) != 1:
        print(
            f"{mutation.name}: {mutation.file} has {mutation.line!r} {text.count(mutation.line)} times; it must stand "
            "there once: choose another line in tests/soak/mutations.py",
            file=sys.stderr,
        )
        raise SystemExit(2)
    return text.replace(mutation.line, mutation.broken)


def end_processes_of(at: Path) -> None:
    """Ends every process that runs code from the copy: a broken supervisor may outlive its test."""
    for process in psutil.process_iter(["cmdline"]):
        if any(word.startswith(f"{at}/") for word in process.info["cmdline"] or ()):
            with contextlib.suppress(psutil.Error):
                process.kill()


def tried(mutation: Mutation, at: Path) -> Outcome:
    """Breaks the line in the copy, runs the tests until one fails, and mends it again."""
    file, begun = at / mutation.file, time.monotonic()
    whole = file.read_text()
    file.write_text(broken(mutation, whole))
    environment = {**os.environ, "PYTHONPATH": str(at / "src"), "XDG_DATA_HOME": str(at / "data")}
    try:
        if mutation.rust:
            environment.setdefault("CARGO_TARGET_DIR", str(ROOT / "target"))
            command = ["cargo", "test", "--quiet", "--profile", "quick", *mutation.tests]
        else:
            command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *mutation.tests]
        done = subprocess.run(command, cwd=at, env=environment, capture_output=True, text=True, check=False)
    finally:
        file.write_text(whole)
        end_processes_of(at)
    said = done.stdout + done.stderr
    # cargo lists the names last, below what the tests printed.
    listed = said.rpartition("\nfailures:\n")[2] if mutation.rust else said
    found = re.search(r"^    (\w\S*)$" if mutation.rust else r"^(?:FAILED|ERROR) (\S+)", listed, re.MULTILINE)
    if done.returncode and found is None:
        raise SystemExit(f"{mutation.name}: the tests could not run:\n{said[-3000:]}")
    failed = found[1] if done.returncode and found else ""
    if not failed.endswith("]"):  # a parameter with blanks in it was cut off
        failed = failed.partition("[")[0]
    return Outcome(mutation, failed, time.monotonic() - begun)


def table(outcomes: list[Outcome]) -> list[str]:
    """The lines of a Markdown table."""
    lines = ["| file | original | broken to | test that failed | seconds |", "|-|-|-|-|-:|"]
    for one in outcomes:
        change = [text.splitlines()[-1].strip() for text in (one.mutation.line, one.mutation.broken)]
        lines.append(
            f"| `{one.mutation.file.removeprefix('src/dragstrip/')}` | `{change[0]}` | `{change[1]}`"
            f" | {f'`{one.failed}`' if one.failed else '**none: it survived**'} | {one.seconds:.0f} |"
        )
    return lines


def merged(lines: list[str], page: list[str]) -> list[str]:
    """These rows in place of the page's rows about the same lines, and new ones below; the others stay."""
    of = {row.split(" | ")[0] + row.split(" | ")[1]: row for row in lines[2:]}
    kept = [of.pop("".join(row.split(" | ")[:2]), row) for row in page]
    return [*kept, *of.values()]


def main() -> int:
    parser = argparse.ArgumentParser(description="Breaks single lines and looks whether a test fails.")
    parser.add_argument("--only", default="", help="names of mutations, with commas between them")
    parser.add_argument("--write", action="store_true", help="the table goes into docs/evidence/tests.md")
    chosen = parser.parse_args()
    wanted = [name for name in chosen.only.split(",") if name]
    if unknown := set(wanted) - {one.name for one in MUTATIONS}:
        parser.error(f"--only: no mutation is named {', '.join(unknown)}; use {', '.join(m.name for m in MUTATIONS)}")
    mutations = [one for one in MUTATIONS if not wanted or one.name in wanted]
    for one in mutations:
        broken(one, (ROOT / one.file).read_text())
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        at = copied(Path(folder))
        for one in mutations:
            outcomes.append(tried(one, at))
            print(f"{one.name}: {outcomes[-1].failed or 'SURVIVED'} ({outcomes[-1].seconds:.0f} s)", flush=True)
    lines = table(outcomes)
    print("", *lines, sep="\n")
    if chosen.write:
        page = part(PAGE, "mutations").splitlines()
        text = merged(lines, page) if wanted else [f"Tried: {circumstances()}.", "", *lines]
        splice(PAGE, "mutations", "\n".join(text))
    return int(any(not one.failed for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
