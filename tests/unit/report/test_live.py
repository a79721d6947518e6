"""A race as it runs."""

from __future__ import annotations

import io
import re
import threading
from dataclasses import replace

import pytest
import samples
from rich.console import Console

from dragstrip.analysis import judge
from dragstrip.record import Ending, Race
from dragstrip.report.race import (
    latency,
    live,
)


def _ran(progress: live.LiveProgress, race: Race) -> None:
    with progress:
        progress.phase("checking what is installed", waiting=True)
        progress.phase("checking 1 of 2: return", waiting=True)
        progress.scrutineering("return")
        progress.ready("return")
        progress.out("dud", "body differs\nat byte 10")
        for done in range(1, len(race.rounds) + 1):
            part = replace(race, rounds=race.rounds[:done], finished=Ending.NONE)
            progress.round_done(part, judge(part))
        progress.close()


def test_progress_without_a_terminal_writes_few_plain_lines(race: Race) -> None:
    """Phases, how scrutineering ended, and the rounds that tell something."""
    file = io.StringIO()
    _ran(live.LiveProgress(Console(file=file, width=100)), race)
    lines = file.getvalue().splitlines()
    assert lines[:3] == ["checking what is installed", "return: ready", "dud: out: body differs"]
    assert any(line.startswith("round 1, ") for line in lines)
    assert len(lines) < 3 + len(race.rounds)
    assert "\x1b" not in file.getvalue()


def test_progress_is_silent_when_asked(race: Race) -> None:
    """--quiet: not one character, terminal or not."""
    for force in (True, False):
        file = io.StringIO()
        _ran(live.LiveProgress(Console(file=file, force_terminal=force), quiet=True), race)
        assert file.getvalue() == ""


def test_brief_progress_is_one_line_of_a_terminal_and_nothing_elsewhere(
    race: Race, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quiet sweep lasts minutes: the phase is shown, gone at the end; a file gets not one character."""
    monkeypatch.setenv("TERM", "xterm-256color")
    file = io.StringIO()
    _ran(live.LiveProgress(Console(file=file, force_terminal=True, width=200), brief=True), race)
    assert "checking 1 of 2: return" in file.getvalue()
    assert "round 14, 6 of 6 pairs decided" in file.getvalue()
    assert "dud" not in file.getvalue()
    elsewhere = io.StringIO()
    _ran(live.LiveProgress(Console(file=elsewhere, width=200), brief=True), race)
    assert elsewhere.getvalue() == ""


def test_progress_on_a_terminal_is_redrawn_by_the_caller_alone(race: Race, monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread is started: a refresh in the middle of a block would take the engine's core."""
    monkeypatch.setenv("TERM", "xterm-256color")
    before, file = threading.active_count(), io.StringIO()
    progress = live.LiveProgress(Console(file=file, force_terminal=True, width=100))
    with progress:
        progress.ready("return")
        progress.round_done(race, judge(race))
        assert threading.active_count() == before
        written = len(file.getvalue())
    assert "round 14, 6 of 6 pairs decided" in file.getvalue()
    assert "118," in file.getvalue() or "117," in file.getvalue()
    assert written > 100


def test_standings_between_rounds_decode_no_histogram(race: Race, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are drawn after every round: merging all blocks so far each time would take ever longer."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(latency, "merged", lambda race: pytest.fail("histograms were merged"))
    with live.LiveProgress(Console(file=io.StringIO(), force_terminal=True, width=100)) as progress:
        progress.round_done(race, judge(race))


def test_a_race_under_way_tells_time_left_lights_and_errors(race: Race) -> None:
    """On a terminal: bars, remaining time, a mark per check, failures with their contender; no names as markup."""
    first = race.rounds[0]
    failed = replace(first.blocks[0], errors={"timeout": 3}, contender="quick")
    under_way = replace(
        race, rounds=(replace(first, blocks=(failed, *first.blocks[1:])), *race.rounds[1:]), finished=Ending.NONE
    )
    under_way = samples.changed(under_way, entrants=(*race.entrants, samples.entrant("quick")))
    file = io.StringIO()
    with live.LiveProgress(Console(file=file, force_terminal=True, width=120)) as progress:
        progress.round_done(under_way, judge(under_way))
        told = file.getvalue()
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", told)
    assert re.search(r"\d+ s (left at most|at most)", plain)
    assert "3 timeout" in plain
    assert "● lanes" in plain
    assert "┃" in plain


def test_void_rounds_are_told_while_a_race_runs_and_hold_up_no_decided_one() -> None:
    """All is decided, also where more than a third of 24 rounds is void: no race goes on for that."""
    race = samples.race({"quick": 40_000.0, "steady": 30_000.0}, rounds=24)

    def told(void: int) -> str:
        stolen = samples.voided("errors")
        after = replace(race, rounds=tuple(replace(r, void=stolen if r.index < void else ()) for r in race.rounds))
        judged, file = judge(after), io.StringIO()
        assert all(pair.decided for pair in judged.pairs)
        with live.LiveProgress(Console(file=file, width=200)) as progress:
            progress.round_done(after, judged)
        return file.getvalue()

    for void in (8, 10):
        assert f"round 24 ({void} void), 1 of 1 pairs decided" in told(void)
        assert "may be" not in told(void)
    assert "void" not in told(0)


def test_time_left_is_bounded_by_budget_and_planned_rounds(race: Race) -> None:
    """A fixed design counts rounds; another is over when its budget is; before a round nothing is said."""
    verdict = judge(race)
    assert live.time_left(replace(race, rounds=()), verdict) == ""
    fixed = samples.changed(race, plan=replace(race.plan, rounds_fixed=True, planned_rounds=28))
    each_s = (race.rounds[0].ended_ns - race.rounds[0].started_ns) / 1e9
    assert live.time_left(fixed, verdict) == f"{14 * each_s:.0f} s left at most"
    spent = samples.changed(race, plan=replace(race.plan, budget_s=1.0, planned_rounds=500))
    assert live.time_left(spent, verdict).startswith("0 s left")


def test_a_budget_that_pays_for_too_few_rounds_is_told_after_the_first_with_what_would_do() -> None:
    """Once, as a line; in words that are true: what five rounds decide, and what takes ten."""
    race = samples.race(rounds=1)
    each_s = race.spent_s
    for rounds, told in (
        (3, "pays for about 3 rounds like the first; nothing is decided before the 5th, and differences below"),
        (7, "pays for about 7 rounds like the first; differences below 10 % need 10 (--budget 10s)"),
        (12, ""),
    ):
        short = samples.changed(race, plan=replace(race.plan, budget_s=(rounds + 0.5) * each_s))
        assert told in live.too_short(short)
        file = io.StringIO()
        progress = live.LiveProgress(Console(file=file, width=300))
        progress.round_done(short, judge(short))
        assert ("pays for" in file.getvalue()) == bool(told)
    assert live.too_short(samples.changed(race, plan=replace(race.plan, budget_s=0.1, rounds_fixed=True))) == ""
