"""Twelve servers that recognize the load generator and cheat only then, raced beside two honest ones.

Standard library only. The servers are in ``tests/servers/cheats.py``. ``--record`` writes into evidence/contenders.md
which of them are found out, and how. Exit code 1 if one that must be found out is not, or an honest one is out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from pages import ROOT, circumstances, splice

SERVER = ROOT / "tests" / "servers" / "cheats.py"
PAGE = ROOT / "docs" / "evidence" / "contenders.md"
PYTHON = "/usr/bin/python3"  # one that an unprivileged user may execute
HONEST = ("honest", "honest-too")
#: No response of these shows that they cheat.
UNSEEN = ("idle", "priority")
#: Two seconds under load suffice for every trigger; a server that sends nothing correct would be warmed up to the end.
DEFINITION = """
name = "server"
title = "a server that may cheat"
host = "asyncio"
language = "Python"
workloads = ["hello"]
[parameters]
cheat = "none"
[warm_up]
least_s = 0.5
most_s = 2
[start]
command = ["{python}", "{server}", "{{port}}", "{{cheat}}"]
unprivileged = false
"""
_KINDS = {
    "wrong_head": "every head under load is compared",
    "wrong_status": "every status under load is compared",
    "wrong_length": "every body's length under load is compared",
    "wrong_body": "every body under load is compared",
}


def cheats() -> dict[str, Any]:
    """The server's own list: trigger and way in words are the last two of each."""
    spec = importlib.util.spec_from_file_location("cheating_servers", SERVER)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dict(module.CHEATS)


def race(names: list[str], folder: Path) -> dict[str, str]:
    """Why each is out of one race of all of them, "" for those that are not."""
    place = folder / "server"
    place.mkdir()
    (place / "contender.toml").write_text(DEFINITION.format(python=PYTHON, server=SERVER))
    contenders = [f"{name}=server:cheat={'none' if name in HONEST else name}" for name in names]
    words = [sys.executable, "-m", "dragstrip", "race", *contenders, "--contenders", str(folder)]
    words += ["--rounds", "2", "--json", str(folder / "race.json")]
    env = {**os.environ, "DRAGSTRIP_STORE": str(folder / "races.sqlite"), "COLUMNS": "200"}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    if not (folder / "race.json").exists():
        raise SystemExit(f"{done.stdout}{done.stderr}")
    told = json.loads((folder / "race.json").read_text())
    return {one["name"]: one["out"] for one in told["contenders"]}


def found_by(out: str) -> str:
    """What found a cheat out, in words; "" if nothing did."""
    kind = next((kind for kind in _KINDS if kind in out or kind.replace("_", " ") in out), None)
    if not out:
        return ""
    return _KINDS[kind] if kind and "under load" in out else "scrutineering"


def shown(out: str) -> str:
    """What was expected and what came, out of the reason; "" if the reason has no such words."""
    found = re.search(r"the first:? '?(.+? is expected)", out) or re.search(r"with another head than Dragstrip", out)
    return f": {found[1]}" if found and found.lastindex else ""


def table(out: dict[str, str]) -> str:
    """The table, and the share, as Markdown."""
    lines = ["| recognizes the load when | cheat | detected by |", "|-|-|-|"]
    for name, (*_, trigger, way) in cheats().items():
        by = found_by(out[name])
        lines.append(f"| {trigger} | {way} | {by + shown(out[name]) if by else '**not detected**'} |")
    caught = sum(bool(out[name]) for name in cheats())
    return f"{caught} of {len(cheats())} were detected ({circumstances()}).\n\n" + "\n".join(lines)


def main() -> int:
    """Races them; what it found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--record", action="store_true", help="write the table into docs/evidence/contenders.md")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = race([*HONEST, *cheats()], Path(folder))
    print(table(out))
    missed = [name for name in cheats() if not out[name] and name not in UNSEEN]
    wronged = [f"{name} ({out[name]})" for name in HONEST if out[name]]
    print("\n".join([*(f"not found out: {name}" for name in missed), *(f"honest, and out: {one}" for one in wronged)]))
    if wanted.record:
        splice(PAGE, "cheats", table(out))
    return int(bool(missed or wronged))


if __name__ == "__main__":
    sys.exit(main())
