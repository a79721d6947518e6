"""Measures the tables, charts and pictures of README and docs again, part by part; an interrupted run goes on.

    python benchmarks/evidence.py --list                  # each part: minutes, and whether it is older
    python benchmarks/evidence.py                         # all older parts, the shortest first
    python benchmarks/evidence.py --part claims           # one part, also if it is not older
    python benchmarks/evidence.py --minutes 30            # older parts until 30 minutes are over
    python benchmarks/evidence.py --mark                  # measure nothing, write into each page whether it is older

A part's results get into its page when the part is complete, with a stamp: commit, release, method, machine, date and
command. Evidence is older if the method or Dragstrip's release has changed since.
``runs/evidence.json`` has the minutes of parts that are not complete. End it at any time with Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import evidence_parts
import stamps
from evidence_parts import GOES_ON, PARTS, Part
from stamps import METHOD_VERSION, RELEASE, ROOT

STATE = ROOT / "runs" / "evidence.json"

#: A part with ``{minutes}`` gets at least this many.
LEAST_MINUTES = 2.0


@dataclass(frozen=True)
class Begun:
    """A part that is not complete: minutes and commands so far, and the versions that they were spent on."""

    minutes: float = 0.0
    done: int = 0
    method: int = METHOD_VERSION
    release: str = RELEASE


def begun() -> dict[str, Begun]:
    """Parts that an earlier run began; without those of another method or release."""
    if not STATE.exists():
        return {}
    today = {"method": METHOD_VERSION, "release": RELEASE}
    found = json.loads(STATE.read_text("utf-8")).items()
    return {name: Begun(**fields) for name, fields in found if today.items() <= fields.items()}


def keep(name: str, state: Begun | None) -> None:
    """Notes how far a part is; None when it is complete."""
    all_ = {**begun(), name: state}
    STATE.parent.mkdir(exist_ok=True)
    texts = {one: dataclasses.asdict(it) for one, it in all_.items() if it}
    stamps.replace(STATE, json.dumps(texts, indent=1) + "\n")


def listing() -> str:
    """Each part on a line: minutes, state, command."""
    known, states = stamps.read(), begun()
    lines = [f"{'part':15} {'minutes':>7}  state"]
    for part in PARTS:
        why = evidence_parts.older(part, known)
        state = f"older: {'; '.join(why)}" if why else "current"
        if part.name in states:
            state = f"begun, {states[part.name].minutes:.0f} minutes so far; {state}"
        lines.append(f"{part.name:15} {part.minutes:7}  {state}")
    return "\n".join(lines)


def run(part: Part, until: float) -> bool:
    """Runs a part's commands from where it was; whether it is complete.

    Args:
        until: monotonic time, s, at which the sitting is over.
    """
    state = begun().get(part.name) or Begun()
    env = dict(os.environ, DRAGSTRIP_EVIDENCE=f"make evidence PART={part.name}", PYTHONUNBUFFERED="1")
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    for number, command in enumerate(part.commands):
        if number < state.done:
            continue
        left = max(min((until - time.monotonic()) / 60, 24 * 60.0), LEAST_MINUTES)
        words = command.replace("{minutes}", f"{left:.0f}")
        print(f"{part.name}: {words}", flush=True)
        began = time.monotonic()
        try:
            code = exit_code(["bash", "-c", words], env)
        finally:
            state = Begun(state.minutes + (time.monotonic() - began) / 60, number)
            keep(part.name, state)
        if code == GOES_ON:
            print(f"{part.name}: goes on at the next `make evidence`", flush=True)
            return False
        if code:
            print(f"{part.name}: {words} ended with exit code {code}; its page stays as it is", flush=True)
            return False
        keep(part.name, Begun(state.minutes, number + 1))
    keep(part.name, None)
    return complete(part, state)


def exit_code(words: list[str], env: dict[str, str]) -> int:
    """Runs a program to its end, also where we are interrupted: it may have a race to end and to keep."""
    programs: list[subprocess.Popen[bytes]] = []
    asked: list[int] = []

    def pass_on(number: int, frame: object) -> None:
        asked.append(number)
        for program in programs:
            with suppress(ProcessLookupError):  # it has just ended
                os.killpg(program.pid, number)

    former = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        # Its own group: what it started gets a signal once, whether a terminal or `kill` sent it to us.
        program = subprocess.Popen(words, cwd=ROOT, env=env, process_group=0)
        programs.append(program)
        if asked:
            os.killpg(program.pid, asked[0])
        code = program.wait()
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
    if asked:
        sys.exit(128 + asked[0])
    return code


def complete(part: Part, state: Begun) -> bool:
    """Notes the part's minutes; whether its commands wrote all its sections."""
    # A section that was just written has a stamp without minutes.
    wrote = {
        section: stamp
        for section, stamp in stamps.read().items()
        if section in part.sections and stamp.command == f"make evidence PART={part.name}" and not stamp.minutes
    }
    missing = [section for section in part.sections if section not in wrote]
    if missing:
        print(f"{part.name}: its commands wrote nothing into {', '.join(missing)}", flush=True)
        return False
    spent = max(round(state.minutes, 1), 0.1)
    fresh = {name: dataclasses.replace(stamp, minutes=spent) for name, stamp in wrote.items()}
    evidence_parts.renew(fresh)
    print(f"{part.name}: complete, {state.minutes:.1f} minutes", flush=True)
    return True


def main() -> int:
    """The command line; exit code 1 if a part that was run is not complete."""
    wanted = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted.add_argument("--part", default="", help="parts to run, separated by commas, also if they are current")
    wanted.add_argument("--minutes", type=float, default=0.0, help="begin no part that does not fit; 0: no limit")
    wanted.add_argument("--list", action="store_true", help="print each part and its state, measure nothing")
    wanted.add_argument("--mark", action="store_true", help="write into pages which parts are older, measure nothing")
    given = wanted.parse_args()
    if given.list:
        print(listing())
        return 0
    if given.mark:
        evidence_parts.mark()
        return 0
    known = stamps.read()
    chosen = [evidence_parts.named(name) for name in given.part.split(",") if name]
    if not chosen:
        chosen = sorted((part for part in PARTS if evidence_parts.older(part, known)), key=lambda part: part.minutes)
    until = time.monotonic() + (60 * given.minutes if given.minutes else 24 * 3600)
    failed = False
    for part in chosen:
        sittings = any("{minutes}" in command for command in part.commands)
        need = LEAST_MINUTES if sittings else part.minutes
        if given.minutes and time.monotonic() + 60 * need > until:
            print(f"{part.name}: left for the next run; it takes {part.minutes} minutes", flush=True)
            continue
        failed |= not run(part, until)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
