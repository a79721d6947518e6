"""What a terminal can show: drawing characters, their plain stand-ins, and the bar with its interval."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from dragstrip.report import figures

#: Named terminal colours follow the reader's own theme; blue, yellow and magenta differ for all kinds of
#: colour blindness, and a word or a mark repeats whatever a colour shows.
BAR, INTERVAL, POINT = "blue", "cyan", "bold"
STATUS_STYLE = {"pass": "blue", "warn": "yellow", "void": "bold magenta", "unknown": "dim"}
STATUS_MARK = {"pass": "●", "warn": "▲", "void": "■", "unknown": "?"}
VERDICT_MARK = {"faster": "▲", "slower": "▼", "same": "=", "undecided": "?"}
VERDICT_STYLE = {"faster": "blue", "slower": "yellow", "same": "bold", "undecided": "dim"}
BADGE_STYLE = {
    "faster": "bold reverse blue",
    "same": "bold reverse",
    "undecided": "bold reverse yellow",
    "void": "bold reverse magenta",
    "none": "bold reverse",
}
TIE_MARK = {"top": "┏", "middle": "┃", "bottom": "┗", "gap": "┊", "": " "}

#: One plain character for each of ours, so that columns stay in line.
_PLAIN = str.maketrans(
    {"█": "=", "▒": "~", "┃": "|", "┏": "/", "┗": "\\", "┊": ":", "●": "o", "▲": "!", "■": "X", "–": "-", "—": "-"}
    | {"░": ":", "┿": "+", "◂": "<", "▸": ">", "−": "-", "÷": "/", "“": '"', "”": '"'}
    | {"µ": "u", "×": "x", "…": ".", "·": "-", "─": "-", "━": "-", "│": "|", "’": "'"}
)


def emit(console: Console, *parts: RenderableType) -> None:
    """Prints, in plain ASCII if the console's encoding has no more; control characters are shown, not obeyed."""
    shown = Harmless(Group(*parts))
    if not console.options.ascii_only:
        console.print(shown)
        return
    with console.capture() as held:
        console.print(shown)
    console.file.write(held.get().translate(_PLAIN).encode("ascii", "replace").decode("ascii"))


def table(*heads: str | Text, numbers: Sequence[str] = (), header: bool = True, expand: bool = False) -> Table:
    """An empty table without lines; columns of text fold, columns of numbers are right-aligned and don't."""
    grid = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0), show_header=header, expand=expand)
    for head in heads:
        grid.add_column(head, overflow="fold")
    for head in numbers:
        grid.add_column(head, justify="right", no_wrap=True)
    return grid


@dataclass(frozen=True, slots=True)
class Harmless:
    """The same, but what came from outside can't clear a screen or rename a window: rich passes ESC on as it is."""

    held: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.held, options):
            plain = segment.control or segment.text.isprintable()
            yield segment if plain else Segment(figures.visible(segment.text, lines=True), segment.style)


class Drawing:
    """What is drawn in characters, as wide as a table's column is."""

    __slots__ = ()
    max_width: ClassVar[int] = sys.maxsize

    def cells(self, width: int) -> list[tuple[str, str]]:
        """Its parts from left to right: characters and their style."""
        raise NotImplementedError

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(8, options.max_width), min(self.max_width, options.max_width))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        return (Segment(text, Style.parse(style)) for text, style in self.cells(options.max_width) if text)


@dataclass(frozen=True, slots=True)
class Bar(Drawing):
    """An estimate as a bar from 0, its interval marked; ``scale`` is the value at full width."""

    estimate: float
    low: float | None
    high: float | None
    scale: float

    max_width: ClassVar[int] = 60

    def cells(self, width: int) -> list[tuple[str, str]]:
        """The bar's parts: filled up to the interval, the interval, the estimate's own cell."""
        at = self._cell(self.estimate, width)
        low, high = figures.finite(self.low), figures.finite(self.high)
        first = at if low is None else min(self._cell(low, width), at)
        last = at if high is None else max(self._cell(high, width), at)
        return [
            ("█" * first, BAR),
            ("▒" * (at - first), INTERVAL),
            ("┃", POINT),
            ("▒" * (last - at), INTERVAL),
            (" " * (width - last - 1), ""),
        ]

    def _cell(self, value: float, width: int) -> int:
        return min(max(int(value / self.scale * width), 0), width - 1) if self.scale > 0 else 0


@dataclass(frozen=True, slots=True)
class Axis(Drawing):
    """Ratios on a logarithmic scale, with 1 and the margin around it always on it.

    Args:
        low, high: ratios at its ends.
        margin: a share; differences below it are the same.
    """

    low: float
    high: float
    margin: float

    @classmethod
    def of(cls, spans: Sequence[tuple[float, float]], margin: float) -> Axis:
        """Holds all spans, with some room at both ends."""
        low = min([1 / (1 + margin), *(low for low, _ in spans)])
        high = max([1 + margin, *(high for _, high in spans)])
        room = (high / low) ** 0.04
        return cls(low / room, high * room, margin)

    def cell(self, ratio: float, width: int) -> int:
        """Index of a ratio's cell among ``width`` cells."""
        share = math.log(ratio / self.low) / math.log(self.high / self.low)
        return min(max(int(share * width), 0), width - 1)

    def cells(self, width: int) -> list[tuple[str, str]]:
        """Its labels: both ends, and 1 at its place."""
        line, unity = [" "] * width, self.cell(1.0, width)
        line[unity] = "1"
        for text, at in (
            (figures.ratio(self.low), 0),
            (figures.ratio(self.high), width - len(figures.ratio(self.high))),
        ):
            if at >= 0 and (at > unity + 1 or at + len(text) < unity):
                line[at : at + len(text)] = text
        return [("".join(line), "dim")]


@dataclass(frozen=True, slots=True)
class Whisker(Drawing):
    """A ratio as a point with its interval, against 1 and the margin's band around it."""

    ratio: float
    low: float | None
    high: float | None
    axis: Axis
    style: str

    def cells(self, width: int) -> list[tuple[str, str]]:
        """Each cell's character and style; the interval lies over the band, and crosses 1 to be seen."""
        axis, drawn = self.axis, [(" ", "")] * width
        for at in range(axis.cell(1 / (1 + axis.margin), width), axis.cell(1 + axis.margin, width) + 1):
            drawn[at] = ("░", "dim")
        unity = axis.cell(1.0, width)
        drawn[unity] = ("│", "dim")
        low, high = figures.finite(self.low), figures.finite(self.high)
        if low is not None and high is not None:
            for at in range(axis.cell(low, width), axis.cell(high, width) + 1):
                drawn[at] = ("┿" if at == unity else "━", self.style)
        if figures.finite(self.ratio) is not None:
            drawn[axis.cell(self.ratio, width)] = ("●", f"{self.style} {POINT}".strip())
        return drawn


def ties(cells: tuple[str, ...]) -> Text:
    """A row's tie columns."""
    return Text("".join(TIE_MARK[cell] for cell in cells), style="yellow")


def word(verdict: str) -> Text:
    """A verdict word in its colour."""
    return Text(verdict, style=VERDICT_STYLE.get(verdict, ""))
