"""What responses cost and which costs differ: the table of extra launches, for terminal, page and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from dragstrip.analysis import Interval
from dragstrip.analysis.causes import (
    ALL_CALLS,
    OTHER_CALLS,
    CallRow,
    CauseCell,
    CauseRow,
    Causes,
    Explained,
    PartRow,
    causes,
)
from dragstrip.analysis.launch_differences import LEAST_LAUNCHES, LaunchDifference
from dragstrip.quantities import as_percent
from dragstrip.record import CallClass, Counter, Race
from dragstrip.report import figures, glyphs
from dragstrip.report.comparison import cell
from dragstrip.report.race.layer_file import layers
from dragstrip.store.json_values import Json, JsonObject

#: The largest functions, which are shown also if they don't differ.
MAX_FUNCTIONS = 8

#: Functions that differ and have a sentence of their own; the table has all.
MAX_SENTENCES = 5

#: A system call that is rarer, per response of all shown contenders, is shown only if it differs.
LEAST_CALLS = 0.01

#: Samples that cover less of the CPU time are mentioned.
LEAST_SAMPLED = 0.95

#: A response of fewer bytes fits into one TCP segment; with more segments per response than that, it is sent in pieces.
SMALL_BYTES, IN_PIECES = 1400, 1.5

#: A difference that the test found.
FOUND = "●"

#: The name of each counter in a table, with its unit.
LABELS: Mapping[Counter, str] = {
    Counter.CPU_NS: "CPU, µs",
    Counter.USER_NS: "CPU in user mode, µs",
    Counter.KERNEL_NS: "CPU in the kernel, µs",
    Counter.READS: "read calls",
    Counter.WRITES: "write calls",
    Counter.WAITS: "waits of a thread",
    Counter.TURNS: "turns on a core",
    Counter.MINOR_FAULTS: "minor page faults",
    Counter.MAJOR_FAULTS: "major page faults",
    Counter.RECEIVED_BYTES: "bytes received",
    Counter.SEGMENTS: "TCP segments received",
    Counter.PROCESSES: "processes",
    Counter.THREADS: "threads",
    Counter.RESIDENT_BYTES: "resident memory, MiB",
    Counter.CONNECTION_BYTES: "memory per idle connection, KiB",
    Counter.SOCKET_BYTES: "socket buffers per idle connection, KiB",
    Counter.HELD_CONNECTIONS: "idle connections for that",
}

#: The name of each class of traced calls.
_TRACED_LABELS: Mapping[str, str] = {
    CallClass.READ: "read and receive calls",
    CallClass.WRITE: "write and send calls",
    CallClass.WAIT: "waiting calls",
    CallClass.OTHER: "other calls",
}

#: The explanation below a table.
NOTE = (
    "Means per response; ± is half of a 95 % interval over launches; indented rows divide CPU time, in µs. ● marks a "
    "difference that the test found; all tested differences together have a probability of at most 5 % of any false "
    "alarm. None of this is part of the verdict."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCauses:
    """One contender next to the first; or a contender alone.

    Args:
        heads: of the table's columns. rows: label, then a text for each further head.
        sentences: what was found, what is not measured.
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    sentences: tuple[str, ...]


def compared_causes(race: Race) -> tuple[ComparedCauses, ...]:
    """Each other contender of one column next to the first; empty without extra launches.

    Args:
        race: of one column (``by_column``).
    """
    table = causes(race, layers())
    return () if table is None else compared_in(table)


def compared_in(table: Causes) -> tuple[ComparedCauses, ...]:
    """Each other contender of a table next to the first."""
    return tuple(_compared(table, at) for at in range(1, len(table.names))) or (_compared(table, 0),)


def _compared(table: Causes, at: int) -> ComparedCauses:
    shown = (0, at) if at else (0,)
    heads = tuple(table.names[place] for place in shown)
    rows = tuple(
        (
            f"{LABELS[row.kind.counter]}{', at least' if row.kind.at_least else ''}",
            *(_number(row.cells[place]) for place in shown),
            *((_difference(row.cells[at].difference),) if at else ()),
        )
        for row in table.rows
        if any(row.cells[place].interval or row.cells[place].missing for place in shown)
    )
    rows += tuple(_of_calls(row, shown, at) for row in table.calls if _is_frequent(row, shown, at))
    rows += tuple(_part(f"  {row.name or 'in no layer'}", row, shown, at) for row in table.layers)
    rows += tuple(_part(f"  {row.name}", row, shown, at) for row in table.functions if _is_shown(row, at, table))
    return ComparedCauses(
        heads=("", *heads, *(("difference",) if at else ())), rows=rows, sentences=tuple(_sentences(table, shown, at))
    )


def _call_label(row: CallRow) -> str:
    if row.traced:
        return f"{_TRACED_LABELS.get(row.name, row.name)}, under tracing"
    return {ALL_CALLS: "system calls", OTHER_CALLS: "  other calls"}.get(row.name, f"  {row.name}")


def _of_calls(row: CallRow, shown: Sequence[int], at: int) -> tuple[str, ...]:
    """A row of system calls; counts are exact, so they have more digits."""
    numbers = (row.cells[place].interval for place in shown)
    difference = row.cells[at].difference
    mark = f" {FOUND}" if difference is not None and difference.significant else ""
    between = f"{_calls(difference.interval, sign='+')}{mark}" if difference else ""
    return (
        _call_label(row),
        *(_calls(interval) if interval else "not measured" for interval in numbers),
        *((between,) if at else ()),
    )


def _calls(interval: Interval, *, sign: str = "-") -> str:
    """Calls per response, and half the width of the interval."""
    return _with_half(interval, sign=sign, places=4)


def _is_frequent(row: CallRow, shown: Sequence[int], at: int) -> bool:
    """Whether one of the shown contenders makes this call often enough, or differs in it."""
    known = [cell.interval.estimate for place in shown if (cell := row.cells[place]).interval]
    difference = row.cells[at].difference
    return any(number >= LEAST_CALLS for number in known) or (difference is not None and difference.significant)


def _part(label: str, row: PartRow, shown: Sequence[int], at: int) -> tuple[str, ...]:
    """A row of CPU time in one layer or function, µs."""
    return (
        label,
        *(_number(row.cells[place]) for place in shown),
        *((_difference(row.cells[at].difference),) if at else ()),
    )


def _is_shown(row: PartRow, at: int, table: Causes) -> bool:
    """Whether a function is one of the largest, or differs."""
    difference = row.cells[at].difference
    return row in table.functions[:MAX_FUNCTIONS] or (difference is not None and difference.significant)


def _number(cell: CauseCell) -> str:
    return "not measured" if cell.interval is None else _with_half(cell.interval)


def _with_half(interval: Interval, *, sign: str = "-", places: int | None = None) -> str:
    """An estimate, and half the width of its interval unless that is nothing or unknown."""
    half = _half(interval)
    estimate = _known(interval.estimate, half, sign=sign, places=places)
    return f"{estimate} ± {figures.half_width(half)}" if half else estimate


def _half(interval: Interval) -> float | None:
    return figures.finite((interval.high - interval.low) / 2)


def _known(value: float, half: float | None, *, sign: str = "-", places: int | None = None) -> str:
    """A number with as many decimals as its interval supports; zero without any, so that it differs from a small one.

    Args:
        sign: "+" also shows the sign of a number above zero.
    """
    if value == 0:
        return "0"
    return f"{'+' if value > 0 and sign == '+' else ''}{figures.known_within(value, half, places=places)}"


def _difference(difference: LaunchDifference | None) -> str:
    if difference is None:
        return ""
    return f"{_with_half(difference.interval, sign='+')}{f' {FOUND}' if difference.significant else ''}"


def _sentences(table: Causes, shown: Sequence[int], at: int) -> Iterator[str]:
    """What the table shows, in words: CPU time first, then the other costs, then what is missing."""
    first, other = table.names[0], table.names[at]
    launches = (f"{table.launches[place]} of {table.names[place]}" for place in shown)
    yield f"Extra launches after the race: {', '.join(launches)}."
    few = [name for name in (first, other) if name in table.few]
    if at and few:
        yield (
            f"{figures.several(tuple(few))}: fewer than {LEAST_LAUNCHES} launches, so no difference is tested; "
            "run why again for more"
        )
    elif at:
        yield _of_cpu(table, first, other, at)
        costs = [_cost(row, at) for row in table.rows if _is_cost(row, at)]
        if costs := costs + [
            f"{_call_label(row).strip()}: {difference.interval.estimate:+.3f}"
            for row in table.calls
            if (difference := row.cells[at].difference) is not None
            and difference.significant
            and abs(difference.interval.estimate) >= LEAST_CALLS
            and row.name != ALL_CALLS
        ]:
            yield f"Other costs per response of {other} that differ from {first}: {'; '.join(costs)}."
    yield from _in_pieces(table, shown)
    yield from _of_stacks(table, shown, at)
    yield from _not_sampled(table, shown)
    yield from _not_counted(table, shown)
    for row in table.rows:
        for reason in dict.fromkeys(row.cells[place].missing for place in shown if row.cells[place].missing):
            names = tuple(table.names[place] for place in shown if row.cells[place].missing == reason)
            yield f"{LABELS[row.kind.counter]}: not measured for {figures.several(names)}, because {reason}."


def _in_pieces(table: Causes, shown: Sequence[int]) -> Iterator[str]:
    """Who sends responses that fit into one TCP segment in several (RFC 1122, 4.2.3.2 and 4.2.3.4)."""
    means = {row.kind.counter: row.cells for row in table.rows}
    for place in shown:
        bytes_in, segments = (
            cells[place].interval if (cells := means.get(counter)) else None
            for counter in (Counter.RECEIVED_BYTES, Counter.SEGMENTS)
        )
        if bytes_in and segments and bytes_in.estimate < SMALL_BYTES and segments.estimate > IN_PIECES:
            yield (
                f"{table.names[place]} sends {bytes_in.estimate:,.0f} bytes of response in "
                f"{figures.figure(segments.estimate)} TCP segments: it writes head and body apart. The kernel may "
                "hold the second back until the first one is acknowledged, which takes up to 40 ms; set TCP_NODELAY "
                "in the server, or let it write both at once."
            )


_OF_CPU = (Counter.CPU_NS, Counter.USER_NS, Counter.KERNEL_NS)


def _of_cpu(table: Causes, first: str, other: str, at: int) -> str:
    difference = table.difference(Counter.CPU_NS, at)
    if difference is None:
        return f"The CPU time of {first} and {other} can't be compared."
    if not difference.significant:
        return f"No difference in CPU time per response was found between {first} and {other}."
    text = f"{other} takes {more(difference)} CPU time per response than {first}"
    parts = [
        f"{_known(known.interval.estimate, _half(known.interval))} µs of the difference {where}"
        for counter, where in ((Counter.USER_NS, "in user mode"), (Counter.KERNEL_NS, "in the kernel"))
        if (known := table.difference(counter, at)) is not None
    ]
    return f"{text}: {' and '.join(parts)}." if parts else f"{text}."


def _of_stacks(table: Causes, shown: Sequence[int], at: int) -> Iterator[str]:
    """Which functions differ, and how complete the stacks are."""
    found = [row for row in table.layers if (known := row.cells[at].difference) is not None and known.significant]
    texts = [
        f"{row.name or 'in no layer'} {_difference(row.cells[at].difference).removesuffix(FOUND)}µs" for row in found
    ]
    if texts:
        yield f"CPU time differs in these layers: {'; '.join(texts)}."
    if at and (explained := table.explained(at)) is not None:
        yield from _of_functions(table.names[0], table.names[at], explained)
    for place in shown:
        unnamed, rooted, sampled = table.unnamed[place], table.rooted[place], table.sampled[place]
        if unnamed is not None and rooted is not None:
            yield (
                f"Sampled stacks of {table.names[place]}: {as_percent(rooted)} reach their root, "
                f"{as_percent(unnamed)} have no name for the innermost function."
            )
        if sampled is not None and sampled < LEAST_SAMPLED:
            yield (
                f"Samples cover {as_percent(sampled)} of the CPU time of {table.names[place]}: the sampler's "
                "clock is off while the kernel switches threads."
            )


def _of_functions(first: str, other: str, explained: Explained) -> Iterator[str]:
    """Which functions a revision made slower or faster, and what part of the difference is in none of them."""
    for name, difference in explained.found[:MAX_SENTENCES]:
        slower = "slower" if difference.interval.estimate > 0 else "faster"
        yield f"{other} is {slower} in {name}: {more(difference)} CPU time per response than {first}."
    if len(explained.found) > MAX_SENTENCES:
        yield f"The table has all {len(explained.found)} functions that differ."
    whole, half = explained.whole.interval.estimate, _half(explained.whole.interval)
    if explained.unexplained_share is None:
        return
    if not explained.found:
        yield f"No difference was found in any single function, so {_known(abs(whole), half)} µs stay unexplained."
        return
    where = " in user mode" if explained.counter is Counter.USER_NS else ""
    yield (
        f"{'These functions make' if len(explained.found) > 1 else 'This function makes'} up "
        f"{_known(explained.found_us, half, sign='+')} µs of the difference of "
        f"{_known(whole, half, sign='+')} µs{where}; "
        f"{explained.unexplained_us:+.2f} µs ({round(100 * explained.unexplained_share)} %) stays unexplained."
    )


def more(difference: LaunchDifference) -> str:
    """A difference in words: how much more or less, with its interval."""
    by = difference.interval
    word = "more" if by.estimate > 0 else "less"
    low, high = (_known(end, _half(by)) for end in sorted((abs(by.low), abs(by.high))))
    return f"{_known(abs(by.estimate), _half(by))} µs ({low} to {high}) {word}"


def _not_sampled(table: Causes, shown: Sequence[int]) -> Iterator[str]:
    """Whose stacks are missing or have no part in the kernel, and why."""
    for place in shown:
        if table.unsampled[place]:
            what = "Stacks" if table.unnamed[place] is None else "The kernel's part of stacks"
            yield f"{what}: not measured for {table.names[place]}, because {table.unsampled[place]}."
        if table.unnamed_code[place]:
            why = table.unnamed_code[place]
            yield f"Names of compiled code: not measured for {table.names[place]}, because {why}."


def _not_counted(table: Causes, shown: Sequence[int]) -> Iterator[str]:
    """Whose system calls have no count by name, and why; and why they were not traced."""
    for reasons in dict.fromkeys(table.uncounted[place] for place in shown if table.uncounted[place][0]):
        names = figures.several(tuple(table.names[place] for place in shown if table.uncounted[place] == reasons))
        counting, tracing = reasons
        traced = f"nor could they be traced, because {tracing}" if tracing else "they were traced instead"
        yield f"System calls by name: not counted for {names}, because {counting}; {traced}."


def _is_cost(row: CauseRow, at: int) -> bool:
    difference = row.cells[at].difference
    return row.kind.counter not in _OF_CPU and difference is not None and difference.significant


def _cost(row: CauseRow, at: int) -> str:
    difference = row.cells[at].difference
    if difference is None:
        raise ValueError("a cost that differs has a difference")
    return f"{LABELS[row.kind.counter]}: {_known(difference.interval.estimate, _half(difference.interval), sign='+')}"


def lines(race: Race) -> list[RenderableType]:
    """One column's tables for the terminal; empty without extra launches."""
    return lines_of(compared_causes(race))


def lines_of(tables: Sequence[ComparedCauses]) -> list[RenderableType]:
    """Tables for the terminal."""
    shown: list[RenderableType] = []
    for compared in tables:
        table = glyphs.table(compared.heads[0], numbers=compared.heads[1:])
        for row in compared.rows:
            table.add_row(*map(Text, row))
        shown += [Text("why: what a response costs", style="bold"), table, *map(Text, compared.sentences)]
        shown += [Text(NOTE, style="dim"), Text()]
    return shown


def markdown(race: Race) -> list[str]:
    """One column's causes as lines of Markdown: sentences, and rows that differ; empty without extra launches."""
    return markdown_of(compared_causes(race))


def markdown_of(tables: Sequence[ComparedCauses]) -> list[str]:
    """Tables as lines of Markdown; empty without a table."""
    shown: list[str] = []
    for compared in tables:
        heads = ["per response", *compared.heads[1:]]
        rows = [row for row in compared.rows if row[-1].endswith(FOUND)]
        shown += ["", *(f"- {cell(sentence)}" for sentence in compared.sentences)]
        if rows:
            shown += ["", f"| {' | '.join(map(cell, heads))} |", f"|-|{'-:|' * (len(heads) - 1)}"]
            shown += [f"| {' | '.join(cell(text.strip()) for text in row)} |" for row in rows]
    return ["", "### Why: what a response costs", *shown, "", NOTE] if shown else []


def as_json(race: Race) -> JsonObject:
    """One column's causes under one key; nothing without extra launches."""
    table = causes(race, layers())
    return {} if table is None else {"why": table_json(table)}


def table_json(table: Causes) -> JsonObject:
    """A table of causes."""
    counters: list[Json] = [
        {
            "counter": row.kind.counter,
            "label": LABELS[row.kind.counter],
            "at_least": row.kind.at_least,
            "per_response": row.kind.per_response,
            "contenders": [_cell(name, cell) for name, cell in zip(table.names, row.cells, strict=True)],
        }
        for row in table.rows
    ]
    launches: list[Json] = [
        {
            "name": name,
            "launches": count,
            "rooted_share": table.rooted[at],
            "unnamed_share": table.unnamed[at],
            "sampled_share": table.sampled[at],
        }
        for at, (name, count) in enumerate(zip(table.names, table.launches, strict=True))
    ]
    parts: JsonObject = {
        key: [
            {
                "name": row.name,
                "contenders": [_cell(name, cell) for name, cell in zip(table.names, row.cells, strict=True)],
            }
            for row in rows
        ]
        for key, rows in (("layers", table.layers), ("functions", table.functions))
    }
    calls: list[Json] = [
        {
            "name": row.name,
            "traced": row.traced,
            "contenders": [_cell(name, cell) for name, cell in zip(table.names, row.cells, strict=True)],
        }
        for row in table.calls
    ]
    explained: list[Json] = [
        _explained(name, known) for at, name in enumerate(table.names) if at and (known := table.explained(at))
    ]
    return {"contenders": launches, "counters": counters, "calls": calls, **parts, "explained": explained}


def _explained(name: str, explained: Explained) -> JsonObject:
    """Which functions make up a revision's difference to the first."""
    return {
        "name": name,
        "counter": explained.counter,
        "difference": tested_json(explained.whole),
        "found": [{"name": function, "difference": tested_json(known)} for function, known in explained.found],
        "unexplained_us": figures.finite(explained.unexplained_us),
        "unexplained_share": figures.finite(explained.unexplained_share),
    }


def _cell(name: str, cell: CauseCell) -> JsonObject:
    return {
        "name": name,
        **_bounds(cell.interval),
        "missing": cell.missing,
        "difference": None if cell.difference is None else tested_json(cell.difference),
    }


def tested_json(difference: LaunchDifference) -> JsonObject:
    """A difference with its interval, and whether the test found it."""
    return {**_bounds(difference.interval), "p": difference.p, "significant": difference.significant}


def _bounds(interval: Interval | None) -> JsonObject:
    return {name: figures.finite(getattr(interval, name)) if interval else None for name in ("estimate", "low", "high")}
