"""The terminal report as an SVG, for a README."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from dragstrip.record import Race
from dragstrip.report.race.terminal import show_race

if TYPE_CHECKING:
    from dragstrip.analysis import Verdict
    from dragstrip.validity import Check

#: Background, ink, then the eight colours; read on light and dark pages alike.
_INK, _GROUND = (232, 234, 237), (20, 23, 27)
_RED, _GREEN, _ORANGE = (242, 119, 119), (86, 200, 150), (240, 163, 60)
_BLUE, _PINK, _SKY = (86, 160, 233), (242, 119, 173), (110, 200, 230)
_COLOURS = [(59, 66, 76), _RED, _GREEN, _ORANGE, _BLUE, _PINK, _SKY, _INK]
_THEME = TerminalTheme(_GROUND, _INK, _COLOURS, [(110, 118, 130), *_COLOURS[1:]])


def terminal_svg(
    race: Race,
    verdict: Verdict,
    checks: Sequence[Check],
    *,
    columns: int = 110,
    title: str = "dragstrip race",
) -> str:
    """What ``show_race`` prints, in colour, as an SVG picture that loads nothing."""
    console = Console(
        record=True,
        width=columns,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
        no_color=False,
    )
    show_race(console, race, verdict, checks)
    svg = console.export_svg(title=title, theme=_THEME)
    # rich names a web font's address; a picture in a README must fetch nothing, and monospace will do.
    svg = re.sub(r"@font-face\s*\{.*?\}", "", svg, flags=re.DOTALL)
    return re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
