"""What the files of a program say of themselves: the modules that nginx was built with, the libraries' versions.

A program prints its own version; what language it embeds stands in its bytes, or in those of a library it is linked
with. Files are read once per state; nothing is executed but the system's `ldd`.
"""

from __future__ import annotations

import functools
import itertools
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

#: More than any server's program has; what is larger is not read.
_MOST_BYTES = 256 * 2**20

#: Seconds that `ldd` may take.
_LINKED_S = 10.0

#: nginx keeps the names of the modules it was built with, each a C string, for its messages (ngx_module_names).
_MODULE = re.compile(r"(?<=\0)(?:[a-z0-9]+_)+module(?=\0)")


def module_names(program: Path) -> tuple[str, ...]:
    """The names of modules that stand in an nginx's bytes, sorted; () where they can't be read (a script, say)."""
    return tuple(sorted(set(_found(str(program), _state(program), _MODULE))))


def first_match(pattern: str, files: Iterable[Path]) -> str | None:
    """What a pattern's one group holds in the first of some files, or of the libraries they use, that has it."""
    compiled, own = re.compile(pattern), list(files)
    libraries = (library for file in own for library in linked(file))
    held = (_found(str(file), _state(file), compiled) for file in itertools.chain(own, libraries))
    return next((texts[0] for texts in held if texts), None)


def linked(file: Path) -> tuple[Path, ...]:
    """The libraries that a program or module is linked with, by `ldd`; () without one."""
    return _linked(str(file), _state(file))


@functools.lru_cache(maxsize=256)
def _found(file: str, state: Sequence[int], pattern: re.Pattern[str]) -> tuple[str, ...]:
    if not state or state[1] > _MOST_BYTES:
        return ()
    try:
        text = Path(file).read_bytes().decode("latin-1")
    except OSError:
        return ()
    return tuple(match[match.re.groups] for match in pattern.finditer(text))


@functools.lru_cache(maxsize=256)
def _linked(file: str, _state: Sequence[int]) -> tuple[Path, ...]:
    ldd = shutil.which("ldd")
    if ldd is None:
        return ()
    try:
        output = subprocess.run(
            (ldd, file), stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_LINKED_S
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(Path(place) for place in re.findall(r"=> (/\S+)", output))


def _state(file: Path) -> tuple[int, ...]:
    """What changes when a file does; () where it isn't there."""
    try:
        about = file.stat()
    except OSError:
        return ()
    return (about.st_mtime_ns, about.st_size)
