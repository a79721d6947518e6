"""When is a server warm: no rise left in the throughput of successive slices. Pure.

Method: ``docs/METHOD.md``, "Warm-up". The slope is Theil's (1950) median of pairwise slopes, because
one slice that the machine disturbed must not decide.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

#: Slices looked at; the last of a warm-up.
WINDOW = 10

#: A rise over the window, relative to its median, that counts as none.
FLAT = 0.01


def rise(rates: Sequence[float]) -> tuple[float, float]:
    """Relative rise over the last slices and its standard error.

    Args:
        rates: answers per second of successive slices, oldest first, at least three.

    Returns:
        ``(rise, error)``: Theil's slope times the window's span over the median rate; and a
        standard error from the scaled median absolute deviation of what the line leaves over.
    """
    window = np.asarray(rates[-WINDOW:], dtype=float)
    at = np.arange(len(window), dtype=float)
    middle = float(np.median(window))
    if len(window) < 3 or middle <= 0:
        return float("inf"), 0.0
    first, second = np.triu_indices(len(window), k=1)
    slope = float(np.median((window[second] - window[first]) / (at[second] - at[first])))
    left = window - slope * at
    scatter = 1.4826 * float(np.median(np.abs(left - np.median(left))))
    span = at[-1] - at[0]
    error = scatter / float(np.sqrt(np.sum((at - at.mean()) ** 2))) * span
    return slope * span / middle, error / middle


def settled(rates: Sequence[float]) -> bool:
    """Whether the last slices show no rise: within ``FLAT``, or not told apart from none (two standard errors)."""
    if len(rates) < WINDOW:
        return False
    relative_rise, error = rise(rates)
    return bool(relative_rise <= max(FLAT, 2 * error))  # numpy's own would be kept as bytes


def enough_s(rates: Sequence[float], slice_s: float) -> float:
    """After how many seconds a warm-up, watched for longer, had nothing left to gain.

    The end of the first of two successive windows whose medians come up to the level of the last third. Up to it
    means within ``FLAT``, or within two standard errors, but never more than 3 % below, so that noise can't hide a
    real rise. A later dip is a disturbance, not a rise that goes on.

    Args:
        rates: answers per second of successive slices of ``slice_s`` seconds, oldest first.
    """
    windows = [np.asarray(rates[at : at + WINDOW], dtype=float) for at in range(0, len(rates) - WINDOW + 1, WINDOW)]
    if not windows:
        return len(rates) * slice_s
    last = np.concatenate(windows[-max(len(windows) // 3, 1) :])
    level = float(np.median(last))
    scatter = 1.4826 * float(np.median(np.abs(last - level))) / max(level, 1e-12)
    slack = max(FLAT, min(2 * 1.25 * scatter * (2 / WINDOW) ** 0.5, 0.03))
    reached = [float(np.median(window)) >= (1 - slack) * level for window in windows]
    first = next((at for at in range(len(reached) - 1) if reached[at] and reached[at + 1]), len(reached) - 1)
    return (first + 1) * WINDOW * slice_s
