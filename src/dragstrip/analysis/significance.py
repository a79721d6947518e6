"""The floor of rounds that decide anything, and the quantile that intervals are made of.

Method: ``docs/METHOD.md``, "The interval". Numbers in, numbers out; checked against scipy and simulation in
``tests/statistics/test_intervals.py``.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

#: Fewest rounds of both that decide anything: below, a rare slow launch breaks any t interval.
FLOOR = 10


def student_t(freedom: float, level: float) -> float:
    """Two-sided quantile of Student's t: half-width, in standard errors, of an interval that misses with ``level``."""
    from scipy.special import stdtrit  # SciPy takes a quarter of a second to load

    return -float(stdtrit(freedom, level / 2))


@cache
def quantile(n: int, alpha: float) -> float:
    """Two-sided quantile of Student's t over ``n`` rounds, ``n`` from 2."""
    return student_t(n - 1, alpha)
