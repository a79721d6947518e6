"""What several commands share: durations and shares as words, where races are kept, how files are written."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dragstrip.errors import BadUsage
from dragstrip.paths import is_file
from dragstrip.process import keep_awake
from dragstrip.racing.options import LONGEST_S, Whole
from dragstrip.record import Race
from dragstrip.store.database import Store, default_path

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

EXIT_FAILURE, EXIT_USAGE, EXIT_VOID, EXIT_INTERRUPTED = 1, 2, 3, 130

_UNITS_S = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}


#: No command runs for longer than a year.
_LONGEST_S = 366 * 86_400.0


class Duration(click.ParamType[float]):
    """``60s``, ``2m``, ``5ms``, ``500us`` or plain seconds, as wrk and hey users write them, above zero; as seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds, above zero."""
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(us|µs|ms|s|m|h)?", str(value))
        if not match or float(match[1]) <= 0:
            self.fail(f"{value!r} is no duration above zero; use 10s, 2m, 5ms or 500us", param, ctx)
        seconds = float(match[1]) * _UNITS_S[match[2]]
        if seconds > _LONGEST_S:
            self.fail(f"{value!r} is longer than a year; use 10s, 2m, 5ms or 500us", param, ctx)
        return seconds


class More(float):
    """Seconds that a race gets on top of what it had."""


class Budget(Duration):
    """A duration, or ``+2m``, so much more for a race that is resumed."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds; a ``More`` where they are to be added."""
        text = str(value)
        more = text.startswith("+")
        seconds = super().convert(text[1:] if more else value, param, ctx)
        if seconds > LONGEST_S:
            self.fail(f"{text!r} is longer than a week; use 60s, 2m or 1h", param, ctx)
        return More(seconds) if more else seconds


def refuse_warm_up(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    """hyperfine's ``--warmup N`` has nothing to set here."""
    if value is not None:
        raise click.UsageError(
            "--warmup has nothing to set: each launch is warmed up under its own load until it no longer gets faster "
            "(a definition's [warm_up] says least and most); leave it out",
            ctx,
        )


class Output(click.ParamType[Path]):
    """A file to write, tried before anything is measured: its folder is there, and it can be opened for writing.

    Args:
        dash: "-" is the standard output.
        folder: it is a folder that may be made (within one that is there).
    """

    name = "file"

    def __init__(self, *, dash: bool = False, folder: bool = False) -> None:
        self.dash, self.folder = dash, folder

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path, unchanged."""
        path = Path(value)
        if self.dash and str(path) == "-":
            return path
        if problem := refusal(path, folder=self.folder):
            self.fail(problem, param, ctx)
        return path

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Files, by the shell itself."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


def refusal(path: Path, *, folder: bool = False) -> str:
    """Why a file can't be written, and what would do; "" if it can be. A file that was not there is not there after."""
    remedy = "give another path"
    try:
        if not path.parent.is_dir():
            return f"{path}: its folder {path.parent} is not there; make it first, or give another path"
        if folder or path.is_dir():
            fits = folder and (path.is_dir() or not path.exists())
            return "" if fits else f"{path} is {'no folder' if folder else 'a folder'}; {remedy}"
        if path.exists() and not path.is_file():
            return ""  # a pipe or a device: to open it may block, or be seen at its other end
        there = path.exists()
        with path.open("ab"):
            pass
        if not there:
            path.unlink()
    except (OSError, ValueError) as error:
        return f"{path}: can't be written ({getattr(error, 'strerror', None) or error}); {remedy}"
    return ""


class Share(click.ParamType[float]):
    """``1%`` or ``0.01``, below 100 %.

    Args:
        least: 0 takes 0 too (none may fail); None wants it above 0.
    """

    name = "share"

    def __init__(self, least: float | None = None) -> None:
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """A share as a float."""
        if isinstance(value, float):
            return value
        share = share_of(str(value))
        if share is None or share >= 1 or (share <= 0 if self.least is None else share < self.least):
            bounds = (
                "between 0 and 100 %; use 1% or 0.01" if self.least is None else "from 0 to below 100 %; use 0.1% or 0"
            )
            self.fail(f"{value!r} is no share {bounds}", param, ctx)
        return share


def share_of(text: str) -> float | None:
    """``1%`` or ``0.01`` as 0.01; None if it is no such number."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(%)?", text)
    return float(match[1]) / (100 if match[2] else 1) if match else None


def whole(bound: Whole) -> click.IntRange:
    """A number of a race's plan, within the same bounds as in a call from Python."""
    return click.IntRange(bound.least, bound.most)


def store_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--store FILE``, handed over as ``store_path``."""
    return click.option(
        "--store", "store_path", type=click.Path(path_type=Path), default=None, help="Where races are kept."
    )(command)


def awake_option(usual: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """``--awake auto|off``; ``usual`` is what holds where nothing is said."""
    return click.option(
        "--awake",
        type=click.Choice(keep_awake.CHOICES),
        default=usual,
        show_default=True,
        help="Keep cores from sleeping.",
    )


class _Telling(Store):
    """A store that says at its end which races it had to pass over."""

    def close(self) -> None:
        """Closes the file."""
        for line in dict.fromkeys(self.passed_over):
            click.echo(f"dragstrip: passed over: {line}", err=True)
        self.passed_over.clear()
        super().close()


def open_store(store_path: Path | None) -> Store:
    """The store that was named, or the usual one."""
    return _Telling(store_path or default_path())


def read_store(store_path: Path | None) -> Store:
    """The same for a command that only reads: a store that is not there is not made."""
    return _Telling(store_path or default_path(), write=False)


def stored(word: str, store_path: Path | None) -> Race:
    """A race by its id (or the beginning of one, or last), or from a file that ``dragstrip export`` wrote.

    Raises:
        StoreError: there is none, or several, or the file is no exported race.
    """
    if not is_file(Path(word)):
        with read_store(store_path) as store:
            return store.load(word)
    with tempfile.TemporaryDirectory(prefix="dragstrip-") as folder, Store(Path(folder) / "one.sqlite") as store:
        return store.load(store.import_race(Path(word)))


def write_json(path: Path, told: Mapping[str, Any], option: str) -> None:
    """Writes an object as indented JSON; ``write_text`` has the rest."""
    write_text(path, json.dumps(told, indent=2) + "\n", option)


def write_text(path: Path, text: str, option: str) -> None:
    """Writes a file in a folder that is there; ``-`` is the standard output.

    Raises:
        BadUsage: it can't be written; ``option`` says whose path it is.
    """
    if str(path) == "-":
        click.echo(text, nl=False)
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadUsage(f"{option} {path}: can't be written ({error.strerror}); give another path") from error


def definitions(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--contenders DIR`` and ``--set NAME.key=value``, for every command that names contenders."""
    folders = click.Path(path_type=Path, exists=True, file_okay=False)
    command = click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME.key=value",
        help="A parameter; program=/opt/… says where it is.",
    )(command)
    return click.option(
        "--contenders", "folders", multiple=True, type=folders, help="A folder of definitions of your own."
    )(command)
