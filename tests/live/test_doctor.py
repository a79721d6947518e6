"""``dragstrip doctor`` on this machine, and what a race makes of its report."""

from __future__ import annotations

import json
import math
import socket
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import samples
from commands import process
from scipy import stats

pytest.importorskip("dragstrip._engine", reason="the engine is not built: make build")
from dragstrip import analysis, machine, validity
from dragstrip._engine import ReferenceServer
from dragstrip.doctor import examine, noise_floor, reference_load
from dragstrip.doctor.noise_floor import Noise
from dragstrip.machine_facts import CeilingPoint, GeneratorCeiling
from dragstrip.racing import schedule
from dragstrip.report import figures
from dragstrip.report.doctor import as_json, finding_text
from dragstrip.report.race.checks import check_text
from dragstrip.store import machine_profile
from dragstrip.store.json_values import encode


@pytest.mark.thorough
def test_doctor_says_what_it_saw_and_a_race_on_this_machine_knows_the_ceiling(tmp_path: Path) -> None:
    """Every limit, both kinds of connection; a race on another machine learns nothing from it."""
    store = tmp_path / "races.sqlite"
    told_to = ["doctor", "--seconds", "250ms", "--json", "-", "--store", str(store)]
    done = process(*told_to)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    findings = {finding["name"]: finding for finding in told["findings"]}
    assert {"cores", "clock", "descriptors", "ports", "backlog", "io_uring", "steal", "ceiling"} <= set(findings)
    sees = findings["noise"]["numbers"]
    assert 0 < sees["smallest_in_300_s"] < sees["smallest_in_60_s"]
    both = findings["awake"]["numbers"]
    assert {"steal_share", "round_sd", "steal_share_off", "round_sd_off"} < set(both)
    assert both["round_sd"] == sees["round_sd"]
    assert all(finding["remedy"] for finding in told["findings"] if finding["status"] == "warn")
    points = findings["ceiling"]["numbers"]["points"]
    assert [(point["connections"], point["keepalive"]) for point in points] == list(examine.POINTS)
    assert all(point["ceiling_per_s"] > 0 and point["errors"] == 0 for point in points)

    facts, lanes = machine.facts(), machine.lanes(None, None)
    known = machine_profile.with_profile(facts, store, lanes).generator_ceiling
    assert known is not None
    assert encode(known)["points"] == points
    other = replace(facts, cpu="another")
    assert machine_profile.with_profile(other, store, lanes) == other
    assert machine_profile.with_profile(facts, store, replace(lanes, engine=(99,))) == facts
    assert machine_profile.with_profile(facts, tmp_path / "none" / "races.sqlite", lanes) == facts


def test_the_forecast_is_the_methods_own_formula() -> None:
    """The interval's half-width at the planned last round, and 1.28 standard errors more for nine in ten."""
    met = Noise(sd=0.015, round_s=0.8, rounds=10)
    n = schedule.planned_rounds(60, 0.8)
    half = analysis.factor_within(n, 0.05, n)
    assert met.smallest(60) == pytest.approx(math.expm1((half + stats.norm.ppf(0.9)) * 0.015 / math.sqrt(n)), rel=1e-4)
    rng = np.random.default_rng(5)
    races = rng.normal(math.log1p(met.smallest(60)), 0.015, (4000, n))
    found = np.abs(races.mean(axis=1)) > half * races.std(axis=1, ddof=1) / math.sqrt(n)
    assert found.mean() == pytest.approx(0.9, abs=0.02)
    assert met.seconds_to(met.smallest(60)) == pytest.approx(0.8 * n)
    assert met.seconds_to(0.1) == pytest.approx(0.8 * analysis.FLOOR)
    assert met.seconds_to(met.smallest(60) / 2) is None


def test_a_null_race_is_kept_cited_by_later_reports_and_outlives_a_doctor_without_one(tmp_path: Path) -> None:
    """What it came to stands in the machine's facts of later races, and under their tables."""
    lanes, facts, store = machine.lanes(None, None), machine.facts(), tmp_path / "races.sqlite"
    race = samples.race({"one": 4e4, "other": 4e4}, rounds=14)
    found = noise_floor.null_race(race, analysis.judge(race), void=False)
    assert found.verdict in ("same", "undecided")
    assert found.round_sd == pytest.approx(noise_floor.of_race(race).sd)  # type: ignore[union-attr]
    cores = {"server_cores": lanes.server, "engine_cores": lanes.engine}
    report = examine.Report(at="2026-01-02T03:04:05+00:00", software="0", machine=facts, findings=(), **cores)
    examine.keep(as_json(examine.with_null_race(report, store, lanes, found)), store)
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
    assert (void.status, finding_text(void)[:4]) == ("warn", "void")


@pytest.mark.parametrize(("ceiling_per_s", "status"), [(1e9, "pass"), (1e-6, "warn")])
def test_a_contender_near_the_generators_ceiling_is_marked(ceiling_per_s: float, status: str) -> None:
    """It is measured against the generator: the check says so, and how near it is."""
    race = samples.race()
    point = CeilingPoint(connections=32, keepalive=True, ceiling_per_s=ceiling_per_s)
    known = replace(race.machine, generator_ceiling=GeneratorCeiling(threads=race.load.threads, points=(point,)))
    (check,) = (one for one in validity.inspect(replace(race, machine=known)) if one.name == "generator")
    assert check.status == status
    assert ("of the load generator's maximum rate" in check_text(check)) == (status == "warn")


def test_the_built_in_server_answers_whole_requests_however_they_are_cut() -> None:
    """Two in one segment, one in single bytes; one that asks for the end is answered and closed."""
    server = ReferenceServer(machine.lanes(None, None).server)
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\nhello world\n"
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as peer, peer.makefile("rb") as answers:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.sendall(2 * reference_load.REQUEST)
            assert answers.read(2 * len(answer)) == 2 * answer
            for byte in reference_load.REQUEST:
                peer.sendall(bytes([byte]))
            assert answers.read(len(answer)) == answer
            peer.sendall(reference_load.CLOSING)
            assert b"Connection: close" in answers.read()
    finally:
        server.stop()
        server.stop()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", server.port), timeout=10)
