"""The forest plot of the terminal: each pair's ratio with its interval, against 1 and the margin's band."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dragstrip.metrics import KNOWN
from dragstrip.report import figures, glyphs
from dragstrip.report.race.summary import DISTURBED_EACH, Part
from dragstrip.report.race.wording import disturbed_text, unfit_text

if TYPE_CHECKING:
    from dragstrip.analysis import Pair


def plot(pairs: Sequence[Pair], part: Part, width: int, *, verbose: bool = False) -> list[RenderableType]:
    """A line per pair, and the scale under all.

    A pair that the machine disturbed unequally has a mark. What the mark means stands below the pair where few have
    one, or ``verbose``; else below the plot, in one line for all.

    Args:
        pairs: of the part's, those that are shown.
        width: of the terminal, in cells.
    """
    axis = glyphs.Axis.of([_span(pair) for pair in pairs], pairs[0].margin)
    lines = [_line(pair, axis, void=bool({pair.a, pair.b} & part.void_contenders)) for pair in pairs]
    of = len(part.verdict.pairs)
    by = KNOWN[pairs[0].metric].compared.removesuffix(" ×")
    heads = (f"{by}, {'pairs' if len(pairs) == of else f'{len(pairs)} of {of} pairs'}", "", "×", "interval", "verdict")
    least = [max(len(str(line[at])) for line in (heads, *lines)) for at in range(5)]
    # Names and words may fold, numbers never do; the plot takes what is left.
    limits = (max(width * 3 // 8, 20), 0, least[2], least[3], max(width // 6, 12))
    sizes = [min(size, limit) for size, limit in zip(least, limits, strict=True)]
    parts: list[RenderableType] = [table := _table(sizes, heads)]
    disturbed = [pair for pair in pairs if pair.disturbed]
    each = verbose or len(disturbed) <= DISTURBED_EACH
    for line, pair in zip(lines, pairs, strict=True):
        table.add_row(*line)
        if pair.disturbed and each:
            parts += [
                Padding(Text(f"▲ {disturbed_text(pair.disturbed)}", style="yellow"), (0, 0, 0, 2)),
                table := _table(sizes, None),
            ]
    table.add_row("", axis)
    if disturbed and not each:
        parts.append(Text(f"▲ {together(disturbed)}", style="yellow"))
    return parts


def together(disturbed: Sequence[Pair]) -> str:
    """One sentence for all pairs whose interval is wider because the machine disturbed one more than the other."""
    ends = [figures.two_digits(100 * math.expm1(of(pair.widened for pair in disturbed))) for of in (min, max)]
    return (
        f"in {len(disturbed)} pairs the machine disturbed one more than the other: both ends of "
        f"their intervals were moved out by {' to '.join(dict.fromkeys(ends))} % to allow for this"
    )


def word(pair: Pair) -> Text:
    """The verdict word, in its colour, with what qualifies it."""
    verdict = Text(figures.called(pair), style=glyphs.word(pair.verdict).style)
    if pair.within_margin and pair.verdict.separated:
        verdict.append(f", by under {figures.percent(pair.margin)}")
    if pair.unfit:
        verdict.append(f", {unfit_text(pair.unfit)}")
    if pair.disturbed:
        verdict.append(" ▲", style="yellow")
    return verdict


def _span(pair: Pair) -> tuple[float, float]:
    ends = [figures.finite(end) for end in (pair.low, pair.high, pair.ratio)]
    known = [end for end in ends if end is not None and end > 0]
    return (min(known), max(known)) if known else (1.0, 1.0)


def _line(pair: Pair, axis: glyphs.Axis, *, void: bool) -> tuple[RenderableType, ...]:
    names = Text.assemble((pair.a, "bold"), " / ", pair.b)
    whisker = glyphs.Whisker(pair.ratio, pair.low, pair.high, axis, glyphs.VERDICT_STYLE[pair.verdict])
    bounded = figures.finite(pair.low) is not None
    interval = figures.ratio_span(pair.low, pair.high) if bounded else ""
    verdict = Text("void", style=glyphs.STATUS_STYLE["void"]) if void else word(pair) if bounded else Text("too early")
    return names, whisker, Text(figures.ratio(pair.ratio)), Text(interval), verdict


def _table(sizes: Sequence[int], heads: Sequence[str] | None) -> Table:
    """All of one shape, so that the lines of several stand below each other."""
    table = Table(
        box=None, pad_edge=False, expand=True, show_header=heads is not None, header_style="bold", padding=(0, 2, 0, 0)
    )
    names, _, ratio, interval, verdict = heads or [""] * 5
    table.add_column(names, width=sizes[0], overflow="fold")
    table.add_column("", ratio=1, no_wrap=True)
    table.add_column(ratio, width=sizes[2], justify="right", no_wrap=True)
    table.add_column(interval, width=sizes[3], no_wrap=True)
    table.add_column(verdict, width=sizes[4], overflow="fold")
    return table
