"""A race's charts: what they draw, and as pictures."""

from __future__ import annotations

import json
import re

import pytest
from reports import (
    HOSTILE,
    hostile_race,
    part_of,
    spoilt_race,
)

from dragstrip.analysis.numbers import read
from dragstrip.record import Race
from dragstrip.report.race import (
    chart_data,
    charts,
    latency,
)


def test_every_block_is_drawn_and_void_ones_are_marked() -> None:
    """One point per block: used, dropped with its pass or round, or void; a level per round that counts."""
    race = spoilt_race()
    chart = charts.blocks(part_of(race))
    points = next(iter(chart["datasets"].values())) if "datasets" in chart else chart["data"]["values"]
    counts = {
        name: [sum(p["kind"] == kind and p["name"] == name for p in points) for kind in KINDS]
        for name in ("quick", "steady")
    }
    assert sorted(counts.values()) == [[65, 6, 1, 11], [66, 6, 0, 11]]
    assert [seen.kind for seen in chart_data.blocks(race)][:1] == ["void"]
    used = sum(seen.block.requests for seen in chart_data.blocks(race) if seen.kind == "used")
    assert used == read(race).requests.sum(), "blocks that are shown as used are those that decide"
    assert next(p["why"] for p in points if p["kind"] == "void") == "errors: 3 to 1403 requests (reset 3)"


KINDS = ("used", "dropped", "void", "level")


def test_a_long_race_draws_fewer_points_and_all_void_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page stays below its weight: every second, third … block, but each void one."""
    monkeypatch.setattr(charts, "MAX_BLOCKS", 40)
    race = spoilt_race()
    chart = charts.blocks(part_of(race))
    points = next(iter(chart["datasets"].values())) if "datasets" in chart else chart["data"]["values"]
    assert sum(p["kind"] in ("used", "dropped") for p in points) <= 40
    assert sum(p["kind"] == "void" for p in points) == 1


def test_ties_are_joined_in_the_ranking_chart(race: Race) -> None:
    """One bracket from the first to the last of each group, and only of those."""
    told = json.dumps(charts.ranking(part_of(race)))
    assert sorted(re.search(r'"first": "(\w+)", "last": "(\w+)"', told).groups()) == ["static", "twin"]  # type: ignore[union-attr]


def test_charts_become_pictures_that_load_nothing(race: Race) -> None:
    """Each as SVG and PNG, both themes; hostile names are text in them."""
    for one in (race, hostile_race()):
        for name in charts.CHARTS:
            text = charts.svg(charts.draw(name, part_of(one), dark=True))
            assert text.startswith("<svg")
            assert HOSTILE not in text
            assert not re.search(r"(href|src)=|url\(http", text)
    assert charts.png(charts.draw("ranking", part_of(race))).startswith(b"\x89PNG")


def test_axes_write_no_zero_with_a_unit(race: Race) -> None:
    """No "0k"; and a latency chart begins where its data do."""
    drawn = {name: charts.svg(charts.draw(name, part_of(race))) for name in charts.CHARTS}
    assert not [name for name, text in drawn.items() if ">0k<" in text]
    assert ">100k<" in drawn["ranking"]
    low, high = charts.latency(part_of(race))["encoding"]["y"]["scale"]["domain"]
    values = [us for row in part_of(race).rows for _, us in latency.curve(race, row.name)]
    assert low == pytest.approx(min(values), rel=0.06)
    assert high == pytest.approx(max(values), rel=0.06)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (6.0, 9000.0, [10, 20, 50, 100, 200, 500, 1000, 2000, 5000]),
        (0.5, 2e6, [1, 10, 100, 1000, 10_000, 100_000, 1_000_000]),
        (1.0, 2.0, [1, 2]),
        (310.0, 380.0, None),
    ],
)
def test_ticks_of_a_log_axis_are_even(low: float, high: float, ticks: list[float] | None) -> None:
    axis = charts.log_axis(low, high).to_dict()
    assert axis.get("values") == ticks
    assert ("tickCount" in axis) == (ticks is None)
