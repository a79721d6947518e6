"""Stamps of measured sections: when, where, by which version and command each was measured.

``docs/evidence.json`` has a stamp for each section. A section is ``PAGE#NAME``: what is between the marks ``NAME`` of a
page, or the whole page for ``PAGE`` alone. ``evidence_parts.mark`` writes each stamp into its page, before the
section, as a line that readers see.

A section is older if the method or Dragstrip's release has changed since. A changed, moved or renamed source makes no
section older: evidence is made for a release.
"""

from __future__ import annotations

import dataclasses
import json
import platform
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEDGER = ROOT / "docs" / "evidence.json"


def _read(name: str, pattern: str) -> str:
    found = re.search(pattern, (ROOT / name).read_text("utf-8"), re.MULTILINE)
    assert found, f"{name} has no line {pattern}"
    return found[1]


#: Today's versions, read as text: some measuring programs run without Dragstrip's packages.
METHOD_VERSION = int(_read("src/dragstrip/record.py", r"^METHOD_VERSION = (\d+)"))
RELEASE = _read("Cargo.toml", r'^version = "([^"]+)"')


@dataclass(frozen=True)
class Stamp:
    """How a section was measured.

    Args:
        commit: the checkout's commit, and whether it had changes; empty if the history does not have the commit.
        method: version of the method; 0 if it was not noted.
        release: Dragstrip's version; empty if it was not noted.
        machine: processors and kernel.
        command: what was typed.
        minutes: time that it took, over all sittings; 0 if it was not noted.
    """

    date: str
    commit: str = ""
    method: int = 0
    release: str = ""
    machine: str = ""
    command: str = ""
    minutes: float = 0.0


def machine() -> str:
    """This machine: processors and kernel."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpus = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(cpus)} × {cpus[0] if cpus else platform.machine()}, Linux {platform.release()}"


def now(command: str) -> Stamp:
    """The stamp of a measurement that ends now."""
    changed = git("status", "--porcelain", "--", "src", "crates")
    return Stamp(
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        commit=git("rev-parse", "--short=8", "HEAD") + (" with changes" if changed else ""),
        method=METHOD_VERSION,
        release=RELEASE,
        machine=machine(),
        command=command,
    )


def git(*words: str) -> str:
    """What git prints; empty if git fails or does not exist."""
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def read(path: Path = LEDGER) -> dict[str, Stamp]:
    """Every section's stamp."""
    return {name: Stamp(**fields) for name, fields in json.loads(path.read_text("utf-8")).items()}


def write(stamps: Mapping[str, Stamp], path: Path = LEDGER) -> None:
    """Replaces all stamps."""
    texts = {name: dataclasses.asdict(stamps[name]) for name in sorted(stamps)}
    replace(path, json.dumps(texts, indent=1, ensure_ascii=False) + "\n")


def replace(path: Path, text: str) -> None:
    """Writes a file whole, or leaves it as it was."""
    if path.exists() and path.read_text("utf-8") == text:
        return
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=".", delete=False) as file:
        file.write(text)
    Path(file.name).chmod(0o644)
    Path(file.name).replace(path)


def reasons(stamp: Stamp) -> list[str]:
    """Why a stamp is older than today's method and release; empty if it is not."""
    found = []
    if stamp.method != METHOD_VERSION:
        found.append(f"today's method is {METHOD_VERSION}" if stamp.method else "its method was not noted")
    if stamp.release != RELEASE:
        found.append(f"today's release is {RELEASE}" if stamp.release else "its release was not noted")
    return found


def sentence(stamp: Stamp) -> str:
    """A stamp as readers see it, on one line."""
    if not stamp.date:
        return "**Not measured yet.**"
    parts = [
        f"Measured on {stamp.date}{f' at commit {stamp.commit}' if stamp.commit else ''}",
        f"Dragstrip {stamp.release}" if stamp.release else "",
        f"method {stamp.method}" if stamp.method else "",
        stamp.machine,
        f"by `{stamp.command}`" if stamp.command else "",
    ]
    text = ", ".join(part for part in parts if part)
    older = reasons(stamp)
    return f"**Older evidence:** {', and '.join(older)}. {text}." if older else f"{text}."


def without_lost_commits(stamps: Mapping[str, Stamp]) -> dict[str, Stamp]:
    """The stamps; a commit that a rebase renamed is dropped. A clone without its history knows of none."""
    if git("rev-parse", "--is-shallow-repository") != "false":
        return dict(stamps)
    return {
        section: dataclasses.replace(stamp, commit="") if stamp.commit and _lost(stamp.commit) else stamp
        for section, stamp in stamps.items()
    }


@cache
def _lost(commit: str) -> bool:
    name = commit.partition(" ")[0]
    base = git("merge-base", name, "HEAD")
    return not base or base != git("rev-parse", f"{name}^{{commit}}")


def marks(name: str) -> tuple[str, str]:
    """The lines between which a section's stamp is."""
    return f"<!-- evidence {name}: begin -->", f"<!-- evidence {name}: end -->"


def stamped(text: str, section: str, line: str) -> str:
    """A page's text with a section's stamp: before the section's first mark, or after the title for a whole page.

    Raises:
        SystemExit: the page has no such section.
    """
    name = section.partition("#")[2]
    begin, end = marks(name or "page")
    block = f"{begin}\n{line}\n{end}\n"
    before, found, rest = text.partition(f"{begin}\n")
    if found:
        return before + block + rest.partition(f"{end}\n")[2]
    if not name:
        title, _, rest = text.partition("\n")
        return f"{title}\n\n{block}{rest}"
    for mark in (f"<!-- {name}: begin -->", f"<!-- {name}:begin -->"):
        before, found, rest = text.partition(mark)
        if found:
            return f"{before}{block}{found}{rest}"
    raise SystemExit(f"{section}: the page has no such section; it needs the lines <!-- {name}: begin --> and end")
