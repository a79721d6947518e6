"""How a command declares its options, the options that several commands share, and the store that they name.

A command's options and arguments are the fields of one frozen dataclass: each field has the option's type, its flags
and its help, in the order of the command's help.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dragstrip.cli import completion
from dragstrip.cli.outputs import OutputFile
from dragstrip.cli.quantities import DURATION, THRESHOLD, Text, whole_number
from dragstrip.errors import BadUsage
from dragstrip.loading.arrivals import PRECISIONS
from dragstrip.paths import is_file, temporary
from dragstrip.process import keep_awake
from dragstrip.racing import options as bounds
from dragstrip.record import DEFAULT_CONNECTIONS, Race
from dragstrip.store.database import Store, default_path

if TYPE_CHECKING:
    from dragstrip.contender import AllowedHost
    from dragstrip.racing.setup import Site

EXIT_FAILURE, EXIT_USAGE, EXIT_VOID, EXIT_INTERRUPTED = 1, 2, 3, 130

Options = TypeVar("Options")
Made = TypeVar("Made")

_PARAMETER = "click's decorator for it, which lacks the name"


def option(*flags: str, **words: object) -> Any:
    """A field that is an option; ``words`` as in ``click.option``."""
    return field(metadata={_PARAMETER: partial(click.option, *flags, **words)})  # type: ignore[arg-type]


def switch(*names: str, **words: object) -> Any:
    """A field that is a flag: False unless it is given."""
    return option(*names, is_flag=True, **words)


def argument(**words: object) -> Any:
    """A field that is an argument; ``words`` as in ``click.argument``."""
    return field(metadata={_PARAMETER: partial(click.argument, **words)})  # type: ignore[arg-type]


def gathered(make: type[Options]) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Declares a command's options and arguments, and hands them to it as one value.

    Args:
        make: the dataclass, whose fields are made by ``option`` and ``argument``; fields of its bases come last.
    """

    def decorate(command: Callable[[Options], None]) -> Callable[..., None]:
        @functools.wraps(command)
        def called_by_click(**values: object) -> None:
            command(make(**values))

        own_first = sorted(fields(make), key=lambda declared: declared.name not in make.__annotations__)  # type: ignore[arg-type]
        for declared in reversed(own_first):
            if _PARAMETER in declared.metadata:
                called_by_click = declared.metadata[_PARAMETER](declared.name)(called_by_click)
        return called_by_click

    return decorate


def taken_from(options: object, make: Callable[..., Made], **others: object) -> Made:
    """A request whose fields are the options of the same name, and ``others``."""
    names = [declared.name for declared in fields(make)]  # type: ignore[arg-type]
    same = {name: getattr(options, name) for name in names if hasattr(options, name)}
    return make(**(same | others))


def _allowed_host(text: str) -> AllowedHost:
    from dragstrip.contender import allowed_host  # slow to import, and `dragstrip runs` does not need it

    return allowed_host(text)


_PATH = click.Path(path_type=Path)

output_option = partial(option, type=OutputFile())
#: ``-`` is the standard output.
report_option = partial(option, type=OutputFile(dash=True))
html_option = partial(output_option, "--html", help="Write the report as one self-contained HTML page.")
quiet_option = partial(switch, "--quiet", "-q", help="Print only the report, no progress.")
pairs_option = partial(switch, "--pairs", help="Show every pair.")
verbose_option = partial(
    switch, "--verbose", "-v", help="Also show all checks, the other metrics and what the words mean."
)
race_argument = partial(argument, shell_complete=completion.races)
contenders_argument = partial(argument, nargs=-1, shell_complete=completion.contenders)
store_option = partial(option, "--store", type=_PATH, help="Database file with the stored races.")
folders_option = partial(
    option,
    "--contenders",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder with your own contender definitions.",
)
settings_option = partial(
    option,
    "--set",
    multiple=True,
    metavar="NAME.key=value",
    help="Set a contender's parameter; NAME.program=/opt/… sets the path of its executable.",
)
line_up_option = partial(option, "--line-up", help="A named list of contenders, e.g. default.")
serve_option = partial(option, "--serve", multiple=True, metavar='"NAME=COMMAND {port}"')
image_option = partial(option, "--image", multiple=True, metavar='"NAME=IMAGE"')
wake_option = partial(
    option,
    "--wake",
    type=DURATION,
    metavar="TIME",
    help="Time that a --serve command or an --image gets to send its first correct response. [default: 10s]",
)
connections_option = partial(
    option,
    "--connections",
    "-c",
    type=whole_number(bounds.CONNECTIONS),
    help=f"Concurrent connections. [default: {DEFAULT_CONNECTIONS}, or the workload's own number]",
)
threads_option = partial(
    option, "--threads", "-t", type=whole_number(bounds.THREADS), help="Engine threads. [default: one per engine core]"
)
timeout_option = partial(option, "--timeout", type=DURATION, default="2s", help="Time limit for one response.")
pace_option = partial(
    option,
    "--pace",
    type=click.Choice(PRECISIONS),
    default="precise",
    help="Open loop: how precisely requests leave on time; see load --help.",
)
seed_option = partial(
    option,
    "--seed",
    type=whole_number(bounds.SEED),
    help="Seed for random order and drawn requests. [default: random]",
)
server_cores_option = partial(option, "--server-cores", help="CPU cores for the servers, e.g. 1 or 2-3.")
engine_cores_option = partial(option, "--engine-cores", help="CPU cores for the load generator.")
io_option = partial(
    option,
    "--io",
    type=click.Choice(["auto", "uring", "epoll"]),
    default="auto",
    help="The engine's I/O back end; auto uses io_uring if it works.",
)
awake_option = partial(
    option,
    "--awake",
    type=click.Choice(keep_awake.CHOICES),
    help="Keep CPU cores out of idle sleep states.",
)
fleet_option = partial(
    option, "--fleet", type=_PATH, metavar="FILE", help="Run on the machines listed in a fleet.toml."
)
node_wait_option = partial(
    option,
    "--node-wait",
    type=DURATION,
    default="30s",
    help="With --fleet: how long to wait for a machine that stops responding.",
)
allow_host_option = partial(
    option,
    "--allow-host",
    type=Text("host", _allowed_host),
    multiple=True,
    metavar="NAME",
    help=(
        "Allow load on this remote host, which must be yours; NAME:connections=500,rate=20000,time=5m raises the"
        " limits."
    ),
)
fail_if_option = partial(option, "--fail-if", type=THRESHOLD, multiple=True, metavar="slower:3%")
strict_option = partial(switch, "--strict", help="Exit 1 also if the interval can't rule out what --fail-if names.")
yes_option = partial(switch, "--yes", help="Run what a file from elsewhere names without asking.")


@contextmanager
def placed(
    fleet: Path | None, node_wait_s: float, *, server_cores: str | None = None, engine_cores: str | None = None
) -> Iterator[Site]:
    """Where a command's races run: this machine, or a fleet, whose agents end with this context.

    Raises:
        BadUsage: cores are given as well as a fleet. BadDefinition: the fleet's file is invalid.
        MachineLost: a machine can't be reached.
    """
    from dragstrip.racing.setup import LOCAL

    if fleet is None:
        yield LOCAL
        return
    for flag, cores in (("--server-cores", server_cores), ("--engine-cores", engine_cores)):
        if cores is not None:
            raise BadUsage(
                f"{flag} {cores} can't be used with --fleet: {fleet} sets each machine's cores; leave it out"
            )
    from dragstrip.fleet.definition import load
    from dragstrip.fleet.fleet_site import FleetSite
    from dragstrip.fleet.machines import Machines

    with Machines(load(fleet), node_wait_s=node_wait_s) as machines:
        yield FleetSite(machines)


class _ReportingStore(Store):
    """A store that lists, when it closes, the races that it had to pass over."""

    def close(self) -> None:
        """Closes the file."""
        for line in dict.fromkeys(self.passed_over):
            click.echo(f"dragstrip: passed over: {line}", err=True)
        self.passed_over.clear()
        super().close()


def open_store(store_path: Path | None) -> Store:
    """The named store, or the default one."""
    return _ReportingStore(store_path or default_path())


def read_store(store_path: Path | None) -> Store:
    """The store for a command that only reads; one that does not exist is not created."""
    return _ReportingStore(store_path or default_path(), write=False)


def read_race(name: str, store_path: Path | None) -> Race:
    """A race by its id (or the beginning of one, or last), or from a file that ``dragstrip export`` wrote.

    Raises:
        StoreError: it does not exist, or several match, or the file is not an exported race.
    """
    if not is_file(Path(name)):
        with read_store(store_path) as store:
            return store.load(name)
    with temporary() as folder, Store(folder / "one.sqlite") as store:
        return store.load(store.import_race(Path(name)))
