"""Heat maps of a lab: contender by workload, for each line-up, load and class of machines; plain values."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache

from dragstrip import __version__
from dragstrip.analysis import ahead, over_columns
from dragstrip.errors import DragstripError
from dragstrip.extras.lab.choice import CellProgress
from dragstrip.extras.lab.ledger import STORE_NAME, CellRow, Stored
from dragstrip.extras.lab.report.summary import CountedLab
from dragstrip.metrics import PairVerdict
from dragstrip.record import METHOD_VERSION, Race
from dragstrip.report import figures
from dragstrip.report.race.summary import JudgedRace, Part, pair_of, tie_letters
from dragstrip.store.database import Store
from dragstrip.store.json_values import decode, encode

#: The version of digests: of judging, and of their form.
MADE = f"{METHOD_VERSION}.{__version__}.2"


class Fill(StrEnum):
    """What a field of a heat map shows."""

    RATIO = "ratio"
    VOID = "void"
    #: The contender is out of this race.
    OUT = "out"
    CANT_RUN = "can't run"
    FAILED = "failed"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shade:
    """One contender in one cell.

    Args:
        ratio: its speed over the speed of the column's best, by their pair; None without one.
        letters: contenders of the column that share a letter are tied.
        open: a pair of it is undecided. why: the reason without a number.
    """

    fill: Fill
    ratio: float | None = None
    letters: str = ""
    open: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """One pair of one cell: the speed of a over the speed of b, with its interval and verdict."""

    a: str
    b: str
    estimate: float
    low: float
    high: float
    verdict: PairVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """What reports show of a race, and all that they need of it.

    Args:
        made: by which version; a digest of another version is made again from the record.
        metric: that decides. shades: by contender. started: ISO 8601, UTC.
    """

    made: str
    metric: str
    shades: Mapping[str, Shade]
    ratios: tuple[Ratio, ...]
    started: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedLab:
    """A cell and its race.

    Args:
        stored: None without a race. digest: None without a race, or if its record can't be read.
    """

    cell: CellRow
    progress: CellProgress
    why: str
    stored: Stored | None = None
    digest: Digest | None = None

    @property
    def metric(self) -> str:
        """The metric that decides; "" without a race."""
        return self.digest.metric if self.digest else ""

    @property
    def shades(self) -> Mapping[str, Shade]:
        """Each contender's field."""
        return self.digest.shades if self.digest else {}

    @property
    def ratios(self) -> Sequence[Ratio]:
        """Every pair."""
        return self.digest.ratios if self.digest else ()

    @property
    def column(self) -> str:
        """The cell's column in its heat map."""
        return " at ".join(filter(None, (self.cell.workload, self.cell.revision)))

    @property
    def starved(self) -> bool:
        """Whether a decision was foreseen and it did not get the rounds for it."""
        stored = self.stored
        return stored is not None and not (stored.decided or stored.void or stored.over)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """The cells of one line-up, load and class: a column for each workload and revision.

    Args:
        contenders: rows, best first by their mean ratio, but by no order that their pairs contradict.
    """

    line_up: str
    load: str
    machine: str
    contenders: tuple[str, ...]
    columns: tuple[JudgedLab, ...]

    def shade(self, contender: str, column: JudgedLab) -> Shade:
        """A field; a cell without a race has the same one in all rows."""
        if contender in column.shades:
            return column.shades[contender]
        fills = {
            CellProgress.CANT_RUN: Fill.CANT_RUN,
            CellProgress.FAILED: Fill.FAILED,
            CellProgress.DROPPED: Fill.CANT_RUN,
        }
        if column.stored is not None:
            return Shade(fill=Fill.OUT, why="it is not in this race")
        return Shade(fill=fills.get(column.progress, Fill.WAITING), why=column.why or str(column.progress))


def judged(lab: CountedLab) -> list[JudgedLab]:
    """Every planned cell with its race, in the matrix's order."""
    with ExitStack() as resources:

        @cache
        def store() -> Store:
            return resources.enter_context(Store(lab.folder / STORE_NAME, write=False))

        return [_judged(lab, cell, store) for cell in lab.cells]


def _judged(lab: CountedLab, cell: CellRow, store: Callable[[], Store]) -> JudgedLab:
    progress, why, stored = lab.progress[cell.name], lab.why(cell), lab.stored.get(cell.name)
    if stored is None:
        return JudgedLab(cell=cell, progress=progress, why=why)
    known = _kept(lab.digests.get(cell.name, ""))
    if known is None:
        try:
            known = _digest(store().load(stored.race))
        except DragstripError as error:
            return JudgedLab(cell=cell, progress=progress, why=str(error))
    return JudgedLab(cell=cell, progress=progress, why=why, stored=stored, digest=known)


def digest(race: Race) -> str:
    """What reports show of a race, as text for a ledger."""
    return json.dumps(encode(_digest(race)))


@lru_cache(maxsize=4096)
def _kept(text: str) -> Digest | None:
    """A digest of a ledger; None if there is none of this version."""
    with suppress(ValueError, TypeError):
        known = decode(Digest, json.loads(text))
        return known if known.made == MADE else None
    return None


def _digest(race: Race) -> Digest:
    part = JudgedRace.of(race).parts[0]
    return Digest(
        made=MADE,
        metric=part.verdict.metric,
        shades=_shades(part),
        ratios=tuple(
            Ratio(
                a=pair.a,
                b=pair.b,
                estimate=pair.interval.estimate,
                low=pair.interval.low,
                high=pair.interval.high,
                verdict=pair.verdict,
            )
            for pair in part.valid_pairs
        ),
        started=race.started,
    )


def _shades(part: Part) -> dict[str, Shade]:
    """Each contender's field: ratios are to the best of the column, ties by letters."""
    shades = {entrant.name: Shade(fill=Fill.OUT, why=entrant.out) for entrant in part.out}
    letters = tie_letters(part.names, part.verdict)
    open_ = {name for pair in part.verdict.pairs if not pair.decided for name in (pair.a, pair.b)}
    best = part.valid_rows[0].name if part.valid_rows else ""
    for row in part.rows:
        if row.name in part.void_contenders or part.void:
            shades[row.name] = Shade(fill=Fill.VOID, why="no measurement of it is valid")
            continue
        pair = pair_of(part.verdict, row.name, best)
        ratio = 1.0 if row.name == best else figures.finite(pair.ratio) if pair else None
        shades[row.name] = Shade(fill=Fill.RATIO, ratio=ratio, letters=letters[row.name], open=row.name in open_)
    return shades


def heat_maps(cells: Sequence[JudgedLab]) -> list[HeatMap]:
    """One map for each line-up, load and class, in the matrix's order."""
    groups: dict[tuple[str, str, str], list[JudgedLab]] = {}
    for judged_cell in cells:
        groups.setdefault((judged_cell.cell.line_up, judged_cell.cell.load, judged_cell.cell.machine), []).append(
            judged_cell
        )
    maps = []
    for (line_up, load, machine), columns in groups.items():
        names = dict.fromkeys(name for column in columns for name in column.shades)
        known = {name: [column.shades[name].ratio for column in columns if name in column.shades] for name in names}
        mean = {name: _mean([ratio for ratio in ratios if ratio is not None]) for name, ratios in known.items()}
        by_mean = sorted(names, key=lambda name: -mean[name])
        rows = over_columns(by_mean, (ahead(column.ratios) for column in columns)) or ("–",)
        maps.append(HeatMap(line_up=line_up, load=load, machine=machine, contenders=rows, columns=tuple(columns)))
    return maps


def _mean(ratios: Sequence[float]) -> float:
    return sum(ratios) / len(ratios) if ratios else -1.0
