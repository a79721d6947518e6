"""A lab as one HTML file that needs nothing else: heat maps, pairs, what went wrong, and how much may be incorrect."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from dragstrip.report import figures
from dragstrip.report.lab import revisions
from dragstrip.report.lab.heat import Judged, Shade, heat_maps
from dragstrip.report.lab.summary import UNDONE, Counted
from dragstrip.report.race import page as race_page

#: The ratio at which a field has its palest colour; slower ones look the same.
PALEST = 0.4

#: Seconds until a browser reads the served page again.
AGAIN_S = 10


def render(lab: Counted, cells: Sequence[Judged], *, served: bool = False) -> str:
    """The whole page.

    Args:
        served: with links to the pages of races; while cells are undone, the browser reads it again.
    """
    tables = sum(cell.stored is not None and not cell.stored.void for cell in cells)
    return _template().render(
        style=Markup(race_page.style()),
        lab=lab,
        maps=heat_maps(cells),
        cells=cells,
        series=revisions.series(cells),
        served=served,
        again_s=AGAIN_S if served and any(cell.progress in UNDONE for cell in cells) else 0,
        tables=tables,
        wrong=round(0.05 * tables),
        starved=[cell for cell in cells if cell.starved],
        hours=sum(lab.machine_s().values()) / 3600,
    )


@cache
def _template() -> Template:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined,
        finalize=race_page.harmless, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.filters |= {"ratio": figures.ratio, "depth": depth}
    made.globals |= {"ratio_span": figures.ratio_span}
    return made.get_template("page.html.j2")


def depth(shade: Shade) -> int:
    """How strong a field's colour is, 0 to 100: the best of its column has 100."""
    ratio = min(max(shade.ratio or 0.0, PALEST), 1.0)
    return round(100 * (ratio - PALEST) / (1 - PALEST))
