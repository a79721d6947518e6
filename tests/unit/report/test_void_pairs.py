"""A pair of a void contender has no verdict word, in the chart and in the tables of the page."""

from __future__ import annotations

import json

import samples

from dragstrip.report.race import charts, page
from dragstrip.report.race.summary import JudgedRace
from dragstrip.validity import CheckName, Status
from dragstrip.validity.check import Finding, check_result


def test_pairs_of_a_void_contender_are_called_void() -> None:
    race = samples.race({"quick": 40_000.0, "steady": 30_000.0, "slow": 20_000.0})
    fine = JudgedRace.of(race)
    void = check_result(
        CheckName.LITTLES_LAW, [Finding(Status.VOID, "quick: 43.5 of 32 connections were at work", contender="quick")]
    )
    judged = JudgedRace(race, fine.verdict, [*fine.checks, void])
    (part,) = judged.parts
    assert part.void_contenders == {"quick"}
    texts = {row["pair"]: row["text"] for row in _rows(json.loads(json.dumps(charts.pairs(part)))) if "pair" in row}
    assert all(text.endswith(" void") == ("quick" in pair) for pair, text in texts.items()), texts
    text = page.render(judged)
    assert text.count("<span>void</span>") == 2
    assert text.count("<b>void</b>: ") == 2
    assert "<span>void</span>" not in page.render(fine)


def _rows(chart: object) -> list[dict[str, str]]:
    if isinstance(chart, dict):
        return [row for value in chart.values() for row in _rows(value)] + ([chart] if "pair" in chart else [])
    return [row for value in chart for row in _rows(value)] if isinstance(chart, list) else []
