"""Splices what a program measured into a page, between markers: numbers come into docs by no other way.

A part of a page named NAME stands between ``<!-- NAME: begin -->`` and ``<!-- NAME: end -->`` lines.
"""

from __future__ import annotations

import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENGINE_PAGE = ROOT / "docs" / "ENGINE.md"


def splice(page: Path, name: str, text: str) -> None:
    """Replaces one part of a page; the rest stays as it is.

    Raises:
        SystemExit: the page has no such part.
    """
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    before, found, rest = page.read_text().partition(begin)
    _, also, after = rest.partition(end)
    if not found or not also:
        raise SystemExit(f"{page}: no part {name!r}; it wants the lines {begin.strip()} and {end}")
    page.write_text(f"{before}{begin}{text.strip()}\n{end}{after}")


def part(page: Path, name: str) -> str:
    """What stands in one part of a page."""
    _, _, rest = page.read_text().partition(f"<!-- {name}: begin -->\n")
    return rest.partition(f"<!-- {name}: end -->")[0].strip()


def circumstances() -> str:
    """When and on what it was measured, as one line."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpus = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    commit = subprocess.run(
        ["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    told = f", commit {commit.stdout.strip()}" if commit.returncode == 0 else ""
    model = cpus[0] if cpus else platform.machine()
    return f"{datetime.now(UTC):%Y-%m-%d}, {len(cpus)} × {model}, Linux {platform.release()}{told}"
