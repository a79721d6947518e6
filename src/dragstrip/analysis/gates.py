"""Thresholds of a race (``--fail-if``): where a contender's interval settles them, and which are still open. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dragstrip.analysis.interval import student_t
from dragstrip.analysis.judgement import ColumnVerdict
from dragstrip.analysis.pairs import Pair, Rules
from dragstrip.analysis.simultaneous import range_factor
from dragstrip.record import Plan

#: A difference that a plan can see is missed by one race in twenty.
MISSED = 0.05

#: A threshold: as it was given ("slower:3%"), "slower" or "faster", and the share.
Rule: TypeAlias = tuple[str, str, float]


def edge(rule: Rule) -> float:
    """The ratio, of a contender's speed over what it is compared with, at which a threshold is."""
    _, word, share = rule
    return 1 / (1 + share) if word == "slower" else 1 + share


def settled(rule: Rule, low: float, high: float) -> bool:
    """Whether the interval is on one side of the threshold, whichever that is."""
    return not (math.isnan(low) or math.isnan(high) or low < edge(rule) < high)


@dataclass(frozen=True, slots=True)
class Gate:
    """What a race has to settle in addition to its pairs.

    Args:
        rules: each is meant for every contender but the first.
        except_for: a contender that none is meant for: the first one's second launch.
    """

    rules: Sequence[Rule] = ()
    except_for: str = ""

    def open_pairs(self, verdict: ColumnVerdict, first: str) -> list[Pair]:
        """Pairs of the race's first contender with others for which a threshold is still open."""
        asked = [
            pair for pair in verdict.pairs if first in (pair.a, pair.b) and self.except_for not in (pair.a, pair.b)
        ]
        return [pair for pair in asked if not all(self._settled(rule, pair, first) for rule in self.rules)]

    def _settled(self, rule: Rule, pair: Pair, first: str) -> bool:
        if pair.unfit:
            return False
        return settled(rule, *((pair.low, pair.high) if pair.b == first else (1 / pair.high, 1 / pair.low)))


def seen(plan: Plan, scatter: float, *, contenders: int, family: int = 1) -> float:
    """The least ratio, as a natural logarithm, that 19 of 20 races by this plan tell from 1, or from a threshold.

    Args:
        scatter: standard deviation of the log ratio from round to round.
        contenders: how many are compared; family: in how many columns.
    """
    rounds, alpha = plan.planned_rounds, plan.alpha / family
    rules = Rules(metric="", margin=plan.margin, alpha=alpha, planned=rounds, last=True, fixed=plan.rounds_fixed)
    level = rules.level(rounds)
    if not level:
        return math.inf
    errors = range_factor(contenders, rounds - 1, level) + student_t(rounds - 1, 2 * MISSED)
    return errors * scatter / math.sqrt(rounds)


#: Nothing but the pairs.
NO_GATE = Gate()
