"""What a race can see on this machine: the forecast's formula, and a null race that later reports cite."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import samples
from scipy import stats

from dragstrip import analysis, machine
from dragstrip.doctor import examine, noise_floor
from dragstrip.doctor.noise_floor import NoiseFloor
from dragstrip.racing import schedule
from dragstrip.report import figures
from dragstrip.report.doctor import as_json
from dragstrip.store import machine_profile


def test_the_forecast_is_the_methods_own_formula() -> None:
    """The interval's half-width at the planned last round, and 1.28 standard errors more for nine in ten."""
    noise = NoiseFloor(sd=0.015, round_s=0.8, rounds=10)
    n = schedule.planned_rounds(60, 0.8)
    half = analysis.factor_within(n, 0.05, n)
    assert noise.smallest(60) == pytest.approx(
        math.expm1((half + stats.norm.ppf(0.9)) * 0.015 / math.sqrt(n)), rel=1e-4
    )
    rng = np.random.default_rng(5)
    races = rng.normal(math.log1p(noise.smallest(60)), 0.015, (4000, n))
    shown = np.abs(races.mean(axis=1)) > half * races.std(axis=1, ddof=1) / math.sqrt(n)
    assert shown.mean() == pytest.approx(0.9, abs=0.02)
    assert noise.seconds_to(noise.smallest(60)) == pytest.approx(0.8 * n)
    assert noise.seconds_to(0.1) == pytest.approx(0.8 * analysis.FLOOR)
    assert noise.seconds_to(noise.smallest(60) / 2) is None


def test_a_null_race_is_kept_cited_by_later_reports_and_outlives_a_doctor_without_one(tmp_path: Path) -> None:
    """Its result is in the machine's facts of later races, and below their tables."""
    lanes, facts, store = machine.lanes(None, None), machine.facts(), tmp_path / "races.sqlite"
    race = samples.race({"one": 4e4, "other": 4e4}, rounds=14)
    null_race = noise_floor.null_race(race, analysis.judge(race), void=False)
    assert null_race.verdict in ("same", "undecided")
    assert null_race.round_sd == pytest.approx(noise_floor.of_race(race).sd)  # type: ignore[union-attr]
    cores = {"server_cores": lanes.server, "engine_cores": lanes.engine}
    report = examine.Report(at="2026-01-02T03:04:05+00:00", software="0", machine=facts, findings=(), **cores)
    examine.keep(as_json(examine.with_null_race(report, store, lanes, null_race)), store)
    first = store.with_name("doctor.json").read_text()
    examine.keep(as_json(examine.with_null_race(report, store, lanes, None)), store)
    assert store.with_name("doctor.json").read_text() == first
    known = machine_profile.with_profile(facts, store, lanes)
    assert known.null_race is not None
    assert known.null_race.race == race.id
    cited = figures.null_race(replace(race, machine=known))
    assert cited.startswith(f"This machine's null race, {race.id} of 2026-01-02: ")
    assert "doctor --null-race" in figures.null_race(race)
    void = examine.null_race_finding(noise_floor.null_race(race, analysis.judge(race), void=True))
    assert (void.status, void.text[:4]) == ("warn", "void")
