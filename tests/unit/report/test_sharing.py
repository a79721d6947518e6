"""What is shared: tables of the ranking and of the pairs, and pictures that say what they show."""

from __future__ import annotations

import csv
import io
import itertools
import math

import pytest
import samples

from dragstrip.commands import export
from dragstrip.errors import BadUsage
from dragstrip.report.race import charts, formats, markdown, tables
from dragstrip.report.race.badge import column_badge
from dragstrip.report.race.summary import JudgedRace

RACE = samples.race({"quick": 40_000.0, "steady": 30_000.0, "slow": 20_000.0}, out={"dud": "died, at once"})


def read(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(tables.csv_text(tables.ROWS[name](RACE)))))


def test_the_ranking_has_a_row_per_contender_and_says_who_is_out() -> None:
    rows = read("ranking")
    assert [(row["rank"], row["contender"]) for row in rows] == [
        ("1", "quick"), ("2", "steady"), ("3", "slow"), ("", "dud"),
    ]  # fmt: skip
    assert tuple(rows[0]) == tables.RANKING
    assert rows[0]["times_behind"] == ""
    assert float(rows[2]["times_behind_low"]) < 2.0 < float(rows[2]["times_behind_high"]) * 1.01
    assert float(rows[0]["throughput_per_s"]) == pytest.approx(40_000, rel=0.05)
    assert rows[3]["out"] == "died, at once"
    assert rows[3]["throughput_per_s"] == ""


def test_the_pairs_have_the_better_one_first_by_each_metric() -> None:
    rows = read("pairs")
    deciding = [row for row in rows if row["decides"] == "True"]
    assert {(row["better"], row["other"]) for row in deciding} == {
        ("quick", "steady"), ("quick", "slow"), ("steady", "slow"),
    }  # fmt: skip
    assert {row["metric"] for row in rows} == {"throughput", "cpu", "memory"}
    assert all(float(row["times"]) >= 1 for row in rows)
    assert all(row["verdict"] == "faster" for row in deciding)
    assert all(row["sentence"].startswith(f"{row['better']} served ") for row in deciding)


def test_rounds_and_other_rows_exclude_each_other() -> None:
    params = export.export_command.make_context("export", ["last", "x.csv", "--rounds", "--rows", "pairs"]).params
    with pytest.raises(BadUsage, match="--rows pairs exclude each other"):
        export._rows(RACE, export.ExportOptions(**params))


def test_markdown_is_exported_as_it_is_printed() -> None:
    judged = JudgedRace.of(RACE)
    assert formats.MAKERS["markdown"](judged) == markdown.race(judged)


def test_a_picture_says_verdict_request_date_and_machine() -> None:
    (part,) = JudgedRace.of(RACE).parts
    for name in charts.CHARTS:
        drawn = charts.draw(name, part)
        title = drawn["title"]
        assert isinstance(title, dict)
        assert " ".join(title["text"]) == column_badge(part).line
        assert title["subtitle"] == ["hello", f"2026-01-02, Sample CPU @ 2.00GHz, 2 cores, race {RACE.id}"]


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 62.5), (0, 147_000), (0.93, 1.12), (0.991, 1.009), (0.9, 2.6)])
def test_ticks_have_even_steps_of_1_2_or_5(low: float, high: float) -> None:
    ticks = charts.even_ticks(low, high)
    steps = [after - before for before, after in itertools.pairwise(ticks)]
    assert 2 <= len(ticks) <= 7
    assert steps == pytest.approx([steps[0]] * len(steps))
    assert round(steps[0] / 10 ** math.floor(math.log10(steps[0]) + 1e-9)) in (1, 2, 5)
    assert low <= ticks[0] <= ticks[-1] <= high
