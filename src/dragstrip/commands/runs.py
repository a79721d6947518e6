"""``dragstrip runs``: lists stored races and loads; imports nothing that judges or draws."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from heapq import merge
from pathlib import Path

import click

from dragstrip.commands import options as opts
from dragstrip.commands.options import gathered, read_store, switch
from dragstrip.record import EventKind
from dragstrip.requested import title_of
from dragstrip.store.database import RunLine
from dragstrip.store.loads import LoadLine


@dataclass(frozen=True, kw_only=True)
class RunsOptions:
    """Options of ``dragstrip runs``."""

    as_json: bool = switch("--json", help="Print the list as JSON.")
    store_path: Path | None = opts.store_option()


@click.command()
@gathered(RunsOptions)
def runs(options: RunsOptions) -> None:
    """List stored races and loads, newest first."""
    with read_store(options.store_path) as store:
        # ``report.race.badge`` stored them; the newest of a race is first.
        verdicts = {race_id: event.text for race_id, event in reversed(store.noted(EventKind.VERDICT))}
        races, loads = store.runs(), store.load_lines()
    # Races keep their own order, which no clock that went back changes.
    both: Sequence[Sequence[RunLine | LoadLine]] = (races, loads)
    lines = list(merge(*both, key=_started, reverse=True))
    if options.as_json:
        click.echo(json.dumps([_as_json(line, verdicts) for line in lines], indent=2))
        return
    from dragstrip.report import listing
    from dragstrip.report.console import Console

    listing.runs(Console(), lines, verdicts)


def _started(line: RunLine | LoadLine) -> str:
    return line.started


def _as_json(line: RunLine | LoadLine, verdicts: Mapping[str, str]) -> dict[str, object]:
    """A race or a load of the list; ``requests`` of a race: what each of its workloads requests."""
    if isinstance(line, LoadLine):
        return asdict(line)
    fields = asdict(line)
    definitions = fields.pop("definitions")
    requests = [title_of(*one) for one in definitions.items()]
    return fields | {"requests": requests, "verdict": verdicts.get(line.race, "")}
