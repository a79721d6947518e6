"""What commands receive: each option's value has the type that the command declares for it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import click
import pytest
from click.testing import CliRunner
from pydantic import TypeAdapter, ValidationError

from dragstrip.cli import main as cli_main
from dragstrip.cli.load import LoadOptions
from dragstrip.cli.options import gathered
from dragstrip.cli.race import RaceOptions
from dragstrip.cli.sweep import SweepOptions
from dragstrip.loading.request import LoadRequest
from dragstrip.racing.request import Request as RaceRequest
from dragstrip.sweep.run import Request as SweepRequest

#: A command line for each command that gives every option once, as far as they may stand together.
EVERY_OPTION = {
    "bisect": "v1 HEAD --threshold 3% -d 1m --fresh --json j -q --store s --project p --workload w -c 2 --metric cpu "
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
    "--junit x "
    "--export-markdown m --fail-if slower:3% --strict --pairs -v -q --store s --project p --workload w -c 2 "
    "--metric cpu --seed 1 --server-cores 1 --engine-cores 0",
    "doctor": "--server-cores 1 --engine-cores 0 --io epoll --seconds 1s --null-race --budget 1m --json j --store s",
    "export": "last f --as csv --contender a --rounds --chart pairs --column c --dark --store s",
    "fleet": "",
    "fleet agent": "one load --end",
    "fleet check": "f --idle 2",
    "fleet down": "f",
    "fleet install": "f a b --yes",
    "history": "mine --reference r --workload w --last 20 --json j --html h --store s",
    "init": "--build b --serve s --workload w --fail-if slower:3% --yes",
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
    "--min-reached 99% --allow-host lab --fleet f -q",
    "new": "mine --into .",
    "race": "a b --line-up default --serve x=y --image i=j.tar --why --wake 30s --contenders . --set a.b=c "
    "--workload hello -c 2 -t 1 "
    "--no-keepalive --http 1.0 --tls --streams 2 --timeout 1s -d +2m --margin 2% --metric cpu "
    "-R auto --pace precise --efficiency --typical --runs 3 --last-round 80 --pause-after 5 --seed 1 --json j --html h "
    "--junit x --export-markdown m --into . --exclusive "
    "-n n --fresh-scrutiny --resume last --server-cores 1 --engine-cores 0 --io auto --awake off "
    "--fail-if slower:3% --strict --pairs -v -q --store s --fleet f --node-wait 1m --allow-host lab:rate=any "
    "--yes",
    "report": "last --html h --json j --svg s --store x",
    "rerun": "last --workload w -q --yes --store s --fleet f --node-wait 1s",
    "runs": "--json --store s",
    "serve": "--port 0 --store s",
    "show": "last --pairs -v --parity --json --store s",
    "sweep": "a --serve x=y --image i=j.tar --wake 30s --contenders . --set a.b=c --slo p99=5ms "
    "--rates 1k:2k:3 --launches 5 "
    "--workload w -c 2 -t 1 --timeout 1s --pace precise --seed 3 --json j --show s --server-cores 1 --engine-cores 0 "
    "--io auto --awake off -q --store s --fleet f --node-wait 5s",
    "why": "last --column c --contender a --launches 6 -d 1m --workload w --json j --html h -q --yes --store s",
    "verify": "a --line-up default --serve x=y --image i=j.tar --wake 30s --workload w --json --parity "
    "--server-cores 1 --engine-cores 0 --contenders . --set a.b=c",
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
        (RaceOptions, RaceRequest, {"workload", "http", "connections", "keepalive", "metric"}),
        (SweepOptions, RaceRequest, {"workload"}),
        (SweepOptions, SweepRequest, set()),
        (LoadOptions, LoadRequest, {"http", "sources", "pool", "script", "headers", "body"}),
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
