"""The page of claims: each write-up has a reading with the figures of today's races."""

from __future__ import annotations

import re

import pytest

from dragstrip.extras.claims.definition import Claim, every, load, readings
from dragstrip.extras.claims.finding import ClaimFinding, ClaimRow, Outcome
from dragstrip.extras.claims.report import page, table


def finding(claim: Claim, ratio: float) -> ClaimFinding:
    return ClaimFinding(
        claim=claim,
        outcome=Outcome.HOLDS,
        why="within 10 % of the published ratio",
        ratio=ratio,
        low=ratio - 0.1,
        high=ratio + 0.1,
    )


def rows() -> list[ClaimRow]:
    return [ClaimRow(claim, finding(claim, 2.5), finding(claim, 3.5)) for claim in every()]


@pytest.mark.parametrize("source", sorted({table.source_of(claim) for claim in every()}))
def test_each_write_up_has_a_short_reading_of_claims_that_exist(source: str) -> None:
    """At most 150 words; each figure is of a claim of this write-up."""
    text = readings()[source]
    assert len(text.split()) <= 150
    known = {claim.id for claim in every() if table.source_of(claim) == source}
    named = re.findall(r"\{([^}]*)\}", text)
    assert named
    for name in named:
        claim, _, what = name.rpartition(".")
        assert claim in known
        assert what in ("published", "load", "fair", "verdict")


def test_a_reading_shows_what_was_published_and_what_races_show() -> None:
    text = page.markdown(rows(), [])
    assert "It put Node first, 1.042 times nginx" in text
    assert "races show Node at 2.50 (2.40–2.60) times nginx" in text
    assert "With keep-alive they show 3.50 (3.40–3.60)" in text
    assert "{" not in text


def test_a_figure_without_a_race_is_not_measured() -> None:
    claim = load("2011-node-nginx")
    unmeasured = ClaimRow(claim, ClaimFinding(claim=claim, outcome=Outcome.UNTRIED, why="not yet"), None)
    assert page.figure_of(unmeasured, "load") == page.figure_of(unmeasured, "fair") == "(not measured)"
    assert page.figure_of(unmeasured, "verdict") == "not checked yet"


def test_the_plan_says_how_long_it_takes_and_what_is_missing() -> None:
    text = table.plan([100, 90], ["a", "b", "c", "d", "e"], 25 * 60)
    assert text.startswith("2 races, about 4 min; budget: 25 min; can't run here: a, b, c and 2 more (")
    assert table.plan([1], [], 60) == "1 race, about 1 min; budget: 1 min"
