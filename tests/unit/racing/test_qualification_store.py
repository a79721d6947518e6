"""Kept scrutineering: reused for the very same programs and conditions, and for nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dragstrip import contender
from dragstrip.contender import Entry, Ready, serve_entry, url_entry
from dragstrip.machine import Lanes
from dragstrip.machine_facts import Facts, Limits
from dragstrip.racing import qualification_store
from dragstrip.racing.calibration import Calibration
from dragstrip.racing.qualification_store import DISTURBED_S, GOOD_S, KeptQualification, QualificationStore
from dragstrip.record import Event, EventKind, Load
from dragstrip.workload import load as load_workload

LANES = Lanes((1,), (0,), False, "")
LOAD = Load(connections=32, threads=1, keepalive=True, timeout_ns=2_000_000_000)
FACTS = Facts(cpu="a", cores_online="0-1", kernel="6", boot="b", limits=Limits(), mitigations={})
CONTEXT = ("all alike",)

PROOF = KeptQualification(
    at_s=0.0,
    good_s=GOOD_S,
    parity={"workers": "1"},
    calibration=Calibration(
        p50_ns=200_000,
        capacity_per_s=1e5,
        launch_s=0.2,
        block_factor=2,
        restless=True,
        events=(
            Event(
                at_ns=5,
                kind=EventKind.UNEQUAL_BLOCKS,
                subject="mine",
                numbers={"counted_ns": 1e7, "apart": -0.03, "loaded_ns": 1e8},
            ),
        ),
    ),
)

DEFINITION = """
name = "mine"
title = "Mine"
host = "Mine"
language = "C"
homepage = "https://example.org/"
workloads = ["hello"]
[needs]
commands = ["mine"]
[install]
hint = "https://example.org/"
[version]
command = ["mine", "-v"]
pattern = '(\\S+)'
[parameters]
workers = 1
[parity]
"workers" = "{workers}"
[start]
command = ["mine", "{scratch}/app.conf"]
copy = ["app.conf"]
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    place = tmp_path / "bin" / "mine"
    place.parent.mkdir()
    place.write_text("#!/bin/sh\n")
    return place


@pytest.fixture
def entry(tmp_path: Path) -> Callable[..., Entry]:
    """The definition as it lies there now, with these overrides."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "contender.toml").write_text(DEFINITION)
    (folder / "app.conf").write_text("serve\n")
    return lambda words="": contender.entry(f"{folder}/contender.toml{words}")


def kept(tmp_path: Path, **more: Any) -> QualificationStore:
    return QualificationStore(tmp_path / "races.scrutiny", CONTEXT, **more)


def now(proof: KeptQualification = PROOF, ago_s: float = 1.0) -> KeptQualification:
    return replace(proof, at_s=qualification_store.time.time() - ago_s)


def test_a_proof_comes_back_as_it_was_kept(tmp_path: Path, entry: Any, program: Path) -> None:
    """For the same definition, parameters, program and conditions; other users can't read or write it."""
    here, ready = kept(tmp_path), Ready("1.0", {"mine": program})
    key, proof = here.key(entry(), ready, None), now()
    assert here.find(key) is None
    here.keep(key, proof)
    assert kept(tmp_path).find(kept(tmp_path).key(entry(), ready, None)) == proof
    assert (tmp_path / "races.scrutiny").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("what", ["definition", "file", "parameter", "version", "program", "link", "build", "context"])
def test_whatever_a_proof_depends_on_makes_it_anew_when_it_changes(
    what: str, tmp_path: Path, entry: Any, program: Path
) -> None:
    """Each part of the key by itself."""
    built = tmp_path / "built"
    built.mkdir()
    (built / "server").write_text("one")
    before = kept(tmp_path).key(entry(), Ready("1.0", {"mine": program}), built)
    words, version, context = "", "1.0", CONTEXT
    if what == "definition":
        file = tmp_path / "mine" / "contender.toml"
        file.write_text(file.read_text().replace("Mine", "Yours"))
    elif what == "file":
        (tmp_path / "mine" / "app.conf").write_text("serve otherwise\n")
    elif what == "parameter":
        words = ":workers=2"
    elif what == "version":
        version = "1.1"
    elif what == "program":
        state = program.stat()
        program.write_text("#!/bin/ash\n"[:10])  # as long, and as old: only its change of state tells
        os.utime(program, ns=(state.st_atime_ns, state.st_mtime_ns))
    elif what == "link":
        other = program.with_name("other")
        program.rename(other)
        program.symlink_to(other)
    elif what == "build":
        (built / "server").write_text("another")
    else:
        context = ("another workload",)
    after = QualificationStore(tmp_path / "races.scrutiny", context).key(
        entry(words), Ready(version, {"mine": program}), built
    )
    assert before
    assert after
    assert after != before


def test_an_ad_hoc_server_is_never_known_again(tmp_path: Path) -> None:
    """What a command runs, or what listens at an address, may be another program each time."""
    here = kept(tmp_path)
    for entry in (serve_entry("mine=./server --port {port}", tmp_path), url_entry("http://127.0.0.1:8080/")):
        assert here.key(entry, Ready("unknown", {}), None) is None
    here.keep(None, now())
    assert not (tmp_path / "races.scrutiny").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"workload": "multiply"},
        {"load": replace(LOAD, connections=64)},
        {"load": replace(LOAD, keepalive=False)},
        {"load": replace(LOAD, http="1.0")},
        {"lanes": Lanes((2,), (0,), False, "")},
        {"io": "epoll"},
        {"facts": replace(FACTS, boot="c")},
        {"facts": replace(FACTS, kernel="7")},
        {"more": ("awake",)},
    ],
    ids=str,
)
def test_another_load_workload_lane_or_boot_is_another_context(change: dict[str, Any]) -> None:
    """A calibration tells of the conditions that it was made under."""

    def context(workload="hello", load=LOAD, lanes=LANES, io="auto", facts=FACTS, more=()) -> tuple[str, ...]:
        return qualification_store.context(load_workload(workload), load, lanes, io, facts, *more)

    assert context() == context()
    assert context(**change) != context()


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", "[" * 100_000, '{"shape": 1}',
        json.dumps({"shape": 1, "key": "k", "parity": 3}), b"\xff\xfe".decode("latin-1"),
    ],
)  # fmt: skip
def test_an_unreadable_file_never_hurts(text: str, tmp_path: Path) -> None:
    """The contender is checked again, and the new result replaces the old one."""
    here = kept(tmp_path)
    here.keep("k", now())
    (tmp_path / "races.scrutiny" / "k.json").write_text(text)
    assert here.find("k") is None
    here.keep("k", proof := now())
    assert here.find("k") == proof


@pytest.mark.parametrize(
    "wrong",
    [{"p50_ns": 0}, {"p50_ns": "x"}, {"capacity_per_s": -1}, {"block_factor": 3}, {"key": "other"}, {"shape": 1},
     {"at_s": 1e300}, {"at_s": "NaN"}, {"parity": []}],
    ids=str,
)  # fmt: skip
def test_figures_that_cannot_be_are_not_believed(wrong: dict[str, Any], tmp_path: Path) -> None:
    """Whoever wrote them."""
    here, file = kept(tmp_path), tmp_path / "races.scrutiny" / "k.json"
    here.keep("k", now())
    stored = json.loads(file.read_text())
    (stored["calibration"] if wrong.keys() <= stored["calibration"].keys() else stored).update(wrong)
    file.write_text(json.dumps(stored))
    assert here.find("k") is None


def test_a_proof_stands_for_a_week_and_for_an_hour_where_others_were_at_work(tmp_path: Path) -> None:
    """And none that says it is from the future."""
    here = kept(tmp_path)
    for good_s in (GOOD_S, DISTURBED_S):
        for ago_s, stands in ((good_s - 60, True), (good_s + 60, False), (-60.0, False)):
            here.keep("k", proof := now(replace(PROOF, good_s=good_s), ago_s))
            assert here.find("k") == (proof if stands else None)


def test_a_fresh_scrutiny_reuses_nothing_and_keeps_what_it_finds(tmp_path: Path) -> None:
    """The next race may reuse that."""
    kept(tmp_path).keep("k", now())
    fresh = kept(tmp_path, fresh=True)
    assert fresh.find("k") is None
    fresh.keep("k", newer := now(replace(PROOF, calibration=replace(PROOF.calibration, p50_ns=300_000))))
    assert kept(tmp_path).find("k") == newer
    kept(tmp_path).forget("k")
    assert kept(tmp_path).find("k") is None


def test_a_folder_that_others_may_write_to_proves_nothing(tmp_path: Path) -> None:
    """Anybody could pass off anything as proved there."""
    here = kept(tmp_path)
    here.keep("k", now())
    (tmp_path / "races.scrutiny").chmod(0o777)
    assert here.find("k") is None


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    """Nothing is kept, and the race goes on."""
    (tmp_path / "races.scrutiny").write_text("a file in its place")
    here = kept(tmp_path)
    here.keep("k", now())
    here.forget("k")
    assert here.find("k") is None
