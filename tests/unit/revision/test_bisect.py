"""The search for a commit, with races that a simulation answers."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from dragstrip.revision.bisect import Measured, Search, Step, resumed, save

COMMITS = tuple(f"commit {number}" for number in range(1, 13))


def _race(rng: random.Random, commit: str, culprit: int, level: float, spread: float) -> Step:
    """A race of a commit: noisy as its interval says."""
    true = level if COMMITS.index(commit) >= culprit else 0.0
    value, half = rng.gauss(true, spread), 1.96 * spread
    ratio, low, high = (math.exp(part) for part in (value, value - half, value + half))
    return Step(commit=commit, measured=Measured(ratio=ratio, low=low, high=high, workload="w", race="r"))


def _searched(
    seed: int, culprit: int, *, level: float = -0.05, spread: float = 0.012, broken: tuple[str, ...] = ()
) -> Search:
    rng = random.Random(seed)
    search = Search(good="good", commits=COMMITS, threshold=0.03)
    while (commit := search.next()) is not None and len(search.steps) < search.most_steps:
        step = Step(commit=commit, why="no build") if commit in broken else _race(rng, commit, culprit, level, spread)
        search.steps.append(step)
    return search


def test_it_finds_the_commit_as_often_as_it_says() -> None:
    """With noise of a quarter of the change: at least 95 of 100, and in few races."""
    found = [_searched(seed, seed % 12) for seed in range(100)]
    right = sum(search.suspects()[0][0] == COMMITS[seed % 12] for seed, search in enumerate(found))
    assert right >= 95, right
    assert sum(len(search.steps) for search in found) / len(found) < 7


def test_without_noise_it_takes_no_more_races_than_a_plain_bisection() -> None:
    """BAD, and then at most the logarithm of the commits."""
    for culprit in range(12):
        search = _searched(1, culprit, spread=0.001)
        assert search.suspects()[0][0] == COMMITS[culprit]
        assert len(search.steps) <= 1 + math.ceil(math.log2(12))


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
    while (commit := search.next()) is not None and len(search.steps) < 40:
        search.steps.append(_race(rng, commit, 6, -0.05, 0.005))
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
