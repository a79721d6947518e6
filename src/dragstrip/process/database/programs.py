"""Finds PostgreSQL's server programs and their version, without changing anything."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dragstrip.errors import NotReady

#: Its names on the command line and in texts.
NAME, TITLE = "postgresql", "PostgreSQL"

#: Debian's package of the preferred version; it has the server and the extensions that are used.
DEBIAN, MAJOR = "postgresql-15", "15"

#: The oldest version with the counters that are read here (its release notes, pg_stat_statements).
MIN_MAJOR = 13

#: Debian's folder for each major version; PATH only has wrappers for clients.
_VERSIONS = Path("/usr/lib/postgresql")

#: Seconds that a program may take to print its version.
_VERSION_S = 10.0

_INSTALLS = f"`dragstrip install {NAME}` installs it"


@dataclass(frozen=True, slots=True)
class Programs:
    """The server's programs: their folder, and the version that the server prints."""

    folder: Path
    version: str

    def place(self, name: str) -> str:
        """One program's path."""
        return str(self.folder / name)


def find() -> Programs:
    """The server's programs: version 15 if it is installed, otherwise the newest.

    Raises:
        NotReady: none is installed, or only a version that is too old.
    """
    for folder in _folders():
        if all((folder / name).is_file() for name in ("initdb", "postgres")):
            version = _version(folder / "postgres")
            major = re.match(r"\d+", version)
            if major and int(major[0]) >= MIN_MAJOR:
                return Programs(folder, version)
    raise NotReady(f"the workload needs {TITLE} {MIN_MAJOR} or later, which is not installed; {_INSTALLS}")


def _folders() -> Iterator[Path]:
    yield _VERSIONS / MAJOR / "bin"
    numbered = (place for place in _VERSIONS.glob("*/bin") if place.parent.name.isdigit())
    yield from sorted(numbered, key=lambda place: -int(place.parent.name))
    if on_path := shutil.which("postgres"):
        yield Path(on_path).resolve().parent


def _version(program: Path) -> str:
    """The version out of a line like "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)"."""
    try:
        output = subprocess.run(
            [str(program), "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_VERSION_S
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotReady(f"{program} can't be run ({error}); {_INSTALLS}") from error
    return output.strip().removeprefix("postgres (PostgreSQL) ")
