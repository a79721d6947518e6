"""Every finding of ``dragstrip doctor`` has its sentence and its remedy, as exports (schema 1) have had them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from dragstrip.doctor.finding import (
    AwakeEffect,
    Bubblewrap,
    Ceiling,
    Clock,
    Cores,
    Engines,
    EngineState,
    Finding,
    Forecast,
    Limit,
    NamespaceCause,
    Note,
    NotMeasured,
    NullRaceResult,
    Report,
    Status,
    Subject,
    SubordinateIds,
    TimeShare,
    UserNamespaces,
)
from dragstrip.machine_facts import CeilingPoint, Facts, GeneratorCeiling, NullRace
from dragstrip.report.doctor import as_json, finding_text, remedy_text

PASS, WARN, FAIL = Status
NULL_RACE = NullRaceResult(
    NullRace(race="abc", at="2026-01-02", verdict="same", low=0.995, high=1.004, spent_s=60.2), None
)
CEILING = GeneratorCeiling(
    threads=1,
    points=(
        CeilingPoint(connections=32, keepalive=True, ceiling_per_s=123456),
        CeilingPoint(connections=32, keepalive=False, ceiling_per_s=9876),
    ),
)
FORECAST = Forecast(round_sd=0.012, round_s=0.8, rounds=10, smallest={60: 0.02, 300: 0.01}, seconds_to={0.1: None})

CASES: list[tuple[Finding, str, str]] = [
    (
        Finding(Subject.CORES, WARN, Cores((0,), (0,), "1")),
        "servers on 0, generator on 0, of 1",
        "a machine with two free physical cores or more",
    ),
    (
        Finding(Subject.HARDWARE_THREADS, WARN, Note("0 and 1 are one physical core")),
        "0 and 1 are one physical core",
        "a machine with two free physical cores or more",
    ),
    (
        Finding(Subject.CLOCK, PASS, Clock("tsc", 84)),
        "tsc, 84 ns a reading (Python's call included)",
        "",
    ),
    (
        Finding(Subject.GOVERNOR, WARN, Note("powersave")),
        "the processor's frequency follows the load (powersave)",
        "cpupower frequency-set -g performance",
    ),
    (
        Finding(Subject.DESCRIPTORS, WARN, Limit(1024)),
        "at most 1024 files open at once, so about 924 connections",
        "ulimit -Hn, or nofile in limits.conf",
    ),
    (
        Finding(Subject.PORTS, PASS, Limit(28232)),
        "28232 ports for connections to one address; a new connection per request can use them up",
        "",
    ),
    (
        Finding(Subject.BACKLOG, WARN, Limit(128)),
        "at most 128 handshakes wait for a server (somaxconn)",
        "sysctl net.core.somaxconn=4096",
    ),
    (
        Finding(Subject.IO_URING, WARN, Note("epoll")),
        "epoll",
        "sysctl kernel.io_uring_disabled=0, or a container that allows it; epoll serves as well",
    ),
    (
        Finding(Subject.OTHER_PROGRAMS, WARN, TimeShare(0.34)),
        "they use 34% of the cores' time now",
        "end other programs",
    ),
    (
        Finding(Subject.STEAL, PASS, TimeShare(0.0)),
        "the hypervisor takes 0% of the cores' time now",
        "",
    ),
    (
        Finding(Subject.NOISE, PASS, FORECAST),
        "a round's ratio scatters by 1.2 %; a race of two sees 2.0 % in 60 s, 1.0 % in 5 min, in nine of ten",
        "",
    ),
    (
        Finding(Subject.NOISE, FAIL, NotMeasured("no descriptor is free")),
        "it could not be measured: no descriptor is free",
        "see there",
    ),
    (
        Finding(Subject.AWAKE, PASS, AwakeEffect("by idle threads", "idle", 0.012, 0.015, 0.002, 0.031)),
        "by idle threads: the hypervisor took 1.2% of the cores' time, and a round's ratio scattered by 1.5 %; "
        "with cores as they are 0.2% and 3.1 %",
        "",
    ),
    (
        Finding(Subject.USER_NAMESPACES, PASS, UserNamespaces(None, "")),
        "this user can make them, so containers can start",
        "",
    ),
    (
        Finding(Subject.USER_NAMESPACES, WARN, UserNamespaces(NamespaceCause.SWITCH, "unshare: not permitted")),
        "this user can't make them, so no container can start: unshare: not permitted",
        "sysctl kernel.unprivileged_userns_clone=1, or root",
    ),
    (
        Finding(Subject.BUBBLEWRAP, PASS, Bubblewrap(None, "")),
        "not installed; only containers need it, and `dragstrip install bubblewrap` installs it",
        "",
    ),
    (Finding(Subject.BUBBLEWRAP, PASS, Bubblewrap("/bin/bwrap", "")), "/bin/bwrap can start containers", ""),
    (
        Finding(Subject.BUBBLEWRAP, WARN, Bubblewrap("/bin/bwrap", "no permission")),
        "/bin/bwrap can't start a container: no permission",
        "root, or a machine that allows user namespaces",
    ),
    (
        Finding(
            Subject.ENGINES, WARN, Engines((EngineState("podman", False, ""), EngineState("docker", True, "no daemon")))
        ),
        "podman is not installed; docker does not work (no daemon); images then come from files of `docker save`, and "
        "none can be built here",
        "start its daemon (`systemctl start docker`), or install podman, which needs none",
    ),
    (Finding(Subject.ENGINES, PASS, Engines((EngineState("podman", True, ""),))), "podman works", ""),
    (
        Finding(Subject.SUBORDINATE_IDS, WARN, SubordinateIds("ann", 0, False)),
        "ann has 0 further ids in /etc/subuid for Podman's containers, and `newuidmap` is missing",
        "the package uidmap, and `usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER`",
    ),
    (
        Finding(Subject.AWAKE, WARN, Note("not allowed here")),
        "cores can't be kept awake (not allowed here)",
        "root, or a container that allows SCHED_IDLE and does not limit CPU time",
    ),
    (
        Finding(Subject.CEILING, WARN, Ceiling(CEILING, "no port")),
        "the generator can send 123,456/s at 32, 9,876/s at 32 (used once) connections; no port",
        "end other programs and repeat it",
    ),
    (
        Finding(
            Subject.CEILING,
            FAIL,
            Ceiling(GeneratorCeiling(threads=1, points=()), "", (replace(CEILING.points[1], errors=5),)),
        ),
        "at 32 (used once) connections it had 0 responses per second and 5 errors",
        "end other programs and repeat it",
    ),
    (
        Finding(Subject.NULL_RACE, PASS, NULL_RACE),
        "same, 0.9950 to 1.0040, after 60 s (race abc)",
        "",
    ),
]

#: What the export has of some of them beside the text.
NUMBERS: Mapping[str, Mapping[str, object]] = {
    "cores": {},
    "clock": {"reading_ns": 84},
    "ports": {"ports": 28232},
    "backlog": {},
    "other programs": {"busy_share": 0.34},
    "steal": {"steal_share": 0.0},
    "container engines": {"podman": False, "docker": False},
    "subordinate ids": {"ids": 0},
    "noise": {
        "round_sd": 0.012,
        "round_s": 0.8,
        "rounds": 10,
        "smallest_in_60_s": 0.02,
        "smallest_in_300_s": 0.01,
        "seconds_to_10_percent": None,
    },
    "awake": {"way": "idle", "steal_share": 0.012, "round_sd": 0.015, "steal_share_off": 0.002, "round_sd_off": 0.031},
    "null race": {
        "race": "abc",
        "at": "2026-01-02",
        "verdict": "same",
        "low": 0.995,
        "high": 1.004,
        "spent_s": 60.2,
    },
}


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
    numbers = {told["name"]: told["numbers"] for told in reversed(content["findings"])}
    assert {name: numbers[name] for name in NUMBERS} == NUMBERS
