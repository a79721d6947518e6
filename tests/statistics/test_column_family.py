"""Several workloads in one race: at most 5 of 100 races have any wrong interval, in any column, at any look."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from dragstrip.analysis.group_sequential import level_within, stage_of
from dragstrip.analysis.simultaneous import range_factor

ALPHA, ROUNDS, CONTENDERS, RACES = 0.05, 30, 3, 4000


def _wrong(x: np.ndarray, alpha: float) -> np.ndarray:
    """Of each race whether any interval at any look from the tenth on leaves out the truth: all contenders are alike.

    Args:
        x: log numbers; axes race, round, contender. Three contenders' variances are their pairs' own.
    """
    first, second = np.array(list(combinations(range(CONTENDERS), 2))).T
    d = x[:, :, first] - x[:, :, second]
    wrong = np.zeros(len(x), dtype=bool)
    for n in range(10, ROUNDS + 1):
        error = d[:, :n].std(axis=1, ddof=1) / np.sqrt(n)
        level = level_within(n, *stage_of(n, alpha, (ROUNDS,)))
        half = range_factor(CONTENDERS, n - 1, level) * error
        wrong |= (np.abs(d[:, :n].mean(axis=1)) > half).any(axis=1)
    return wrong


def _races(columns: int, *, together: bool = False) -> list[np.ndarray]:
    """Each column's numbers in many races; ``together``: a deviation of one column moves all others the other way."""
    rng = np.random.default_rng(columns)
    made = [rng.normal(size=(RACES, ROUNDS, CONTENDERS)) for _ in range(columns)]
    return [made[0], *(0.3 * one - made[0] for one in made[1:])] if together else made


@pytest.mark.parametrize(("columns", "together"), [(2, False), (4, False), (2, True)])
def test_all_intervals_of_all_columns_hold_at_once(columns: int, together: bool) -> None:
    """A look after every round of every column; columns may depend on each other."""
    wrong = [_wrong(each, ALPHA / columns) for each in _races(columns, together=together)]
    assert np.any(wrong, axis=0).mean() <= ALPHA


def test_without_the_sharing_several_columns_would_be_wrong_more_often() -> None:
    """Four columns, each at the whole error rate: the simulation sees that it is exceeded."""
    wrong = [_wrong(each, ALPHA) for each in _races(4)]
    assert np.any(wrong, axis=0).mean() > 1.5 * ALPHA
