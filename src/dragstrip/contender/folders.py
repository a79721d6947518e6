"""Folders with a user's own definitions, of ``--contenders`` and of ``$DRAGSTRIP_CONTENDERS``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from dragstrip.contender.fields import FILE_NAME, Contender, load
from dragstrip.errors import BadDefinition, BadUsage

#: Folders of the user's own definitions, separated by ``:``.
FOLDERS_VARIABLE = "DRAGSTRIP_CONTENDERS"


def load_once(file: Path) -> Contender:
    """A definition by its file, read again only when that has changed."""
    return _loaded(file.absolute(), file.stat().st_mtime_ns)


@cache
def _loaded(file: Path, _changed_ns: int) -> Contender:
    return load(file)


def named(among: Iterable[Path]) -> dict[str, Path]:
    """Folders by the names in their definitions; one whose definition is refused goes by the folder's own name.

    Raises:
        BadUsage: two have one name, so that nothing says which of them is meant.
    """
    named: dict[str, Path] = {}
    refused = broken(among := tuple(among))
    for folder in among:
        if folder in refused:
            continue
        name = load_once(folder / FILE_NAME).name
        first = named.setdefault(name, folder)
        if not first.samefile(folder):
            raise BadUsage(f"{first} and {folder} both define {name!r}; change the name in one of them")
    return {folder.name: folder for folder in refused} | named


def broken(among: Iterable[Path]) -> dict[Path, BadDefinition]:
    """The folders whose definition is refused, and why: only these can't be raced."""
    found: dict[Path, BadDefinition] = {}
    for folder in among:
        try:
            load_once(folder / FILE_NAME)
        except BadDefinition as error:
            found[folder] = error
    return found


def folders(extra_dirs: Iterable[Path]) -> list[Path]:
    """The user's folders with a definition: each of the given ones and the environment's itself, or just below it.

    Raises:
        BadUsage: a folder of the environment is not there.
    """
    given = [Path(text) for text in os.environ.get(FOLDERS_VARIABLE, "").split(os.pathsep) if text]
    absent = next((str(folder) for folder in given if not folder.is_dir()), None)
    if absent:
        raise BadUsage(f"{FOLDERS_VARIABLE}: {absent} is not a folder; separate folders with {os.pathsep}")
    roots = (*given, *extra_dirs)
    return sorted({file.parent for one in roots for file in (*one.glob(FILE_NAME), *one.glob(f"*/{FILE_NAME}"))})
