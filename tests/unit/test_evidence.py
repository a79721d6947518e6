"""Measured sections: a stamp tells when one is older than the measuring code, and an interrupted part goes on."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import evidence
import evidence_parts
import measuring_code as measuring
import pages
import pytest
import stamps
from evidence_parts import Part
from stamps import Stamp

TODAY = dict.fromkeys(measuring.FOLDERS, "a")
STAMP = Stamp(date="2026-11-24", commit="0123abcd", method=6, machine="M", command="make x", code=TODAY)


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
    monkeypatch.setattr(evidence_parts, "FOLDERS_OF", {"PAGE.md#one": measuring.FOLDERS})
    monkeypatch.setattr(evidence, "STATE", tmp_path / "runs" / "evidence.json")
    ledger = tmp_path / "docs" / "evidence.json"
    read, write = stamps.read, stamps.write
    monkeypatch.setattr(stamps, "read", lambda: read(ledger))
    monkeypatch.setattr(stamps, "write", lambda known: write(known, ledger))
    monkeypatch.setattr(measuring, "history_is_whole", lambda: False)
    monkeypatch.setenv("DRAGSTRIP_EVIDENCE", "make x")  # otherwise the words of pytest
    return tmp_path


@pytest.mark.parametrize(
    ("change", "folders", "expected"),
    [
        ({}, measuring.FOLDERS, []),
        ({"method": 5}, measuring.FOLDERS, ["today's method is 6"]),
        ({"method": 5}, (measuring.ENGINE,), []),
        ({"method": 0}, measuring.FOLDERS, ["its method was not noted"]),
        ({"code": {}}, measuring.FOLDERS, ["the state of its measuring code is not known"]),
        ({"code": TODAY | {measuring.RACING: "b"}}, measuring.FOLDERS, ["the measuring code has changed since"]),
        ({"code": TODAY | {measuring.RACING: "b"}}, (measuring.ENGINE,), []),
        ({"code": {}}, (), []),
    ],
)
def test_a_stamp_is_older_by_its_method_or_by_the_code_that_its_section_rests_on(change, folders, expected) -> None:
    """The method counts for sections that rest on more than the engine."""
    older = stamps.reasons(dataclasses.replace(STAMP, **change), folders, TODAY, 6)
    assert older == expected
    assert stamps.sentence(STAMP, older).startswith("**Older evidence:**") is bool(expected)


def test_a_stamp_names_date_commit_method_machine_and_command() -> None:
    """A commit that the history lost is not named."""
    assert stamps.sentence(STAMP, []) == "Measured on 2026-11-24 at commit 0123abcd, method 6, M, by `make x`."
    lost = dataclasses.replace(STAMP, commit="")
    assert "at a commit that this history does not have" in stamps.sentence(lost, [])
    assert stamps.sentence(Stamp(date=""), []) == "**Not measured yet.**"


def test_comments_docstrings_and_blank_lines_make_no_page_older_and_statements_do() -> None:
    """In Python and in Rust."""
    code = 'def f():\n    """Doc."""\n    # why\n    return 1\n'
    same = 'def f():\n    """Other\n    words."""\n\n    return 1\n'
    assert measuring.statements("a.py", code) == measuring.statements("a.py", same)
    assert measuring.statements("a.py", code) != measuring.statements("a.py", code.replace("1", "2"))
    assert measuring.statements("a.rs", "/// Doc.\nfn f() {}\n") == measuring.statements("a.rs", "fn f() {}")
    assert measuring.statements("a.rs", "fn f() {}") != measuring.statements("a.rs", "fn g() {}")


def test_git_has_the_same_hashes_as_the_checkout() -> None:
    """If nothing is uncommitted, the commit's measuring code is today's."""
    if not measuring.head() or measuring.uncommitted():
        pytest.skip("this checkout has no git, or uncommitted measuring code")
    assert measuring.at("HEAD") == measuring.today()
    assert measuring.at("0000000") == {}


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
    # A change of the measuring code begins it again.
    assert not evidence.run(Part("one", ("PAGE.md#one",), ("false",), 1, "anything"), 0.0)
    monkeypatch.setattr(measuring, "today", lambda folders=(): TODAY)
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
    assert not evidence.complete(part, evidence.Begun(2.0, measuring.today()))
    pages.splice(house / "docs" / "PAGE.md", "one", "text")
    assert evidence.complete(part, evidence.Begun(2.0, measuring.today()))
    stamp = stamps.read()["PAGE.md#one"]
    assert (stamp.minutes, stamp.command) == (2.0, "make evidence PART=one")
    assert evidence.minutes(part, stamps.read()) == 2.0


def test_each_section_belongs_to_one_part_and_each_name_of_a_part_is_its_own() -> None:
    """A section that two parts wrote would have the stamp of whichever ran last."""
    sections = [section for part in evidence_parts.PARTS for section in part.sections]
    names = [part.name for part in evidence_parts.PARTS]
    assert len(set(sections)) == len(sections)
    assert len(set(names)) == len(names)
    with pytest.raises(SystemExit, match="unknown part 'none'"):
        evidence_parts.named("none")


def test_a_script_that_keeps_its_races_counts_only_those_of_todays_code() -> None:
    """Otherwise a part would be complete, and stamped as today's, without a new race."""
    without = []
    for part in evidence_parts.PARTS:
        for script in re.findall(r"benchmarks/\w+\.py", " ".join(part.commands)) if part.code else ():
            text = (measuring.ROOT / script).read_text("utf-8")
            # The engine's benches name their file by the engine's build.
            if ".jsonl" in text and not re.search(r"race_lines\.read|state\(\)|-HASH\.jsonl", text):
                without.append(script)
    assert without == []
