"""Records what a program measured in its page, between marks: numbers come into docs by no other way.

A section of a page named NAME is between ``<!-- NAME: begin -->`` and ``<!-- NAME: end -->`` lines. If
the section has a stamp, it is renewed with it.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path

import evidence_parts
import stamps

ROOT = Path(__file__).resolve().parents[1]
ENGINE_PAGE = ROOT / "docs" / "evidence" / "engine.md"


def splice(page: Path, name: str, text: str) -> None:
    """Replaces a section of a page, whole or not at all, and renews its stamp; the rest stays as it is.

    Raises:
        SystemExit: the page has no such section, or two.
    """
    mark = re.escape(name)
    section = re.compile(rf"(<!-- {mark}: ?begin -->\n).*?(<!-- {mark}: ?end -->)", re.DOTALL)
    after, found = section.subn(lambda match: f"{match[1]}{text.strip()}\n{match[2]}", page.read_text("utf-8"))
    if found != 1:
        raise SystemExit(f"{page} has {found} sections named {name!r}; it needs one, begun by <!-- {name}: begin -->")
    stamps.replace(page, after)
    stamp(f"{page.relative_to(ROOT / 'docs')}#{name}" if page.is_relative_to(ROOT / "docs") else "")


def stamp(*sections: str) -> None:
    """Renews the stamps of measured sections; a section without one gets none."""
    known = [section for section in sections if section in evidence_parts.sections()]
    if known:
        command = os.environ.get("DRAGSTRIP_EVIDENCE") or shlex.join(["python", *map(_within, sys.argv)])
        evidence_parts.renew(dict.fromkeys(known, stamps.now(command)))


def _within(word: str) -> str:
    """A path of the repository without the way to it."""
    path = Path(word).resolve()
    return str(path.relative_to(ROOT)) if "/" in word and path.is_relative_to(ROOT) else word


def part(page: Path, name: str) -> str:
    """The text of a section of a page."""
    _, _, rest = page.read_text("utf-8").partition(f"<!-- {name}: begin -->\n")
    return rest.partition(f"<!-- {name}: end -->")[0].strip()


def circumstances() -> str:
    """When and on what it was measured, as one line; the section's stamp has the commit."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpus = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    model = cpus[0] if cpus else platform.machine()
    return f"{datetime.now(UTC):%Y-%m-%d}, {len(cpus)} × {model}, Linux {platform.release()}"
