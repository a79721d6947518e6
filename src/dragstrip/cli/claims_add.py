"""``dragstrip claims add``: a claim of one's own, as a TOML file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click
from pydantic import ValidationError

from dragstrip.claim import definition
from dragstrip.cli.claims_table import own_folder
from dragstrip.cli.options import gathered, serve_option
from dragstrip.cli.quantities import Count, Rate, Share
from dragstrip.compat import outputs
from dragstrip.contender import entry, serve_entry
from dragstrip.errors import BadUsage


@dataclass(frozen=True, kw_only=True)
class AddOptions:
    """What ``dragstrip claims add`` was given; the decorators of ``add_command`` say what each is."""

    name: str
    first: str
    second: str
    outputs: tuple[Path, Path] | None
    rates: tuple[float, float] | None
    ratio: float | None
    statement: str
    source: str
    year: int | None
    workload: str
    serve: tuple[str, ...]
    tolerance: float
    connections: int | None
    http: str | None
    keepalive: bool | None
    folder: Path | None


@click.command(name="add")
@click.argument("name")
@click.argument("first")
@click.argument("second")
@click.option(
    "--outputs",
    nargs=2,
    type=click.Path(path_type=Path),
    help="Two files with output of wrk, ab, hey, oha, h2load or k6, FIRST's then SECOND's.",
)
@click.option("--rates", nargs=2, type=Rate(), help="Responses per second of FIRST and of SECOND.")
@click.option("--ratio", type=float, help="Speed of FIRST divided by speed of SECOND, instead of --outputs or --rates.")
@click.option("--statement", default="", help="The claim in one sentence. [default: derived from the figures]")
@click.option("--source", default="added here", help="URL or title of the publication.")
@click.option("--year", type=Count(1, 9999), default=None, help="Year of publication. [default: this year]")
@click.option("--workload", default="hello", show_default=True, help="Workload that the claim is about.")
@serve_option("Command of a server that the claim names.", starts=False)
@click.option(
    "--tolerance",
    type=Share(),
    default="10%",
    show_default=True,
    help="Largest deviation from the claimed ratio that still counts as 'holds'.",
)
@click.option("--connections", "-c", type=Count(), default=None, help="Connections of the published load.")
@click.option("--http", type=click.Choice(["1.0", "1.1"]), default=None, help="HTTP version of the published load.")
@click.option("--keepalive/--no-keepalive", default=None, help="Whether the published load reused connections.")
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="Folder for the claim file. [default: beside the store]",
)
@gathered(AddOptions)
def add_command(options: AddOptions) -> None:
    """Add your own claim NAME: FIRST serves a given multiple of SECOND's requests."""
    name, folder = options.name, options.folder
    fields = _claim_file(options)
    for contender in fields.contenders:
        # A name that nobody has is refused now, not when the claim is checked.
        serve_entry(f"{contender}={fields.serve[contender]}") if contender in fields.serve else entry(contender)
    if "/" in name:
        remedy = "give a plain name; --to names a folder"
        raise BadUsage(f"claims add: {name!r} would leave the claims' folder; {remedy}")
    claim = definition.write((folder or own_folder()) / f"{name}.toml", fields)
    click.echo(f"{claim.source.file}\n{claim.fields.statement} ({claim.fields.load.text()})")
    click.echo(f"dragstrip claims check {claim.source.file if folder else name}")


def _claim_file(options: AddOptions) -> definition.ClaimFile:
    """The claim's file from what was given: two outputs, two rates, or a ratio."""
    runs = [outputs.load(file) for file in options.outputs or ()]
    if sum(map(bool, (options.outputs, options.rates, options.ratio))) != 1:
        raise BadUsage("claims add: give one of --outputs FILE FILE, --rates NUMBER NUMBER, --ratio NUMBER")
    rates = tuple(run.rate_per_s for run in runs) or tuple(options.rates or ())
    ratio = options.ratio or (rates[0] / rates[1] if rates and min(rates) > 0 else 0.0)
    note = _difference(runs)
    if note:
        click.echo(f"dragstrip: {note}", err=True)
    serve = dict(text.partition("=")[::2] for text in options.serve)
    try:
        return definition.ClaimFile(
            statement=options.statement or f"{options.first} serves {ratio:.3g} times the requests of {options.second}",
            source=options.source,
            year=options.year or datetime.now(UTC).year,
            contenders=(options.first, options.second),
            workload=options.workload,
            tolerance=options.tolerance,
            note=note or "",
            load=_load_of(options, runs[0] if runs else None),
            published=definition.PublishedFields(per_s=rates, ratio=options.ratio),
            serve=serve,
            folder=str(Path.cwd()) if serve else "",
        )
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(["claims add", *map(str, fault["loc"])])
        raise BadUsage(f"{where}: {fault['msg'].removeprefix('Value error, ')}") from error


def _difference(runs: Sequence[outputs.ForeignRun]) -> str | None:
    """In what two runs differ that should have been alike; None if in nothing that they tell."""
    values_of: dict[str, list[object]] = {
        "tool": [run.tool for run in runs],
        "connections": [run.connections for run in runs],
        "keep-alive": [run.keepalive for run in runs],
    }
    differing = [f"{what} {values[0]} and {values[1]}" for what, values in values_of.items() if len(set(values)) > 1]
    return f"the two runs were not made alike: {', '.join(differing)}" if differing else None


def _load_of(options: AddOptions, output: outputs.ForeignRun | None) -> definition.LoadFields:
    """The published load: as given, else as the first output tells, else the fair one.

    Raises:
        BadUsage: it was of HTTP/2.
    """
    if output and output.http == "2" and options.http is None:
        raise BadUsage(
            f"claims add: {output.tool}'s output is from HTTP/2, but claims are raced over HTTP/1; give output of "
            f"{output.tool} --h1, or add --http 1.1 to race it that way"
        )
    known: dict[str, object] = {}
    if output:
        known = {
            "tool": output.tool,
            "http": output.http,
            "keepalive": output.keepalive,
            "connections": output.connections,
            "requests": output.requests,
        }
    given = {"http": options.http, "keepalive": options.keepalive, "connections": options.connections}
    known |= {key: value for key, value in given.items() if value is not None}
    return definition.LoadFields.model_validate({key: value for key, value in known.items() if value is not None})
