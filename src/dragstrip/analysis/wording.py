"""One pair's verdict as a sentence (``docs/METHOD.md``, "The words")."""

from __future__ import annotations

import math

from dragstrip.analysis.pairs import Pair
from dragstrip.analysis.significance import FLOOR
from dragstrip.metrics import KNOWN


def sentence(pair: Pair) -> str:
    """The pair's verdict in words, without a full stop; the better one comes first where they are told apart."""
    names = f"{pair.a} against {pair.b}"
    if pair.rounds == 0:
        return f"{names}: no verdict, no valid round of both{KNOWN[pair.metric].lack}"
    if pair.note:
        return f"{names}: no verdict, {pair.note} (so far {_times(pair.ratio)} times the speed, {_spent(pair)})"
    if pair.verdict == "same":
        return f"{pair.a} and {pair.b}: same within {_percent(pair.margin)} ({_span(pair)}, {_spent(pair)})"
    if pair.decided:
        return _told_apart(pair)
    if not math.isfinite(pair.low):
        early = pair.rounds < FLOOR
        least = f"it takes at least {FLOOR} rounds" if early else "the race's fixed number of rounds is not reached"
        return f"{names}: too early to call after {_spent(pair)}, {least} (so far {_times(pair.ratio)} times the speed)"
    more = (
        "" if pair.more_s is None else f"; about {_seconds(pair.more_s)} more would decide it if it goes on like this"
    )
    edges = f"between {_edge(pair.low)} and {_edge(pair.high)}"
    return f"{names}: too close to call, {edges} ({_spent(pair)}{more})"


def _told_apart(pair: Pair) -> str:
    best, other = (pair.a, pair.b) if pair.verdict == "faster" else (pair.b, pair.a)
    low, ratio, high = pair.low, pair.ratio, pair.high
    if pair.verdict == "slower":
        low, ratio, high = 1 / high, 1 / ratio, 1 / low
    places = _places(low, high)
    span = f"{_times(low, places)}–{_times(high, places)}, {_spent(pair)}"
    little = f"; by less than {_percent(pair.margin)}" if pair.within_margin else ""
    # Holm's step-down may tell a pair apart whose interval, wide enough to hold beside all others, includes 1.
    wide = "; told apart by the step-down test, the interval is the wider one that holds for all pairs at once"
    told = KNOWN[pair.metric].told.format(best=best, other=other, ratio=_times(ratio, places))
    return f"{told} ({span}{wide if low <= 1 else ''}{little})"


def _places(low: float, high: float) -> int:
    """Decimals that show an interval as an interval, and an end that is not 1 as something else than 1: 1 to 4."""
    width = high - low
    places = min(max(-math.floor(math.log10(width / 2)), 1), 4) if width > 0 else 4
    while places < 4 and any(end != 1 and round(end, places) == 1 for end in (low, high)):
        places += 1
    return places


def _times(ratio: float, places: int | None = None) -> str:
    return f"{ratio:.{places if places is not None else 2 if ratio > 1.1 or ratio < 0.9 else 3}f}"


def _span(pair: Pair) -> str:
    places = _places(pair.low, pair.high)
    return f"{_times(pair.low, places)}–{_times(pair.high, places)}"


def _edge(ratio: float) -> str:
    """One end of an interval: ``1.2 % slower``, ``0.9 % faster``, ``3.1 times as fast``."""
    if ratio >= 2:
        return f"{ratio:.1f} times as fast"
    if ratio >= 1:
        return f"{_percent(ratio - 1)} faster"
    return f"{_percent(1 - ratio)} slower"


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"


def _spent(pair: Pair) -> str:
    rounds = "1 round" if pair.rounds == 1 else f"{pair.rounds} rounds"
    return f"{rounds}, {_seconds(pair.spent_s)}" + (
        ", by the median over passes: pauses ignored" if pair.typical else ""
    )


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"
