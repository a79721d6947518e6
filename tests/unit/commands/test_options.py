"""What commands receive: each option's value has the type that the command declares for it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import click
import pytest
from click.testing import CliRunner
from pydantic import TypeAdapter, ValidationError

from dragstrip.commands import main as cli_main
from dragstrip.commands.load import LoadOptions
from dragstrip.commands.options import GroupedCommand, gathered
from dragstrip.commands.race import RaceOptions
from dragstrip.commands.sweep import SweepOptions
from dragstrip.loading.request import LoadRequest
from dragstrip.racing.options import COMMON, GROUPS
from dragstrip.racing.request import Request as RaceRequest
from dragstrip.sweep.run import SweepRequest as SweepRequest
from dragstrip.workload import load as load_workload
from dragstrip.workload import names

#: A command line for each command that gives every option once, as far as they may stand together.
EVERY_OPTION = {
    "bisect": "v1 HEAD --threshold 3% -d 1m --fresh --json j -q --store s --project p --workload w -c 2 --metric cpu "
    "--path /a -m POST -H k:v -C a=b -a a:b -b x -D f -T a/b --status 201 --check full --ignore /id "
    "--seed 1 --server-cores 1 --engine-cores 0",
    "claims": "--remarks --markdown m --svg s --json j --store x",
    "claims add": "mine a b --outputs p q --rates 2 1 --ratio 2 --statement s --source w --year 2013 --workload hello "
    "--serve a=b --tolerance 5% -c 10 --http 1.0 --keepalive --to .",
    "claims check": "a b --all --budget 1m --resume --setting fair --remarks -q --markdown m --svg s "
    "--json j --store x --fleet f --node-wait 1s --yes",
    "claims list": "--json --contenders",
    "compare": "a b --metric cpu --margin 2% --reference c --fail-if slower:3% --strict --anyway --json j --markdown m "
    "--junit x --store s",
    "contenders": "a b --workload db --json --contenders . --set a.b=c --images --clean-images",
    "diff": "v1 HEAD --a-a -d 1m --rounds 10 --margin 2% --why --anyway --builds --clean --json j --html h "
    "--junit x --accept-change "
    "--export-markdown m --fail-if slower:3% --strict --pairs -v -q --store s --project p --workload w -c 2 "
    "--path /a -m POST -H k:v -C a=b -a a:b -b x -D f -T a/b --status 201 --check full --ignore /id "
    "--metric cpu --seed 1 --server-cores 1 --engine-cores 0",
    "doctor": "--server-cores 1 --engine-cores 0 --io epoll --seconds 1s --null-race --budget 1m --json j --store s",
    "export": "last f --as csv --rows pairs --contender a --rounds --chart pairs --column c --dark --store s",
    "fleet": "",
    "fleet agent": "one load --end",
    "fleet check": "f --idle 2",
    "fleet down": "f",
    "fleet install": "f a b --yes",
    "history": "mine --reference r --workload w --last 20 --json j --html h --store s",
    "init": "--path /a --build b --serve s --workload w --fail-if slower:3% --yes",
    "import": "here --beside last --name n --engine docker --store s",
    "install": "a b --all --line-up default --workload db --yes --contenders . --set a.b=c",
    "lab": "",
    "lab clear": "--work w/s 0123456789abcdef.1 --whole 0123456789abcdef.2",
    "lab collect": "--work w/s 0123456789abcdef.1",
    "lab drop": "m a b --folder f",
    "lab inquire": "",
    "lab pause": "m --folder f",
    "lab plan": "m --folder f",
    "lab race": "--work w/s --deliver",
    "lab report": "m --folder f --html h --json j --parquet p",
    "lab retry": "m a b --folder f",
    "lab run": "m --folder f --only workload=json --dask local --tls t",
    "lab serve": "m --folder f --port 0 --host h",
    "lab status": "m --folder f --watch --cells --json",
    "load": "http://127.0.0.1/ a b -s s.lua -c 2k -n 1M -d 10s -t 2 -H k:v -m POST -b x -D f -T text/plain --pool p "
    "--raw r "
    "--url-template /{int:1..2} --urls 5 --latency --no-keepalive --close-after 3 --pipeline 4 --streams 2 --unix u "
    "--image i.tar --wake 30s --cacert c --insecure --tls resumed --sources auto --first-byte --h2c --cookie a=b "
    "--basic-auth a:b "
    "--http 1.0 -k --timeout 2s --status 200 --check full --io uring --awake auto -R 1k --ramp 1:2 --steps 1k:1s,2k:2s "
    "--pace precise --arrivals poisson --seed 3 --json j --hgrm h --hlog l --style wrk --max-p99 5ms --max-errors 1% "
    "--min-reached 99% --allow-host lab --fleet f -q --html p --store s --no-store",
    "new": "mine --into .",
    "race": "a b --line-up default --serve x=y --in x=/tmp --env x.A=1 "
    "--image i=j.tar --why --wake 30s --contenders . --set a.b=c "
    "--workload hello -c 2 -t 1 "
    "--no-keepalive --http 1.0 --tls --streams 2 --timeout 1s -d +2m --margin 2% --metric cpu "
    "-R auto --pace precise --efficiency --typical --runs 3 --last-round 80 --pause-after 5 --seed 1 --json j --html h "
    "--junit x --export-markdown m --into . --exclusive "
    "--path /a -m POST -H k:v -C a=b -a a:b -b x -D f -T a/b --status 201 --check full --ignore /id "
    "-n n --fresh-scrutiny --resume last --server-cores 1 --engine-cores 0 --io auto --awake off "
    "--fail-if slower:3% --strict --pairs -v -q --store s --fleet f --node-wait 1m --allow-host lab:rate=any "
    "--cacert c --insecure --yes",
    "report": "last --html h --json j --svg s --store x",
    "rerun": "last --workload w -H k:v --env x.A=1 -q --yes --store s --fleet f --node-wait 1s",
    "runs": "--json --store s",
    "serve": "--port 0 --store s",
    "show": "last --pairs -v --parity --json --store s",
    "sweep": "a --serve x=y --in x=/tmp --env x.A=1 "
    "--image i=j.tar --wake 30s --contenders . --set a.b=c --slo p99=5ms "
    "--fail-if slower:3% --strict --rates 1k:2k:3 --launches 5 "
    "--workload w -c 2 -t 1 --timeout 1s --pace precise --seed 3 --json j --show s --server-cores 1 --engine-cores 0 "
    "--path /a -m POST -H k:v -C a=b -a a:b -b x -D f -T a/b --status 201 --check full --ignore /id "
    "--io auto --awake off -q --store s --fleet f --node-wait 5s --cacert c --insecure",
    "why": "last --column c --contender a --launches 6 -d 1m --workload w --env x.A=1 "
    "--json j --html h -q --yes --store s "
    "--path /a -m POST -H k:v -C a=b -a a:b -b x -D f -T a/b --status 201 --check full --ignore /id",
    "verify": "a --line-up default --serve x=y --in x=/tmp --env x.A=1 "
    "--image i=j.tar --wake 30s --workload w --json --parity "
    "--path /a -m POST -H k:v -C a=b -a a:b -b x -D f -T a/b --status 201 --check full --ignore /id "
    "--server-cores 1 --engine-cores 0 --contenders . --set a.b=c --cacert c --insecure",
}  # fmt: skip


def every_command(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Commands and those below them, by the words that call them."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{before}{name}", command
        if isinstance(command, click.Group):
            yield from every_command(command, f"{name} ")


COMMANDS = dict(every_command(cli_main.cli))


def declared(command: click.Command) -> dict[str, Any]:
    """The types that a command declares for its options: fields of its dataclass, or its own parameters."""
    assert command.callback is not None
    function = inspect.unwrap(command.callback)
    hints = {name: hint for name, hint in get_type_hints(function).items() if name not in ("return", "context")}
    (first, *others) = hints.values() or (None,)
    return get_type_hints(first) if not others and is_dataclass(first) else hints


def misfits(types: dict[str, Any], values: dict[str, Any]) -> list[str]:
    """The names of values that are not of the type declared for them."""

    def fits(kind: Any, value: Any) -> bool:
        try:
            TypeAdapter(kind).validate_python(value, strict=True)
        except ValidationError:
            return False
        return True

    return [name for name, kind in types.items() if not fits(kind, values[name])]


@pytest.fixture
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the file that ``import`` reads."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").touch()


@pytest.mark.usefixtures("somewhere")
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_arrives_in_the_type_that_its_command_declares(name: str) -> None:
    """Names are those of the fields; values fit, both where each option is given and where none is."""
    command, types, given = COMMANDS[name], declared(COMMANDS[name]), EVERY_OPTION[name].split()
    assert {parameter.name for parameter in command.params if parameter.expose_value} == types.keys()
    with command.make_context(name, list(given)) as context:
        sources = {parameter: context.get_parameter_source(parameter) for parameter in types}
        assert [key for key, source in sources.items() if source is not click.core.ParameterSource.COMMANDLINE] == []
        assert misfits(types, context.params) == []
    arguments = [p.nargs for p in command.params if isinstance(p, click.Argument) and p.required]
    with command.make_context(name, ["here"] * sum(arguments)) as context:
        assert misfits(types, context.params) == []


def test_a_value_of_another_type_is_found() -> None:
    """The check above sees a text in place of a number, a number in place of a text, and None."""
    types = {"a": int, "b": str, "c": Path, "d": tuple[str, ...], "e": int | None}
    wrong = {"a": "1", "b": 1, "c": None, "d": ("x", 1), "e": None}
    assert misfits(types, wrong) == ["a", "b", "c", "d"]


def test_a_command_without_a_field_for_its_option_fails_at_once() -> None:
    """``gathered`` passes on what click hands over: neither too much nor too little goes unnoticed."""

    @dataclass
    class Paint:
        size: int

    @click.command()
    @click.option("--colour")
    @gathered(Paint)
    def paint(options: Paint) -> None: ...

    result = CliRunner().invoke(paint, ["--colour", "red"])
    assert isinstance(result.exception, TypeError)


@pytest.mark.parametrize(
    ("options", "request_", "made"),
    [
        (RaceOptions, RaceRequest, {"workload", "http", "metric"}),
        (SweepOptions, RaceRequest, {"workload"}),
        (SweepOptions, SweepRequest, set()),
        (LoadOptions, LoadRequest, {"http", "sources", "pool", "script", "method", "headers", "body"}),
    ],
)
def test_an_option_is_of_the_type_of_the_request_s_field_that_takes_it(
    options: type, request_: type, made: set[str]
) -> None:
    """``taken_from`` copies fields by their names; the command itself makes the fields of ``made``."""
    given, wanted = get_type_hints(options), get_type_hints(request_)
    assert made <= given.keys() & wanted.keys()
    assert {name: given[name] for name in given.keys() & wanted.keys() - made} == {
        name: wanted[name] for name in given.keys() & wanted.keys() - made
    }


def test_defaults_of_load_are_those_of_its_request() -> None:
    """A default is declared at both; the command's alone had stayed as it was."""
    command = cli_main.cli.get_command(click.Context(cli_main.cli), "load")
    assert command is not None
    context = click.Context(command)
    declared = {field.name: field.default for field in fields(LoadRequest) if field.default is not MISSING}
    said = {
        one.name: one.type_cast_value(context, one.get_default(context))
        for one in command.params
        if one.name in declared and isinstance(one.get_default(context), str | bool | int | float)
    }
    assert {"timeout_s", "connections", "io"} <= said.keys()
    assert said == {name: declared[name] for name in said}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", (10, False, "1.0", "cpu")),
        ("-c 3 --keepalive --http 2 --metric throughput", (3, True, "2", "throughput")),
    ],
)
def test_a_line_up_sets_what_the_command_line_does_not(
    tmp_path: Path, words: str, expected: tuple[int, bool, str, str]
) -> None:
    """Wherever --line-up is on the line; what its file leaves out has race's own default."""
    file = tmp_path / "mine.toml"
    file.write_text(
        'title = "Mine"\ncontenders = ["a", "b"]\nconnections = 10\nkeepalive = false\nhttp = "1.0"\nmetric = "cpu"\n'
    )
    options = of_race_command(*words.split(), "--line-up", str(file))
    assert (options.connections, options.keepalive, options.http, options.metric) == expected
    file.write_text('title = "Mine"\ncontenders = ["a", "b"]\n')
    options = of_race_command("--line-up", str(file))
    assert (options.connections, options.keepalive, options.http, options.metric) == (None, True, "1.1", "auto")


def of_race_command(*words: str) -> RaceOptions:
    """The options that ``dragstrip race`` receives."""
    return RaceOptions(**COMMANDS["race"].make_context("race", list(words)).params)


def test_an_option_of_race_is_declared_in_one_place() -> None:
    """Every option that the request has by the same name is made from the request's own field."""
    flags = {
        one.name: [*one.opts, *one.secondary_opts] for one in COMMANDS["race"].params if isinstance(one, click.Option)
    }
    declared = {one.name: one.metadata.get("flags") for one in fields(RaceRequest)}
    for name in flags.keys() & declared.keys() - {"workload", "allowed"}:
        assert [word for flag in declared[name] for word in flag.split("/")] == flags[name], name
    assert {"connections", "keepalive", "budget_s", "metric", "awake"} <= flags.keys() & declared.keys()


@pytest.mark.parametrize("name", ["race", "load", "sweep", "diff", "bisect", "verify", "why"])
def test_the_help_has_each_option_once_in_a_group(name: str) -> None:
    """The most used ones first, a dozen at most; no option is lost or repeated."""
    command = COMMANDS[name]
    assert isinstance(command, GroupedCommand)
    assert len(set(command.common)) == len(command.common) <= 12
    text = command.get_help(click.Context(command, info_name=name))
    heads = re.findall(r"^(\w.*):$", text.partition("\n\n")[2], re.MULTILINE)
    assert heads == [group for group in GROUPS if group in heads]
    assert (heads[0] == COMMON) is bool(command.common)
    listed = re.findall(r"^  (-\S.*?)(?:  |$)", text[text.index(f"\n{heads[0]}:\n") :], re.MULTILINE)
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    assert len(listed) == len(options) + 1  # and --help
    for option in options:
        assert sum(option.opts[0] in re.split(r"[, ]+", line) for line in listed) == 1, option.opts


def test_the_help_names_workloads_of_every_kind() -> None:
    """Over WebSocket, and of both suites."""
    text = " ".join(COMMANDS["race"].get_help(click.Context(COMMANDS["race"])).split())
    named = {one.name for one in map(load_workload, names()) if any(kind.request.message for kind in one.kinds)}
    named |= {name for name in names() if "-" not in name}
    assert named
    assert {name for name in named if not re.search(rf"\b{name}\b", text)} == set()
    assert "tfb-json" in text
    assert "arena-baseline" in text
