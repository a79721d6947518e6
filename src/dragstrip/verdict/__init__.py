"""What the records of a race support: pairwise ratios, their intervals, words, tie groups. Pure; needs no engine.

Method: ``docs/METHOD.md``. One number per contender and round decides (a launch is the unit of repetition); pairs
are compared over the rounds in which both ran. Every ratio is *a's speed over b's*: above 1 means that ``a`` is the
better one, for CPU time too, where the better one spends less.
"""

from dragstrip.metrics import METRICS
from dragstrip.verdict.across import Change, Comparison, compare
from dragstrip.verdict.evidence import (
    ANYTIME_SHARE,
    FINAL_SHARE,
    FLOOR,
    TAU2,
    critical,
    e_value,
    factor,
    holm,
    p_value,
)
from dragstrip.verdict.judgement import Estimate, Interval, Verdict, judge, still_needed
from dragstrip.verdict.likeness import Unlike
from dragstrip.verdict.looks import factor_within, p_within
from dragstrip.verdict.numbers import RoundNumbers, round_numbers
from dragstrip.verdict.pairs import Pair
from dragstrip.verdict.words import sentence

__all__ = [
    "ANYTIME_SHARE",
    "FINAL_SHARE",
    "FLOOR",
    "METRICS",
    "TAU2",
    "Change",
    "Comparison",
    "Estimate",
    "Interval",
    "Pair",
    "RoundNumbers",
    "Unlike",
    "Verdict",
    "compare",
    "critical",
    "e_value",
    "factor",
    "factor_within",
    "holm",
    "judge",
    "p_value",
    "p_within",
    "round_numbers",
    "sentence",
    "still_needed",
]
