"""Are the shipped contenders what they say: installed by `dragstrip install`, each passing for all its workloads?

    make check-stacks                # as you are; as root also as user ``nobody``, with a cache of its own

Prints a line for each contender and workload, then what must hold, each with whether it does; exit status 1 if one
does not. Nothing of a server may be left: no process, no scratch folder (and with it no socket). Takes some minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

import dragstrip
from dragstrip import workload
from dragstrip.contender import shipped

MIN_READY = 30


class Person:
    """Who types the commands: ourselves, or a user without rights whose home and cache are a new folder."""

    def __init__(self, name: str | None, home: Path) -> None:
        self.name = name or pwd.getpwuid(os.geteuid()).pw_name
        self.python = sys.executable
        self.env = {**os.environ, "DRAGSTRIP_STORE": str(home / "races.sqlite")}
        self.who: dict[str, Any] = {}
        if name:
            user = pwd.getpwnam(name)
            for place in (home, *home.iterdir()):
                os.chown(place, user.pw_uid, user.pw_gid)
            self.who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            self.env |= {"HOME": str(home), "DRAGSTRIP_CACHE": str(home / "cache"), "USER": name, "XDG_CACHE_HOME": ""}
            # Our own interpreter may lie in a home that is closed to others; the system's reads the same packages.
            paths = [Path(dragstrip.__file__).parents[1], Path(psutil.__file__).parents[1]]
            self.python = "/usr/bin/python3"
            self.env["PYTHONPATH"] = os.pathsep.join(map(str, paths))

    def types(self, *words: str) -> tuple[int, str, list[str]]:
        """Runs dragstrip; its exit status, its output, and what it left behind."""
        with subprocess.Popen(
            [self.python, "-m", "dragstrip", *words],
            stdout=subprocess.PIPE,
            text=True,
            env=self.env,
            cwd="/",
            **self.who,
        ) as running:
            told = running.communicate()[0]
        return running.returncode, told, left_by(running.pid)


def left_by(pid: int) -> list[str]:
    """Scratch folders of a race that has ended, and processes with a foot in one."""
    mine = f"{tempfile.gettempdir()}/dragstrip-{pid}-"
    found = [str(place) for place in Path(tempfile.gettempdir()).glob(f"dragstrip-{pid}-*")]
    for process in psutil.process_iter(["pid", "cmdline", "cwd"]):
        words = " ".join(process.info["cmdline"] or ())
        if mine in words or (process.info["cwd"] or "").startswith(mine):
            found.append(f"process {process.info['pid']}: {words}")
    return found


def check(person: Person, only: Sequence[str], *, install: bool) -> list[tuple[str, bool]]:
    """Everything as one person; what must hold and whether it does."""
    print(f"\n== as {person.name}", flush=True)
    # The second one installs the database and the drivers, which the first one leaves out.
    for also in ([], ["--workload", "db"]) if install else ():
        status, told, _ = person.types("install", *(only or ["--all"]), *also, "--yes")
        print(told + (f"(exit status {status})" if status else ""), flush=True)
    rows = json.loads(person.types("contenders", "--json")[1])
    rows = [row for row in rows if not only or row["name"] in only]
    ready = [row["name"] for row in rows if row["status"] == "ready"]
    failed, rooted, left = [], [], []
    passed: Counter[str] = Counter()
    for row in rows:
        if row["status"] != "ready":
            print(f"missing  {row['name']}: {row['reason']}; {row['remedy']}")
            continue
        _, told, behind = person.types("verify", row["name"], "--json")
        left += behind
        for proof in json.loads(told):
            runs_as = proof["facts"].get("runs as", "")
            print(
                f"{proof['status']:<8} {proof['contender']} at {proof['workload']} {proof['reason']} ({runs_as})",
                flush=True,
            )
            failed += [proof["contender"]] * (proof["status"] != "passed")
            passed[proof["workload"]] += proof["status"] == "passed"
            rooted += [proof["contender"]] * ("root" in runs_as.split(", "))
    print(f"passed: {', '.join(f'{count} at {name}' for name, count in sorted(passed.items()))}")
    silent = [row["name"] for row in rows if row["status"] != "ready" and not (row["reason"] and row["remedy"])]
    return [
        (
            f"as {person.name}: {len(ready)} contenders ready, {MIN_READY} wanted",
            bool(only) or len(ready) >= MIN_READY,
        ),
        (f"as {person.name}: each ready one passes for all its workloads{told_of(failed)}", not failed),
        (f"as {person.name}: nothing is left afterwards{told_of(left)}", not left),
        (f"as {person.name}: no server runs as root{told_of(rooted)}", not rooted),
        (f"as {person.name}: whoever is missing says why and what would do{told_of(silent)}", not silent),
    ]


def unexplained() -> list[str]:
    """Contenders with a workload that they neither serve nor say why not; one like another is served as that one."""
    asked = {workload.load(name).served_as for name in workload.names()}
    return [name for name, one in shipped().items() if asked - {*one.fields.workloads, *one.fields.unable}]


def told_of(names: Sequence[str]) -> str:
    """Exceptions, behind a colon."""
    return f": not {', '.join(dict.fromkeys(names))}" if names else ""


def main() -> None:
    """Checks as the current user and, if that is root, also as ``nobody``."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="", help="contenders, separated by commas; else all")
    options.add_argument("--as", dest="people", default="", help="self, nobody, or both; else whatever is possible")
    options.add_argument("--no-install", action="store_true", help="only those that are installed")
    given = options.parse_args()
    only = [name for name in given.only.split(",") if name]
    people = given.people.split(",") if given.people else ["self", *(["nobody"] if os.geteuid() == 0 else [])]
    held = []
    for who in people:
        home = Path(tempfile.mkdtemp(prefix="check-stacks-"))
        try:
            home.chmod(0o755)
            held += check(Person(None if who == "self" else who, home), only, install=not given.no_install)
        finally:
            shutil.rmtree(home)
    held.append((f"each serves a workload or says why not{told_of(unexplained())}", not unexplained()))
    print()
    for what, holds in held:
        print(f"{'holds  ' if holds else 'FAILS  '} {what}")
    sys.exit(0 if all(holds for _, holds in held) else 1)


if __name__ == "__main__":
    main()
