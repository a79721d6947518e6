"""A lab for other programs: every cell as JSON, and every pair of every cell as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dragstrip.extras.lab.report import revisions
from dragstrip.extras.lab.report.heat import JudgedLab
from dragstrip.extras.lab.report.summary import CountedLab
from dragstrip.store.json_values import JSON_SCHEMA, JsonObject, encode, plain

Row = dict[str, str | float | int | bool | None]


def lab_json(lab: CountedLab, cells: Sequence[JudgedLab]) -> JsonObject:
    """Counts, machine time, every cell with its contenders and pairs, and every pair by revision."""
    return {
        "schema": JSON_SCHEMA,
        "counts": dict(lab.counts),
        "decided": lab.decided,
        "machine_s": plain(lab.machine_s()),
        "cells": [
            encode(judged.cell)
            | {
                "progress": str(judged.progress),
                "why": judged.why,
                "metric": judged.metric,
                "starved": judged.starved,
                "race": encode(judged.stored) if judged.stored else None,
                "contenders": [{"name": name} | encode(shade) for name, shade in judged.shades.items()],
                "pairs": [encode(ratio) for ratio in judged.ratios],
            }
            for judged in cells
        ],
        "revisions": [plain(series) for series in revisions.series(cells)],
    }


def pair_rows(cells: Sequence[JudgedLab]) -> Iterator[Row]:
    """A row for each pair of each cell."""
    for judged in cells:
        for ratio in judged.ratios:
            yield {
                "cell": judged.cell.name,
                "line_up": judged.cell.line_up,
                "workload": judged.cell.workload,
                "load": judged.cell.load,
                "revision": judged.cell.revision,
                "class": judged.cell.machine,
                "race": judged.stored.race if judged.stored else None,
                "rounds": judged.stored.rounds if judged.stored else None,
                "metric": judged.metric,
                "a": ratio.a,
                "b": ratio.b,
                "ratio": ratio.estimate,
                "low": ratio.low,
                "high": ratio.high,
                "verdict": ratio.verdict,
            }
