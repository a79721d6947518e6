"""Numbers as people read them; the same in terminal and page."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING

from dragstrip.metrics import KNOWN
from dragstrip.quantities import as_percent
from dragstrip.quantities import errors as errors
from dragstrip.quantities import percent as percent

if TYPE_CHECKING:
    from dragstrip.analysis import ColumnVerdict, Pair
    from dragstrip.record import Race

NONE = "–"

#: Up to here an interval's upper end gets as many decimals as a lower end near 1.
AS_FINE = 2.0


def called(pair: Pair) -> str:
    """A pair's verdict in the word that suits its metric."""
    return KNOWN[pair.metric].word(pair.verdict)


def times(value: float, low: float, high: float) -> tuple[str, str]:
    """A ratio and its interval, as every report shows them: as many decimals as the interval knows.

    Args:
        low, high: not finite without an interval; its text is then "".
    """
    if finite(low) is None or finite(high) is None:
        return ratio(value), ""
    digits = [1 - math.floor(math.log10(end)) for end in (low, value) if 0 < end < 1]
    # Three digits at least; near 1, a difference of 0.1 % is seen.
    least = 3 if 0.9 < value < 1.1 else 2 if value < 10 else 0
    places = min(max([decimals(low, high, percent=False), *digits, least]), 6)
    return f"{value:,.{places}f}", f"{low:,.{places}f}–{high:,.{places}f}"


def meaning(verdict: ColumnVerdict) -> str:
    """What the verdict words mean, for under a table, and what launches they may leave out."""
    launches = min((pair.rounds for pair in verdict.pairs if pair.decided), default=0)
    # The rule of three: of a kind with that share, that many launches miss all in one of twenty races.
    unmet = (
        f" A kind of launch that is rarer than one in {launches // 3} may not have been met in {launches} rounds; "
        "the verdicts leave it out."
        if launches
        else ""
    )
    return (
        "faster (of CPU and memory: less; of a latency: lower): separated, "
        f"with {percent(1 - verdict.alpha)} confidence for all pairs together. "
        f"same: the interval lies within the margin of {percent(verdict.margin)}. undecided: too close to call so far. "
        f"Intervals hold for all pairs at once.{unmet}"
    )


def null_race(race: Race) -> str:
    """What this machine made of a server against itself before the race, or how to find out."""
    known = race.machine.null_race
    if known is None:
        return "No null race of this machine was known (dragstrip doctor --null-race)."
    span = "" if known.low is None else f", {known.low:.4f} to {known.high:.4f}"
    sees = "" if known.round_sd is None else f"; rounds scattered by {as_percent(known.round_sd)}"
    return f"This machine's null race, {known.race} of {known.at[:10]}: {known.verdict}{span}{sees}."


def visible(text: str, *, lines: bool = False) -> str:
    """Text with what a terminal would obey (ESC, C1, CR, direction marks) shown as ``\\x1b``, not obeyed.

    Args:
        lines: line ends stay; otherwise they become spaces.
    """
    if text.isprintable():
        return text
    kept = {"\n": "\n" if lines else " ", "\t": " "}
    return "".join(
        c if c.isprintable() else kept.get(c) or c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


def finite(value: float | None) -> float | None:
    """The value, or None if it is not a finite number: not measured, or not yet bounded."""
    return None if value is None or not math.isfinite(value) else float(value)


def count(value: int | None) -> str:
    """A count with its thousands marked."""
    return NONE if value is None else f"{value:,}"


def figure(value: float | None) -> str:
    """About four significant digits, thousands marked, no exponent."""
    value = finite(value)
    if value is None:
        return NONE
    return f"{value:,.{_places(value)}f}"


def _places(value: float) -> int:
    """Decimals of about four significant digits."""
    size = abs(value)
    return 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 1 else 4


def known_within(value: float, half: float | None, *, places: int | None = None) -> str:
    """A number without decimals that its interval does not know.

    Args:
        half: of the interval's width, whose second significant digit is the last decimal; None or 0 if it is unknown.
        places: decimals at most; None for as many as ``figure`` shows.
    """
    most = _places(value) if places is None else places
    return f"{value:z,.{min(_known_places(half), most) if half else most}f}"


def half_width(half: float) -> str:
    """Half of an interval's width, with two significant digits: as many decimals as ``known_within`` shows."""
    return f"{half:,.{_known_places(half)}f}"


def _known_places(half: float) -> int:
    return max(1 - math.floor(math.log10(float(f"{half:.1e}"))), 0)


def brief(value: float | None) -> str:
    """About three significant digits, for narrow columns: 812, 1.24k, 118k."""
    value = finite(value)
    if value is None:
        return NONE
    for least, unit_size, unit in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= least:
            return f"{_three(value / unit_size)}{unit}"
    return f"{value:.0f}" if abs(value) >= 100 else _three(value)


def _three(value: float) -> str:
    size = abs(value)
    return f"{value:.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"


def span(low: float | None, high: float | None) -> str:
    """An interval; empty if it has no bounds yet."""
    if finite(low) is None or finite(high) is None:
        return ""
    return f"{figure(low)}–{figure(high)}"


def ratio(value: float | None) -> str:
    """A ratio: three decimals near 1."""
    value = finite(value)
    if value is None:
        return NONE
    if value < 0.8:
        return f"{value:#.3g}"
    return f"{value:.3f}" if value < 1.25 else f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def ratio_span(low: float | None, high: float | None) -> str:
    """An interval of a ratio; "no interval yet" without bounds."""
    if finite(low) is None or finite(high) is None:
        return "no interval yet"
    if 0.8 <= low < 1.25 <= high < AS_FINE:  # type: ignore[operator]  # finite, as above
        return f"{low:.3f}–{high:.3f}"
    return f"{ratio(low)}–{ratio(high)}"


def decimals(low: float, high: float, *, percent: bool) -> int:
    """Decimals that distinguish an interval's ends from each other and from no difference (a ratio of 1, 0 percent)."""
    even, fewest, most = (0, 0, 3) if percent else (1, 1, 4)
    width = high - low
    places = min(max(percent - math.floor(math.log10(width / 2)), fewest), most) if width > 0 else most
    while places < most and any(end != even and round(end, places) == even for end in (low, high)):
        places += 1
    return places


def per_unit(value: float | None, head: str) -> str:
    """A figure with the unit that its column's head has: "41,220/s", "21.3 µs"."""
    return f"{figure(value)}/s" if head.endswith("/s") else f"{microseconds(value)} µs"


def microseconds(value: float | None) -> str:
    """Microseconds, about three digits."""
    value = finite(value)
    return NONE if value is None else f"{value:,.0f}" if value >= 100 else _three(value)


def latency_text(value_ns: float | None) -> str:
    """A latency with its unit."""
    value = finite(value_ns)
    if value is None:
        return NONE
    if value < 999_500:
        return f"{microseconds(value / 1e3)} µs"
    return f"{figure(value / 1e6)} ms" if value < 999_950_000 else f"{value / 1e9:.2f} s"


def memory(value_bytes: float | None) -> str:
    """Bytes in binary units."""
    value = finite(value_bytes)
    if value is None:
        return NONE
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


def as_budget(seconds: float) -> str:
    """A duration as ``--budget`` takes it, rounded up: steps of 10 s, from 1 min on of 1 min, from 10 min on of 5."""
    if seconds <= 60:
        whole = max(10 * math.ceil(seconds / 10), 10)
        return f"{whole}s" if whole < 60 else "1m"
    step = 1 if seconds <= 600 else 5
    return f"{step * math.ceil(seconds / 60 / step)}m"


def rounds(count: int) -> str:
    """A number of rounds, in words."""
    return f"{count} round{'' if count == 1 else 's'}"


def more_time(seconds: float) -> str:
    """The same in words: every sentence that says how much more time is needed names the same."""
    return as_budget(seconds).replace("m", " min").replace("s", " s")


def check(name: str) -> str:
    """A check's name as shown next to its status: "void" is a status, not a part of a name."""
    return name.removeprefix("void ")


def local(started: str) -> str:
    """An ISO moment as this machine's own clock shows it, to the minute; any other text unchanged."""
    try:
        return datetime.fromisoformat(started).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return started


def several(names: tuple[str, ...]) -> str:
    """a, b and c."""
    return "".join(names or ("none",)) if len(names) < 2 else f"{', '.join(names[:-1])} and {names[-1]}"
