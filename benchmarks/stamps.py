"""Stamps of measured sections: when, where, by which code and command each was measured, and whether that is today's.

``docs/evidence.json`` has a stamp for each section. A section is ``PAGE#NAME``: what is between the marks ``NAME`` of a
page, or the whole page for ``PAGE`` alone. ``evidence_parts.mark`` writes each stamp into its page, before the
section, as a line that readers see.
"""

from __future__ import annotations

import dataclasses
import json
import platform
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import measuring_code as measuring

ROOT = measuring.ROOT
LEDGER = ROOT / "docs" / "evidence.json"

#: Today's version of the method, read as text: some measuring programs run without Dragstrip's packages.
METHOD_VERSION = int(
    re.findall(r"^METHOD_VERSION = (\d+)", (ROOT / "src/dragstrip/record.py").read_text("utf-8"), re.MULTILINE)[0]
)


@dataclass(frozen=True)
class Stamp:
    """How a section was measured.

    Args:
        commit: the checkout's commit; empty if it is unknown or no longer part of the history.
        uncommitted: the measuring code differed from that commit.
        method: version of the method; 0 if it was not noted.
        machine: processors and kernel.
        command: what was typed.
        minutes: time that it took, over all sittings; 0 if it was not noted.
        code: hash of each folder of the measuring code; empty if it is unknown.
    """

    date: str
    commit: str = ""
    uncommitted: bool = False
    method: int = 0
    machine: str = ""
    command: str = ""
    minutes: float = 0.0
    code: dict[str, str] = field(default_factory=dict)


def machine() -> str:
    """This machine: processors and kernel."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpus = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(cpus)} × {cpus[0] if cpus else platform.machine()}, Linux {platform.release()}"


def now(command: str, minutes: float = 0.0, code: Mapping[str, str] | None = None) -> Stamp:
    """The stamp of a measurement that ends now. code: hashes at its start, if they were noted."""
    return Stamp(
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        commit=measuring.head(),
        uncommitted=measuring.uncommitted(),
        method=METHOD_VERSION,
        machine=machine(),
        command=command,
        minutes=round(minutes, 1),
        code=dict(code or measuring.today()),
    )


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


def reasons(stamp: Stamp, folders: tuple[str, ...], today: Mapping[str, str], method: int) -> list[str]:
    """Why a stamp is older than today's code and method; empty if it is not.

    Args:
        folders: the measuring code that the section rests on; the method counts if it is more than the engine.
        today: each folder's hash in this checkout.
        method: today's version.
    """
    found = []
    judged = any(folder != measuring.ENGINE for folder in folders)
    if judged and stamp.method != method:
        found.append(f"today's method is {method}" if stamp.method else "its method was not noted")
    if folders and not stamp.code:
        found.append("the state of its measuring code is not known")
    elif any(stamp.code.get(folder) != today[folder] for folder in folders):
        found.append("the measuring code has changed since")
    return found


def sentence(stamp: Stamp, older: list[str]) -> str:
    """A stamp as readers see it, on one line."""
    if not stamp.date:
        return "**Not measured yet.**"
    commit = f"at commit {stamp.commit}" if stamp.commit else "at a commit that this history does not have"
    parts = [
        f"Measured on {stamp.date} {commit}{' with changes' if stamp.uncommitted else ''}",
        f"method {stamp.method}" if stamp.method else "",
        stamp.machine,
        f"by `{stamp.command}`" if stamp.command else "",
    ]
    text = ", ".join(part for part in parts if part)
    return f"**Older evidence:** {', and '.join(older)}. {text}." if older else f"{text}."


def with_known_commits(stamps: Mapping[str, Stamp]) -> dict[str, Stamp]:
    """The stamps, where each names a commit of this history or none.

    A rebase gives a commit another name. If the history has a commit with the same measuring code, it replaces the
    unknown name.
    """
    if not measuring.history_is_whole():
        return dict(stamps)
    known = {}
    for name, stamp in stamps.items():
        if stamp.commit and not measuring.in_history(stamp.commit):
            stamp = dataclasses.replace(stamp, commit=measuring.with_this_code(stamp.code) if stamp.code else "")
        known[name] = stamp
    return known


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
