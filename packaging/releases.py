"""What installs on this release: the table of docs/CONTENDERS.md, by `dragstrip contenders` and `verify`.

    python packaging/releases.py docs/releases.json        # in a fresh root, after `dragstrip install --all --yes`

Adds this release to the file: its name and version, the date, and for each contender the version that passed `verify`
at `hello`, or why it did not. `make docs` writes the table.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any


def asked(*words: str) -> list[dict[str, Any]]:
    """What a command prints as JSON, whatever its exit status."""
    command = [sys.executable, "-m", "dragstrip", *words, "--json"]
    found: list[dict[str, Any]] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout)
    return found


def impossible(output: str) -> dict[str, str]:
    """By contender, why `dragstrip install` says that it can't be installed, without where else to get it."""
    lines = re.findall(r"^# can't be installed here: (\S+): (.*)$", output, re.MULTILINE)
    return {name: reason.partition("; see ")[0] for name, reason in lines}


def entry(row: dict[str, Any], proofs: dict[str, dict[str, Any]], why: dict[str, str]) -> dict[str, str]:
    """One contender: its version and "", or why it does not race here."""
    if row["status"] != "ready":
        return {"version": "", "reason": why.get(row["name"], row["reason"])}
    proof = proofs.get(row["name"], {"status": "not verified", "reason": ""})
    passed = proof["status"] == "passed"
    return {"version": row["version"].partition(" ")[0], "reason": "" if passed else proof["reason"] or proof["status"]}


def found(rows: list[dict[str, Any]], verified: list[dict[str, Any]], plan: str, date: str) -> dict[str, Any]:
    """This release's part of the file."""
    proofs = {proof["contender"]: proof for proof in verified}
    return {"date": date, "contenders": {row["name"]: entry(row, proofs, impossible(plan)) for row in rows}}


def main() -> None:
    """Measures and records."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("file", type=Path)
    file = options.parse_args().file
    system = platform.freedesktop_os_release()
    name = f"{system['NAME'].removesuffix(' GNU/Linux')} {system['VERSION_ID']}"
    rows = asked("contenders")
    verified = asked("verify", *(row["name"] for row in rows if row["status"] == "ready"), "--workload", "hello")
    known = json.loads(file.read_text()) if file.exists() else {}
    command = [sys.executable, "-m", "dragstrip", "install", "--all"]  # it asks, and gets no answer
    plan = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True).stdout
    known[name] = found(rows, verified, plan, datetime.datetime.now(datetime.UTC).date().isoformat())
    file.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
    passed = [one for one, told in known[name]["contenders"].items() if not told["reason"]]
    print(f"{name}: {len(passed)} of {len(rows)} contenders install and pass")


if __name__ == "__main__":
    main()
