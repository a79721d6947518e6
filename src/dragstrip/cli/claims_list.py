"""``dragstrip claims list``: every claim, and whether it can be raced here."""

from __future__ import annotations

import json

import click
from rich.console import Console

from dragstrip.claim.contenders import contenders_of
from dragstrip.claim.definition import PUBLISHED, Claim
from dragstrip.cli.claims_table import claims_named
from dragstrip.contender import parse_entry
from dragstrip.report.claims import table as claims_report


@click.command(name="list")
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
