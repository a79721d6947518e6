"""The sentences of the judgement: a pair's verdict, and what qualifies it (``docs/METHOD.md``, "The words")."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from dragstrip.analysis import ColumnVerdict, Contradiction, Pair, Pauses
from dragstrip.analysis.fitness import GeneratorLimit, MetricReason, SameRate, TimeTaken, UnfitReason
from dragstrip.analysis.interval import EARLY, FLOOR, LEAST_APART
from dragstrip.analysis.unequal_disturbance import Disturbed
from dragstrip.metrics import KNOWN, PairVerdict
from dragstrip.report.figures import as_percent, decimals, more_time, two_digits

#: Text before the names of the contenders concerned.
_UNFIT = {
    UnfitReason.GENERATOR: "limited by the load generator",
    UnfitReason.RATE: "could not sustain the offered rate",
    UnfitReason.WARMING: "still warming up",
    UnfitReason.DATABASE: "limited by the database",
    UnfitReason.SAME_RATE: "offered the same rate, which their throughput can't exceed",
}


def sentence(pair: Pair) -> str:
    """The pair's verdict in words, without a full stop; if they are separated, the better one comes first."""
    names = f"{pair.a} against {pair.b}"
    if pair.rounds == 0:
        return f"{names}: no verdict, no valid round of both{KNOWN[pair.metric].lack}"
    if pair.unfit:
        so_far = f"so far {_times(pair.ratio)} times the speed, {_spent(pair)}"
        return f"{names}: no verdict, {unfit_text(pair.unfit)} ({so_far})"
    if pair.verdict is PairVerdict.SAME:
        places = decimals(pair.low, pair.high, percent=False)
        span = f"{_times(pair.low, places)}–{_times(pair.high, places)}"
        return f"{pair.a} and {pair.b}: same within {as_percent(pair.margin)} ({span}, {_spent(pair)})"
    if pair.decided:
        return _separated(pair)
    if not math.isfinite(pair.low):
        least = early_text(pair)
        return f"{names}: too early to call after {_spent(pair)}, {least} (so far {_times(pair.ratio)} times the speed)"
    more = "" if pair.more_s is None else f"; about {more_time(pair.more_s)} more would decide it if this trend holds"
    edges = f"between {_edge(pair.low)} and {_edge(pair.high)}"
    return f"{names}: too close to call, {edges} ({_spent(pair)}{more})"


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


def _separated(pair: Pair) -> str:
    best, other = (pair.a, pair.b) if pair.verdict is PairVerdict.FASTER else (pair.b, pair.a)
    low, ratio, high = pair.low, pair.ratio, pair.high
    if pair.verdict is PairVerdict.SLOWER:
        low, ratio, high = 1 / high, 1 / ratio, 1 / low
    places = decimals(low, high, percent=False)
    span = f"{_times(low, places)}–{_times(high, places)}, {_spent(pair)}"
    little = f"; by less than {as_percent(pair.margin)}" if pair.within_margin else ""
    text = KNOWN[pair.metric].sentence.format(best=best, other=other, ratio=_times(ratio, places))
    return f"{text} ({span}{little})"


def unfit_text(groups: Iterable[tuple[UnfitReason, tuple[str, ...]]]) -> str:
    """Why contenders get no verdict: each reason once, then their names; "" without any."""
    return "; ".join(f"{_UNFIT[why]}: {', '.join(names)}" for why, names in groups)


def disturbed_text(disturbed: Disturbed | None) -> str:
    """Which contender the machine disturbed more, by how much, and what that does to the interval; "" for neither."""
    if disturbed is None:
        return ""
    more, less = disturbed.more, disturbed.less
    return (
        f"{more} was disturbed more than {less}: other programs and the hypervisor took "
        f"{as_percent(disturbed.lost_more)} of its time, but {as_percent(disturbed.lost_less)} of {less}'s; "
        f"both ends of the interval were moved out by {as_percent(math.expm1(disturbed.widened))} to allow for this"
    )


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


def _times(ratio: float, places: int | None = None) -> str:
    return f"{ratio:.{places if places is not None else 2 if ratio > 1.1 or ratio < 0.9 else 3}f}"


def _edge(ratio: float) -> str:
    """One end of an interval: ``1.2 % slower``, ``0.9 % faster``, ``3.1 times as fast``."""
    if ratio >= 2:
        return f"{ratio:.1f} times as fast"
    if ratio >= 1:
        return f"{as_percent(ratio - 1)} faster"
    return f"{as_percent(1 - ratio)} slower"


def _spent(pair: Pair) -> str:
    rounds = "1 round" if pair.rounds == 1 else f"{pair.rounds} rounds"
    return f"{rounds}, {_seconds(pair.spent_s)}" + (
        ", by the median over passes: pauses ignored" if pair.typical else ""
    )


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"
