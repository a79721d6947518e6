"""Folders with a user's own definitions, of ``--contenders`` and of ``$DRAGSTRIP_CONTENDERS``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from dragstrip.contender.fields import FILE_NAME, Contender, load
from dragstrip.errors import BadUsage

#: Folders of the user's own definitions, separated by ``:``.
FOLDERS_VARIABLE = "DRAGSTRIP_CONTENDERS"


def load_once(file: Path) -> Contender:
    """A definition by its file, read again only when that has changed."""
    return _loaded(file.absolute(), file.stat().st_mtime_ns)


@cache
def _loaded(file: Path, _changed_ns: int) -> Contender:
    return load(file)


def named(among: Iterable[Path]) -> dict[str, Path]:
    """Folders by the names in their definitions.

    Raises:
        BadUsage: two have one name, so that nothing says which of them is meant.
    """
    named: dict[str, Path] = {}
    for folder in among:
        name = load_once(folder / FILE_NAME).name
        first = named.setdefault(name, folder)
        if not first.samefile(folder):
            raise BadUsage(f"{first} and {folder} both define {name!r}; change the name in one of them")
    return named


def folders(extra_dirs: Iterable[Path]) -> list[Path]:
    """The user's folders with a definition: each of the given ones and the environment's itself, or just below it.

    Raises:
        BadUsage: a folder of the environment is not there.
    """
    given = [Path(text) for text in os.environ.get(FOLDERS_VARIABLE, "").split(os.pathsep) if text]
    absent = next((str(folder) for folder in given if not folder.is_dir()), None)
    if absent:
        raise BadUsage(f"{FOLDERS_VARIABLE}: {absent} is no folder; use folders separated by {os.pathsep}")
    roots = (*given, *extra_dirs)
    return sorted({file.parent for one in roots for file in (*one.glob(FILE_NAME), *one.glob(f"*/{FILE_NAME}"))})
