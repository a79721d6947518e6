"""A race as plain tables, one observation a row: every block, and each contender's number per round."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields

from dragstrip.analysis import Interval, by_column, round_numbers
from dragstrip.errors import BadUsage
from dragstrip.record import Counted, Race
from dragstrip.report import figures
from dragstrip.report.race import chart_data
from dragstrip.report.race.summary import JudgedRace, better_first, pair_of, title
from dragstrip.report.race.wording import ended, sentence
from dragstrip.requested import typed_as
from dragstrip.validity.messages import void_text

#: What one cell can hold.
Cell = None | bool | int | float | str

Row = dict[str, Cell]

#: A block's fields in the table's order; histograms are exported as .hgrm and .hlog.
_BLOCK = (
    *("contender", "round", "pass_index", "position"),
    *(field.name for field in fields(Counted) if not field.name.endswith("_hdr") and field.name != "server_runs"),
    *("void", "server_runs"),
)

#: Each metric's column in the table of rounds, its unit last.
ROUND_COLUMNS = {"throughput": "throughput_per_s", "cpu": "server_cpu_us_per_request", "memory": "peak_memory_bytes"}


#: The tables' columns, in order; also of a race that left no rows.
BLOCKS = (
    *("race", "started", "workload", "kind", "at_s"),
    *_BLOCK,
    *("throughput_per_s", "server_cpu_us_per_request"),
)
_MEASURED = ("throughput_per_s", "server_cpu_us_per_request")
RANKING = (
    *("race", "started", "column", "request", "rank", "contender", "version", "decides"),
    *(f"{name}{end}" for name in _MEASURED for end in ("", "_low", "_high")),
    *("peak_memory_bytes", "p50_us", "p99_us", "times_behind", "times_behind_low", "times_behind_high"),
    *("errors", "rounds", "void", "out"),
)
ROUNDS = ("race", "workload", "round", "contender", *ROUND_COLUMNS.values(), "settled")


def block_rows(race: Race) -> Iterator[Row]:
    """One row per block: contender and time, every field of its record, its fate, and its own two numbers.

    ``kind`` is "used", "dropped" (with its round) or "void"; ``at_s`` is from the race's start. In a race of
    several columns the last cell names the column.
    """
    if len(race.columns) > 1:
        yield from _by_column(race, block_rows)
        return
    workload = _workload(race)
    for fated in chart_data.blocks(race):
        block = fated.block
        row: Row = {"race": race.id, "started": race.started, "workload": workload, "kind": fated.kind.value}
        row["at_s"] = round((block.started_ns - race.started_ns) / 1e9, 6)
        row |= {name: _cell(getattr(block, name)) for name in _BLOCK}
        row["void"] = "; ".join(map(void_text, block.void))
        row["throughput_per_s"] = chart_data.value(block, "throughput")
        row["server_cpu_us_per_request"] = chart_data.value(block, "cpu")
        yield row


def _workload(race: Race) -> str:
    """The only column's workload: a typed request by method and path, any other by its name."""
    return typed_as(race.columns[0].definition) or race.workload


def round_rows(race: Race) -> Iterator[Row]:
    """One row per contender and round that counts: its deciding numbers; if there are several columns, its column."""
    if len(race.columns) > 1:
        yield from _by_column(race, round_rows)
        return
    workload = _workload(race)
    tables = {column: round_numbers(race, metric) for metric, column in ROUND_COLUMNS.items()}
    first = next(iter(tables.values()))
    for row, index in enumerate(first.rounds):
        for column, name in enumerate(first.names):
            if first.ran[row, column]:
                place: Row = {"race": race.id, "workload": workload, "round": index, "contender": name}
                numbers = {key: figures.finite(table.totals[row, column]) for key, table in tables.items()}
                yield {**place, **numbers, "settled": bool(first.settled[row, column])}


def ranking_rows(race: Race) -> Iterator[Row]:
    """One row per contender of each column, best first: its numbers with their intervals, and how far it is behind.

    ``times_behind``: how many times the first is ahead, by the metric that decides. A contender that is out has a
    reason and no numbers.
    """
    for part in JudgedRace.of(race).parts:
        metric, names = part.verdict.metric, part.names
        place: Row = {"race": race.id, "started": race.started, "column": part.name, "request": title(part.race)}
        for rank, row in enumerate(part.rows, 1):
            ahead = pair_of(part.verdict, names[0], row.name) if rank > 1 else None
            estimate, us = row.estimate, row.latency_us
            yield {
                **place,
                "rank": rank,
                "contender": row.name,
                "version": row.entrant.version,
                "decides": metric,
                **_ends("throughput_per_s", estimate.throughput_per_s),
                **_ends("server_cpu_us_per_request", estimate.server_cpu_us_per_request),
                "peak_memory_bytes": estimate.peak_memory_bytes,
                **{f"{label}_us": us.get(label) for label in ("p50", "p99")},
                **_ends("times_behind", ahead.interval if ahead else None),
                "errors": sum(estimate.errors.values()),
                "rounds": estimate.rounds,
                "void": row.name in part.void_contenders,
                "out": "",
            }
        for entrant in part.out:
            empty = dict.fromkeys(RANKING)
            yield {**empty, **place, "contender": entrant.name, "version": entrant.version, "out": entrant.out}


def pair_rows(race: Race) -> Iterator[Row]:
    """One row per pair and metric of each column, the better estimate first, as reports show it."""
    for part in JudgedRace.of(race).parts:
        for pairs in (part.verdict.pairs, *part.verdict.beside.values()):
            for pair in map(better_first, pairs):
                yield {
                    "race": race.id,
                    "started": race.started,
                    "column": part.name,
                    "request": title(part.race),
                    "metric": pair.metric,
                    "decides": pair.metric == part.verdict.metric,
                    "better": pair.a,
                    "other": pair.b,
                    **_ends("times", pair.interval),
                    "verdict": figures.called(pair),
                    "void": bool({pair.a, pair.b} & part.void_contenders),
                    "rounds": pair.rounds,
                    "sentence": ended(sentence(pair)),
                }


def _ends(name: str, interval: Interval | None) -> Row:
    """A number and the ends of its interval; None is unknown."""
    ends = (None, None, None) if interval is None else (interval.estimate, interval.low, interval.high)
    return dict(zip((name, f"{name}_low", f"{name}_high"), map(figures.finite, ends), strict=True))


#: By the word of ``--rows``: what a row is.
ROWS: Mapping[str, Callable[[Race], Iterator[Row]]] = {
    "blocks": block_rows,
    "rounds": round_rows,
    "ranking": ranking_rows,
    "pairs": pair_rows,
}


def _by_column(race: Race, rows_of: Callable[[Race], Iterator[Row]]) -> Iterator[Row]:
    for column in by_column(race):
        for row in rows_of(column):
            yield {**row, "column": column.columns[0].name}


def csv_text(rows: Iterable[Mapping[str, Cell]]) -> str:
    """Rows as CSV (RFC 4180) with a head; an unknown value is an empty cell."""
    listed = list(rows)
    if not listed:
        return ""
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(listed[0]))
    writer.writeheader()
    writer.writerows(listed)
    return out.getvalue()


def parquet(rows: Iterable[Mapping[str, Cell]]) -> bytes:
    """Rows as a Parquet file.

    Raises:
        BadUsage: pyarrow is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet as writer
    except ImportError as error:
        raise BadUsage("Parquet takes pyarrow: pip install 'dragstrip[data]', or export .csv") from error
    made = io.BytesIO()
    writer.write_table(pyarrow.Table.from_pylist([dict(row) for row in rows]), made)
    return made.getvalue()


def _cell(value: Cell | Sequence[object] | Mapping[str, object]) -> Cell:
    """Maps and lists as text: a cell is one value."""
    if isinstance(value, Mapping):
        return json.dumps(dict(value))
    return "; ".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else value
