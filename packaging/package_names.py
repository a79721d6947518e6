"""Which contenders lack a package in a Debian release, by the release's own package lists.

    python packaging/package_names.py /srv/trixie/var/lib/apt/lists [/srv/bookworm/var/lib/apt/lists]

Each argument is a folder of apt's lists (`*_Packages`), as `apt-get update` fetches it in a fresh root. Prints a line
for each contender that the release can't install, with the packages that it lacks; exit status 1 if a name in a
definition is in none of the given releases, which is a misspelling or a name that is gone.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from dragstrip.contender import shipped
from dragstrip.contender.fields import Contender, Install, alternatives
from dragstrip.image import DEBIAN as BUBBLEWRAP
from dragstrip.process import database


def names_in(text: str) -> Iterator[str]:
    """The packages of a list, also those that others provide in their place."""
    for key, value in re.findall(r"^(Package|Provides): (.+)$", text, re.MULTILINE):
        yield from (name.split(" (")[0].strip() for name in value.split(",")) if key == "Provides" else (value.strip(),)


def of_folder(folder: Path) -> frozenset[str]:
    """The packages of a release, by its lists.

    Raises:
        SystemExit: the folder has no list.
    """
    files = sorted(folder.glob("*_Packages"))
    if not files:
        sys.exit(f"{folder}: no file *_Packages; give a folder of apt's lists after `apt-get update`")
    return frozenset(name for file in files for name in names_in(file.read_text(errors="replace")))


def wanted(contender: Contender) -> Iterator[tuple[str, str]]:
    """Everything that a definition installs by Debian's packages, and for what: "" or a workload."""
    tables: list[tuple[str, Install]] = [("", contender.fields.install), ("db", contender.fields.database.install)]
    tables += [(name, serving.install) for name, serving in contender.fields.workload.items()]
    for purpose, install in tables:
        yield from ((purpose, text) for text in install.debian)


def lacking(packages: frozenset[str], contenders: Mapping[str, Contender]) -> dict[str, list[str]]:
    """By contender and workload, the packages that a release has by none of their names."""
    found: dict[str, list[str]] = {}
    for name, one in contenders.items():
        for purpose, text in wanted(one):
            if not packages & set(alternatives(text)):
                found.setdefault(f"{name} at {purpose}" if purpose else name, []).append(text)
    return found


def gone(releases: Iterable[frozenset[str]], contenders: Mapping[str, Contender]) -> list[str]:
    """Names in definitions, and of what `install` adds to them, that no release has."""
    known = frozenset[str]().union(*releases)
    texts = [BUBBLEWRAP, database.DEBIAN, *(text for one in contenders.values() for _, text in wanted(one))]
    return sorted({name for text in texts for name in alternatives(text)} - known - UNVERSIONED)


#: The last of several names, for releases that are neither given nor known.
UNVERSIONED = frozenset({"php-fpm", "php-pgsql"})


def main() -> None:
    """Prints what each release lacks."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folders", nargs="+", type=Path)
    folders = options.parse_args().folders
    releases = {folder: of_folder(folder) for folder in folders}
    for folder, packages in releases.items():
        missed = lacking(packages, shipped())
        print(f"{folder}: {len(packages):,} packages; {len(missed) or 'none'} can't be installed")
        for name, texts in missed.items():
            print(f"    {name}: no {', no '.join(texts)}")
    if absent := gone(releases.values(), shipped()):
        sys.exit(f"in no release: {', '.join(absent)}")


if __name__ == "__main__":
    main()
