"""What the records of a race support: pairwise ratios, their intervals, verdicts, tie groups. Pure; needs no engine.

Method: ``docs/METHOD.md``. One number per contender and round decides (a launch is the unit of repetition); pairs
are compared over the rounds in which both ran. Every ratio is *a's speed over b's*: above 1 means that ``a`` is the
better one, also for CPU time: less is better. ``comparison`` compares two races, ``history`` many.
"""

from dragstrip.analysis.columns import MAX_VOID_ROUNDS, by_column, with_column
from dragstrip.analysis.fitness import UnfitReason
from dragstrip.analysis.gates import NO_GATE, Gate
from dragstrip.analysis.group_sequential import factor_within
from dragstrip.analysis.interval import EARLY, FLOOR, LEAST_APART, Interval
from dragstrip.analysis.judgement import (
    ColumnVerdict,
    Contradiction,
    Estimate,
    Pauses,
    Verdict,
    judge,
    judge_column,
    still_needed,
)
from dragstrip.analysis.numbers import RoundNumbers, round_numbers
from dragstrip.analysis.pairs import Pair
from dragstrip.analysis.ranking import ahead, consistent, over_columns
from dragstrip.metrics import METRICS
