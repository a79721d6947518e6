"""Every finding of ``dragstrip doctor`` has its sentence and its remedy, as exports (schema 1) have had them."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from dragstrip.doctor import examine
from dragstrip.doctor.finding import DoctorFinding, DoctorStatus, Report, Subject, not_measured
from dragstrip.doctor.noise_floor import NoiseFloor
from dragstrip.machine import Lanes
from dragstrip.machine_facts import CeilingPoint, Facts, GeneratorCeiling, Limits, NullRace
from dragstrip.report.doctor import as_json

PASS, WARN, FAIL = DoctorStatus
NULL_RACE = NullRace(race="abc", at="2026-01-02", verdict="same", low=0.995, high=1.004, spent_s=60.2)
CEILING = GeneratorCeiling(
    threads=1,
    points=(
        CeilingPoint(connections=32, keepalive=True, ceiling_per_s=123456),
        CeilingPoint(connections=32, keepalive=False, ceiling_per_s=9876),
    ),
)
FACTS = Facts(
    cores_usable="1",
    clock_source="tsc",
    governor="powersave",
    limits=Limits(nofile_hard=1024, local_ports=(32768, 60999), somaxconn=128),
)


def situation(lanes: Lanes) -> examine.Situation:
    """What the examinations look at, with a machine's facts that are worth warnings."""
    return examine.Situation(lanes=lanes, facts=FACTS, io="auto", seconds=0.2, show=lambda _: None)


def seen() -> list[DoctorFinding]:
    """Findings of a machine that is not at hand."""
    shared = situation(Lanes(server=(0,), engine=(0,), shared=True, note=""))
    siblings = situation(Lanes(server=(0,), engine=(1,), shared=False, note="0 and 1 are one physical core"))
    noise = NoiseFloor(sd=0.012, round_s=0.8, rounds=10)
    points = CEILING.points
    return [
        *examine._cores(shared),
        *examine._cores(siblings),
        *(finding for finding in examine._clocks(shared) if finding.subject is Subject.GOVERNOR),
        *examine._limits(shared),
        examine.steal_finding(0.0),
        examine.noise_finding(noise),
        not_measured(Subject.NOISE, "no descriptor is free"),
        examine.awake_finding(
            "by idle threads", "idle", replace(noise, sd=0.015, steal=0.012), NoiseFloor(0.031, 1, 9, 0.002)
        ),
        examine.ceiling_finding(CEILING, "no port", ()),
        examine.ceiling_finding(GeneratorCeiling(threads=1, points=()), "", [replace(points[1], errors=5)]),
        examine.null_race_finding(NULL_RACE),
    ]


CASES = [
    ("cores", WARN, "servers on 0, generator on 0, of 1", "a machine with two free physical cores or more"),
    ("cores", PASS, "servers on 0, generator on 1, of 1", ""),
    ("hardware threads", WARN, "0 and 1 are one physical core", "a machine with two free physical cores or more"),
    (
        "governor",
        WARN,
        "the processor's frequency follows the load (powersave)",
        "cpupower frequency-set -g performance",
    ),
    (
        "descriptors",
        WARN,
        "at most 1024 files open at once, so about 924 connections",
        "ulimit -Hn, or nofile in limits.conf",
    ),
    (
        "ports",
        PASS,
        "28232 ports for connections to one address; a new connection per request can use them up",
        "",
    ),
    ("backlog", WARN, "at most 128 handshakes wait for a server (somaxconn)", "sysctl net.core.somaxconn=4096"),
    ("steal", PASS, "the hypervisor takes 0% of the cores' time now", ""),
    (
        "noise",
        PASS,
        "a round's ratio scatters by 1.2 %; a race of two sees 0.6 % in 60 s, 0.3 % in 5 min, in nine of ten",
        "",
    ),
    ("noise", FAIL, "it could not be measured: no descriptor is free", "see there"),
    (
        "awake",
        PASS,
        "by idle threads: the hypervisor took 1.2% of the cores' time, and a round's ratio scattered by 1.5 %; "
        "with cores as they are 0.2% and 3.1 %",
        "",
    ),
    (
        "ceiling",
        WARN,
        "the generator can send 123,456/s at 32, 9,876/s at 32 (used once) connections; no port",
        "end other programs and repeat it",
    ),
    (
        "ceiling",
        FAIL,
        "at 32 (used once) connections it had 0 responses per second and 5 errors",
        "end other programs and repeat it",
    ),
    ("null race", PASS, "same, 0.9950 to 1.0040, after 60 s (race abc)", ""),
]


def test_a_finding_is_told_as_it_always_was() -> None:
    """What was seen, and what would mend it."""
    assert [(one.subject, one.status, one.text, one.remedy) for one in seen()] == CASES


def test_a_back_end_without_io_uring_has_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its text is the engine's own."""

    class Engine(SimpleNamespace):
        def __enter__(self) -> Engine:
            return self

        def __exit__(self, *_: object) -> None:
            return None

    monkeypatch.setattr(examine, "engine_on", lambda *_: Engine(io="epoll", backend="epoll (refused)"))
    (finding,) = examine._backend(situation(Lanes(server=(0,), engine=(1,), shared=False, note="")))
    assert (finding.status, finding.text) == (WARN, "epoll (refused)")
    assert finding.remedy.startswith("sysctl kernel.io_uring_disabled=0")


def test_the_export_keeps_its_shape() -> None:
    """Schema 1: five keys a finding; and what failed fails the report."""
    findings = tuple(seen())
    report = Report(
        at="2026-01-02T03:04:05+00:00",
        software="0",
        machine=Facts(cpu="x"),
        server_cores=(0,),
        engine_cores=(1,),
        findings=findings,
    )
    content = json.loads(json.dumps(as_json(report)))
    assert list(content) == ["schema", "at", "software", "machine", "findings"]
    assert all(list(told) == ["name", "status", "detail", "remedy", "numbers"] for told in content["findings"])
    assert [told["name"] for told in content["findings"]] == [finding.subject for finding in findings]
    assert report.failed
    numbers = {told["name"]: told["numbers"] for told in reversed(content["findings"])}
    assert (numbers["cores"], numbers["backlog"]) == ({}, {})
    assert (numbers["ports"], numbers["steal"]) == ({"ports": 28232}, {"steal_share": 0.0})
    assert list(numbers["ceiling"]) == ["threads", "points"]
    forecast = ["smallest_in_60_s", "smallest_in_300_s"]
    forecast += ["seconds_to_10_percent", "seconds_to_3_percent", "seconds_to_1_percent"]
    assert list(numbers["noise"]) == ["round_sd", "round_s", "rounds", *forecast]
    assert numbers["awake"] == {
        "way": "idle",
        "steal_share": 0.012,
        "round_sd": 0.015,
        "steal_share_off": 0.002,
        "round_sd_off": 0.031,
    }
    assert numbers["null race"] == {
        "race": "abc",
        "at": "2026-01-02",
        "verdict": "same",
        "low": 0.995,
        "high": 1.004,
        "spent_s": 60.2,
    }
