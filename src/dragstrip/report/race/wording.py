"""The sentences of the judgement: a pair's verdict, and what qualifies it (``docs/METHOD.md``, "The words")."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dragstrip.analysis import ColumnVerdict, Contradiction, Pair, Pauses
from dragstrip.analysis.fitness import GeneratorLimit, MetricReason, SameRate, TimeTaken, unfit_text
from dragstrip.analysis.interval import EARLY, FLOOR, LEAST_APART
from dragstrip.metrics import KNOWN, PairVerdict
from dragstrip.quantities import as_percent, two_digits
from dragstrip.report import figures
from dragstrip.report.figures import more_time
from dragstrip.report.race.summary import better_first


def sentence(pair: Pair) -> str:
    """The pair's verdict in words, without a full stop; the better one comes first, and its ratio is not below 1."""
    pair = better_first(pair)
    names = f"{pair.a} against {pair.b}"
    if pair.rounds == 0:
        return f"{names}: no verdict, no valid round of both{KNOWN[pair.metric].lack}"
    if pair.unfit:
        return f"{names}: no verdict, {unfit_text(pair.unfit)} (so far {_said(pair)}, {_spent(pair)})"
    at, span = figures.times(pair.ratio, pair.low, pair.high)
    if pair.verdict is PairVerdict.SAME:
        return f"{pair.a} and {pair.b}: same within {as_percent(pair.margin)} ({span} ×, {_spent(pair)})"
    if pair.decided:
        little = f"; by less than {as_percent(pair.margin)}" if pair.within_margin else ""
        return f"{_said(pair, at)} ({span}, {_spent(pair)}{little})"
    if not math.isfinite(pair.low):
        return f"{names}: too early to call after {_spent(pair)}, {early_text(pair)} (so far {_said(pair)})"
    more = "" if pair.more_s is None else f"; about {more_time(pair.more_s)} more would decide it if this trend holds"
    low, _, high = span.partition("–")
    return f"{names}: too close to call, {_said(pair, f'between {low} and {high}')} ({_spent(pair)}{more})"


def _said(pair: Pair, ratio: str = "") -> str:
    """How many times one contender's number is the other's."""
    told = ratio or figures.times(pair.ratio, pair.low, pair.high)[0]
    return KNOWN[pair.metric].sentence.format(best=pair.a, other=pair.b, ratio=told)


def early_text(pair: Pair) -> str:
    """Why a pair has no interval yet."""
    apart, share = abs(math.log(pair.ratio)) > math.log1p(LEAST_APART), as_percent(LEAST_APART)
    if pair.rounds >= FLOOR:
        return "the fixed number of rounds is not complete yet"
    if not apart:
        return f"at least {FLOOR} rounds are needed for differences below {share}"
    if pair.rounds < EARLY:
        return f"at least {EARLY} rounds are needed for differences above {share}, {FLOOR} for smaller ones"
    return f"its rounds differ too much among each other for fewer than {FLOOR} rounds to decide"


def ended(text: str) -> str:
    """A sentence with its full stop."""
    return text if text.endswith(".") else f"{text}."


def unequal_pairs_text(disturbed: Sequence[Pair]) -> str:
    """One sentence for all pairs whose interval is wider because the machine disturbed one more than the other."""
    ends = [two_digits(100 * math.expm1(of(pair.widened for pair in disturbed))) for of in (min, max)]
    return (
        f"in {len(disturbed)} pairs the machine disturbed one more than the other: both ends of "
        f"their intervals were moved out by {' to '.join(dict.fromkeys(ends))} % to allow for this"
    )


def contradiction_text(contradiction: Contradiction) -> str:
    """Which contender serves more and yet spends more: idle cores, or more cores at work, make the difference."""
    ahead, behind = contradiction.ahead, contradiction.behind
    return (
        f"{ahead} serves more requests, but {behind} uses less CPU time per request: it leaves its cores "
        'idle part of the time, or uses fewer of them (see the check "saturation")'
    )


def pauses_text(pauses: Pauses, verdict: ColumnVerdict) -> str:
    """How much a contender loses to pauses of its own, and whether the deciding metric counts them."""
    judged = "the verdict is by totals, which include pauses"
    if verdict.metric == "cpu":
        judged = "the verdict is by CPU time per request, which does not include them"
    elif verdict.typical:
        judged = "the verdict is by the median over passes, which ignores pauses"
    return (
        f"{pauses.contender} loses {100 * pauses.lost:.1f} % of its throughput to pauses "
        f"({pauses.least}: {100 * pauses.others:.1f} %); {judged}"
    )


def metric_reason_text(reason: MetricReason | None) -> str:
    """Why CPU time decides if the race left the metric open; "" if nothing was chosen."""
    match reason:
        case None:
            return ""
        case SameRate(waits):
            return "every contender was offered the same rate" + (
                "; the latencies show how long each one waits" if waits else ""
            )
        case GeneratorLimit(contenders, waits):
            unseen = (
                ", so a server that handles one wait at a time can't be recognised; use fewer connections to see it"
            )
            limit = f"the load generator, not {' or '.join(contenders)}, limited the throughput"
            return limit + (unseen if waits else "")
        case TimeTaken(share, stolen):
            others = "other programs and the hypervisor" if stolen else "other programs"
            return f"{others} kept servers or load generator waiting for {100 * share:.0f} % of the time"


def _spent(pair: Pair) -> str:
    rounds = "1 round" if pair.rounds == 1 else f"{pair.rounds} rounds"
    return f"{rounds}, {_seconds(pair.spent_s)}" + (
        ", by the median over passes: pauses ignored" if pair.typical else ""
    )


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"
