"""Dragstrip from Python: ``dragstrip.race(...)`` returns records, verdicts and data frames, also for notebooks.

::

    import dragstrip

    result = dragstrip.race("nginx-return", "nginx-static", rounds=10)
    print(result.headline)
    result.pair("nginx-return", "nginx-static").ratio
    result.rounds().groupby("contender").throughput_per_s.describe()
"""

# House: an edge: data frames, and options by name.
from __future__ import annotations

import html
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from dragstrip import analysis as judging
from dragstrip import contender
from dragstrip.analysis import comparison
from dragstrip.errors import BadUsage
from dragstrip.racing.options import PlanOptions
from dragstrip.report import figures
from dragstrip.report.console import Console
from dragstrip.report.race import columns as columns_of
from dragstrip.report.race import export as race_export
from dragstrip.report.race import summary, tables
from dragstrip.report.race import terminal as race_terminal
from dragstrip.report.race.headline import headline
from dragstrip.report.race.live import LiveProgress
from dragstrip.report.race.summary import JudgedRace
from dragstrip.store.database import Store, default_path
from dragstrip.validity import Status
from dragstrip.workload import Workload
from dragstrip.workload import several as workloads_of
from dragstrip.workload.typed import TypedRequest, is_path

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["Result", "TypedRequest", "compare", "race", "stored"]


@dataclass(frozen=True, repr=False)
class Result(JudgedRace):
    """A judged race, whose checks have their sentences."""

    @property
    def headline(self) -> str:
        """The race in a sentence or two."""
        return headline(self)

    @property
    def columns(self) -> Mapping[str, Result]:
        """Each workload or rate as a race of its own, by the column's name; their intervals hold at once."""
        return {part.name: Result(part.race, judging.Verdict((part.verdict,)), part.checks) for part in self.parts}

    def pair(self, a: str, b: str) -> judging.Pair:
        """Two contenders compared, seen from the first: ratio, interval and word.

        Raises:
            BadUsage: they were not compared, or the race has several columns.
        """
        if len(self.verdict.columns) > 1:
            names = ", ".join(self.columns)
            raise BadUsage(f"race {self.record.id} has a pair for each column; use columns[NAME].pair, NAME of {names}")
        compared_pair = summary.pair_of(self.verdict.column, a, b)
        if compared_pair is None:
            compared = ", ".join(sorted({name for pair in self.verdict.pairs for name in (pair.a, pair.b)}))
            raise BadUsage(f"race {self.record.id} did not compare {a} with {b}; compared pairs: {compared}")
        return compared_pair

    def blocks(self) -> DataFrame:
        """Every block, one row each, with its fate: "used", "dropped" or "void"."""
        return _frame(tables.block_rows(self.record), self._with_column(tables.BLOCKS))

    def rounds(self) -> DataFrame:
        """Each contender's number per round, by which pairs are decided."""
        return _frame(tables.round_rows(self.record), self._with_column(tables.ROUNDS))

    def _with_column(self, names: Sequence[str]) -> Sequence[str]:
        """Names of cells, with the column last if the race has several."""
        return (*names, "column") if len(self.verdict.columns) > 1 else names

    def pairs(self) -> DataFrame:
        """Every pair and metric: ratio, interval, verdict."""
        return _frame(self.json()["pairs"])

    def json(self) -> dict[str, Any]:
        """The content of ``--json`` (schema 1)."""
        return race_export.race_json(self)

    def to_html(self, path: Path | str) -> Path:
        """Writes the self-contained page."""
        from dragstrip.report.race import page  # Altair takes a third of a second to load

        page.write(self, Path(path))
        return Path(path)

    def __repr__(self) -> str:
        """One line: the record has thousands of blocks."""
        return f"<dragstrip.Result of race {self.record.id}: {self.headline}>"

    def __str__(self) -> str:
        console = Console(file=io.StringIO(), width=120, no_color=True)
        race_terminal.show_race(console, self)
        return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]  # it is the StringIO above

    def _repr_html_(self) -> str:
        """The sentence and the ranking, or contender by column."""
        parts = self.parts
        if len(parts) > 1:
            table = columns_of.table(self)
            heads = ["contender", *(f"{name}, {metric}" for name, metric in table.heads)]
            lines = [[name, *(f"{cell.text} {cell.letters}".strip() for cell in cells)] for name, cells in table.rows]
            notes = "".join(f"<p>{_escaped(line)}</p>" for line in columns_of.legend(self, table))
        else:
            cost = "CPU µs/request" if parts[0].verdict.metric == "cpu" else "requests/s"
            heads = ["contender", "version", cost, "interval", "rounds"]
            lines = [
                [
                    row.name,
                    row.entrant.version,
                    figures.figure(row.main.estimate),
                    figures.span(row.main.low, row.main.high),
                    str(row.estimate.rounds),
                ]
                for row in parts[0].rows
            ]
            warnings = "".join(
                f"<li>{_escaped(f'{check.status}: {check.label}: {check.detail}')}</li>"
                for check in self.checks
                if check.status is not Status.PASS
            )
            notes = f"<ul>{warnings}</ul>" if warnings else ""
        head, body = _cells("th", heads), "".join(f"<tr>{_cells('td', line)}</tr>" for line in lines)
        return (
            f"<p><b>{_escaped(self.headline)}</b></p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            f"{notes}<p>race {_escaped(self.record.id)}</p>"
        )


def race(
    *contenders: str,
    serve: Mapping[str, str] | None = None,
    workload: str | TypedRequest | Sequence[str | TypedRequest] | None = None,
    store: Path | str | None = None,
    quiet: bool = True,
    **plan: Unpack[PlanOptions],
) -> Result:
    """Races contenders and returns the result; the record is also in the store.

    Args:
        contenders: as on the command line: names, ``name:key=value``, files, addresses of running servers.
        serve: commands of your own by name, as typed into a terminal; they listen at the variable ``PORT``, or at
            ``{port}``.
        workload: its name, a file, or a path whose correct response is learned, like "/users/1"; a ``TypedRequest``
            is a path with a method, headers and a body. Several, in a list or with commas: each is a column. None:
            "hello", or "/" if all contenders are your own.
        store: the database file; None: the default one.
        quiet: False shows the race while it runs.
        plan: ``connections``, ``rounds``, ``budget_s``, ``rate_per_s``, ``metric`` and others: see ``PlanOptions``.

    Raises:
        BadUsage: fewer than two contenders, an unknown option, or one out of its bounds; nothing has been started or
            stored then.
        DragstripError: as on the command line, with the same message.
    """
    # Here, because reading old results must do without the compiled engine.
    from dragstrip.racing import run as racing
    from dragstrip.racing.request import Request, workloads_from

    _refuse_odd(contenders, serve, "/" if workload is None else workload, plan)
    served = [contender.serve_entry(f"{name}={command}") for name, command in (serve or {}).items()]
    entries = (*contender.entrants(contenders), *served)
    console = Console()
    workload = contender.usual_workload(entries) if workload is None else workload
    given = [workload] if isinstance(workload, str | TypedRequest) else workload
    asked = [part for one in given for part in _asked(one)]
    first, *also = workloads_from(asked, entries, say=lambda line: None if quiet else console.print(line))
    request = Request(entries=entries, workload=first, also=tuple(also), **plan)
    with Store(Path(store) if store else default_path()) as kept, LiveProgress(console, quiet=quiet) as progress:
        return Result.of(racing.run(request, store=kept, progress=progress))


def _asked(one: str | TypedRequest) -> Sequence[Workload | TypedRequest]:
    """The workloads of a text, of which a path is a request; or the request itself."""
    if isinstance(one, TypedRequest):
        return (one,)
    return (TypedRequest(path=one),) if is_path(one) else workloads_of(one)


def _refuse_odd(
    contenders: Sequence[str],
    serve: Mapping[str, str] | None,
    workload: str | TypedRequest | Sequence[str | TypedRequest],
    plan: Mapping[str, object],
) -> None:
    for option in plan:
        if option not in PlanOptions.__annotations__:
            known = contender.nearest(option, PlanOptions.__annotations__, "options are")
            raise BadUsage(f"dragstrip.race: unknown option {option!r}; {known}")
    for contender_ in (*contenders, *(serve or {}), *(serve or {}).values()):
        if not isinstance(contender_, str):
            raise BadUsage(f"dragstrip.race: contender {contender_!r} is not a string; use names, files or addresses")
    given = [workload] if isinstance(workload, str | TypedRequest) else workload
    if (
        not isinstance(given, list | tuple)
        or not given
        or not all(isinstance(one, str | TypedRequest) for one in given)
    ):
        raise BadUsage(
            f"dragstrip.race: workload={workload!r} is not valid; use a name like 'hello', a file, a path like "
            "'/users/1', a TypedRequest, or a list of these"
        )


def stored(run: str = "last", store: Path | str | None = None) -> Result:
    """A stored race, judged again. ``run`` is its id, the start of one, or "last"."""
    with Store(Path(store) if store else default_path(), write=False) as kept:
        return Result.of(kept.load(run))


def compare(
    old: Result, new: Result, *, metric: str | None = None, margin: float | None = None, reference: str | None = None
) -> comparison.Comparison:
    """Two races, now against then; ``metric``, ``margin`` and ``reference`` as ``analysis.comparison.compare``.

    Raises:
        BadUsage: a race has several columns; ``analysis.comparison.compare_columns`` compares each.
    """
    return comparison.compare(old.record, new.record, metric=metric, margin=margin, reference=reference)


def _frame(rows: Iterable[dict[str, Any]], columns: Sequence[str] | None = None) -> DataFrame:
    try:
        import pandas
    except ImportError as error:
        raise BadUsage("data frames need pandas: pip install 'dragstrip[data]'; json() works without it") from error
    return pandas.DataFrame(list(rows), columns=columns)


def _cells(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{_escaped(text)}</{tag}>" for text in texts)


def _escaped(text: str) -> str:
    """HTML-escaped text, because names come from outside."""
    return html.escape(figures.visible(text))
