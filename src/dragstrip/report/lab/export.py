"""A lab for other programs: every cell as JSON, and every pair of every cell as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dragstrip.report.lab.heat import Judged
from dragstrip.report.lab.summary import Counted
from dragstrip.store.json_values import JSON_SCHEMA, JsonObject, encode, plain

Row = dict[str, str | float | int | bool | None]


def lab_json(lab: Counted, cells: Sequence[Judged]) -> JsonObject:
    """Counts, machine time and every cell with its contenders and pairs."""
    return {
        "schema": JSON_SCHEMA,
        "counts": dict(lab.counts),
        "decided": lab.decided,
        "machine_s": plain(lab.machine_s()),
        "cells": [
            encode(one.cell)
            | {
                "progress": str(one.progress),
                "why": one.why,
                "metric": one.metric,
                "starved": one.starved,
                "race": encode(one.stored) if one.stored else None,
                "contenders": [{"name": name} | encode(shade) for name, shade in one.shades.items()],
                "pairs": [encode(ratio) for ratio in one.ratios],
            }
            for one in cells
        ],
    }


def pair_rows(cells: Sequence[Judged]) -> Iterator[Row]:
    """A row for each pair of each cell."""
    for one in cells:
        for ratio in one.ratios:
            yield {
                "cell": one.cell.name,
                "line_up": one.cell.line_up,
                "workload": one.cell.workload,
                "load": one.cell.load,
                "revision": one.cell.revision,
                "class": one.cell.machine,
                "race": one.stored.race if one.stored else None,
                "rounds": one.stored.rounds if one.stored else None,
                "metric": one.metric,
                "a": ratio.a,
                "b": ratio.b,
                "ratio": ratio.estimate,
                "low": ratio.low,
                "high": ratio.high,
                "verdict": ratio.verdict,
            }
