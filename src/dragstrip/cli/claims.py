"""``dragstrip claims``: what has been published about these servers, put to the test here."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError
from rich.console import Console

from dragstrip.claim import definition as definitions
from dragstrip.claim.assess import Row
from dragstrip.claim.contenders import contenders_of
from dragstrip.claim.definition import FAIR, PUBLISHED, Claim
from dragstrip.claim.grouping import Group, groups
from dragstrip.claim.run import check, rows
from dragstrip.cli import completion
from dragstrip.cli.options import EXIT_VOID, Duration, Output, Share, open_store, read_store, store_option, write_text
from dragstrip.contender import entry, parse_entry, serve_entry
from dragstrip.errors import BadUsage
from dragstrip.loading import other_tools
from dragstrip.report.claims import chart as claims_chart
from dragstrip.report.claims import page as claims_page
from dragstrip.report.claims import table as report
from dragstrip.report.race.live import Progress
from dragstrip.store.database import Store, default_path


def _outputs(command: Any) -> Any:
    """The files that a table of claims can be written to."""
    path = Output(dash=True)
    for name, text in (
        ("markdown", "The page of docs."),
        ("svg", "Its chart."),
        ("json", "Every row; - for the standard output."),
    ):
        command = click.option(f"--{name}", f"{name}_path", type=path, default=None, help=text)(command)
    return command


@click.group(invoke_without_command=True)
@click.option("--remarks", is_flag=True, help="What each verdict rests on.")
@_outputs
@store_option
@click.pass_context
def claims(context: click.Context, /, remarks: bool, store_path: Path | None, **words: Any) -> None:
    """What has been published about these servers, and what became of it here; without a command: from the store."""
    if context.invoked_subcommand is None:
        with read_store(store_path) as store:
            _tell(_every(()), store, words, remarks=remarks)


@claims.command(name="list")
@click.option("--json", "as_json", is_flag=True)
@click.option("--contenders", "only_names", is_flag=True, help="Only whom they are about, a line each, for install.")
def list_command(as_json: bool, only_names: bool) -> None:
    """Every claim: what was said, its figure, and whether it can be raced here."""
    if only_names:
        words = [word for one in _every(()) for word in one.everybody]
        click.echo("\n".join(dict.fromkeys(parse_entry(word)[0] for word in words)))
        return
    listed = [_listed(one) for one in _every(())]
    click.echo(json.dumps(listed, indent=2)) if as_json else report.listing(Console(), listed)


def _listed(one: Claim) -> dict[str, Any]:
    play = contenders_of(one, PUBLISHED)
    stand_ins = [f"{name} races for {word}" for name, word in play.stand_ins.items()]
    missing = [f"missing {name}: {why}" for name, why in play.missing.items()]
    return {
        "claim": one.id,
        "status": "missing" if missing else "ready",
        "reason": "; ".join(missing),
        "stand_ins": stand_ins,
        "statement": one.fields.statement + (f" ({'; '.join(stand_ins)})" if stand_ins else ""),
        "source": one.fields.source,
        "year": one.fields.year,
        "kind": one.fields.kind,
        "contenders": list(one.fields.contenders),
        "workload": one.fields.workload,
        "load": one.fields.load.model_dump(),
        "published_ratio": one.fields.ratio,
        "figure": report.published(one),
    }


@claims.command(name="check")
@click.argument("names", nargs=-1, shell_complete=completion.claims)
@click.option("--all", "everything", is_flag=True)
@click.option("--budget", type=Duration(), default="25m", show_default=True, help="For all races together.")
@click.option("--resume", is_flag=True, help="Keep what the store has decided, go on with the rest.")
@click.option("--setting", type=click.Choice([PUBLISHED, FAIR]), default=None, help="Only this one of the two.")
@click.option("--remarks", is_flag=True, help="What each verdict rests on.")
@click.option("--quiet", "-q", is_flag=True, help="Only the table.")
@_outputs
@store_option
def check_command(
    names: tuple[str, ...], everything: bool, store_path: Path | None, quiet: bool, remarks: bool, **words: Any
) -> None:
    """Race what CLAIMS are about, by name or TOML file, under their published load and under fair settings."""
    if bool(names) == everything:
        raise BadUsage("claims check: name claims (`dragstrip claims list` has them), or give --all; one of the two")
    wanted = _every(names)
    settings = (words["setting"],) if words["setting"] else (PUBLISHED, FAIR)
    console = Console(stderr=str(words["json_path"]) == "-")
    planned = groups(wanted, settings)
    number = iter(range(1, len(planned) + 1))

    @contextmanager
    def show(group: Group) -> Iterator[Progress]:
        if not quiet:
            load = group.load.text()
            console.print(f"race {next(number)} of at most {len(planned)}, {group.setting}: {load}", soft_wrap=True)
        with Progress(console, quiet=quiet) as progress:
            yield progress

    def say(line: str) -> None:
        click.echo(line, err=True)

    with open_store(store_path) as store:
        check(planned, store=store, budget_s=words["budget"], resume=words["resume"], show=show, say=say)
        told = _tell(wanted, store, words, remarks=remarks)
    raced = [one for row in told for one in (row.published, row.fair) if one is not None and one.race]
    if raced and all(one.void for one in raced):
        sys.exit(EXIT_VOID)


def _every(names: Sequence[str]) -> tuple[Claim, ...]:
    folders = (_own(),)
    return tuple(definitions.load(name, folders) for name in names) if names else definitions.every(folders)


def _own() -> Path:
    """The folder of the claims that were added here: beside the store."""
    return default_path().parent / "claims"


@claims.command(name="add")
@click.argument("name")
@click.argument("first")
@click.argument("second")
@click.option("--outputs", nargs=2, type=click.Path(path_type=Path), help="What wrk, ab, hey or oha printed for each.")
@click.option("--rates", nargs=2, type=float, help="Answers a second of each.")
@click.option("--ratio", type=float, help="Or the first's speed over the second's.")
@click.option("--statement", default="", help="One sentence; made from the figures if not given.")
@click.option("--source", default="added here")
@click.option("--year", type=int, default=None, help="This one if not given.")
@click.option("--workload", default="hello", show_default=True)
@click.option("--serve", multiple=True, metavar='"NAME=COMMAND {port}"', help="A server of your own, by name.")
@click.option("--tolerance", type=Share(), default="10%", show_default=True, help="Within it the size holds.")
@click.option("--connections", "-c", type=int, default=None, help="Of the published load.")
@click.option("--http", type=click.Choice(["1.0", "1.1"]), default=None)
@click.option("--keepalive/--no-keepalive", default=None)
@click.option(
    "--to", "folder", type=click.Path(path_type=Path, file_okay=False), default=None, help="Where its file goes."
)
def add_command(name: str, folder: Path | None, **words: Any) -> None:
    """Add a claim of your own: NAME, that FIRST serves so many times the requests of SECOND."""
    fields = _claimed(words)
    for word in fields.contenders:
        # A name that nobody has is refused now, not when the claim is checked.
        serve_entry(f"{word}={fields.serve[word]}") if word in fields.serve else entry(word)
    if "/" in name:
        remedy = "give a plain name; --to names a folder"
        raise BadUsage(f"claims add: {name!r} would leave the claims' folder; {remedy}")
    made = definitions.write((folder or _own()) / f"{name}.toml", fields)
    click.echo(f"{made.source.file}\n{made.fields.statement} ({made.fields.load.text()})")
    click.echo(f"dragstrip claims check {made.source.file if folder else name}")


def _claimed(words: dict[str, Any]) -> definitions.ClaimFile:
    outputs = [other_tools.load(file) for file in words["outputs"] or ()]
    if sum(bool(words[one]) for one in ("outputs", "rates", "ratio")) != 1:
        raise BadUsage("claims add: give one of --outputs FILE FILE, --rates NUMBER NUMBER, --ratio NUMBER")
    rates = tuple(one.rate_per_s for one in outputs) or tuple(words["rates"] or ())
    first, second = words["first"], words["second"]
    ratio = words["ratio"] or (rates[0] / rates[1] if rates and min(rates) > 0 else 0.0)
    note = _unlike(outputs)
    if note:
        click.echo(f"dragstrip: {note}", err=True)
    own = dict(text.partition("=")[::2] for text in words["serve"])
    try:
        return definitions.ClaimFile(
            statement=words["statement"] or f"{first} serves {ratio:.3g} times the requests of {second}",
            source=words["source"],
            year=words["year"] or datetime.now(UTC).year,
            contenders=(first, second),
            workload=words["workload"],
            tolerance=words["tolerance"],
            note=note,
            load=_load_of(words, outputs[0] if outputs else None),
            published=definitions.PublishedFields(per_s=rates, ratio=words["ratio"]),
            serve=own,
            folder=str(Path.cwd()) if own else "",
        )
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(["claims add", *map(str, fault["loc"])])
        raise BadUsage(f"{where}: {fault['msg'].removeprefix('Value error, ')}") from error


def _unlike(outputs: Sequence[other_tools.ForeignRun]) -> str:
    """In what two runs differ that should have been alike; "" if in nothing that they tell."""
    told: dict[str, list[Any]] = {
        what: [getattr(one, field) for one in outputs]
        for what, field in (("tool", "tool"), ("connections", "connections"), ("keep-alive", "keepalive"))
    }
    unlike = [f"{what} {values[0]} and {values[1]}" for what, values in told.items() if len(set(values)) > 1]
    return f"the two runs were not made alike: {', '.join(unlike)}" if unlike else ""


def _load_of(words: dict[str, Any], output: other_tools.ForeignRun | None) -> definitions.LoadFields:
    """The published load: as given, else as the first output tells, else the fair one."""
    known = ("tool", "http", "keepalive", "connections", "requests")
    told: dict[str, Any] = {key: getattr(output, key) for key in known} if output else {}
    told |= {key: words[key] for key in ("http", "keepalive", "connections") if words[key] is not None}
    return definitions.LoadFields.model_validate({key: value for key, value in told.items() if value is not None})


def _tell(wanted: Sequence[Claim], store: Store, words: dict[str, Any], *, remarks: bool) -> list[Row]:
    """The table, and the files where they are wanted."""
    found = list(rows(wanted, store))
    if str(words["json_path"]) != "-":
        report.show(Console(), found, remarks=remarks)
    if words["json_path"]:
        write_text(words["json_path"], json.dumps(report.as_json(found), indent=2) + "\n", "--json")
    if words["markdown_path"]:
        ids = dict.fromkeys(one.race for row in found for one in (row.published, row.fair) if one and one.race)
        chart = os.path.relpath(words["svg_path"], words["markdown_path"].parent) if words["svg_path"] else ""
        text = claims_page.markdown(found, [store.load(race) for race in ids], chart=chart)
        write_text(words["markdown_path"], text, "--markdown")
    if words["svg_path"]:
        write_text(words["svg_path"], claims_chart.svg(found), "--svg")
    return found
