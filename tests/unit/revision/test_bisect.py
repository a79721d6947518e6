"""The search for a commit, with races that a simulation answers."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from dragstrip.revision.bisect import BisectStep, Measured, Search, resumed, save

COMMITS = tuple(f"commit {number}" for number in range(1, 13))


def _race(
    rng: random.Random,
    commit: str,
    culprit: int,
    level: float,
    spread: float,
    *,
    against: str = "",
    builds: Mapping[str, float] | None = None,
    off: float = 0.0,
) -> BisectStep:
    """A race of a commit: noisy as its interval says, and ``off`` by more than that.

    Args:
        builds: what each commit's layout does to its speed.
    """

    def true(name: str) -> float:
        slower = name in COMMITS and COMMITS.index(name) >= culprit
        return (level if slower else 0.0) + (builds or {}).get(name, 0.0)

    value, half = rng.gauss(true(commit) - true(against or "good"), math.hypot(spread, off)), 1.96 * spread
    ratio, low, high = (math.exp(part) for part in (value, value - half, value + half))
    measured = Measured(ratio=ratio, low=low, high=high, workload="w", race="r")
    return BisectStep(commit=commit, against=against, measured=measured)


def _searched(
    seed: int,
    culprit: int,
    *,
    level: float = -0.05,
    spread: float = 0.005,
    broken: tuple[str, ...] = (),
    layout: float = 0.0,
    off: float = 0.004,
) -> Search:
    rng = random.Random(seed)
    builds = {name: rng.gauss(0, layout) for name in ("good", *COMMITS)}
    search = Search(good="good", commits=COMMITS, threshold=0.03)
    while (asked := search.next()) is not None and len(search.steps) < search.most_steps:
        commit, against = asked
        raced = _race(rng, commit, culprit, level, spread, against=against, builds=builds, off=off)
        search.steps.append(BisectStep(commit=commit, why="no build") if commit in broken else raced)
    return search


@pytest.mark.parametrize(("level", "layout", "off"), [(-0.03, 0, 0.004), (-0.03, 0.01, 0.004), (-0.05, 0.01, 0.004)])
def test_it_finds_the_commit_as_often_as_it_says(level: float, layout: float, off: float) -> None:
    """Also if each build has a layout of its own, which more races of it do not average out."""
    found = [_searched(seed, seed % 12, level=level, layout=layout, off=off) for seed in range(24)]
    right = sum(search.suspects()[0][0] == COMMITS[seed % 12] for seed, search in enumerate(found)) / len(found)
    said = sum(max(search.probabilities()) for search in found) / len(found)
    assert abs(right - said) <= 0.02 + 3 * math.sqrt(said * (1 - said) / len(found)), (right, said)


def test_with_little_noise_it_takes_few_races() -> None:
    """With noise of a seventh of the change, and the scatter between races."""
    found = [_searched(seed, seed % 12) for seed in range(12)]
    assert sum(search.suspects()[0][0] == COMMITS[seed % 12] for seed, search in enumerate(found)) >= 11
    assert sum(len(search.steps) for search in found) / len(found) < 8


def test_the_last_race_is_of_the_suspect_against_its_parent() -> None:
    """If it shows no difference, the suspect loses its chance, and the search goes on."""
    search = _searched(1, 6)
    last = search.steps[-1]
    assert (last.commit, last.against) == (COMMITS[6], COMMITS[5])
    assert search.next() is None
    before = max(replace(search, steps=search.steps[:-1]).probabilities())
    assert before < max(search.probabilities())
    none = Measured(ratio=1.0, low=0.993, high=1.007, workload="w", race="r")
    doubtful = replace(search, steps=[*search.steps[:-1], replace(last, measured=none)])
    assert max(doubtful.probabilities()) < before
    first = _searched(1, 0)
    assert all(step.against == "" for step in first.steps)
    assert first.steps[-1].commit == COMMITS[0]


def test_a_race_of_bad_without_an_interval_is_raced_again() -> None:
    """And what that measures counts."""
    search = Search(good="good", commits=COMMITS, threshold=0.01, steps=[BisectStep(commit=COMMITS[-1], why="noise")])
    asked = search.next()
    assert asked is not None
    assert asked.commit == COMMITS[-1]
    search.steps.append(_race(random.Random(2), COMMITS[-1], 6, -0.03, 0.003))
    assert search.of_bad() == search.steps[-1].measured


def test_more_races_of_one_build_say_little_more_of_its_commit() -> None:
    """Ten races of one commit that reads slower are not ten times the evidence: its layout may be the cause."""
    rng = random.Random(2)
    bad, slower = _race(rng, COMMITS[-1], 6, -0.02, 0.003), _race(rng, COMMITS[6], 6, -0.01, 1e-4)
    one, ten = (Search(good="good", commits=COMMITS, threshold=0.01, steps=[bad, *[slower] * n]) for n in (1, 10))
    up_to_six = [sum(search.probabilities()[:7]) for search in (one, ten)]
    assert 0.5 < up_to_six[0] < up_to_six[1] < 0.95, up_to_six


def test_without_noise_it_takes_no_more_races_than_a_plain_bisection() -> None:
    """BAD, then at most the logarithm of the commits, then the suspect against its parent."""
    for culprit in range(12):
        search = _searched(1, culprit, spread=0.001, off=0.0)
        assert search.suspects()[0][0] == COMMITS[culprit]
        assert len(search.steps) <= 2 + math.ceil(math.log2(12))


def test_commits_that_cannot_be_built_are_skipped_and_stay_suspects() -> None:
    """Only commits next to each other that can't be raced can't be told apart."""
    search = _searched(3, 6, broken=("commit 6", "commit 7"))
    assert {commit for commit, _ in search.suspects()} == {"commit 6", "commit 7", "commit 8"}
    assert _searched(3, 2, broken=("commit 6", "commit 7")).suspects()[0][0] == "commit 3"


def test_one_wrong_race_does_not_decide() -> None:
    """A race that is off by far leaves the right commit its chance, which further races raise again."""
    rng = random.Random(5)
    search = Search(good="good", commits=COMMITS, threshold=0.03)
    search.steps.append(_race(rng, COMMITS[-1], 6, -0.05, 0.005))
    search.steps.append(_race(rng, COMMITS[8], 11, -0.05, 0.002))  # reads as unchanged, which is wrong
    while (asked := search.next()) is not None and len(search.steps) < 40:
        search.steps.append(_race(rng, asked.commit, 6, -0.05, 0.005, against=asked.against))
        if len(search.steps) == 3:
            search.steps += [_race(rng, COMMITS[8], 6, -0.05, 0.005) for _ in range(3)]
    assert search.suspects()[0][0] == COMMITS[6]


def test_a_search_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    search = _searched(7, 4)
    cut = Search(good="good", commits=COMMITS, threshold=0.03, steps=search.steps[:2])
    save(tmp_path / "search.json", cut)
    again = resumed(tmp_path / "search.json", Search(good="good", commits=COMMITS, threshold=0.03))
    assert again == cut
    other = resumed(tmp_path / "search.json", Search(good="other", commits=COMMITS, threshold=0.03))
    assert other.steps == []


@pytest.mark.parametrize(
    "content", ["", "[]", '{"good": 1}', '{"good": "good", "commits": [], "threshold": 1, "steps": [{}]}']
)
def test_a_file_that_holds_no_search_is_passed_over(tmp_path: Path, content: str) -> None:
    (tmp_path / "search.json").write_text(content)
    search = Search(good="good", commits=COMMITS, threshold=0.03)
    assert resumed(tmp_path / "search.json", search).steps == []
