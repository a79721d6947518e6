"""What a response costs each contender, and which costs differ: a table of counters over the extra launches of a race.

Method: ``docs/why.md``. The launch is the unit; all tested differences of a column are one family.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from dragstrip.analysis.interval import Interval
from dragstrip.analysis.judgement import judge_column
from dragstrip.analysis.launch_differences import (
    LEAST_LAUNCHES,
    LaunchDifference,
    LaunchNumbers,
    amounts,
    counts,
    differences,
    exact_counts,
)
from dragstrip.analysis.layers import (
    LEAST_OF_FUNCTION,
    Layer,
    Parts,
    by_function,
    by_layer,
    sampled_share,
    unnamed_share,
)
from dragstrip.analysis.ranking import ahead, consistent
from dragstrip.record import Counter, EventKind, Profile, Race

#: Probability of any false alarm among a column's differences, and of missing a contender's own number. Counters,
#: system calls, layers and, between revisions, functions are families that share it equally (Bonferroni).
ALPHA = 0.05


#: Instead of a call's name: all counted calls, and the calls that had no counter of their own.
ALL_CALLS, OTHER_CALLS = "all", "others"


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterKind:
    """How one counter is divided and shown.

    Args:
        at_least: the source counts some of the events only.
        unit: of a table, in the counter's own. per_response: it is divided by the launch's responses.
        counted: its values are counts of events, which scatter at least by counting.
        tested: its differences are tested; numbers that a server is configured with are only shown.
    """

    counter: Counter
    unit: float = 1.0
    per_response: bool = True
    at_least: bool = False
    counted: bool = False
    tested: bool = True


#: All counters in the table's order.
COUNTERS = (
    CounterKind(counter=Counter.CPU_NS, unit=1e3),
    CounterKind(counter=Counter.USER_NS, unit=1e3),
    CounterKind(counter=Counter.KERNEL_NS, unit=1e3),
    CounterKind(counter=Counter.READS, at_least=True, counted=True),
    CounterKind(counter=Counter.WRITES, at_least=True, counted=True),
    CounterKind(counter=Counter.WAITS, counted=True),
    CounterKind(counter=Counter.TURNS, counted=True, tested=False),
    CounterKind(counter=Counter.MINOR_FAULTS, counted=True),
    CounterKind(counter=Counter.MAJOR_FAULTS, counted=True),
    CounterKind(counter=Counter.RECEIVED_BYTES),
    CounterKind(counter=Counter.SEGMENTS, counted=True),
    CounterKind(counter=Counter.PROCESSES, per_response=False, tested=False),
    CounterKind(counter=Counter.THREADS, per_response=False, tested=False),
    CounterKind(counter=Counter.RESIDENT_BYTES, unit=2.0**20, per_response=False, tested=False),
    CounterKind(counter=Counter.CONNECTION_BYTES, unit=1024.0, per_response=False),
    CounterKind(counter=Counter.SOCKET_BYTES, unit=1024.0, per_response=False),
    CounterKind(counter=Counter.HELD_CONNECTIONS, per_response=False, tested=False),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseCell:
    """One contender's number.

    Args:
        interval: its mean over launches; None if no launch has it.
        missing: why it is missing, in the words of a launch.
        difference: to the first contender; None for the first, and if it is not tested.
    """

    interval: Interval | None
    missing: str = ""
    difference: LaunchDifference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseRow:
    """One counter: its kind, and a cell for each contender in the table's order."""

    kind: CounterKind
    cells: tuple[CauseCell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """System calls per response.

    Args:
        name: of the call, ``ALL_CALLS`` or ``OTHER_CALLS``; of traced calls a ``CallClass``.
        traced: counted by tracing, which slows the server down.
        cells: for each contender in the table's order.
    """

    name: str
    traced: bool
    cells: tuple[CauseCell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRow:
    """CPU time in one layer or one function: its name, and a cell for each contender in the table's order."""

    name: str
    cells: tuple[CauseCell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """Which functions make up the difference in CPU time between two revisions.

    Args:
        counter: the CPU time that was sampled: all of it, or only user mode.
        whole: its difference, µs per response.
        found: functions whose difference the test found, the largest difference first.
        found_us: their differences, summed.
    """

    counter: Counter
    whole: LaunchDifference
    found: tuple[tuple[str, LaunchDifference], ...]
    found_us: float

    @property
    def unexplained_us(self) -> float:
        """The part of the difference that is in no function whose difference was found."""
        return self.whole.interval.estimate - self.found_us

    @property
    def unexplained_share(self) -> float | None:
        """The same as a share of the difference; None unless the whole difference was found."""
        return self.unexplained_us / self.whole.interval.estimate if self.whole.significant else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Causes:
    """What responses cost in one column.

    Args:
        names: contenders, the first is the one that others are compared with.
        launches: of each, in the same order.
        rows: counters that any launch has or that were looked for.
        calls: system calls, by name if they were counted, by class if they were traced; the most frequent first.
        layers: CPU time by layer, the largest first; empty unless all contenders' stacks were sampled.
        functions: the same by function, only for versions of one server; their differences are tested together.
        unnamed: share of each contender's samples whose innermost frame has no name; None without samples.
        uncounted: by contender, why its system calls were not counted by name, and why they were not traced; "" if they
            were.
        unsampled: by contender, why its stacks, or their part in the kernel, were not sampled; "" if they were.
        unnamed_code: by contender, why the code that its runtime compiled has no names, though it was to have them.
        rooted: share of its samples with a user part that reached the root of the stack; None without samples.
        sampled: share of its CPU time that its samples cover; None unless the kernel was sampled, too.
    """

    names: tuple[str, ...]
    launches: tuple[int, ...]
    rows: tuple[CauseRow, ...]
    calls: tuple[CallRow, ...] = ()
    layers: tuple[PartRow, ...] = ()
    functions: tuple[PartRow, ...] = ()
    unnamed: tuple[float | None, ...] = ()
    rooted: tuple[float | None, ...] = ()
    sampled: tuple[float | None, ...] = ()
    uncounted: tuple[tuple[str, str], ...] = ()
    unsampled: tuple[str, ...] = ()
    unnamed_code: tuple[str, ...] = ()

    @property
    def few(self) -> tuple[str, ...]:
        """Contenders with too few launches for a test."""
        return tuple(name for name, count in zip(self.names, self.launches, strict=True) if count < LEAST_LAUNCHES)

    def row(self, counter: Counter) -> CauseRow | None:
        """The row of a counter."""
        return next((row for row in self.rows if row.kind.counter is counter), None)

    def difference(self, counter: Counter, at: int) -> LaunchDifference | None:
        """A counter's difference to the first contender; None if it is not tested.

        Args:
            at: which contender is compared with the first.
        """
        row = self.row(counter)
        return row.cells[at].difference if row else None

    def explained(self, at: int) -> Explained | None:
        """Which functions make up a contender's difference to the first; None unless functions are compared."""
        counter = Counter.USER_NS if self.unsampled[0] or self.unsampled[at] else Counter.CPU_NS
        whole = self.difference(counter, at)
        if whole is None or not self.functions or {self.names[0], self.names[at]} & set(self.few):
            return None
        compared = [(row.name, row.cells[at].difference) for row in self.functions]
        found = [(name, known) for name, known in compared if known is not None and known.significant]
        found.sort(key=lambda item: -abs(item[1].interval.estimate))
        found_us = sum(difference.interval.estimate for _, difference in found)
        return Explained(counter=counter, whole=whole, found=tuple(found), found_us=found_us)


def causes(race: Race, layers: Sequence[Layer] = (), *, alpha: float = ALPHA) -> Causes | None:
    """The table of one column; None if no contender has an extra launch.

    Args:
        race: of one column (``by_column``). layers: of a server, in the order in which they are tried.
    """
    by_name = {entrant.name: known for entrant in race.entrants if (known := extra_launches(race, entrant.name))}
    if not by_name:
        return None
    ordered = {name: by_name[name] for name in _in_order(race, by_name)}
    return causes_of(ordered, layers, is_one_server=is_of_revisions(race), alpha=alpha)


def extra_launches(race: Race, name: str) -> list[Profile]:
    """A contender's extra launches in a race of one column; none if it is out or not in the race."""
    still_in = any(entrant.name == name and not entrant.out for entrant in race.entrants)
    return [launch for launch in race.profiles if launch.contender == name] if still_in else []


@dataclass(frozen=True, slots=True, kw_only=True)
class CausesBetween:
    """What responses cost in the extra launches of two races.

    Args:
        reference: the contender that did not change; None unless it has extra launches in both races.
        drift: the reference's difference in CPU time, µs per response: the machine's own change.
        tables: of each other contender, as it was then and as it is now; without functions if the machine has changed.
    """

    reference: str | None
    drift: LaunchDifference | None
    tables: tuple[Causes, ...]

    @property
    def is_other_machine(self) -> bool:
        """Whether the machine has changed: the reference's CPU time differs."""
        return self.drift is not None and self.drift.significant


def causes_between(
    old: Race, new: Race, layers: Sequence[Layer] = (), *, reference: str | None, alpha: float = ALPHA
) -> CausesBetween | None:
    """The causes of changes between two races of one column; None if no contender has extra launches in both.

    Args:
        layers: as in ``causes``. reference: a contender that did not change.
        alpha: the contenders share it equally.
    """
    both = {
        entrant.name: (then, now)
        for entrant in new.entrants
        if (then := extra_launches(old, entrant.name)) and (now := extra_launches(new, entrant.name))
    }
    unchanged = both.pop(reference, None) if reference else None
    if not both:
        return None
    drift = _cpu_difference(*unchanged, alpha) if unchanged else None
    compared = partial(
        causes_of, layers=layers, is_one_server=drift is None or not drift.significant, alpha=alpha / len(both)
    )
    return CausesBetween(
        reference=reference if unchanged else None,
        drift=drift,
        tables=tuple(compared({f"{name} then": then, f"{name} now": now}) for name, (then, now) in both.items()),
    )


def _cpu_difference(first: Sequence[Profile], second: Sequence[Profile], alpha: float) -> LaunchDifference | None:
    then, now = (_numbers(COUNTERS[0], launches) for launches in (first, second))
    return differences([(then, now)], alpha=alpha)[0] if then and now else None


def causes_of(
    by_name: Mapping[str, Sequence[Profile]],
    layers: Sequence[Layer] = (),
    *,
    is_one_server: bool,
    alpha: float = ALPHA,
) -> Causes:
    """The table of these launches, by contender; the others are compared with the first.

    Args:
        layers: as in ``causes``. is_one_server: they are versions of one server, so their functions can be compared.
    """
    names, share = tuple(by_name), alpha / (4 if is_one_server else 3)
    numbers = {(kind.counter, name): _numbers(kind, by_name[name]) for kind in COUNTERS for name in names}
    family = [
        (kind.counter, name)
        for kind in COUNTERS
        for name in names[1:]
        if kind.tested and numbers[kind.counter, names[0]] is not None and numbers[kind.counter, name] is not None
    ]
    tested = differences(
        [_both(numbers[counter, names[0]], numbers[counter, name]) for counter, name in family], alpha=share
    )
    found = dict(zip(family, tested, strict=True))

    def cell(kind: CounterKind, name: str) -> CauseCell:
        known = numbers[kind.counter, name]
        return CauseCell(
            interval=known.interval(alpha) if known else None,
            missing="" if known else _missing(kind.counter, by_name[name]),
            difference=found.get((kind.counter, name)),
        )

    rows = (CauseRow(kind=kind, cells=tuple(cell(kind, name) for name in names)) for kind in COUNTERS)
    shown = tuple(row for row in rows if any(cell.interval or cell.missing for cell in row.cells))
    ordered = [by_name[name] for name in names]
    return Causes(
        names=names,
        launches=tuple(map(len, ordered)),
        rows=shown,
        calls=_call_rows(ordered, alpha, share),
        layers=_part_rows([by_layer(launches, layers) for launches in ordered], alpha, share) if layers else (),
        functions=_part_rows(list(map(by_function, ordered)), alpha, share, least=LEAST_OF_FUNCTION, scatter_alike=True)
        if is_one_server
        else (),
        unnamed=tuple(map(unnamed_share, ordered)),
        rooted=tuple(map(_rooted_share, ordered)),
        sampled=tuple(map(sampled_share, ordered)),
        uncounted=tuple(
            (_missing(Counter.CALLS, launches), _missing(Counter.TRACED_RESPONSES, launches)) for launches in ordered
        ),
        unsampled=tuple(
            _missing(Counter.SAMPLES, launches) or _missing(Counter.KERNEL_SAMPLES, launches) for launches in ordered
        ),
        unnamed_code=tuple(_missing(Counter.NAMED_CODE, launches) for launches in ordered),
    )


def _call_rows(launches: Sequence[Sequence[Profile]], alpha: float, share: float) -> tuple[CallRow, ...]:
    """Rows of counted calls, then of traced calls; the differences of all are one family.

    Args:
        launches: of each contender, the first is the one that others are compared with.
        alpha: of each number's interval. share: of the family.
    """
    known = {traced: [_calls(of_one, traced=traced) for of_one in launches] for traced in (False, True)}
    numbers = {
        (name, traced): [calls.numbers(name) if calls else None for calls in of_all]
        for traced, of_all in known.items()
        for name in _call_names([calls for calls in of_all if calls is not None])
    }
    family = [(key, at) for key, of_all in numbers.items() for at in range(1, len(of_all)) if of_all[0] and of_all[at]]
    tested = differences([_both(numbers[key][0], numbers[key][at]) for key, at in family], alpha=share)
    found = dict(zip(family, tested, strict=True))
    return tuple(
        CallRow(
            name=name,
            traced=traced,
            cells=tuple(
                CauseCell(interval=calls.interval(alpha) if calls else None, difference=found.get(((name, traced), at)))
                for at, calls in enumerate(of_all)
            ),
        )
        for (name, traced), of_all in numbers.items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Calls:
    """One contender's calls: for each launch how many responses there were, and its calls by name."""

    answered: tuple[float, ...]
    by_name: tuple[Mapping[str, float], ...]

    def numbers(self, name: str) -> LaunchNumbers:
        """Calls per response for each launch; a call that a launch does not have is zero there."""
        return exact_counts([calls.get(name, 0.0) for calls in self.by_name], self.answered)


def _calls(launches: Sequence[Profile], *, traced: bool) -> _Calls | None:
    """A contender's calls; None unless all of its launches counted them in the same way."""
    responses = Counter.TRACED_RESPONSES if traced else Counter.CALL_RESPONSES
    if any(responses not in launch.counts for launch in launches):
        return None
    return _Calls(
        answered=tuple(launch.counts[responses] for launch in launches),
        by_name=tuple(launch.traced_calls if traced else _with_others(launch) for launch in launches),
    )


def _with_others(launch: Profile) -> Mapping[str, float]:
    """Counted calls by name, all of them, and the calls that had no counter of their own."""
    whole, named = launch.counts[Counter.CALLS], launch.calls
    return {ALL_CALLS: whole, **named, OTHER_CALLS: whole - sum(named.values())}


def _call_names(known: Sequence[_Calls]) -> list[str]:
    """All calls before each call by its name, the most frequent first; others are last, and only if there are any."""
    names = dict.fromkeys(name for calls in known for by_name in calls.by_name for name in by_name)
    means = {name: sum(calls.numbers(name).mean for calls in known) for name in names}
    return sorted(
        (name for name in names if means[name] > 0),
        key=lambda name: (name != ALL_CALLS, name == OTHER_CALLS, -means[name], name),
    )


def _part_rows(
    parts: Sequence[Parts | None], alpha: float, share: float, *, least: int = 1, scatter_alike: bool = False
) -> tuple[PartRow, ...]:
    """Rows of the parts that have enough samples over all contenders; all their differences are one family.

    Args:
        alpha: of each number's interval. share: of the family. scatter_alike: as in ``differences``.
    """
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return ()
    total = {name: sum(part.samples(name) for part in known) for name in frozenset().union(*(p.names for p in known))}
    names = sorted((name for name, samples in total.items() if samples >= least), key=lambda name: (-total[name], name))
    numbers = {name: [part.cpu_us(name) for part in known] for name in names}
    pairs = [(numbers[name][0], other) for name in names for other in numbers[name][1:]]
    found = iter(differences(pairs, alpha=share, scatter_alike=scatter_alike))
    rows = []
    for name in names:
        firsts = (CauseCell(interval=numbers[name][0].interval(alpha)),)
        others = tuple(CauseCell(interval=n.interval(alpha), difference=next(found)) for n in numbers[name][1:])
        rows.append(PartRow(name=name, cells=firsts + others))
    return tuple(rows)


def _rooted_share(launches: Sequence[Profile]) -> float | None:
    user = sum(launch.counts.get(Counter.USER_SAMPLES, 0.0) for launch in launches)
    return sum(launch.counts.get(Counter.ROOTED_SAMPLES, 0.0) for launch in launches) / user if user else None


def is_of_revisions(race: Race) -> bool:
    """Whether the contenders are revisions of one server: only then can functions be compared."""
    return any(event.kind is EventKind.REVISIONS for event in race.events)


def _in_order(race: Race, by_name: Mapping[str, Sequence[Profile]]) -> tuple[str, ...]:
    """Contenders by CPU time per response, the thriftiest first, but by no order that the race's pairs contradict.

    Revisions are in their own order.
    """
    names = tuple(by_name)
    if is_of_revisions(race):
        return names

    def cost(name: str) -> float:
        known = _numbers(COUNTERS[0], by_name[name])
        return known.mean if known else float("inf")

    return consistent(sorted(names, key=cost), ahead(judge_column(race, metric="cpu").pairs))


def _both(first: LaunchNumbers | None, second: LaunchNumbers | None) -> tuple[LaunchNumbers, LaunchNumbers]:
    if first is None or second is None:
        raise ValueError("a difference needs numbers of both contenders")
    return first, second


def _numbers(kind: CounterKind, launches: Sequence[Profile]) -> LaunchNumbers | None:
    """A counter's number for each launch, in its table's unit; None unless every launch has it.

    User and kernel mode are shares of ticks, of the precise CPU time of the whole.
    """
    if any(kind.counter not in launch.counts for launch in launches):
        return None
    totals = [launch.counts[kind.counter] / kind.unit for launch in launches]
    if not kind.per_response:
        return amounts(totals)
    answered = [float(launch.answered) for launch in launches]
    if kind.counted:
        return counts(totals, answered)
    return amounts([total / responses for total, responses in zip(totals, answered, strict=True)])


def _missing(counter: Counter, launches: Sequence[Profile]) -> str:
    """Why a counter has no number: the first reason of a launch."""
    return next((launch.missing[counter] for launch in launches if counter in launch.missing), "")
