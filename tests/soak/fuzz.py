"""The response parser, HTTP/2's frames or WebSocket's, under LLVM's fuzzer, if a nightly toolchain is there.

Standard library only.

Builds ``crates/engine/fuzz`` with coverage and AddressSanitizer (what cargo-fuzz does, without needing it), runs it
over the committed corpus and a growing one below ``target``, and says how many inputs were read. ``--record`` writes
that into docs/evidence/engine.md (``--latest``: of the latest run, from its log). Exit code 1 on a finding, which is
left in ``target/fuzz/artifacts``; 0 with a message if the nightly toolchain (``rustup toolchain install nightly``) or
a C++ compiler is missing.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from pages import ENGINE_PAGE, ROOT, circumstances, splice

CRATE = ROOT / "crates" / "engine" / "fuzz"
TARGET = ROOT / "target" / "fuzz"
#: By target: who reads the inputs, and what "no disagreement" means of it.
TARGETS = {
    "response": "the response parser and by the oracle (httparse and plain code)",
    "frames": "HTTP/2's client, whole and in pieces",
    "messages": "the reader of WebSocket's frames, whole and in pieces, and by plain code",
}
TRIPLE = f"{os.uname().machine}-unknown-linux-gnu"

#: As cargo-fuzz sets them: which branches and comparisons an input reaches, and every bad access of memory.
FLAGS = (
    "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
    " -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
    " -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing"
    " -Zsanitizer=address -Cdebug-assertions"
)
#: Longest input, seconds for one (a hang is longer), and memory for all.
BOUNDS = ["-max_len=512", "-timeout=5", "-rss_limit_mb=1024"]


def missing() -> str:
    """What keeps it from running here, "" if nothing does."""
    if shutil.which("rustup") is None:
        return "rustup is not on PATH"
    found = subprocess.run(["rustup", "toolchain", "list"], capture_output=True, text=True, check=False).stdout
    if not re.search(r"^nightly", found, re.M):
        return "no nightly toolchain (rustup toolchain install nightly)"
    return "" if shutil.which("c++") else "no C++ compiler, which libFuzzer is built by (apt-get install g++)"


def build(target: str) -> Path:
    """The fuzzer; cargo's own messages say why it can't be built."""
    command = ["cargo", "+nightly", "build", "--release", "--quiet", "--bin", target]
    command += ["--target", TRIPLE, "--target-dir", str(TARGET)]
    subprocess.run(command, cwd=CRATE, env=os.environ | {"RUSTFLAGS": FLAGS}, check=True)
    return TARGET / TRIPLE / "release" / target


def grown_corpus(target: str) -> Path:
    """Where the inputs are kept that reached something new."""
    return TARGET / ("corpus" if target == "response" else f"corpus-{target}")


def run(fuzzer: Path, runs: int, seconds: int) -> tuple[int, str]:
    """Its exit code and its last words."""
    grown, artifacts = grown_corpus(fuzzer.name), TARGET / "artifacts"
    for folder in (grown, artifacts):
        folder.mkdir(parents=True, exist_ok=True)
    words = [
        f"-runs={runs}",
        f"-max_total_time={seconds}",
        *BOUNDS,
        "-print_final_stats=1",
        f"-artifact_prefix={artifacts}/",
    ]
    command = [str(fuzzer), *words, str(grown), str(CRATE / "corpus" / fuzzer.name)]
    log = TARGET / f"log-{fuzzer.name}"  # to be looked at during a long run
    with log.open("w") as output:
        code = subprocess.run(command, stderr=output, check=False).returncode
    return code, log.read_text(errors="replace")


def outcome(target: str, told: str) -> str:
    """A run without a finding in a sentence, from the fuzzer's own log."""
    count, peak_mb = (int(re.search(rf"{name}:\s+(\d+)", told)[1]) for name in ("executed_units", "peak_rss_mb"))  # type: ignore[index]
    covered = re.findall(r"cov: (\d+)", told)[-1]
    seconds = int(re.findall(r"Done \d+ runs in (\d+) second", told)[-1])
    grown = sum(1 for _ in grown_corpus(target).iterdir())
    return (
        f"{count:,} inputs read by {TARGETS[target]} in {seconds:,} s: no panic, no hang "
        f"(5 s an input), no bad access of memory (AddressSanitizer), no disagreement; {covered} edges covered, "
        f"{grown} inputs in the grown corpus, {peak_mb} MB at most."
    )


def main() -> int:
    """Words in, one line out."""
    words = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    words.add_argument("--target", choices=TARGETS, default="response")
    words.add_argument("--runs", type=int, default=200_000, help="inputs")
    words.add_argument("--seconds", type=int, default=0, help="at most; 0: as long as it takes")
    words.add_argument("--record", action="store_true", help="write the outcome into docs/evidence/engine.md")
    words.add_argument("--latest", action="store_true", help="run nothing: the latest run's log is what is told")
    given = words.parse_args()
    if problem := missing():
        print(f"fuzz: the coverage-guided fuzzer is left out: {problem}")
        return 0
    if given.latest:
        code, told = 0, (TARGET / f"log-{given.target}").read_text(errors="replace")
    else:
        code, told = run(build(given.target), given.runs, given.seconds)
    if code != 0:
        print(told[-6000:], f"fuzz: a finding (exit code {code})", sep="\n")
        return 1
    said = outcome(given.target, told)
    print(f"fuzz: {said}")
    if given.record:
        name = "fuzz" if given.target == "response" else f"fuzz-{given.target}"
        splice(ENGINE_PAGE, name, f"{circumstances()}: {said}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
