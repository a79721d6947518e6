"""Whether a word is a file, which any word may be asked; and files that a definition names beside itself."""

from __future__ import annotations

from pathlib import Path


def is_file(path: Path) -> bool:
    """Whether there is a file of that name; False for what no path can be (too long, a NUL in it)."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def read_beside(folder: Path, name: str, most: int) -> bytes:
    """The bytes of a file that a definition in ``folder`` names; links that lead elsewhere are refused, too.

    Raises:
        ValueError: it is outside of the folder, not a regular file, longer than ``most`` bytes, or can't be read.
    """
    try:
        file = (folder / name).resolve()
        if not file.is_relative_to(folder.resolve()):
            raise ValueError(f"{name} is outside of {folder}")
        if file.exists() and not file.is_file():
            raise ValueError(f"{file} is not a regular file")
        with file.open("rb") as opened:
            data = opened.read(most + 1)
    except OSError as error:
        raise ValueError(f"{folder / name} can't be read ({error.strerror})") from error
    if len(data) > most:
        raise ValueError(f"{file} is longer than {most:,} bytes")
    return data
