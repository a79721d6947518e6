"""Options that several commands share: their types, their declarations, and the values that commands receive.

A command that has more than a few options receives them as one frozen dataclass (``gathered``). Options that several
commands share are declared once here: a decorator that adds them, and a dataclass with their fields to derive from.
"""

from __future__ import annotations

import functools
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import click

from dragstrip.cli.quantities import Duration, share_of, whole_number
from dragstrip.loading.arrivals import PRECISIONS
from dragstrip.paths import is_file
from dragstrip.process import keep_awake
from dragstrip.racing import options as bounds
from dragstrip.record import Race
from dragstrip.store.database import Store, default_path

EXIT_FAILURE, EXIT_USAGE, EXIT_VOID, EXIT_INTERRUPTED = 1, 2, 3, 130

Options = TypeVar("Options")
Command = TypeVar("Command", bound=Callable[..., object])


def gathered(make: Callable[..., Options]) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Hands a command its options and arguments as one value.

    click calls a command with a keyword for each of its parameters; the dataclass's fields have the same names.

    Args:
        make: the dataclass.
    """

    def decorate(command: Callable[[Options], None]) -> Callable[..., None]:
        @functools.wraps(command)
        def called_by_click(**values: object) -> None:
            command(make(**values))

        return called_by_click

    return decorate


def refuse_warm_up(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    """hyperfine's ``--warmup N`` has nothing to set here."""
    if value is not None:
        raise click.UsageError(
            "--warmup has no effect: each launch is warmed up until it stops getting faster, within the limits of "
            "its definition's [warm_up]; leave it out",
            ctx,
        )


class Rule(click.ParamType[tuple[str, str, float]]):
    """``slower:3%`` or ``faster:5%``; as its text, its direction and its share."""

    name = "rule"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str, float]:
        """Text, direction and share."""
        if isinstance(value, tuple):
            return value
        match = re.fullmatch(r"(slower|faster):(.+)", str(value))
        share = share_of(match[2]) if match else None
        if match is None or share is None or share >= 1:
            self.fail(f"{value!r} is not a valid threshold; use slower:3% or faster:0.05", param, ctx)
        return str(value), match[1], share


@dataclass(frozen=True, kw_only=True)
class StoreOptions:
    """Where races are kept; None for the usual place."""

    store_path: Path | None


def store_options(command: Command) -> Command:
    """``--store FILE``, for ``StoreOptions``."""
    return click.option(
        "--store",
        "store_path",
        type=click.Path(path_type=Path),
        default=None,
        help="Database file with the stored races.",
    )(command)


@dataclass(frozen=True, kw_only=True)
class DefinitionOptions:
    """Folders of definitions, and parameters like ``NAME.key=value``."""

    folders: tuple[Path, ...]
    settings: tuple[str, ...]


def definition_options(command: Command) -> Command:
    """``--contenders DIR`` and ``--set NAME.key=value``, for every command that names contenders."""
    folder = click.Path(path_type=Path, exists=True, file_okay=False)
    command = click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME.key=value",
        help="Set a contender's parameter; NAME.program=/opt/… sets the path of its executable.",
    )(command)
    return click.option(
        "--contenders", "folders", multiple=True, type=folder, help="A folder with your own contender definitions."
    )(command)


@dataclass(frozen=True, kw_only=True)
class CoreOptions:
    """The cores of servers and of the engine, as texts like ``2-3``; None for the usual ones."""

    server_cores: str | None
    engine_cores: str | None


def core_options(
    *,
    server: str = "CPU cores for the servers, e.g. 1 or 2-3.",
    engine: str = "CPU cores for the load generator.",
) -> Callable[[Command], Command]:
    """``--server-cores`` and ``--engine-cores``, with their help."""

    def add(command: Command) -> Command:
        command = click.option("--engine-cores", default=None, help=engine)(command)
        return click.option("--server-cores", default=None, help=server)(command)

    return add


io_option = click.option(
    "--io",
    type=click.Choice(["auto", "uring", "epoll"]),
    default="auto",
    show_default=True,
    help="The engine's I/O back end; auto uses io_uring if it works.",
)


def awake_option(usual: str) -> Callable[[Command], Command]:
    """``--awake auto|off``; ``usual`` is what holds where nothing is said."""
    return click.option(
        "--awake",
        type=click.Choice(keep_awake.CHOICES),
        default=usual,
        show_default=True,
        help="Keep CPU cores out of idle sleep states.",
    )


@dataclass(frozen=True, kw_only=True)
class RunOptions(DefinitionOptions, CoreOptions, StoreOptions):
    """What ``race`` and ``sweep`` share: whom to start, and how the engine loads them.

    Args:
        contenders, serve: names or files as on the command line; commands of one's own, with ``{port}``.
        threads: of the engine; None for one per core.
        timeout: seconds for one answer.
        pace: how sharply an open loop's schedule is kept.
        seed: of the order of everything; None draws one.
        io, awake: the engine's back end; whether cores are kept from sleeping.
    """

    contenders: tuple[str, ...]
    serve: tuple[str, ...]
    wake: float | None
    threads: int | None
    timeout: float
    pace: str
    seed: int | None
    io: str
    awake: str
    quiet: bool


threads_option = click.option(
    "--threads",
    "-t",
    type=whole_number(bounds.THREADS),
    default=None,
    help="Engine threads. [default: one per engine core]",
)
timeout_option = click.option(
    "--timeout", type=Duration(), default="2s", show_default=True, help="Time limit for one response."
)
seed_option = click.option(
    "--seed",
    type=whole_number(bounds.SEED),
    default=None,
    help="Seed for random order and drawn requests. [default: random]",
)


def serve_option(purpose: str, *, starts: bool = True) -> Callable[[Command], Command]:
    """``--serve "NAME=COMMAND {port}"``, whose help is ``purpose``, and, if the command ``starts`` it, ``--wake``."""
    serve = click.option("--serve", multiple=True, metavar='"NAME=COMMAND {port}"', help=purpose)
    text = "Time that a --serve command gets to send its first correct response. [default: 10s]"
    wake = click.option("--wake", type=Duration(), default=None, metavar="TIME", help=text)
    return lambda command: serve(wake(command) if starts else command)


def pace_option(text: str) -> Callable[[Command], Command]:
    """``--pace precise|…`` with its help."""
    return click.option("--pace", type=click.Choice(PRECISIONS), default="precise", help=text)


class _ReportingStore(Store):
    """A store that says at its end which races it had to pass over."""

    def close(self) -> None:
        """Closes the file."""
        for line in dict.fromkeys(self.passed_over):
            click.echo(f"dragstrip: passed over: {line}", err=True)
        self.passed_over.clear()
        super().close()


def open_store(store_path: Path | None) -> Store:
    """The store that was named, or the usual one."""
    return _ReportingStore(store_path or default_path())


def read_store(store_path: Path | None) -> Store:
    """The same for a command that only reads: a store that is not there is not made."""
    return _ReportingStore(store_path or default_path(), write=False)


def read_race(name: str, store_path: Path | None) -> Race:
    """A race by its id (or the beginning of one, or last), or from a file that ``dragstrip export`` wrote.

    Raises:
        StoreError: there is none, or several, or the file is no exported race.
    """
    if not is_file(Path(name)):
        with read_store(store_path) as store:
            return store.load(name)
    with tempfile.TemporaryDirectory(prefix="dragstrip-") as folder, Store(Path(folder) / "one.sqlite") as store:
        return store.load(store.import_race(Path(name)))
