"""A lab as one HTML file that needs nothing else: heat maps, pairs, what went wrong, and how much may be incorrect."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from jinja2 import Template

from dragstrip.extras.lab.report import revisions
from dragstrip.extras.lab.report.heat import JudgedLab, Shade, heat_maps, judged
from dragstrip.extras.lab.report.summary import UNDONE, CountedLab, counted
from dragstrip.report import pages

#: The ratio at which a field has its palest colour; slower ones look the same.
PALEST = 0.4

#: Seconds until a browser reads the served page again.
AGAIN_S = 10


def render(lab: CountedLab, cells: Sequence[JudgedLab], *, served: bool = False) -> str:
    """The whole page.

    Args:
        served: with links to the pages of races; while cells are undone, the browser reads it again.
    """
    tables = sum(cell.stored is not None and not cell.stored.void for cell in cells)
    return _template().render(
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


def of_folder(folder: Path) -> str:
    """The page of the lab that is in a folder, for `dragstrip serve`."""
    now = counted(folder)
    return render(now, judged(now), served=True)


@cache
def _template() -> Template:
    made = pages.templates(Path(__file__).parent)
    made.filters["depth"] = depth
    return made.get_template("page.html.j2")


def depth(shade: Shade) -> int:
    """How strong a field's colour is, 0 to 100: the best of its column has 100."""
    ratio = min(max(shade.ratio or 0.0, PALEST), 1.0)
    return round(100 * (ratio - PALEST) / (1 - PALEST))
