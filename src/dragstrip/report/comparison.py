"""Two races compared, as sentences, JSON, a table for the terminal and Markdown for a CI job's summary."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from rich.console import Console, RenderableType
from rich.text import Text

from dragstrip.analysis import FLOOR, Interval
from dragstrip.analysis.comparability import Differs, Unlike
from dragstrip.analysis.comparison import BETWEEN_RACES, Change, Comparison, NoInterval
from dragstrip.analysis.fitness import unfit_text
from dragstrip.analysis.gates import Rule, edge
from dragstrip.metrics import KNOWN, PairVerdict
from dragstrip.record import Race
from dragstrip.report import figures, glyphs
from dragstrip.store.json_values import JSON_SCHEMA, JsonObject, picked
from dragstrip.validity import noise

#: No colour alone: each weight has a mark, as each verdict has.
_WEIGHTS = {"blocks": ("■", "bold magenta"), "caveat": ("▲", "yellow"), "change": ("·", "dim")}


class RulingOutcome(StrEnum):
    """What became of a threshold."""

    FAILS = "fails"
    HOLDS = "holds"
    OPEN = "open"  #: without an interval, or the interval includes the threshold


@dataclass(frozen=True, slots=True)
class Ruling:
    """What became of one threshold for one contender.

    Args:
        rule: as it was given ("slower:3%").
        text: why, in a sentence.
    """

    rule: str
    name: str
    outcome: RulingOutcome
    text: str


@dataclass(frozen=True, slots=True)
class Ruled:
    """A ruling of a race.

    Args:
        column: of a race of several workloads or rates: which one; "" otherwise.
        could_say: the race has an interval, or the contender is out.
    """

    column: str
    ruling: Ruling
    could_say: bool


def sentence(change: Change, metric: str) -> str:
    """One contender's change in words, without a full stop."""
    name, launches = change.name, f"{change.rounds_old} launches then, {change.rounds_new} now"
    beside = f", relative to {change.against}" if change.against else ""
    if not change.interval.bounded:
        return f"{name}: no verdict, {_lack(change) or 'a race has no number of it'}{beside}"
    best, other, interval = _better_first(change)
    at, ends = figures.times(interval.estimate, interval.low, interval.high)
    span = f"{ends}{beside}, {launches}"
    if change.verdict is PairVerdict.SAME:
        return f"{name}: the same within the margin ({span})"
    if change.verdict is PairVerdict.UNDECIDED:
        return f"{name}: too close to call ({span})"
    told = KNOWN[metric].sentence.format(best=best, other=other, ratio=at)
    return f"{name}, {KNOWN[metric].word(change.verdict)}: {told} ({span})"


def _better_first(change: Change) -> tuple[str, str, Interval]:
    """The better and the worse of both races' contenders, and the ratio, which is not below 1."""
    then, now = f"{change.name} then", f"{change.name} now"
    return (then, now, change.interval.inverted()) if change.ratio < 1 else (now, then, change.interval)


def _lack(change: Change) -> str:
    """Why a change has no interval; "" if that is not known."""
    match change.lack:
        case NoInterval.FEW_ROUNDS:
            return f"it takes {FLOOR} rounds of each ({change.rounds_old} then, {change.rounds_new} now)"
        case NoInterval.CUT_OFF:
            return "a race with a fixed number of rounds was interrupted before it"
        case NoInterval.UNFIT:
            return f"a race has no verdict on it: {unfit_text(change.unfit)}"
    return ""


def difference_text(difference: Unlike) -> str:
    """In what two races differ: what was, and what is."""
    subject = difference.subject.replace("_", " ")
    about = {
        Differs.METHOD: "raced by method",
        Differs.WORKLOAD: "workload",
        Differs.REQUEST: f"workload {difference.subject}",
        Differs.LOAD: f"load, {subject}",
        Differs.CORE_COUNT: subject,
        Differs.CORES: subject,
        Differs.COUNTED: "counted part of a block",
        Differs.SOFTWARE: "Dragstrip",
        Differs.MACHINE: f"machine, {subject}",
        Differs.VERSION: f"{difference.contender}, version",
        Differs.PARITY: f"{difference.contender}, {difference.subject}",
    }
    match difference.what:
        case Differs.PROCESSOR_UNKNOWN:
            return "the processor is not known of both races: they may be of two machines"
        case Differs.DEFINITION:
            return f"{difference.contender}: its definition changed"
    before, after = (_value_text(difference.what, value) for value in (difference.before, difference.after))
    return f"{about[difference.what]}: {before}, then {after}"


def _value_text(what: Differs, value: object) -> object:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if what is Differs.COUNTED and isinstance(value, int):
        return f"{value / 1e6:g} ms"
    if what is Differs.MACHINE and isinstance(value, Mapping):
        return "some" if value else "none"
    if what in (Differs.MACHINE, Differs.REQUEST):
        text = str(value)
        return text if len(text) < 60 else f"{text[:57]}…"
    return (value or "unknown") if what is Differs.VERSION else value


def judge(comparison: Comparison, rules: Sequence[Rule]) -> list[Ruling]:
    """Each rule for each contender, decided by the interval and never the point."""
    return [
        ruling(
            rule,
            change.name,
            (change.low, change.high) if change.interval.bounded else None,
            lack=_lack(change) or "no number in one of the races",
            sentence=KNOWN[comparison.metric].sentence,
            names=(f"{change.name} now", f"{change.name} then"),
        )
        for rule in rules
        for change in comparison.changes
    ]


def ruling(
    rule: Rule,
    name: str,
    interval: tuple[float, float] | None,
    *,
    lack: str = "",
    sentence: str = "",
    names: tuple[str, str] = ("", ""),
    more: str = "",
) -> Ruling:
    """What becomes of a threshold, by a contender's speed over what it is compared with.

    Args:
        interval: None without one; ``lack``: why. 0 or infinity: that end is unknown.
        sentence: of the metric, with best, other and ratio. names: of the contender and of what it is compared with.
        more: what would settle an open one, as the end of its sentence.
    """
    text, word, share = rule
    if interval is None:
        return Ruling(text, name, RulingOutcome.OPEN, f"{name}: no interval, {lack}")
    low, high = interval
    limit = edge(rule)
    (best, other), ends = names, interval
    if low * high < 1:
        (other, best), ends = names, (1 / high, 1 / low if low else math.inf)
    told = sentence.format(best=best, other=other, ratio=_span(*ends))
    than, span = f"{word} by more than {figures.percent(share)}", f"({told})"
    if high < limit if word == "slower" else low > limit:
        return Ruling(text, name, RulingOutcome.FAILS, f"{name} is {than} {span}")
    if low >= limit if word == "slower" else high <= limit:
        return Ruling(text, name, RulingOutcome.HOLDS, f"{name} is not {than} {span}")
    return Ruling(text, name, RulingOutcome.OPEN, f"{name}: {than} can be neither shown nor ruled out {span}{more}")


def _span(low: float, high: float) -> str:
    """An interval's numbers; one of its ends may be unknown."""
    if low == 0:
        return f"at most {figures.ratio(high)}"
    return f"at least {figures.ratio(low)}" if high == math.inf else figures.times(low, low, high)[1]


def design(comparison: Comparison) -> str:
    """How the intervals were made and what they leave out."""
    how = (
        "Welch's interval over launches"
        if comparison.fixed
        else "intervals that hold however each race was stopped (races of a fixed number, --rounds, get narrower ones)"
    )
    share = figures.percent(1 - comparison.alpha)
    how += f"; they include the {figures.percent(BETWEEN_RACES)} by which two races of the same server differ"
    if comparison.reference:
        return (
            f"{share} for all together, {how}. Ratios are relative to {comparison.reference}, which did not change: "
            "what the machine did to both between the races cancels."
        )
    return (
        f"{share} for all together, {how}. No contender that stayed the same ran in both, so the machine's own change "
        "between the races is in each ratio: race an unchanged contender with yours, or both versions in one race."
    )


def drift(comparison: Comparison) -> str:
    """How the machine's speed changed between both races; "" without a reference."""
    moved = comparison.drift
    if moved is None:
        return ""
    span = f" ({figures.ratio_span(moved.low, moved.high)})" if moved.interval.bounded else ""
    return f"The machine: {moved.name} by itself ran at {figures.ratio(moved.ratio)} times its former speed{span}."


def disturbance(before: Race, after: Race) -> str:
    """What two races on a very disturbed machine can't show; "" if neither machine was very disturbed.

    What others do to the two differs, and an interval over the launches of each race does not see that.
    """
    both = [(when, noise(race)) for when, race in (("then", before), ("now", after))]
    shares = [f"{figures.percent(disturbed.lost)} {when}" for when, disturbed in both if disturbed.lost is not None]
    if not any(disturbed.level == "very disturbed" for _, disturbed in both):
        return ""
    return (
        f"The machine was very disturbed: others took {' and '.join(shares)} of its cores' time. Two races don't share "
        "that, so a ratio may be further off than its interval says: race both versions in one race."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonReport:
    """A comparison, and what to show with it.

    Args:
        rulings: what became of the thresholds.
        compared: ratios are shown; False if the races can't be compared.
        column: of races of several workloads or rates: which one; "" otherwise.
        disturbed: as ``disturbance`` has it.
    """

    comparison: Comparison
    rulings: Sequence[Ruling] = ()
    compared: bool
    column: str = ""
    disturbed: str = ""


def as_json(report: ComparisonReport) -> JsonObject:
    """The comparison, schema 1; ratios are null if the races can't be compared."""
    comparison, compared = report.comparison, report.compared
    return {
        "schema": JSON_SCHEMA,
        **picked(comparison, "old", "new", "metric", "margin", "alpha", "comparable", "reference", "requested"),
        "drift": _change(comparison.drift) if comparison.drift and compared else None,
        "changes": [_change(change) for change in comparison.changes] if compared else [],
        "fallen": [{"name": name, "reason": reason} for name, reason in comparison.fallen],
        "only_old": list(comparison.only_old),
        "only_new": list(comparison.only_new),
        "unlike": [{"weight": unlike.weight, "text": difference_text(unlike)} for unlike in comparison.unlike],
        "rules": list(map(asdict, report.rulings)),
        "design": design(comparison),
    }


def _change(change: Change) -> JsonObject:
    names = ("name", "ratio", "low", "high", "verdict", "rounds_old", "rounds_new")
    return picked(change, *names) | {"against": change.against or None, "note": _lack(change)}


def _heads(comparison: Comparison) -> tuple[str, ...]:
    return "contender", f"× {KNOWN[comparison.metric].compared}", "interval", "verdict", "launches"


def _rows(comparison: Comparison) -> list[tuple[str, str, str, PairVerdict, str]]:
    return [
        (
            change.name,
            *times(change),
            change.verdict,
            f"{change.rounds_old}, {change.rounds_new}",
        )
        for change in comparison.changes
    ]


def times(change: Change) -> tuple[str, str]:
    """The ratio of the better race over the worse one, and its interval."""
    *_, interval = _better_first(change)
    at, span = figures.times(interval.estimate, interval.low, interval.high)
    return at, span or "no interval yet"


def _design_lines(comparison: Comparison) -> list[str]:
    return [line for line in (drift(comparison), design(comparison)) if line]


def show(console: Console, report: ComparisonReport) -> None:
    """Prints it: the ratios first, then the thresholds, then in what the races differ."""
    comparison = report.comparison
    head = f"race {comparison.new} against race {comparison.old}{_at(report.column)}"
    parts: list[RenderableType] = [Text(head, style="bold"), Text(comparison.requested), Text()]
    if report.compared:
        table = glyphs.table()
        for at, head in enumerate(_heads(comparison)):
            table.add_column(head, overflow="fold" if at == 0 else "ellipsis", justify="right" if at == 1 else "left")
        for name, ratio, span, verdict, launches in _rows(comparison):
            word = Text(KNOWN[comparison.metric].word(verdict), style=glyphs.VERDICT_STYLE[verdict])
            table.add_row(Text(name), ratio, span, word, launches)
        parts += [table, Text()]
        parts += [Text.assemble(("▲ ", "yellow"), report.disturbed)] if report.disturbed else []
        parts += [Text(line, style="dim") for line in _design_lines(comparison)]
    else:
        parts.append(Text("These races can't be compared: see ■ below. --anyway compares them regardless.", "bold"))
    for name, reason in comparison.fallen:
        parts.append(Text.assemble(("■ ", "magenta"), (name, "bold"), f" had numbers then and is out now: {reason}"))
    parts += map(ruling_line, report.rulings)
    if comparison.unlike:
        parts += [Text(), Text("in what they differ", style="bold")]
        for difference in comparison.unlike:
            mark, style = _WEIGHTS[difference.weight]
            parts.append(Text.assemble((f"{mark} ", style), difference_text(difference)))
    for when, names in (("then", comparison.only_old), ("now", comparison.only_new)):
        if names:
            parts.append(Text(f"  only {when}: {', '.join(names)}", style="dim"))
    glyphs.emit(console, *parts)


def ruling_line(ruling: Ruling, column: str = "") -> Text:
    """A ruling as a line of the terminal."""
    style = {RulingOutcome.FAILS: "bold magenta", RulingOutcome.OPEN: "yellow", RulingOutcome.HOLDS: "blue"}[
        ruling.outcome
    ]
    return Text.assemble((f"{ruling.outcome:5} ", style), f"{ruling.rule}{_at(column)}: {ruling.text}")


def _at(column: str) -> str:
    return f", at {column}" if column else ""


def markdown(report: ComparisonReport) -> str:
    """A job's summary; nothing from outside is taken for markup."""
    comparison = report.comparison
    lines = [f"## Dragstrip: race {cell(comparison.new)} against {cell(comparison.old)}{cell(_at(report.column))}", ""]
    lines += [cell(comparison.requested), ""]
    fallen = [f"- **out now**: {cell(name)}: {cell(reason)}" for name, reason in comparison.fallen]
    if not fallen or not _all_hold(report.rulings):
        lines += ruling_items([("", ruling) for ruling in report.rulings])
    lines += fallen
    if report.compared:
        lines += ["", f"| {' | '.join(_heads(comparison))} |", "|-|-:|-|-|-|"]
        for name, ratio, span, verdict, launches in _rows(comparison):
            word = f"{glyphs.VERDICT_MARK[verdict]} {KNOWN[comparison.metric].word(verdict)}"
            lines.append(f"| {cell(name)} | {ratio} | {span} | {word} | {launches} |")
        lines += ["", *map(cell, filter(None, (report.disturbed, *_design_lines(comparison))))]
    else:
        lines += ["", "**These races can't be compared.**"]
    if comparison.unlike:
        lines += ["", "<details><summary>In what the races differ</summary>", ""]
        lines += [f"- {difference.weight}: {cell(difference_text(difference))}" for difference in comparison.unlike]
        lines += ["", "</details>"]
    return "\n".join(lines) + "\n"


def ruling_items(rulings: Sequence[tuple[str, Ruling]]) -> list[str]:
    """Thresholds as a list in Markdown, each with its column: those that don't hold, or that all do."""
    if rulings and _all_hold([ruling for _, ruling in rulings]):
        return [f"- all thresholds hold: {', '.join(sorted({f'`{ruling.rule}`' for _, ruling in rulings}))}"]
    return [
        f"- **{ruling.outcome}** `{ruling.rule}`{cell(_at(column))}: {cell(ruling.text)}"
        for column, ruling in rulings
        if ruling.outcome is not RulingOutcome.HOLDS
    ]


def _all_hold(rulings: Sequence[Ruling]) -> bool:
    return all(ruling.outcome is RulingOutcome.HOLDS for ruling in rulings)


def cell(text: str) -> str:
    """Text as Markdown shows it: no line ends, no tags, no links, no table cells of its own."""
    flat = html.escape(figures.visible(text), quote=False)
    return re.sub(r"([\\`*_\[\]|#!~])", r"\\\1", flat)
