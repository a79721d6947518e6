"""docs/evidence/verdicts.md and its chart, from the races that ``benchmarks/calibration.py`` has run."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
from pages import splice
from scipy.stats import binom, binomtest

from dragstrip.validity import CheckName

Line = dict[str, Any]

#: Each check, and the tests that plant its fault (``tests/statistics/test_calibration.py`` sees that none is missing).
PLANTS: dict[CheckName, tuple[str, ...]] = {
    CheckName.ROUNDS: ("unit/validity/test_validity.py::test_a_race_whose_rounds_are_all_void_says_why",),
    CheckName.LANES: ("unit/validity/test_validity.py::test_shared_cores_and_a_running_server_are_said",),
    CheckName.GENERATOR: ("unit/validity/test_validity.py::test_each_planted_fault_is_found_and_said_what_to_do",),
    CheckName.ENGINE_WAIT: ("unit/validity/test_validity.py::test_each_planted_fault_is_found_and_said_what_to_do",),
    CheckName.SERVER_WAIT: ("unit/validity/test_validity.py::test_a_server_that_loses_its_core_to_others_is_named",),
    CheckName.STEAL: ("unit/validity/test_validity.py::test_each_planted_fault_is_found_and_said_what_to_do",),
    CheckName.ACCOUNTING: ("unit/validity/test_validity.py::test_each_planted_fault_is_found_and_said_what_to_do",),
    CheckName.ERRORS: ("unit/validity/test_validity.py::test_each_planted_fault_is_found_and_said_what_to_do",),
    CheckName.LITTLES_LAW: ("unit/validity/test_validity.py::test_littles_law_holds_rate_against_latency",),
    CheckName.TURNAROUND: (
        "unit/validity/test_validity.py::test_waiting_in_the_generator_is_told_and_warned_of_where_the_server_was_not_busy",
    ),
    CheckName.SATURATION: ("unit/validity/test_validity.py::test_each_planted_fault_is_found_and_said_what_to_do",),
    CheckName.OFFERED_RATE: (
        "unit/racing/test_open_loop.py::test_a_rate_that_is_not_sustained_and_a_late_engine_warn",
    ),
    CheckName.LAUNCHES: (
        "unit/validity/test_validity.py::test_launches_that_went_wrong_are_named",
        "unit/validity/test_validity.py::test_launches_of_two_kinds_are_named",
    ),
    CheckName.TREND: ("unit/validity/test_validity.py::test_a_trend_within_rounds_is_found",),
    CheckName.VOID_PASSES: ("unit/validity/test_validity.py::test_more_than_a_tenth_of_the_passes_void_warns",),
    CheckName.OTHER_PROGRAMS: (
        "unit/racing/test_machine_events.py::test_what_was_seen_often_enough_warns_and_says_what_to_do",
        "unit/racing/test_machine_events.py::test_another_program_on_the_races_cores_is_named",
    ),
    CheckName.CLOCK: (
        "unit/racing/test_machine_events.py::test_a_machine_that_grows_slower_is_seen_by_the_engines_own_pace",
        "unit/racing/test_machine_events.py::test_a_clock_that_slows_and_a_throttled_processor_are_seen",
    ),
    CheckName.MEMORY: (
        "live/test_race.py::test_a_restless_leaking_contender_is_frozen_while_idle_and_its_growth_is_told",
    ),
    CheckName.BLOCK_LENGTH: (
        "unit/racing/test_machine_events.py::test_what_was_seen_often_enough_warns_and_says_what_to_do",
    ),
    CheckName.CONNECTIONS: (
        "unit/racing/test_machine_events.py::test_connections_that_are_not_kept_open_as_asked_are_named",
    ),
    CheckName.SERVERS_COUNT: (
        "live/test_race.py::test_a_server_that_lies_about_its_count_voids_the_race_also_in_http_1_0",
    ),
    CheckName.DATABASE: (
        "unit/validity/test_database_checks.py::test_statements_that_are_not_those_of_the_answers_are_found",
        "unit/validity/test_database_checks.py::test_a_database_that_can_do_no_more_is_the_limit_and_tells_no_servers_apart",
    ),
    CheckName.LINKS: ("unit/validity/test_link_checks.py::test_each_fault_of_a_link_is_named_with_what_to_do",),
    CheckName.ANSWERS_LENGTH: (
        "unit/racing/test_machine_events.py::test_answers_that_grow_shorter_in_one_block_are_found",
    ),
    CheckName.PARITY: ("unit/validity/test_parity.py::test_what_tilts_a_race_is_named_with_whom",),
}

#: A race is clean in which nothing was planted and the host took at most this share of the machine's cores.
MAX_HOST = 0.005

#: A line with the forecast of ``dragstrip doctor`` instead of a race.
FORECAST = "forecast"

HEAD = """# Calibration

<!-- conclusion:begin -->
<!-- conclusion:end -->

<!-- disturbed-conclusion:begin -->
<!-- disturbed-conclusion:end -->

How often is a verdict wrong, and how soon does a race find a difference? Short races of known truth
answer that, on real servers, with each kind in turn. Every look counts, because a race stops as
soon as it has decided. `make calibrate` runs such races for as long as you set, and adds them to
[the stored ones](../calibration/races.jsonl). [The simulation](simulation.md) has the same for
simulated races.

## Races of known truth

<!-- calibration:begin -->
<!-- calibration:end -->

*Wrong*: a difference where there is none, or in the wrong direction. *Undecided*: neither separated
nor *same* within the budget. *Void*: the race's own checks rejected it; it counts neither way. Times
cover all rounds up to the verdict, without scrutineering and calibration; an undecided race counts
as longer than any other. Shares have 95 % intervals by Clopper and Pearson, quantiles of time by
order statistics. *Predicted*: the median forecast of `dragstrip doctor` between the races. It uses
ten rounds of two built-in servers, and holds for differences in throughput between servers that
launch at once. An *injected difference* is a share of the server's own cost of a request, which the
server measures. Its own cost differs a little from its twin's, because the additional work changes
the rhythm of its responses. The measured ratio includes that difference.
"""


def write_page(lines: Sequence[Line], kinds: Sequence[str], page: Path) -> None:
    """Puts tables and chart between the page's marks; the page is made where there is none."""
    if not page.exists():
        page.write_text(HEAD)
    picture = page.parent.parent / "pictures" / "calibration.svg"
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_text(chart(lines, kinds))
    for mark, body in (("conclusion", conclusion(lines, kinds)), ("calibration", report(lines, kinds))):
        splice(page, mark, body)


def conclusion(lines: Sequence[Line], kinds: Sequence[str]) -> str:
    """What all the races come to, in two sentences."""
    valid = [line for line in races(lines) if not line["void"]]
    same = [line for line in valid if line["kind"] in kinds and line["kind"].startswith("same")]
    planted = [line for line in valid if line["kind"] in kinds and line["kind"].startswith("planted")]
    if not same and not planted:
        return "No race yet."
    methods = ", ".join(sorted({f"{line['method']}" for line in valid}))
    wrong = sum(_called(line, "throughput") for line in same if "throughput" in line["pairs"])
    of = sum("throughput" in line["pairs"] for line in same)
    return (
        f"**A server raced against itself was separated in {share(wrong, of)}, where 5 % is allowed. "
        f"An injected difference was found in {share(sum(bool(line['right']) for line in planted), len(planted))}.** "
        f"(Races by method {methods}; shares in brackets are 95 % intervals.)"
    )


def share(count: int, of: int) -> str:
    """``3 of 300, 1.0 % (0.2–2.9)``."""
    if not of:
        return "–"
    ends = binomtest(count, of).proportion_ci()
    return f"{count} of {of}, {100 * count / of:.1f} % ({100 * ends.low:.1f}–{100 * ends.high:.1f})"


def quantile_with_ends(values: Sequence[float], q: float) -> tuple[float, float, float]:
    """A quantile and its 95 % interval's ends, all order statistics of the values, of which there is at least one."""
    ordered, n = sorted(values), len(values)
    low, high = max(int(binom.ppf(0.025, n, q)) - 1, 0), min(int(binom.ppf(0.975, n, q)), n - 1)
    return ordered[min(max(math.ceil(q * n) - 1, 0), n - 1)], ordered[low], ordered[high]


def quantile(times: Sequence[float], q: float) -> str:
    """A quantile with its 95 % interval from order statistics; "undecided" if it lies among those still undecided."""
    if not times:
        return "–"
    told = [f"{time:.1f} s" if math.isfinite(time) else "undecided" for time in quantile_with_ends(times, q)]
    return told[0] if len(set(told)) == 1 else f"{told[0]} ({told[1]} to {told[2]})"


def times(mine: Sequence[Line], *, found: bool) -> list[float]:
    """Seconds to the right verdict; infinite where it did not come (open, or wrong)."""
    of = [line for line in mine if not line["void"]]
    return [line["pairs"][line["metric"]]["spent_s"] if _hit(line, found=found) else math.inf for line in of]


def _hit(line: Line, *, found: bool) -> bool:
    return bool(line["right"]) and (found or line["pairs"][line["metric"]]["verdict"] == "same")


def _beside(good: Sequence[Line]) -> list[float]:
    """Seconds of each race outside its rounds."""
    decisive = (line["pairs"].get(line["metric"], {}) for line in good)
    return [line["took_s"] - pair["spent_s"] for line, pair in zip(good, decisive, strict=True) if pair.get("spent_s")]


def _covers(line: Line, metric: str) -> bool | None:
    pair = line["pairs"].get(metric)
    if not pair or pair["low"] is None:
        return None
    return bool(pair["low"] <= line["truth"] <= pair["high"])


def report(lines: Sequence[Line], kinds: Sequence[str]) -> str:
    """All tables as Markdown."""
    good, foretold = races(lines), [line["noise"] for line in lines if line["kind"] == FORECAST and "noise" in line]
    if not good:
        return "No race yet."
    machines = ", ".join(sorted({f"{line['cpu']}, Linux {line['kernel']}" for line in good}))
    first, last = min(line["at"] for line in good), max(line["at"] for line in good)
    versions = ", ".join(sorted({f"method {line['method']}" for line in good}))
    parts = [
        f"{len(good)} races from {first} to {last}; {versions}; {machines}. Written by `benchmarks/calibration.py`.",
        "![Time to the verdict by kind of race](../pictures/calibration.svg)",
        *_same(good, kinds),
        *_planted(good, kinds, foretold),
        *_checks(good),
        f"Start, scrutineering and calibration took {quantile(_beside(good), 0.5)} per race (median).",
    ]
    failed = sum("failed" in line for line in lines)
    return "\n\n".join([*parts, *([f"{failed} races failed to run at all."] if failed else [])])


def races(lines: Sequence[Line]) -> list[Line]:
    """Lines of races that ran, among all."""
    return [line for line in lines if not line.get("failed") and line["kind"] != FORECAST]


def _of(good: Sequence[Line], name: str) -> list[Line]:
    return [line for line in good if line["kind"] == name]


def _same(good: Sequence[Line], kinds: Sequence[str]) -> list[str]:
    rows = [
        "| a server against itself | races | void | wrong, throughput | wrong, CPU | *same*: median time | 9 of 10 |",
        "|-|-|-|-|-|-|-|",
    ]
    every: list[Line] = []
    for name in [name for name in kinds if name.startswith("same")]:
        mine = _of(good, name)
        every += mine
        if mine:
            rows.append(_same_row(name.removeprefix("same").lstrip(",: "), mine))
    return ["\n".join([*rows, _same_row("**all**", every)])] if every else []


def _same_row(name: str, mine: Sequence[Line]) -> str:
    valid = [line for line in mine if not line["void"]]
    wrong = []
    for metric in ("throughput", "cpu"):
        with_it = [line for line in valid if metric in line["pairs"]]
        wrong.append(share(sum(_called(line, metric) for line in with_it), len(with_it)))
    spent = times(mine, found=False)
    cells = (name, len(mine), len(mine) - len(valid), *wrong, quantile(spent, 0.5), quantile(spent, 0.9))
    return f"| {' | '.join(map(str, cells))} |"


def _called(line: Line, metric: str) -> bool:
    return line["pairs"][metric]["verdict"] in ("faster", "slower")


def _planted(good: Sequence[Line], kinds: Sequence[str], foretold: Sequence[Line]) -> list[str]:
    rows = [
        "| injected difference | races | void | found | wrong direction | interval contains it "
        "| median ratio | found: median time | 9 of 10 | 9 of 10, predicted |",
        "|-|-|-|-|-|-|-|-|-|-|",
    ]
    for name in [name for name in kinds if name.startswith("planted")]:
        mine = _of(good, name)
        if not mine:
            continue
        valid = [line for line in mine if not line["void"]]
        spent = times(mine, found=True)
        cover = [covered for line in valid if (covered := _covers(line, line["metric"])) is not None]
        ratios = [line["pairs"][line["metric"]]["ratio"] for line in valid]
        found = share(sum(line["right"] for line in valid), len(valid))
        middle = f"{np.median(ratios):.4f}; true: {mine[0]['truth']:.4f}" if ratios else "–"
        rows.append(
            f"| {name.removeprefix('planted ')} | {len(mine)} | {len(mine) - len(valid)} | {found} "
            f"| {sum(line['wrong'] for line in valid)} | {sum(cover)} of {len(cover)} | {middle} "
            f"| {quantile(spent, 0.5)} | {quantile(spent, 0.9)} | {_foretold(name, foretold)} |"
        )
    pauses = [line for line in good if "pauses" in line["kind"] and line["truth"] != 1 and not line["void"]]
    told = share(sum(bool(line["pauses"]) for line in pauses), len(pauses))
    return ["\n".join(rows), f"Injected pauses reported as pauses: {told}."] if len(rows) > 2 else []


def _foretold(kind: str, foretold: Sequence[Line]) -> str:
    """When nine of ten find what a server of ours lacks in throughput, by the doctor: over its forecasts."""
    planted = re.fullmatch(r"planted ([0-9.]+) %", kind)
    soonest = [line.get(f"seconds_to_{planted[1]}_percent") for line in foretold] if planted else []
    return quantile([math.inf if time is None else time for time in soonest], 0.5)


def _checks(good: Sequence[Line]) -> list[str]:
    """What each check said in races in which nothing was planted, and the test that plants its fault."""
    unplanted = [line for line in good if line["truth"] == 1 and "machine pauses" not in line["kind"]]
    rows = [
        f"| check, in {len(unplanted)} races without an injected fault "
        "| passed | warned | void | test that injects its fault |",
        "|-|-|-|-|-|",
    ]
    for check in PLANTS:
        mine = [line for line in unplanted if check in {name.partition(",")[0] for name in line["looked_at"]}]
        said = Counter(_worst(line, check) for line in mine)
        shares = " | ".join(share(said[status], len(mine)) for status in ("pass", "warn", "void"))
        tests = ", ".join(f"`{test.partition('::')[2]}`" for test in PLANTS[check])
        rows.append(f"| {check} | {shares} | {tests} |")
    clean = [line for line in unplanted if line["host"] <= MAX_HOST]
    disturbed = [line for line in unplanted if line["host"] > MAX_HOST]
    told = [
        f"Stolen time is read before and after each race. In *clean* races, in which the host took at most "
        f"{100 * MAX_HOST:.1f} % of the cores, all checks passed in {_silent(clean)}.",
        f"In the others (median {100 * np.median([line['host'] for line in disturbed]):.1f} %), "
        f"all checks passed in {_silent(disturbed)}."
        if disturbed
        else "There were no others.",
    ]
    return ["\n".join(rows), *([" ".join(told)] if unplanted else [])]


def _silent(lines: Sequence[Line]) -> str:
    """In how many races no check spoke, and which did in the others."""
    spoke = Counter(name.partition(",")[0] for line in lines for name in line["checks"])
    said = ", ".join(f"{name} ({count})" for name, count in spoke.most_common())
    return share(sum(not line["checks"] for line in lines), len(lines)) + (
        f"; checks that did not pass: {said}" if said else ""
    )


def _worst(line: Line, check: str) -> str:
    """What a check said in a race; "parity, framing" and the like are all parity's."""
    said = {status for name, status in line["checks"].items() if name.partition(",")[0] == check}
    return next((status for status in ("void", "warn") if status in said), "pass")


# --- the chart ----------------------------------------------------------------------------------------------------

WIDTH, LEFT, ROW, TOP, RIGHT = 760, 230, 26, 46, 24


def chart(lines: Sequence[Line], kinds: Sequence[str]) -> str:
    """Per kind: each race's seconds to its right verdict as a dot, the median and 9 of 10 as bars; SVG."""
    rows = [(name, _of(races(lines), name)) for name in kinds]
    rows = [(name, mine) for name, mine in rows if any(not line["void"] for line in mine)]
    height = TOP + ROW * len(rows) + 34
    most = max([10.0, *(t for name, mine in rows for t in _finite(name, mine))]) * 1.05
    ink, faint = "#6b7280", "#9ca3af"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        'font-size="13">',
        "<title>Seconds to the right verdict, by kind of race</title>",
        f'<text x="{LEFT}" y="20" fill="{ink}">seconds of measuring to the right verdict; '
        "thick: half of the races, thin: 9 of 10</text>",
    ]

    def x(seconds: float) -> float:
        return LEFT + min(seconds / most, 1.0) * (WIDTH - LEFT - RIGHT)

    for tick in range(0, int(most) + 1, 10 if most <= 100 else 20):
        parts.append(
            f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{TOP - 12}" y2="{height - 30}" stroke="{faint}" '
            f'stroke-opacity=".4"/><text x="{x(tick):.1f}" y="{height - 12}" fill="{ink}" text-anchor="middle">{tick}'
            "</text>"
        )
    for at, (name, mine) in enumerate(rows):
        parts += _strip(name, mine, TOP + ROW * at + 6, x, ink)
    return "\n".join([*parts, "</svg>", ""])


def _finite(name: str, mine: Sequence[Line]) -> list[float]:
    return [t for t in times(mine, found=name.startswith("planted")) if math.isfinite(t)]


def _strip(name: str, mine: Sequence[Line], y: float, x: Any, ink: str) -> list[str]:
    every = sorted(times(mine, found=name.startswith("planted")))
    reached = [t for t in every if math.isfinite(t)]
    parts = [f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end" fill="{ink}">{escape(name)}</text>']
    for q, wide in ((0.9, 4), (0.5, 10)):
        at = every[max(math.ceil(q * len(every)) - 1, 0)]
        if math.isfinite(at):
            parts.append(
                f'<line x1="{x(0):.1f}" x2="{x(at):.1f}" y1="{y}" y2="{y}" stroke="#3b82f6" stroke-width="{wide}"/>'
            )
    parts += [f'<circle cx="{x(t):.1f}" cy="{y}" r="2" fill="#f59e0b" fill-opacity=".7"/>' for t in reached]
    if len(reached) < len(every):
        still = f"{len(every) - len(reached)} undecided"
        parts.append(f'<text x="{WIDTH - RIGHT}" y="{y + 4}" text-anchor="end" fill="{ink}">{still}</text>')
    return parts
