"""Recognises a suite's folder, a whole checkout of a suite or an entry alone, and imports what it has."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from dragstrip.contender import NAME
from dragstrip.errors import BadUsage
from dragstrip.extras.suites import httparena, techempower
from dragstrip.extras.suites.suite_entries import Cause, Engine, LeftOut, SuiteEntry, write

#: Where entries are below a folder that the user may give: an entry's own, a checkout, `frameworks`, a language's.
_BELOW = ("", "frameworks/*/*/", "frameworks/*/", "*/", "*/*/")


@dataclass(frozen=True, slots=True)
class FoundEntries:
    """What a folder has, in the order of names: entries that become definitions, and others."""

    entries: tuple[SuiteEntry, ...]
    refused: tuple[LeftOut, ...]


def read_all(folder: Path, workloads: Collection[str]) -> FoundEntries:
    """All entries of a folder; nothing is written.

    Args:
        workloads: the names of the workloads that exist.

    Raises:
        BadUsage: the folder has no entry of a suite.
    """
    found = list(_read(folder, workloads))
    if not found:
        raise BadUsage(
            f"{folder} is not a folder of a suite: TechEmpower's have {techempower.CONFIG}, HttpArena's have "
            f"{httparena.META} and a Dockerfile; give an entry's folder, or a whole checkout"
        )
    entries: dict[str, SuiteEntry] = {}
    refused: list[LeftOut] = []
    for read in sorted(found, key=lambda read: read.name):
        if isinstance(read, LeftOut):
            refused.append(read)
        elif not NAME.fullmatch(read.name):
            refused.append(LeftOut(read.name, Cause.NAME))
        elif read.name in entries:
            refused.append(LeftOut(read.name, Cause.TWICE, str(entries[read.name].build)))
        else:
            entries[read.name] = read
    return FoundEntries(tuple(entries.values()), tuple(refused))


def import_all(folder: Path, workloads: Collection[str], engine: Engine) -> FoundEntries:
    """Writes a definition for each entry of a folder, which stays as it is.

    Raises:
        BadUsage: as ``read_all``, or a definition can't be written.
    """
    found = read_all(folder, workloads)
    for entry in found.entries:
        write(entry, engine)
    return found


def _read(folder: Path, workloads: Collection[str]) -> Iterator[SuiteEntry | LeftOut]:
    for below in _BELOW:
        tests = sorted(folder.glob(f"{below}{techempower.CONFIG}"))
        for file in tests:
            yield from techempower.read(file.parent, workloads)
        entries = [file for file in sorted(folder.glob(f"{below}{httparena.META}")) if httparena.is_entry(file)]
        for file in entries:
            yield httparena.read(file.parent, workloads, folder)
        if tests or entries:
            return
