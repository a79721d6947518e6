"""docs/CLAIMS.md and its chart: every claim raced, in as many sittings as it takes.

    python benchmarks/claims_page.py --minutes 20

Each method and release has a store of its own below ``runs``, which ``dragstrip claims check --resume``
continues. The page is written when every race that is possible on this machine has run. Exit code 75 until then. Each
race that the page rests on is exported into docs/claims, compressed by xz, which `dragstrip import FILE` reads.
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from evidence_parts import GOES_ON
from pages import ROOT, stamp
from stamps import METHOD_VERSION, RELEASE

#: The end of the page's first paragraph, and what is added to it.
TYPED = "nothing below is typed by hand."
EXPORTED = " A race's id is a link to its export: download it, and `dragstrip import FILE` reads it."

DRAGSTRIP = [sys.executable, "-m", "dragstrip"]


def unchecked(rows: list[dict[str, Any]], *, again: bool) -> list[str]:
    """Claims that still lack a race under one of their settings; ``again``: also those that need another race."""
    sides = ((row, row[side]) for row in rows for side in ("published", "fair") if row[side])
    wanted = (row["claim"] for row, side in sides if side["goes_on"] and (again or not side["race"]))
    return list(dict.fromkeys(wanted))


def export(page: Path, store: list[str]) -> None:
    """Exports each race that the page names, in place of earlier exports, and links it there."""
    folder, text = page.parent / "claims", page.read_text("utf-8")
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.race.xz"):
        old.unlink()
    with tempfile.TemporaryDirectory() as scratch:
        for race in dict.fromkeys(re.findall(r"race `([0-9a-f]{12})`", text)):
            record = Path(scratch) / f"{race}.race"
            subprocess.run([*DRAGSTRIP, "export", race, str(record), *store], check=True, stdout=subprocess.DEVNULL)
            (folder / f"{race}.race.xz").write_bytes(lzma.compress(record.read_bytes(), preset=9))
    text = re.sub(r"race `([0-9a-f]{12})`", r"race [`\1`](claims/\1.race.xz)", text)
    page.write_text(text.replace(TYPED, TYPED + EXPORTED), "utf-8")


def main() -> int:
    """The command line."""
    wanted = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted.add_argument("--minutes", type=float, default=22.0, help="for all races together (default 22)")
    given = wanted.parse_args()
    runs = ROOT / "runs"
    runs.mkdir(exist_ok=True)
    store = ["--store", str(runs / f"claims-{METHOD_VERSION}-{RELEASE}.sqlite")]
    names = subprocess.run([*DRAGSTRIP, "claims", "list", "--contenders"], capture_output=True, text=True, check=True)
    subprocess.run([*DRAGSTRIP, "install", "--yes", *names.stdout.split()], check=False)
    rows = runs / "claims.json"
    words = ["claims", "check", "--all", "--resume", "--budget", f"{given.minutes:g}m", "--json", str(rows), *store]
    began = time.monotonic()
    code = subprocess.run([*DRAGSTRIP, *words], check=False).returncode
    if code:
        return code
    # If time was left, each claim that needed another race has had it: a very disturbed machine leaves some undecided.
    cut_off = time.monotonic() - began > 0.9 * 60 * given.minutes
    left = unchecked(json.loads(rows.read_text("utf-8")), again=cut_off)
    if left:
        print(f"{len(left)} claims still lack a race: {', '.join(left)}")
        return GOES_ON
    docs = ROOT / "docs"
    written = ["--markdown", str(docs / "CLAIMS.md"), "--svg", str(docs / "pictures" / "claims.svg")]
    subprocess.run([*DRAGSTRIP, "claims", *written, *store], check=True, stdout=subprocess.DEVNULL)
    export(docs / "CLAIMS.md", store)
    stamp("CLAIMS.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
