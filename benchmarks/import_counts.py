"""How many entries of the public suites become definitions, and why the others don't; writes evidence/contenders.md.

    python benchmarks/import_counts.py ~/FrameworkBenchmarks ~/HttpArena

The checkouts are only read, and nothing of them is kept: the table has counts and causes. A checkout without its large
files will do.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from pages import ROOT, splice

from dragstrip import contender, workload
from dragstrip.contender import SUITES
from dragstrip.extras.suites import suites
from dragstrip.extras.suites.report import reason
from dragstrip.extras.suites.suite_entries import Cause, LeftOut

PAGE = ROOT / "docs" / "evidence" / "contenders.md"

TITLES = {"tfb": "TechEmpower", "arena": "HttpArena"}

#: What a suite itself doesn't run any more; these don't count.
DEAD = (Cause.BROKEN, Cause.DISABLED)


def main() -> None:
    """Reads both checkouts, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="+", type=Path, help="folders of the suites")
    rows = ["| suite | entries | become definitions | the others |", "|-|-:|-:|-|"]
    tests = ["| workload | entries |", "|-|-:|"]
    commits = []
    for checkout in parser.parse_args().checkouts:
        found = _read(checkout)
        suite = next(suite for suite in SUITES if (found.entries or found.refused)[0].name.startswith(f"{suite}:"))
        refused = [one for one in found.refused if one.cause not in DEAD]
        total = len(found.entries) + len(refused)
        why = Counter(map(_cause, refused))
        others = "; ".join(f"{count} because {text}" for text, count in why.most_common())
        share = len(found.entries) / max(total, 1)
        rows.append(f"| {TITLES[suite]} | {total} | {len(found.entries)} ({share:.0%}) | {others} |")
        served = Counter(name for entry in found.entries for name in entry.served)
        tests += [f"| `{name}` | {count} |" for name, count in served.most_common()]
        commits.append(f"{TITLES[suite]} {_commit(checkout)}")
    text = "\n".join([f"Counted in {' and '.join(commits)}:", "", *rows, "", *tests])
    splice(PAGE, "import-counts", text)
    print(text)


def _read(checkout: Path) -> suites.FoundEntries:
    """What a checkout has; each definition is written to a folder that is removed, and read back."""
    with tempfile.TemporaryDirectory(prefix="dragstrip-") as folder:
        os.environ["XDG_DATA_HOME"] = folder
        found = suites.import_all(checkout, workload.names(), "auto")
        for entry in found.entries:
            contender.entry(entry.name)
    return found


def _cause(refused: LeftOut) -> str:
    """The cause in words, with alike details together."""
    if refused.cause is Cause.SEVERAL_CONTAINERS:
        return "they need several containers"
    text = reason(refused).partition(";")[0]
    return text.replace("it needs", "they need").replace("its ", "their ")


def _commit(checkout: Path) -> str:
    """The commit of a checkout and its date."""
    command = ["git", "-C", str(checkout), "log", "-1", "--format=%h of %cs"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "without a commit"


if __name__ == "__main__":
    main()
