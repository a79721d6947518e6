"""Every finding of ``dragstrip doctor`` has its sentence and its remedy, as exports (schema 1) have had them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragstrip.doctor.finding import FAIL, PASS, WARN, Finding, Report, Subject
from dragstrip.machine_facts import Facts
from dragstrip.report.doctor import as_json, finding_text, remedy_text

NULL_RACE: dict[str, Any] = {"race": "abc", "verdict": "same", "low": 0.995, "high": 1.004, "spent_s": 60.2}
WITH = {"way": "idle", "steal_share": 0.012, "round_sd": 0.015, "steal_share_off": 0.002, "round_sd_off": 0.031}
POINTS = [
    {"connections": 32, "keepalive": True, "ceiling_per_s": 123456},
    {"connections": 32, "keepalive": False, "ceiling_per_s": 9876},
]

CASES: list[tuple[Finding, str, str]] = [
    (
        Finding(subject=Subject.CORES, status=WARN, values={"server": (0,), "engine": (0,), "usable": 1}),
        "servers on 0, generator on 0, of 1",
        "a machine with two free physical cores or more",
    ),
    (
        Finding(subject=Subject.HARDWARE_THREADS, status=WARN, values={"note": "0 and 1 are one physical core"}),
        "0 and 1 are one physical core",
        "a machine with two free physical cores or more",
    ),
    (
        Finding(subject=Subject.CLOCK, status=PASS, numbers={"reading_ns": 84}, values={"source": "tsc"}),
        "tsc, 84 ns a reading (Python's call included)",
        "",
    ),
    (
        Finding(subject=Subject.GOVERNOR, status=WARN, values={"governor": "powersave"}),
        "the processor's frequency follows the load (powersave)",
        "cpupower frequency-set -g performance",
    ),
    (
        Finding(subject=Subject.DESCRIPTORS, status=WARN, values={"most": 1024}),
        "at most 1024 files open at once, so about 924 connections",
        "ulimit -Hn, or nofile in limits.conf",
    ),
    (
        Finding(subject=Subject.PORTS, status=PASS, numbers={"ports": 28232}),
        "28232 ports for connections to one address; a new connection per request can use them up",
        "",
    ),
    (
        Finding(subject=Subject.BACKLOG, status=WARN, values={"somaxconn": 128, "would_do": 4096}),
        "at most 128 handshakes wait for a server (somaxconn)",
        "sysctl net.core.somaxconn=4096",
    ),
    (
        Finding(subject=Subject.IO_URING, status=WARN, values={"backend": "epoll"}),
        "epoll",
        "sysctl kernel.io_uring_disabled=0, or a container that allows it; epoll serves as well",
    ),
    (
        Finding(subject=Subject.OTHER_PROGRAMS, status=WARN, numbers={"busy_share": 0.34}),
        "they use 34% of the cores' time now",
        "end other programs",
    ),
    (
        Finding(subject=Subject.STEAL, status=PASS, numbers={"steal_share": 0.0}),
        "the hypervisor takes 0% of the cores' time now",
        "",
    ),
    (
        Finding(
            subject=Subject.NOISE, status=PASS, numbers={"round_sd": 0.012}, values={"smallest": {60: 0.02, 300: 0.01}}
        ),
        "a round's ratio scatters by 1.2 %; a race of two sees 2.0 % in 60 s, 1.0 % in 5 min, in nine of ten",
        "",
    ),
    (
        Finding(subject=Subject.NOISE, status=FAIL, values={"refused": "no descriptor is free"}),
        "it could not be measured: no descriptor is free",
        "see there",
    ),
    (
        Finding(subject=Subject.AWAKE, status=PASS, numbers=WITH, values={"way": "by idle threads"}),
        "by idle threads: the hypervisor took 1.2% of the cores' time, and a round's ratio scattered by 1.5 %; "
        "with cores as they are 0.2% and 3.1 %",
        "",
    ),
    (
        Finding(subject=Subject.AWAKE, status=WARN, values={"way": "not allowed here"}),
        "cores can't be kept awake (not allowed here)",
        "root, or a container that allows SCHED_IDLE and does not limit CPU time",
    ),
    (
        Finding(
            subject=Subject.CEILING,
            status=WARN,
            numbers={"threads": 1, "points": POINTS},
            values={"refused": "no port"},
        ),
        "the generator can send 123,456/s at 32, 9,876/s at 32 (used once) connections; no port",
        "",
    ),
    (
        Finding(subject=Subject.NULL_RACE, status=PASS, numbers=NULL_RACE),
        "same, 0.9950 to 1.0040, after 60 s (race abc)",
        "",
    ),
]


@pytest.mark.parametrize(("finding", "text", "remedy"), CASES)
def test_a_finding_is_told_as_it_always_was(finding: Finding, text: str, remedy: str) -> None:
    """What was seen, and what would mend it."""
    assert (finding_text(finding), remedy_text(finding)) == (text, remedy)


def test_every_subject_has_its_sentence() -> None:
    """A new examination needs one."""
    assert {finding.subject for finding, *_ in CASES} == set(Subject)


def test_the_export_keeps_its_shape() -> None:
    """Schema 1: five keys a finding; and what failed fails the report."""
    findings = tuple(finding for finding, *_ in CASES)
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
