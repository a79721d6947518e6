"""The sentence on a pair."""

from __future__ import annotations

import pytest

from dragstrip import analysis
from dragstrip.metrics import PairVerdict
from dragstrip.report.race.wording import sentence


def pair_of(**changes: object) -> analysis.Pair:
    """The pair of METHOD.md's own example."""
    usual: dict[str, object] = {
        "a": "nginx-lua", "b": "node", "metric": "throughput", "ratio": 2.41, "low": 2.36, "high": 2.46,
        "verdict": "faster", "rounds": 24, "spent_s": 38.0, "margin": 0.01, "within_margin": False,
        "median_ratio": 2.41,
    }  # fmt: skip
    values = usual | changes
    low, ratio, high = (values.pop(name) for name in ("low", "ratio", "high"))
    interval = analysis.Interval(estimate=ratio, low=low, high=high, level=0.95)  # type: ignore[arg-type]
    verdict = PairVerdict(str(values.pop("verdict")))
    return analysis.Pair(interval=interval, verdict=verdict, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "nginx-lua served 2.41 times the requests of node (2.36–2.46, 24 rounds, 38 s)"),
        # One decimal would do for so wide an interval, but would show its lower end as 1.
        (
            {"ratio": 1.178, "low": 1.026, "high": 1.352},
            "nginx-lua served 1.18 times the requests of node (1.03–1.35, 24 rounds, 38 s)",
        ),
        (
            {"a": "node", "b": "nginx-lua", "verdict": "slower", "ratio": 1 / 2.41, "low": 1 / 2.46, "high": 1 / 2.36},
            "nginx-lua served 2.41 times the requests of node (2.36–2.46, 24 rounds, 38 s)",
        ),
        (
            {"verdict": "undecided", "ratio": 0.998, "low": 0.988, "high": 1.009, "more_s": 75.0},
            "node against nginx-lua: too close to call, node served between 0.991 and 1.012 times the requests of "
            "nginx-lua (24 rounds, 38 s; "
            "about 2 min more would decide it if this trend holds)",
        ),
        (
            {"verdict": "same", "ratio": 1.001, "low": 0.996, "high": 1.006, "within_margin": True},
            "nginx-lua and node: same within 1 % (0.996–1.006 ×, 24 rounds, 38 s)",
        ),
        (
            {"ratio": 1.004, "low": 1.001, "high": 1.007, "within_margin": True},
            "nginx-lua served 1.004 times the requests of node (1.001–1.007, 24 rounds, 38 s; by less than 1 %)",
        ),
        (
            {"metric": "cpu"},
            "node needed 2.41 times the CPU per request of nginx-lua (2.36–2.46, 24 rounds, 38 s)",
        ),
    ],
)
def test_sentences_read_as_the_method_words_them(changes: dict[str, object], words: str) -> None:
    """The better one first, the interval, rounds and time."""
    assert sentence(pair_of(**changes)) == words
