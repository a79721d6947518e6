"""What stands beside a verdict: unequal disturbance, the noise level, and the notes that weigh most."""

from __future__ import annotations

import io
import math
import re
from dataclasses import replace

import jsonschema
import pytest
import samples
from reports import (
    Reader,
    judged_of,
    shown,
    told,
)
from rich.console import Console

from dragstrip import validity
from dragstrip.analysis import Verdict, judge, judge_column
from dragstrip.analysis.unequal_disturbance import Disturbed
from dragstrip.record import Ending, Race
from dragstrip.report import figures
from dragstrip.report.race import export as race_export
from dragstrip.report.race import (
    notes,
    wording,
)
from dragstrip.report.race import page as race_page
from dragstrip.report.race import terminal as race_terminal
from dragstrip.report.race.summary import JudgedRace
from dragstrip.validity.check import CheckName, Finding, Status, check_result


def test_what_disturbed_a_pair_unequally_stands_beside_it_everywhere() -> None:
    """In the terminal right below its line, though the pair would not be shown else; on the page; in JSON."""
    race = samples.race({name: 10_000.0 * 1.3**k for k, name in enumerate("edcba", start=1)})
    verdict = judge_column(race)
    seen = Disturbed(more="b", less="d", lost_more=0.06, lost_less=0.01, widened=0.02)
    pairs = tuple(replace(p, disturbed=seen) if {p.a, p.b} == {"b", "d"} else p for p in verdict.pairs)
    verdict = Verdict((replace(verdict, pairs=pairs),))
    console = Console(width=80, file=io.StringIO())
    race_terminal.show_race(console, JudgedRace(race, verdict))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]  # it is the StringIO above
    (at,) = [at for at, line in enumerate(lines) if line.startswith("b against d")]
    assert "b was disturbed more than d" in lines[at + 1]
    told = seen.text
    assert "other programs and the hypervisor took 6 % of its time, but 1 % of d's" in told
    assert told in "".join(Reader(race_page.render(JudgedRace(race, verdict))).text)
    made = race_export.race_json(JudgedRace(race, verdict))
    jsonschema.validate(made, race_export.schema())
    assert [p["widened"] for p in made["pairs"] if p["disturbed"] == told] == [0.02]


def test_a_note_is_shortened_before_its_advice() -> None:
    """However long what was seen is, what to do stays whole."""
    remedy = "do this and then that"
    note = notes.RaceNote(Status.WARN, "lanes", f"{'seen ' * 80}: {remedy}", remedy=remedy)
    told = notes.clipped(note)
    assert told.endswith(f"… {remedy}")
    assert len(told) <= notes.MAX_CHARACTERS + 2
    long = replace(note, text=f"seen: {'act ' * 80}", remedy="act " * 80)
    assert notes.clipped(long) == long.text
    assert notes.clipped(replace(note, text="short")) == "short"
    each = replace(note, text=f"{'a waited ' * 20}; {remedy}; {'b waited ' * 20}; {remedy}")
    assert notes.clipped(each).count(remedy) == 1, "contenders with the same remedy do not repeat it"


@pytest.mark.parametrize(
    ("moved", "shown"), [(0.0004, "0.04"), (0.02, "2"), (0.494, "49"), (2.703, "270"), (1998.0, "199,800")]
)
def test_how_far_ends_of_an_interval_were_moved_has_no_exponent(moved: float, shown: str) -> None:
    """Alone and for several pairs at once; also for shares that are tiny, and above 100 %."""
    seen = Disturbed(more="a", less="b", lost_more=0.998, lost_less=0.00001, widened=math.log1p(moved))
    told = seen.text
    assert "took 100 % of its time, but 0.001 % of b's" in told
    pair = judge(samples.race({"a": 1000.0, "b": 2000.0})).pairs[0]
    for text in (told, wording.unequal_pairs_text([replace(pair, disturbed=seen)])):
        assert f"were moved out by {shown} %" in text


def test_many_pairs_disturbed_unequally_are_marked_and_explained_once() -> None:
    """A mark in each line and one sentence for all; each one's own behind --verbose, and folded on the page."""
    race = samples.race({name: 10_000.0 * 1.3**k for k, name in enumerate("edcba", start=1)})
    verdict = judge_column(race)
    seen = {"lost_more": 0.06, "lost_less": 0.01, "widened": 0.02}
    pairs = tuple(replace(p, disturbed=Disturbed(more=p.b, less=p.a, **seen)) for p in verdict.pairs)
    verdict = Verdict((replace(verdict, pairs=pairs),))
    shown = {}
    for verbose in (False, True):
        console = Console(width=80, file=io.StringIO())
        race_terminal.show_race(console, JudgedRace(race, verdict), verbose=verbose)
        shown[verbose] = console.file.getvalue()  # type: ignore[attr-defined]  # it is the StringIO above
    one = "in 7 pairs the machine disturbed one more than the other: both ends of their intervals were moved out by 2 %"
    assert one in " ".join(shown[False].split())
    assert "b was disturbed more than" not in shown[False]
    assert sum(line.rstrip().endswith("▲") for line in shown[False].splitlines()) == 7
    assert "b was disturbed more than" in shown[True]
    page = race_page.render(JudgedRace(race, verdict))
    assert '<details class="disturbed">' in page
    assert all(pair.disturbed.text in "".join(Reader(page).text) for pair in pairs)


def test_the_noise_light_tells_level_factor_and_what_more_budget_would_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three marks for three levels; the command to go on with is one that can be typed."""
    race = samples.race({"new": 40_200.0, "old": 40_000.0}, rounds=12, noise=0.05, finished=Ending.BUDGET)
    assert notes.noise_level(race) == notes.NoiseLevel("pass", "quiet machine")
    for level, mark in (("disturbed", "▲"), ("very disturbed", "■")):
        seen = validity.Noise(level=level, lost=0.123, factor=3.04)  # type: ignore[arg-type]  # from the loop above
        for module in (notes, race_export):
            monkeypatch.setattr(module, "noise", lambda race, seen=seen: seen)
        text = re.sub(r"\s+", " ", shown(race, width=80))
        taken = "other programs and the hypervisor took 12.3 % of its cores' time"
        assert f"{mark} {level} machine: {taken}; intervals are about 3 times" in text
        assert told(race)["noise"] == {"level": level, "lost": 0.123, "factor": 3.04}
    assert notes.undecided_hint(judged_of(race, more_s=97.0), "last").endswith(
        "about 2 min more would decide it: dragstrip race --resume last --budget +2m"
    )
    budgets = [figures.as_budget(s) for s in (1, 31, 60, 61, 600, 601, 4000)]
    assert budgets == ["10s", "40s", "1m", "2m", "10m", "15m", "70m"]


def test_at_most_three_notes_are_told_unasked_and_each_remedy_once(race: Race) -> None:
    """The heaviest first; what shares a remedy shares a note; all of it with --verbose."""
    do = "end other programs, or give the race cores of its own (--server-cores, --engine-cores)"
    waited, taken = "the engine waited 7 % of the time", "other programs took up to 9 % of slow's time on its cores"
    checks = [
        check_result(CheckName.STEAL, [Finding(Status.WARN, "the hypervisor took 4 %", "race at another time")]),
        check_result(CheckName.ENGINE_WAIT, [Finding(Status.WARN, waited, do)]),
        check_result(CheckName.SERVER_WAIT, [Finding(Status.WARN, taken, do, contender="slow")]),
        samples.said("parity, x", "warn", "x differs"),
        samples.said("memory", "warn", "slow grows"),
        samples.said("errors", "warn", "slow: 3 errors"),
    ]
    short, whole = (re.sub(r"\s+", " ", shown(race, checks=checks, verbose=v)) for v in (False, True))
    assert short.count("▲") == 3
    assert "▲ errors: slow: 3 errors ▲ memory: slow grows ▲ parity, x: x differs" in short
    assert "2 more notes: dragstrip show" in short
    assert f"engine wait, server wait: {waited}; {taken}: {do}" in whole
    assert whole.count(do) == 1
