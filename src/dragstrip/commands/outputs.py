"""Files that a command writes: the type of their options, which checks paths before a measurement, and the writing."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

from dragstrip import paths
from dragstrip.errors import BadUsage, DiskFull, need_extra
from dragstrip.store.database import default_path

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: In click's ``meta``: the words of the command line, so that no output is a file that the command reads.
WORDS = "dragstrip.words"

#: An option's name, its path if it was given, and what makes the file's content.
Wanted: TypeAlias = tuple[str, Path | None, Callable[[], str | bytes]]


class OutputFile(click.ParamType[Path]):
    """A file to write. It is tried before anything is measured: ``paths.refusal`` has the rules.

    Args:
        dash: "-" is the standard output, and so is /dev/stdout.
        late: the command itself tries it, because another option decides whether it is a file or a folder.
    """

    name = "file"

    def __init__(self, *, dash: bool = False, late: bool = False) -> None:
        self.dash, self.late = dash, late

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path, unchanged."""
        path = Path(str(value))
        if param is not None and param.name == "html_path":
            need_extra("altair")
        if self.dash and (str(path) == "-" or paths.descriptor(path) == 1):
            return Path("-")
        problem = _named_twice(path, ctx) or (None if self.late else paths.refusal(path))
        if problem is not None:
            self.fail(problem, param, ctx)
        return path

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Files, by the shell itself."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


def _named_twice(path: Path, ctx: click.Context | None) -> str | None:
    """Why a path is refused that the same command line also names as another file; None if it does not."""
    try:
        if path.exists() and not path.is_file():
            return None  # two reports may go into one device
        identity = _identity(str(path))
        if identity == _identity(str(default_path())):
            return f"{path} is the store of races; give another path"
    except (OSError, ValueError):
        return None  # ``paths.refusal`` reports the reason
    words = ctx.meta.get(WORDS, ()) if ctx is not None else ()
    parts = (part.lstrip("@") for word in words for part in re.split(r"[\s='\"]+", word) if "\0" not in part)
    if sum(_identity(part) == identity for part in parts if part) > 1:
        return f"{path} is named twice in this command; an output needs a path of its own"
    return None


def _identity(text: str) -> Hashable:
    """A value that is equal for two paths of the same file."""
    try:
        status = Path(text).stat()
    except OSError:
        return os.path.realpath(text)
    return status.st_dev, status.st_ino


def json_text(content: object) -> str:
    """An object as the indented JSON of every ``--json``."""
    return json.dumps(content, indent=2) + "\n"


def write_all(wanted: Sequence[Wanted], *, measured: bool = False, again: str = "") -> None:
    """Writes each requested file; ``-`` is the standard output. A file that fails does not stop the others.

    Args:
        measured: the content took time to measure, so a file that can't be written is kept elsewhere.
        again: how to write it again.

    Raises:
        BadUsage: files can't be written. DiskFull: no space is left for one of them.
    """
    from dragstrip.commands.streams import write_report

    failed: list[BadUsage | DiskFull] = []
    for option, path, make in wanted:
        if path is None:
            continue
        content = make()
        try:
            _write(path, content)
        except (BadUsage, DiskFull) as error:
            data = content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
            copy = write_report("output", data) if measured else None
            kept = f"; its content is kept in {copy}" if copy else ""
            failed.append(type(error)(f"{option} {error}{kept}"))
    if failed:
        kind = DiskFull if any(isinstance(error, DiskFull) for error in failed) else BadUsage
        raise kind("\n".join(map(str, failed)) + (f"\n{again}" if again else ""))


def _write(path: Path, content: str | bytes) -> None:
    if str(path) == "-":
        click.echo(content, nl=False)
        return
    if paths.descriptor(path) is not None:  # what was printed so far comes first
        sys.stdout.flush()
    paths.write(path, content)
