"""How a command declares its options, the options that several commands share, and the store that they name.

A command's options and arguments are the fields of one frozen dataclass: each field has the option's type, its flags
and its help, in the order of the command's help.
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from dragstrip.commands.outputs import OutputFile
from dragstrip.commands.quantities import BUDGET, DURATION, RATE_OR_AUTO, SHARE, THRESHOLD, TextType, whole_number
from dragstrip.errors import BadUsage
from dragstrip.extensions import extension
from dragstrip.paths import is_file, temporary
from dragstrip.racing import options as bounds
from dragstrip.racing.options import COMMON, GROUPS, LOAD, OUTPUT, RACED, TIME
from dragstrip.record import Race
from dragstrip.store.database import Store, default_path

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from dragstrip.contender import AllowedHost
    from dragstrip.racing.setup import Site

EXIT_FAILURE, EXIT_USAGE, EXIT_VOID, EXIT_INTERRUPTED = 1, 2, 3, 130

Options = TypeVar("Options")
Made = TypeVar("Made")

_PARAMETER = "click's decorator for it, which lacks the name"
#: Options of a race by their names.
DECLARED = {declared.name: declared for declared in fields(bounds.DeclaredOptions)}


#: How the command line reads a quantity, and how it writes one.
_QUANTITIES: dict[str, tuple[click.ParamType[Any], Callable[[float], str]]] = {
    "duration": (DURATION, "{:g}s".format),
    "budget": (BUDGET, "{:g}s".format),
    "rate": (RATE_OR_AUTO, "{:g}".format),
    "share": (SHARE, lambda share: f"{100 * share:g}%"),
}


class GroupedOption(click.Option):
    """An option that knows its group in the help."""

    def __init__(self, flags: Sequence[str] | None = None, *, group: str = OUTPUT, **words: object) -> None:
        super().__init__(flags, **words)  # type: ignore[arg-type]
        self.group = group


class GroupedCommand(click.Command):
    """A command whose help has its options in groups, the most used ones first.

    Args:
        common: names of the most used options.
    """

    def __init__(self, name: str | None, *, common: Sequence[str] = (), **words: object) -> None:
        super().__init__(name, **words)  # type: ignore[arg-type]
        self.common = common

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the groups."""
        groups: dict[str, list[tuple[str, str]]] = {group: [] for group in GROUPS}
        shown = {one.name: one for one in self.get_params(ctx) if isinstance(one, click.Option) and not one.hidden}
        for name in dict.fromkeys((*self.common, *shown)):
            group = COMMON if name in self.common else getattr(shown[name], "group", OUTPUT)
            groups[group].append(shown[name].get_help_record(ctx) or ("", ""))
        for group, records in groups.items():
            if records:
                with formatter.section(group):
                    formatter.write_dl(records)


def completed_by(name: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """A word is completed by this function of ``completion``, which is imported when a shell asks."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from dragstrip.commands import completion

        found: list[CompletionItem] = getattr(completion, name)(ctx, param, incomplete)
        return found

    return complete


def option(*flags: str, **words: object) -> Any:
    """A field that is an option; ``words`` as in ``click.option``, and its ``group`` in the help."""
    return field(metadata={_PARAMETER: partial(click.option, *flags, cls=GroupedOption, **words)})


def of_race(name: str, **words: object) -> Any:
    """A field that is race's option of this name; ``words`` replace what is declared of it, as in ``click.option``."""
    declared, default = DECLARED[name].metadata, cast(Any, DECLARED[name].default)
    bound: bounds.Bound = declared["bound"]
    usual: dict[str, object] = dict(declared["words"])
    if isinstance(bound, bounds.IntRange):
        usual["type"] = whole_number(bound)
    elif isinstance(bound, bounds.FloatRange):
        usual["type"], written = _QUANTITIES[bound.quantity]
        default = None if default is None else written(default)
    elif bound == bounds.FLAG:
        usual["is_flag"] = True
    elif isinstance(bound, bounds.Choice):
        usual["type"] = click.Choice(declared["choices"] or bound.values)
    usual |= {} if default is None else {"default": default}
    return option(*declared["flags"], **(usual | words))


def switch(*names: str, **words: object) -> Any:
    """A field that is a flag: False unless it is given."""
    return option(*names, is_flag=True, **words)


def argument(**words: object) -> Any:
    """A field that is an argument; ``words`` as in ``click.argument``."""
    return field(metadata={_PARAMETER: partial(click.argument, **words)})  # type: ignore[arg-type]


def gathered(make: type[Options]) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Declares a command's options and arguments, and hands them to it as one value.

    Args:
        make: the dataclass, whose fields are made by ``option`` and ``argument``, or declared as a race's options;
            fields of its bases come last.
    """

    def decorate(command: Callable[[Options], None]) -> Callable[..., None]:
        @functools.wraps(command)
        def called_by_click(**values: object) -> None:
            command(make(**values))

        own_first = sorted(fields(make), key=lambda declared: declared.name not in make.__annotations__)  # type: ignore[arg-type]
        for declared in reversed(own_first):
            source = of_race(declared.name) if "flags" in declared.metadata else declared
            if _PARAMETER in source.metadata:
                called_by_click = source.metadata[_PARAMETER](declared.name)(called_by_click)
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
race_argument = partial(argument, shell_complete=completed_by("races"))
contenders_argument = partial(argument, nargs=-1, shell_complete=completed_by("contenders"))
store_option = partial(option, "--store", type=_PATH, help="Database file with the stored races.")
folders_option = partial(
    option,
    "--contenders",
    group=RACED,
    multiple=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder with your own contender definitions.",
)
settings_option = partial(
    option,
    "--set",
    group=RACED,
    multiple=True,
    metavar="NAME.key=value",
    help="Set a contender's parameter; NAME.program=/opt/… sets the path of its executable.",
)
line_up_option = partial(option, "--line-up", group=RACED, help="A named list of contenders, e.g. default.")
serve_option = partial(option, "--serve", group=RACED, multiple=True, metavar='"NAME=COMMAND"')
image_option = partial(option, "--image", group=RACED, multiple=True, metavar='"NAME=IMAGE"')
wake_option = partial(
    option,
    "--wake",
    group=RACED,
    type=DURATION,
    metavar="TIME",
    help=(
        "Time that a --serve command or an --image gets to send its first correct response. [default: 10s; 30s for a "
        "command that does not listen yet]"
    ),
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
    type=TextType("host", _allowed_host),
    multiple=True,
    metavar="NAME",
    help=(
        "Allow load on this remote host, which must be yours; NAME:connections=500,rate=20000,time=5m raises the"
        " limits."
    ),
)
cacert_option = partial(
    option, "--cacert", group=LOAD, metavar="FILE", help="Trusted certificates or CAs (PEM). [default: this machine's]"
)
insecure_option = partial(switch, "--insecure", group=LOAD, help="Accept any certificate; the report notes it.")
fail_if_option = partial(option, "--fail-if", group=TIME, type=THRESHOLD, multiple=True, metavar="slower:3%")
strict_option = partial(
    switch, "--strict", group=TIME, help="Exit 1 also if the interval can't rule out what --fail-if names."
)


def in_store(store: Path | None) -> list[str]:
    """The words with which a printed command finds what was stored; none for the default store."""
    return ["--store", str(store)] if store not in (None, default_path()) else []


def named(run: str, store: Path | None) -> str:
    """A race as a printed command names it: with its store."""
    return " ".join([run, *map(shlex.quote, in_store(store))])


def refuse_strict_alone(rules: Sequence[object], *, strict: bool) -> None:
    """Refuses ``--strict`` without a threshold.

    Raises:
        BadUsage: there is none.
    """
    if strict and not rules:
        raise BadUsage("--strict needs --fail-if; add for example --fail-if slower:3%")


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
    with extension("fleet").joined(fleet, node_wait_s) as site:
        yield site


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
