"""Measured sections: a stamp tells when one is older than method and release, and an interrupted part goes on."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import evidence
import evidence_parts
import pages
import pytest
import race_lines
import stamps
from evidence_parts import Part
from stamps import Stamp

STAMP = Stamp("2026-11-24", "0123abcd", stamps.METHOD_VERSION, stamps.RELEASE, machine="M", command="make x")


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of its own with one part, whose page has one section."""
    page = tmp_path / "docs" / "PAGE.md"
    page.parent.mkdir()
    page.write_text("# Page\n\nText.\n\n<!-- one: begin -->\nold\n<!-- one: end -->\n")
    (tmp_path / "CONTRIBUTING.md").write_text("<!-- parts: begin -->\n<!-- parts: end -->\n")
    (tmp_path / "docs" / "evidence.json").write_text("{}")
    part = Part("one", ("PAGE.md#one",), ("true",), 1, "anything")
    for module in (evidence, evidence_parts, pages):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    for module in (evidence, evidence_parts):
        monkeypatch.setattr(module, "PARTS", (part,))
    monkeypatch.setattr(evidence, "STATE", tmp_path / "runs" / "evidence.json")
    ledger = tmp_path / "docs" / "evidence.json"
    read, write = stamps.read, stamps.write
    monkeypatch.setattr(stamps, "read", lambda: read(ledger))
    monkeypatch.setattr(stamps, "write", lambda known: write(known, ledger))
    monkeypatch.setenv("DRAGSTRIP_EVIDENCE", "make x")  # otherwise the words of pytest
    return tmp_path


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"commit": ""}, []),
        ({"method": 5}, [f"today's method is {stamps.METHOD_VERSION}"]),
        ({"method": 0}, ["its method was not noted"]),
        ({"release": "0.0.9"}, [f"today's release is {stamps.RELEASE}"]),
        ({"release": ""}, ["its release was not noted"]),
    ],
)
def test_a_stamp_is_older_by_its_method_or_its_release_alone(change, expected) -> None:
    """No source is read: a moved file or a renamed function costs no measurement."""
    stamp = dataclasses.replace(STAMP, **change)
    assert stamps.reasons(stamp) == expected
    assert stamps.sentence(stamp).startswith("**Older evidence:**") is bool(expected)


def test_a_stamp_names_date_commit_release_method_machine_and_command() -> None:
    """A commit that the history lost is not named."""
    told = f"Dragstrip {stamps.RELEASE}, method {stamps.METHOD_VERSION}, M, by `make x`."
    assert stamps.sentence(STAMP) == f"Measured on 2026-11-24 at commit 0123abcd, {told}"
    assert stamps.sentence(dataclasses.replace(STAMP, commit="")) == f"Measured on 2026-11-24, {told}"
    assert stamps.sentence(Stamp(date="")) == "**Not measured yet.**"


def test_a_commit_that_a_rebase_renamed_is_dropped() -> None:
    """One of the history stays, also with changes on it."""
    if stamps.git("rev-parse", "--is-shallow-repository") != "false":
        pytest.skip("this checkout has no git history, or a shallow one")
    head = stamps.git("rev-parse", "--short=8", "HEAD")
    names = {"here": head, "changed": f"{head} with changes", "lost": "00000000", "none": ""}
    mended = stamps.without_lost_commits({key: dataclasses.replace(STAMP, commit=one) for key, one in names.items()})
    assert {key: stamp.commit for key, stamp in mended.items()} == names | {"lost": ""}


def test_a_recorded_section_gets_a_stamp_and_its_page_says_when_it_grows_older(house, monkeypatch) -> None:
    """By the method's next version; measured again, it is today's."""
    page = house / "docs" / "PAGE.md"
    pages.splice(page, "one", "| new |")
    text = page.read_text()
    assert "| new |" in text
    assert "old" not in text
    assert text.index("<!-- evidence one: begin -->\nMeasured on 20") < text.index("<!-- one: begin -->")
    monkeypatch.setattr(stamps, "METHOD_VERSION", stamps.METHOD_VERSION + 1)
    assert evidence_parts.marked()["PAGE.md"] != page.read_text()
    evidence_parts.mark()
    assert "**Older evidence:** today's method is" in page.read_text()
    assert page.read_text().count("evidence one: begin") == 1
    assert "older: today's method is" in evidence.listing()
    pages.splice(page, "one", "| newer |")
    assert "Older" not in page.read_text()
    assert "current" in evidence.listing()
    assert "| anything | `one` | PAGE.md | 1 |" in (house / "CONTRIBUTING.md").read_text()


def test_a_section_that_is_missing_is_refused_and_the_page_stays(house) -> None:
    """Nothing of the page is lost."""
    page = house / "docs" / "PAGE.md"
    before = page.read_text()
    with pytest.raises(SystemExit, match="0 sections named 'two'"):
        pages.splice(page, "two", "text")
    assert page.read_text() == before


def test_a_part_that_was_cut_off_goes_on_with_its_next_command(house, monkeypatch) -> None:
    """What was done is not run again, and minutes of all sittings add up."""
    log = house / "log"
    code = evidence_parts.GOES_ON
    second = f"echo second >> {log}; [ $(grep -c second {log}) = 2 ] || exit {code}"
    part = Part("one", ("PAGE.md#one",), (f"echo first >> {log}", second), 1, "anything")
    assert not evidence.run(part, 0.0)
    assert json.loads((house / "runs" / "evidence.json").read_text())["one"]["done"] == 1
    assert "begun" in evidence.listing()
    assert not evidence.run(part, 0.0), "its commands wrote nothing"
    assert log.read_text().split() == ["first", "second", "second"]
    # Another release begins it again.
    assert not evidence.run(Part("one", ("PAGE.md#one",), ("false",), 1, "anything"), 0.0)
    assert evidence.begun()
    monkeypatch.setattr(evidence, "RELEASE", "9.9")
    assert evidence.begun() == {}


@pytest.mark.parametrize(("name", "code"), [("INT", 130), ("TERM", 143)])
def test_an_interrupted_part_waits_for_its_program_and_keeps_its_minutes(house, name, code) -> None:
    """The signal is passed on to the program, which may have a race to end."""
    log = house / "log"
    trap = f"trap 'echo ended >> {log}; exit 1' {name}; kill -{name} $PPID; while ((SECONDS < 60)); do sleep 0.1; done"
    with pytest.raises(SystemExit, match=str(code)):
        evidence.run(Part("one", ("PAGE.md#one",), (trap,), 1, "anything"), 0.0)
    assert log.read_text() == "ended\n"
    assert json.loads((house / "runs" / "evidence.json").read_text())["one"]["minutes"] > 0


def test_a_part_is_complete_when_its_commands_wrote_all_its_sections(house, monkeypatch) -> None:
    """Its stamp has the minutes, and the command that reaches it."""
    monkeypatch.setenv("DRAGSTRIP_EVIDENCE", "make evidence PART=one")
    part = Part("one", ("PAGE.md#one",), ("true",), 1, "anything")
    assert not evidence.complete(part, evidence.Begun(2.0))
    pages.splice(house / "docs" / "PAGE.md", "one", "text")
    assert evidence.complete(part, evidence.Begun(2.0))
    stamp = stamps.read()["PAGE.md#one"]
    assert (stamp.minutes, stamp.command) == (2.0, "make evidence PART=one")


def test_each_section_belongs_to_one_part_and_each_name_of_a_part_is_its_own() -> None:
    """A section that two parts wrote would have the stamp of whichever ran last."""
    sections = [section for part in evidence_parts.PARTS for section in part.sections]
    names = [part.name for part in evidence_parts.PARTS]
    assert len(set(sections)) == len(sections)
    assert len(set(names)) == len(names)
    with pytest.raises(SystemExit, match="unknown part 'none'"):
        evidence_parts.named("none")


def test_a_script_that_keeps_its_races_counts_only_those_of_todays_method_and_release() -> None:
    """Otherwise a part would be complete, and stamped as today's, without a new race."""
    without = []
    for part in evidence_parts.PARTS:
        for script in re.findall(r"(?:benchmarks|tests/soak)/\w+\.py", " ".join(part.commands)):
            text = (stamps.ROOT / script).read_text("utf-8")
            # The engine's benches name their file by the engine's build.
            if ".jsonl" in text and not re.search(r"race_lines\.read|-HASH\.jsonl", text):
                without.append(script)
    assert without == []


def test_lines_of_another_method_or_release_do_not_count(tmp_path: Path, monkeypatch) -> None:
    """They stay in the file; a line that was cut off is skipped."""
    file = tmp_path / "lines.jsonl"
    file.write_text('{"kind": "torn"')
    for method, release in ((stamps.METHOD_VERSION - 1, stamps.RELEASE), (stamps.METHOD_VERSION, "0.0.9")):
        with monkeypatch.context() as other:
            other.setattr(race_lines, "TODAY", {"method": method, "release": release})
            race_lines.append(file, {"kind": "earlier"})
    race_lines.append(file, {"kind": "today"})
    assert [line["kind"] for line in race_lines.read(file)] == ["today"]
    assert len(file.read_text().splitlines()) == 4


def test_all_evidence_is_planned_for_three_hours() -> None:
    """It is measured for a release, in one afternoon: what takes longer is not measured at all."""
    assert sum(part.minutes for part in evidence_parts.PARTS) <= evidence_parts.MOST_MINUTES
