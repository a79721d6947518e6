"""``dragstrip claims``: what has been published about these servers, and what races here found."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click
from click.shell_completion import CompletionItem
from pydantic import ValidationError

from dragstrip.commands import completion
from dragstrip.commands import options as opts
from dragstrip.commands.consent import ask_to_run
from dragstrip.commands.options import EXIT_VOID, argument, gathered, open_store, option, placed, read_store, switch
from dragstrip.commands.outputs import json_text, write_all
from dragstrip.commands.quantities import DURATION, RATE, SHARE, Count
from dragstrip.contender import entry, parse_entry, serve_entry
from dragstrip.errors import BadUsage
from dragstrip.extras.claims import definition
from dragstrip.extras.claims.contenders import contenders_of, everyone
from dragstrip.extras.claims.definition import FAIR, PUBLISHED, Claim
from dragstrip.extras.claims.finding import ClaimRow, CountedRun
from dragstrip.extras.claims.grouping import Group, groups
from dragstrip.extras.claims.report import page as claims_page
from dragstrip.extras.claims.report import table as claims_report
from dragstrip.extras.claims.run import check, rows
from dragstrip.extras.compat import outputs
from dragstrip.report.console import Console
from dragstrip.report.race.external import ForeignRun
from dragstrip.report.race.live import LiveProgress
from dragstrip.store.database import Store, default_path


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Options of ``dragstrip claims``: what is shown of the table, and the files that it is written to."""

    remarks: bool = switch("--remarks", help="Also show the evidence behind each verdict.")
    json_path: Path | None = opts.report_option("--json", help="Write every row as JSON; - for stdout.")
    svg_path: Path | None = opts.report_option("--svg", help="Write the chart (SVG); - for stdout.")
    markdown_path: Path | None = opts.report_option(
        "--markdown", help="Write the claims page (Markdown); - for stdout."
    )
    store_path: Path | None = opts.store_option()


@click.group(invoke_without_command=True)
@gathered(TableOptions)
def claims(options: TableOptions) -> None:
    """Published claims about these servers and what races here found. Without a command: results from the store."""
    if click.get_current_context().invoked_subcommand is None:
        with read_store(options.store_path) as store:
            show_table(claims_named(()), store, options)


def claims_named(names: Sequence[str]) -> tuple[Claim, ...]:
    """Claims by name or TOML file; without a name all, including the user's own."""
    folders = (own_folder(),)
    return tuple(definition.load(name, folders) for name in names) if names else definition.every(folders)


def own_folder() -> Path:
    """The folder of the user's own claims, next to the store."""
    return default_path().parent / "claims"


def _complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Shipped claims, the user's own claims, and files."""
    return completion.of_files(incomplete, definition.SHIPPED, own_folder())


def show_table(wanted: Sequence[Claim], store: Store, options: TableOptions) -> list[ClaimRow]:
    """Shows the table, writes the files that are wanted, and returns the rows."""
    table = list(rows(wanted, store))
    if str(options.json_path) != "-":
        claims_report.show(Console(), table, remarks=options.remarks)
    write_all(
        [
            ("--json", options.json_path, lambda: json_text(claims_report.as_json(table))),
            ("--markdown", options.markdown_path, lambda: _page(table, store, options)),
            ("--svg", options.svg_path, lambda: _chart(table)),
        ],
        measured=True,
    )
    return table


def _chart(table: Sequence[ClaimRow]) -> str:
    from dragstrip.extras.claims.report import chart  # Altair takes a third of a second to load

    return chart.svg(table)


def _page(table: Sequence[ClaimRow], store: Store, options: TableOptions) -> str:
    """The page of docs; it shows the chart if that is written too."""
    ids = dict.fromkeys(
        finding.race for row in table for finding in (row.published, row.fair) if finding and finding.race
    )
    place = options.markdown_path.parent if options.markdown_path else Path()
    chart = os.path.relpath(options.svg_path, place) if options.svg_path else ""
    return claims_page.markdown(table, [store.load(race) for race in ids], chart=chart)


@claims.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
@click.option(
    "--contenders",
    "only_names",
    is_flag=True,
    help="Print only the contenders involved, one per line, as input for install.",
)
def list_command(as_json: bool, only_names: bool) -> None:
    """List every claim: statement, published figure, and whether it can be raced here."""
    every = claims_named(())
    if only_names:
        contenders = [contender for claim in every for contender in claim.everybody]
        click.echo("\n".join(dict.fromkeys(parse_entry(contender)[0] for contender in contenders)))
        return
    listed = [_listed(claim) for claim in every]
    click.echo(json.dumps(listed, indent=2)) if as_json else claims_report.listing(Console(), listed)


def _listed(claim: Claim) -> dict[str, object]:
    """A claim as a row of the list."""
    cast = contenders_of(claim, PUBLISHED)
    stand_ins = [f"{name} races for {missing}" for name, missing in cast.stand_ins.items()]
    missing = [f"missing {name}: {why}" for name, why in cast.missing.items()]
    return {
        "claim": claim.id,
        "status": "missing" if missing else "ready",
        "reason": "; ".join(missing),
        "stand_ins": stand_ins,
        "statement": claim.fields.statement + (f" ({'; '.join(stand_ins)})" if stand_ins else ""),
        "source": claim.fields.source,
        "year": claim.fields.year,
        "kind": claim.fields.kind,
        "contenders": list(claim.fields.contenders),
        "workload": claim.fields.workload,
        "load": claim.fields.load.model_dump(),
        "published_ratio": claim.fields.ratio,
        "figure": claims_report.published(claim),
    }


@dataclass(frozen=True, kw_only=True)
class CheckOptions(TableOptions):
    """Options of ``dragstrip claims check``."""

    names: tuple[str, ...] = argument(nargs=-1, shell_complete=_complete)
    everything: bool = switch("--all", help="Check every claim.")
    budget: float = option("--budget", type=DURATION, default="25m", help="Total time for all races.")
    resume: bool = switch("--resume", help="Keep stored results and continue with the rest.")
    setting: str | None = option(
        "--setting", type=click.Choice([PUBLISHED, FAIR]), help="Race under this setting only."
    )
    yes: bool = opts.yes_option()
    fleet: Path | None = opts.fleet_option()
    node_wait: float = opts.node_wait_option()
    quiet: bool = opts.quiet_option(help="Print only the table, no progress.")


@claims.command(name="check")
@gathered(CheckOptions)
def check_command(options: CheckOptions) -> None:
    """Race the contenders of CLAIMS (names or TOML files), under the published load and under fair settings."""
    if bool(options.names) == options.everything:
        raise BadUsage("claims check: name claims (`dragstrip claims list` lists them) or give --all, but not both")
    wanted = claims_named(options.names)
    settings = (options.setting,) if options.setting else (PUBLISHED, FAIR)
    for claim in wanted:
        if not claim.shipped:
            ask_to_run(f"claim {claim.source.file}", everyone(claim, settings), yes=options.yes)
    console = Console(stderr=str(options.json_path) == "-")
    planned = groups(wanted, settings)
    races_s = [group.before_s + group.need_s for group in planned]
    if not options.quiet:
        lacking = [claim.id for claim in wanted if contenders_of(claim, PUBLISHED).missing]
        console.print(claims_report.plan(races_s, lacking, options.budget), soft_wrap=True)

    @contextmanager
    def show(group: Group) -> Iterator[LiveProgress]:
        if not options.quiet:
            at = planned.index(group)
            about = f"{group.setting}: {group.load.text()}; {claims_report.minutes(races_s[at:])} from here"
            console.print(f"race {at + 1} of {len(planned)}, {about}", soft_wrap=True)
        with LiveProgress(console, quiet=options.quiet) as progress:
            yield progress

    def say(report: str | CountedRun) -> None:
        click.echo(report if isinstance(report, str) else report.text, err=True)

    with placed(options.fleet, options.node_wait) as site, open_store(options.store_path) as store:
        budget_s, resume = options.budget, options.resume
        check(planned, store=store, budget_s=budget_s, resume=resume, show=show, say=say, site=site)
        table = show_table(wanted, store, options)
    raced = [finding for row in table for finding in (row.published, row.fair) if finding is not None and finding.race]
    if raced and all(finding.void for finding in raced):
        sys.exit(EXIT_VOID)


@dataclass(frozen=True, kw_only=True)
class AddOptions:
    """Options of ``dragstrip claims add``."""

    name: str = argument()
    first: str = argument()
    second: str = argument()
    outputs: tuple[Path, Path] | None = option(
        "--outputs",
        nargs=2,
        type=click.Path(path_type=Path),
        help="Two files with output of wrk, ab, hey, oha, h2load or k6, FIRST's then SECOND's.",
    )
    rates: tuple[float, float] | None = option(
        "--rates", nargs=2, type=RATE, help="Responses per second of FIRST and of SECOND."
    )
    ratio: float | None = option(
        "--ratio", type=float, help="Speed of FIRST divided by speed of SECOND, instead of --outputs or --rates."
    )
    statement: str | None = option("--statement", help="The claim in one sentence. [default: derived from the figures]")
    source: str = option("--source", default="added here", help="URL or title of the publication.")
    year: int | None = option("--year", type=Count(1, 9999), help="Year of publication. [default: this year]")
    workload: str = option("--workload", default="hello", help="Workload that the claim is about.")
    serve: tuple[str, ...] = opts.serve_option(help="Command of a server that the claim names.")
    tolerance: float = option(
        "--tolerance",
        type=SHARE,
        default="10%",
        help="Largest deviation from the claimed ratio that still counts as 'holds'.",
    )
    connections: int | None = option("--connections", "-c", type=Count(), help="Connections of the published load.")
    http: str | None = option("--http", type=click.Choice(["1.0", "1.1"]), help="HTTP version of the published load.")
    keepalive: bool | None = option(
        "--keepalive/--no-keepalive", default=None, help="Whether the published load reused connections."
    )
    folder: Path | None = option(
        "--to",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder for the claim file. [default: next to the store]",
    )


@claims.command(name="add")
@gathered(AddOptions)
def add_command(options: AddOptions) -> None:
    """Add your own claim NAME: FIRST serves a given multiple of SECOND's requests."""
    name, folder = options.name, options.folder
    fields = _claim_file(options)
    for contender in fields.contenders:
        # An unknown name is refused now, not when the claim is checked.
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


def _difference(runs: Sequence[ForeignRun]) -> str | None:
    """How the loads of two runs differ, in words; None if their outputs show no difference."""
    values_of: dict[str, list[object]] = {
        "tool": [run.tool for run in runs],
        "connections": [run.connections for run in runs],
        "keep-alive": [run.keepalive for run in runs],
    }
    differing = [f"{what} {values[0]} and {values[1]}" for what, values in values_of.items() if len(set(values)) > 1]
    return f"the two runs had different loads: {', '.join(differing)}" if differing else None


def _load_of(options: AddOptions, output: ForeignRun | None) -> definition.ClaimLoad:
    """The published load: the given options, otherwise the first output's values, otherwise the defaults.

    Raises:
        BadUsage: the output is from HTTP/2.
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
    return definition.ClaimLoad.model_validate({key: value for key, value in known.items() if value is not None})
