"""``dragstrip claims``: what has been published about these servers, put to the test here."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from dragstrip import claim as definitions
from dragstrip.claim import FAIR, PUBLISHED, Claim
from dragstrip.cli_words import EXIT_VOID, Duration, open_store, store_option, write_text
from dragstrip.errors import BadUsage
from dragstrip.report import claims as report
from dragstrip.report.live import Progress
from dragstrip.store import Store
from dragstrip.trial.cast import cast
from dragstrip.trial.groups import Group, groups
from dragstrip.trial.run import Row, check, rows
from dragstrip.trial.settle import UNDECIDED


def _outputs(command: Any) -> Any:
    """The files that a table of claims can be written to."""
    path = click.Path(path_type=Path, allow_dash=True)
    for name, text in (
        ("markdown", "The page of docs."),
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
        with open_store(store_path) as store:
            _tell(_every(()), store, words, remarks=remarks)


@claims.command(name="list")
@click.option("--json", "as_json", is_flag=True)
def list_command(as_json: bool) -> None:
    """Every claim: what was said, its figure, and whether it can be raced here."""
    listed = [_listed(one) for one in _every(())]
    click.echo(json.dumps(listed, indent=2)) if as_json else report.listing(Console(), listed)


def _listed(one: Claim) -> dict[str, Any]:
    play = cast(one, PUBLISHED)
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
@click.argument("names", nargs=-1)
@click.option("--all", "everything", is_flag=True)
@click.option("--budget", type=Duration(), default="25m", show_default=True, help="For all races together.")
@click.option("--resume", is_flag=True, help="Keep what the store has, go on with what was cut off.")
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
    if raced and all(one.outcome == UNDECIDED and one.detail.startswith("void") for one in raced):
        sys.exit(EXIT_VOID)


def _every(names: Sequence[str]) -> tuple[Claim, ...]:
    return tuple(definitions.load(name) for name in names) if names else definitions.every()


def _tell(wanted: Sequence[Claim], store: Store, words: dict[str, Any], *, remarks: bool) -> list[Row]:
    """The table, and the files where they are wanted."""
    found = list(rows(wanted, store))
    if str(words["json_path"]) != "-":
        report.show(Console(), found, remarks=remarks)
    if words["json_path"]:
        write_text(words["json_path"], json.dumps(report.as_json(found), indent=2) + "\n", "--json")
    if words["markdown_path"]:
        ids = dict.fromkeys(one.race for row in found for one in (row.published, row.fair) if one and one.race)
        today = datetime.now(UTC).date().isoformat()
        text = report.markdown(found, [store.load(race) for race in ids], today=today)
        write_text(words["markdown_path"], text, "--markdown")
    return found
