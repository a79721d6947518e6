"""The tables of evidence/verdicts.md on disturbed machines, from the races that ``benchmarks/answers.py`` has run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from calibration_page import share
from pages import splice

from dragstrip.record import METHOD_VERSION

Line = dict[str, Any]

#: Load average, of the minute before a race of the series, above which others were at work: two more than the series.
BUSY_LOAD = 5.0

APART = frozenset({"faster", "slower"})
DECIDED = APART | {"same"}
TURNED = {"faster": "slower", "slower": "faster"}


def write_page(lines: Sequence[Line], page: Path) -> None:
    """Puts the tables between the page's marks, which are put at its end where there are none.

    The conclusion also stands at the page's beginning, where the page has marks for it.
    """
    put(page, "disturbed", report(lines))
    if "<!-- disturbed-conclusion:begin -->" in page.read_text():
        put(page, "disturbed-conclusion", f"**On disturbed machines:** {conclusion(Races(lines))}")


def put(page: Path, mark: str, body: str) -> None:
    """Replaces a section of the page; the section is made at the page's end if there is none."""
    text = page.read_text()
    if f"<!-- {mark}:begin -->" not in text:
        page.write_text(f"{text}\n<!-- {mark}:begin -->\n<!-- {mark}:end -->\n")
    splice(page, mark, body)


# --- one race ---------------------------------------------------------------------------------------------------


def refused(line: Line) -> bool:
    """It ended without an answer that stands: void, or an exit code other than 0, or not at all."""
    return bool(line.get("failed") or line.get("void") or line.get("exit"))


def the_pair(line: Line) -> Line:
    """The only pair of a race of two."""
    pairs = line.get("pairs") or [{}]
    return dict(pairs[0])


def could_be_called(line: Line) -> bool:
    """It has the ten rounds that a verdict wants; a shorter race can't be called wrongly."""
    return bool(line.get("rounds", 0) - line.get("void_rounds", 0) >= 10)


def beside_builds(line: Line) -> bool:
    """Other programs, not the ordered duty, kept the cores busy when it began: builds and tests of developers."""
    return bool(line.get("load", 0.0) > BUSY_LOAD)


def warned(line: Line) -> bool:
    """Whether the machine disturbed one contender of the pair more."""
    return bool(the_pair(line).get("disturbed"))


def in_words(line: Line) -> str:
    """One race in one line, for the terminal."""
    head = f"{line['kind']}, {line['duty']} %: "
    if line.get("failed"):
        return head + "failed: " + " ".join(line["failed"].split())[-150:]
    tail = f", exit {line['exit']}, {line['rounds']} rounds, {line['took_s']:.0f} s{', void' if line['void'] else ''}"
    if len(line["pairs"]) > 1:
        return f"{head}{count(line, APART)} apart, {count(line, DECIDED)} decided of {len(line['pairs'])}{tail}"
    pair = the_pair(line)
    ends = f" ({pair['low']:.4g}–{pair['high']:.4g})" if pair.get("low") else ""
    ratio = f" {pair['ratio']:.4g}" if pair.get("ratio") else ""
    notes = f", {'WRONG, ' if line.get('wrong') else ''}{'warned, ' if warned(line) else ''}by {line['metric']}"
    return f"{head}{pair.get('verdict')}{ratio}{ends}{tail}{notes}"


def count(line: Line, words: frozenset[str]) -> int:
    """Pairs of a race with one of these words."""
    return sum(pair["verdict"] in words for pair in line["pairs"])


def holds(pair: Line, value: float | None) -> bool:
    """The pair's interval has the value in it."""
    return bool(value and pair.get("low") and pair["low"] <= value <= pair["high"])


def meets(pair: Line, other: Line) -> bool:
    """Two intervals of the same pair, in the same order, have a value in common."""
    return bool(pair.get("low") and other.get("low") and pair["low"] <= other["high"] and other["low"] <= pair["high"])


def machine(line: Line) -> tuple[object, object]:
    """What told two machines apart that a series was raced on."""
    return line.get("cpu"), line.get("kernel")


def wrong_way(line: Line, reference: Line | None) -> int:
    """Pairs that the reference tells apart the other way round."""
    known = {(p["a"], p["b"]): p["verdict"] for p in reference["pairs"]} if reference else {}
    known |= {(b, a): TURNED.get(word, word) for (a, b), word in known.items()}
    return sum(TURNED.get(p["verdict"]) == known.get((p["a"], p["b"]), "") != "" for p in line["pairs"])


# --- the tables -------------------------------------------------------------------------------------------------


class Races:
    """The races, by kind."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = lines

    def of(self, kind: str, duty: int | None = None) -> list[Line]:
        """Races of a kind, or of all whose name begins so, that ran."""
        return [line for line in self.lines if line["kind"].startswith(kind) and duty in (None, line["duty"])]

    def names(self, start: str) -> list[tuple[str, int]]:
        """Kinds and duties that there are races of."""
        return sorted({(line["kind"], line["duty"]) for line in self.of(start)})

    def rows(self, start: str) -> Iterator[tuple[str, str, int, list[Line]]]:
        """Kind, title, duty and races of each row of a table that has those beside other people's builds apart."""
        for name, duty in self.names(start):
            for builds in (False, True):
                mine = [line for line in self.of(name, duty) if beside_builds(line) == builds]
                if mine:
                    yield name, f"{name}{', during builds' if builds else ''}", duty, mine

    def reference(self, kind: str, beside: Line | None = None) -> Line | None:
        """The reference of a kind with the most rounds.

        Args:
            beside: the race that it is for: of references, those of the same processor and kernel come first, because
                a ratio of two servers differs between machines; of those, the ones that the same metric decided.
        """
        found = [line for line in self.lines if line["kind"] == f"reference: {kind}" and not line.get("failed")]
        if beside is not None and (there := [line for line in found if machine(line) == machine(beside)]):
            return max(there, key=lambda line: (line["metric"] == beside.get("metric"), line["rounds"]))
        return max(found, key=lambda line: line["rounds"], default=None)


def seconds(lines: Iterable[Line]) -> str:
    """The median race's seconds, from the command to its end."""
    took = [line["took_s"] for line in lines]
    return f"{median(took):.0f} s" if took else "–"


def by_metric(lines: Iterable[Line]) -> str:
    """By which metrics races were decided: ``12 throughput, 3 cpu``."""
    metrics = [line["metric"] for line in lines if not line.get("failed")]
    return ", ".join(f"{metrics.count(metric)} {metric}" for metric in sorted(set(metrics), reverse=True))


def same(races: Races) -> Iterator[str]:
    """A server against itself."""
    yield (
        "| a server against itself | duty | races | with ten rounds or more | wrong verdict | *same* | undecided "
        "| no result | metric | median time |"
    )
    yield "|-|-|-|-|-|-|-|-|-|-|"
    duties = sorted({duty for _, duty in races.names("same: ")})
    rows = [*races.names("same: "), *(("same: ", duty) for duty in duties)]
    for name, duty in rows:
        mine = races.of(name, duty)
        wrong, words = sum(bool(line.get("wrong")) for line in mine), [the_pair(line).get("verdict") for line in mine]
        title = name.removeprefix("same: ") or "**all**"
        yield (
            f"| {title} | {duty} % | {len(mine)} | {sum(map(could_be_called, mine))} "
            f"| {share(wrong, len(mine))} | {words.count('same')} "
            f"| {words.count('undecided')} | {sum(map(refused, mine))} | {by_metric(mine)} | {seconds(mine)} |"
        )


def each_load(races: Races) -> Iterator[str]:
    """How a race of each kind of load ended, and after how long; the rounds' time as a share of the budget."""
    yield "| load | duty | seconds in all | rounds | of the budget | ended | verdict |"
    yield "|-|-|-:|-:|-:|-|-|"
    for line in sorted(races.of("load: "), key=lambda line: (line["kind"], line["duty"])):
        load, words = line["kind"].removeprefix("load: "), sorted({one["verdict"] for one in line.get("pairs", ())})
        ended = line.get("finished") or f"exit code {line['exit']}"
        yield (
            f"| {load} | {line['duty']} % | {line['took_s']:.0f} | {line.get('rounds', 0)} "
            f"| {spent_share(line):.0%} | {ended} | {', '.join(words) or '–'} |"
        )


def spent_share(line: Line) -> float:
    """The time of a race's rounds over its budget; a column of two contenders has one pair."""
    return sum(float(pair.get("spent_s", 0)) for pair in line.get("pairs", ())) / float(line["budget_s"])


def budgets(races: Races) -> Iterator[str]:
    """How many races of two kept their budgets."""
    lines = [line for line in races.of("") if len(line.get("pairs", ())) == 1 and not line["kind"].startswith("ref")]
    yield "| budget | duty | races | rounds within 1.1 of it | longest |"
    yield "|-|-|-:|-:|-:|"
    for budget, duty in sorted({(line["budget_s"], bool(line["duty"])) for line in lines}):
        mine = [line for line in lines if (line["budget_s"], bool(line["duty"])) == (budget, duty)]
        kept = sum(spent_share(line) <= 1.1 for line in mine)
        yield (
            f"| {budget:g} s | {'disturbed' if duty else 'nothing ordered'} | {len(mine)} | {share(kept, len(mine))} "
            f"| {max(map(spent_share, mine)):.0%} |"
        )


def different(races: Races) -> Iterator[str]:
    """Differences that are known, planted or from a reference."""
    yield (
        "| known difference | duty | races | found | wrong direction | interval contains it "
        "| overlaps the reference | no result | metric | median time |"
    )
    yield "|-|-|-|-|-|-|-|-|-|-|"
    for name, duty in [*races.names("planted"), *races.names("nginx-return against")]:
        mine, reference = races.of(name, duty), races.reference(name)
        truth = mine[0]["truth"]
        right = "faster" if (truth or (the_pair(reference).get("ratio") if reference else 1) or 1) > 1 else "slower"
        words = [the_pair(line).get("verdict") for line in mine if not refused(line)]
        held = share(sum(holds(the_pair(line), truth) for line in mine), len(mine)) if truth else "–"
        of_each = [(line, races.reference(name, line)) for line in mine]
        meeting = sum(meets(the_pair(line), the_pair(other)) for line, other in of_each if other)
        met = share(meeting, len(mine)) if reference else "–"
        yield (
            f"| {name} | {duty} % | {len(mine)} | {share(words.count(right), len(mine))} "
            f"| {words.count(TURNED[right])} | {held} | {met} | {sum(map(refused, mine))} | {by_metric(mine)} "
            f"| {seconds(mine)} |"
        )


def one_sided(races: Races) -> Iterator[str]:
    """Only one of two alike is disturbed."""
    yield (
        "| only the second of two equal servers disturbed | duty | races | wrong verdict without warning "
        "| wrong verdict | cause reported | no result | median ratio |"
    )
    yield "|-|-|-|-|-|-|-|-|"
    for _, title, duty, mine in races.rows("one-sided"):
        wrong = [line for line in mine if line.get("wrong")]
        named = [line for line in mine if "b-" in str(the_pair(line).get("disturbed", ""))]
        ratios = [the_pair(line)["ratio"] for line in mine if the_pair(line).get("ratio")]
        yield (
            f"| {title.removeprefix('one-sided: ')} | {duty} % | {len(mine)} "
            f"| {share(sum(not warned(line) for line in wrong), len(mine))} | {len(wrong)} "
            f"| {share(len(named), len(mine))} | {sum(map(refused, mine))} "
            f"| {f'{median(ratios):.3f}' if ratios else '–'} |"
        )


def line_up(races: Races) -> Iterator[str]:
    """What ``make race`` ends in."""
    yield (
        "| the default line-up, as `make race` runs it | duty | races | exit code 0 | separated pairs of 28 "
        "| wrong direction | median time |"
    )
    yield "|-|-|-|-|-|-|-|"
    for name, title, duty, mine in races.rows("line-up"):
        reference = races.reference(name)
        ran = [line for line in mine if not line.get("failed")]
        apart = [count(line, APART) for line in ran if not line["void"]]
        told = f"{min(apart)} to {max(apart)}, median {median(apart):g}" if apart else "–"
        # CPU time and throughput may rank two servers differently: luajit's core is idle for a quarter of a block.
        of_each = [(line, races.reference(name, line)) for line in ran]
        alike = [(line, other) for line, other in of_each if other and other["metric"] == line["metric"]]
        other_metric = f"– (reference by {reference['metric']})" if reference else "–"
        against = sum(wrong_way(line, other) for line, other in alike) if alike else other_metric
        yield (
            f"| {title} | {duty} % | {len(mine)} "
            f"| {share(sum(line['exit'] == 0 for line in mine), len(mine))} | {told} | {against} | {seconds(mine)} |"
        )


def references(races: Races) -> Iterator[str]:
    """The long races that stand for the truth."""
    for name in ("planted 10 %", "nginx-return against node", "line-up"):
        newest = races.reference(name)
        machines = {(machine(line), line.get("metric")): line for line in races.of(f"reference: {name}")}
        for line in (races.reference(name, line) for line in machines.values()) if machines else (newest,):
            if line is None:
                continue
            where = f" ({line['kernel']})" if len(machines) > 1 and line.get("kernel") else ""
            pair = the_pair(line)
            if len(line["pairs"]) > 1:
                apart = count(line, APART)
                yield f"{name}{where}: {line['rounds']} rounds, {apart} of {len(line['pairs'])} pairs separated"
            elif pair.get("low"):
                ends = f"{pair['low']:.4g}–{pair['high']:.4g}"
                yield f"{name}{where}: {pair['ratio']:.4g} ({ends}), {line['rounds']} rounds, by {line['metric']}"


def conclusion(races: Races) -> str:
    """Two lines."""
    mine = [line for line in races.of("") if not line["kind"].startswith("reference")]
    wrongs = {
        duty: (sum(bool(line.get("wrong")) for line in races.of("same: ", duty)), len(races.of("same: ", duty)))
        for duty in sorted({duty for _, duty in races.names("same: ")})
    }
    called = "; ".join(f"{wrong} of {of} at {duty} %" for duty, (wrong, of) in wrongs.items()) or "none raced yet"
    planted = [line for line in races.of("planted") if not refused(line)]
    found = sum(the_pair(line).get("verdict") == "faster" for line in planted)
    return (
        f"{sum(map(refused, mine))} of {len(mine)} races had no valid result. The verdict on a server against itself "
        f"was wrong in {called} duty (5 % are allowed).\n"
        f"An injected difference of 10 % was found in {found} of {len(races.of('planted'))} races at 20 % duty. "
        "With only one contender disturbed, "
        f"{sum(1 for line in races.of('one-sided') if line.get('wrong') and not warned(line))} of "
        f"{len(races.of('one-sided'))} races had a wrong verdict without a warning."
    )


def report(lines: Sequence[Line]) -> str:
    """All of it as Markdown."""
    races = Races(lines)
    ran = [line["at"] for line in races.of("") if line.get("at")]
    when = f"{min(ran)[:16]} to {max(ran)[:16]}" if ran else "no race yet"
    head = (
        "## On disturbed machines\n\n" + conclusion(races) + "\n\n"
        f"Method {METHOD_VERSION}; {when}. Written by `benchmarks/answers.py`; `benchmarks/disturb.py` caused the "
        "disturbance: random bursts of 1 to 50 ms on every core, with the duty in the table, in addition to other "
        "programs. Shares have 95 % intervals by Clopper and Pearson; times cover the whole command."
    )
    tables = []
    for table in (same, different, each_load, budgets, one_sided, line_up):
        rows = list(table(races))
        if len(rows) > 2:
            tables.append("\n".join(rows))
    long = "; ".join(references(races))
    failed = sum(bool(line.get("failed")) for line in races.of(""))
    tail = [f"References, without an injected disturbance: {long}."] if long else []
    tail += [f"{failed} races failed to run; they count as having no result."] if failed else []
    return "\n\n".join([head, *tables, *tail])
