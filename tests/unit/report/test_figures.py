"""Numbers and drawings as people read them."""

from __future__ import annotations

import io
import time
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from dragstrip.report import figures, glyphs, listing
from dragstrip.store.database import RunLine


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (float("nan"), "–"), (float("inf"), "–"), (118_000.4, "118,000"), (812.34, "812.3"), (8.254, "8.25")],
)
def test_figures_read_as_people_write_them(value: float | None, text: str) -> None:
    """Thousands marked, no exponent, a dash where there is none."""
    assert figures.figure(value) == text


def test_a_number_has_no_decimals_that_its_interval_does_not_know() -> None:
    """The second significant digit of half the interval is the last decimal of both."""
    known = [(0.8639, 0.0996), (6.4321, 0.066), (0.8639, 0.004), (118.04, 31.2), (2.4, 0.9), (-0.001, 0.12)]
    assert [f"{figures.known_within(value, half)} ± {figures.half_width(half)}" for value, half in known] == [
        "0.86 ± 0.10", "6.43 ± 0.066", "0.8639 ± 0.0040", "118 ± 31", "2.40 ± 0.90", "0.00 ± 0.12",
    ]  # fmt: skip
    assert figures.known_within(0.8639, None) == figures.figure(0.8639)
    assert figures.known_within(1.0, 0.00071, places=4) == "1.0000"


def test_short_figures_keep_three_digits() -> None:
    """For narrow columns, ratios and sizes."""
    assert [figures.brief(v) for v in (0, 9.5, 812, 4_100, 118_000, 2.5e6, 3e9)] == [
        "0.00", "9.50", "812", "4100", "118k", "2.50M", "3.00G",
    ]  # fmt: skip
    assert [figures.ratio(v) for v in (0.0348, 0.526, 0.996, 1.004, 2.414, 28.77, 1234.5)] == [
        "0.0348", "0.526", "0.996", "1.004", "2.41", "28.77", "1,234",
    ]  # fmt: skip
    assert [figures.memory(v) for v in (None, 100, 6 * 2**20, 300 * 2**20, 2**40)] == [
        "–", "100 B", "6.0 MiB", "300 MiB", "1024 GiB",
    ]  # fmt: skip
    assert figures.errors({"reset": 2, "wrong_body": 1200, "timeout": 0}) == "1,200 wrong body, 2 reset"


def test_a_bar_marks_its_interval_on_the_common_scale() -> None:
    """Filled up to the interval, the estimate's cell marked, all within the width."""

    def drawn(*numbers: Any) -> str:
        return "".join(text for text, _ in glyphs.Bar(*numbers).cells(20))

    assert drawn(10.0, 8.0, 12.0, 20.0) == "████████▒▒┃▒▒" + " " * 7
    assert drawn(20.0, None, None, 20.0) == "█" * 19 + "┃"
    assert drawn(20.0, 19.0, float("nan"), 20.0) == "█" * 19 + "┃"
    assert drawn(0.0, 0.0, 0.0, 0.0) == "┃" + " " * 19


def test_the_whisker_lies_against_1_and_the_margin() -> None:
    """The band, the line at 1, the interval over both, and the estimate; a crossing of 1 is seen."""
    axis = glyphs.Axis(0.8, 1.25, 0.05)

    def drawn(*numbers: Any) -> str:
        return "".join(text for text, _ in glyphs.Whisker(*numbers, axis, "blue").cells(21))

    assert drawn(1.1, 1.02, 1.18) == "        ░░│━━━●━━━━  "
    assert drawn(1.02, 0.93, 1.12) == "       ━━━┿●━━━━     "
    assert drawn(float("nan"), None, None) == "        ░░│░░        "


def test_a_list_of_races_tells_verdicts_and_local_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Newest first, at 80 columns too; one that has not ended has no verdict, whatever it had before."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    line = RunLine("0" * 12, "2026-01-02T03:04:05+00:00", "hello", ("new", "old"), 14, "decided", {"hello": ""})
    lines = [line, replace(line, race="1" * 12, rounds=3, finished="")]
    verdicts = {"0" * 12: "FASTER new +3.7 %, 2.7 to 4.6", "1" * 12: "FASTER old +9 %, 1 to 17"}
    file = io.StringIO()
    listing.runs(Console(width=80, file=file), lines, verdicts)
    monkeypatch.undo()
    time.tzset()
    text = file.getvalue()
    assert "2026-01-01 22:04" in text
    assert "FASTER new +3.7 %" in text
    assert "FASTER old" not in text
    assert max(map(len, text.splitlines())) <= 80
