"""A race in the terminal: it fits, it is plain where it must be, and the parity sheet."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import samples
from reports import (
    page_of_parity,
    shown,
)

from dragstrip.record import Race
from dragstrip.report.race import terminal as race_terminal
from dragstrip.report.race.summary import JudgedRace
from dragstrip.validity import inspect

WARNING = samples.said("generator", "warn", "it used 88 % of its core; give it another")


@pytest.mark.parametrize("width", [80, 100, 140, 200])
def test_the_terminal_report_fits_its_width(race: Race, width: int) -> None:
    """No line is wider, whatever is shown; every contender, verdict and reason is there."""
    text = shown(race, width=width, checks=[*inspect(race), WARNING], all_pairs=True, verbose=True)
    assert max(map(len, text.splitlines())) <= width
    parts = (
        "return",
        "static",
        "twin",
        "slow",
        "faster",
        "dud is out",
        "byte 10",
        "▲ generator: it",
        "● passed: rounds",
    )
    assert not [part for part in parts if part not in text]
    told = re.sub(r"\s+", " ", text)
    assert re.match(r" FASTEST return: 1\.2\d × the next, \w+ \(.* return is the fastest of 4: it served", told)


def test_telling_pairs_are_shown_and_all_on_request() -> None:
    """Neighbours and the fastest against all; --pairs lists the rest too."""
    race = samples.race({name: 10_000.0 * 1.3**k for k, name in enumerate("edcba", start=1)})
    assert "7 of 10 pairs" in shown(race)
    every = shown(race, all_pairs=True)
    assert "of 10 pairs" not in every
    assert every.count("faster") > shown(race).count("faster")


def test_without_a_terminal_or_with_no_color_there_are_no_codes(race: Race, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pipes get plain text; NO_COLOR is honoured on terminals."""
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b" not in shown(race)
    assert re.search(r"\x1b\[[\d;]*3[0-7]m", shown(race, force_terminal=True))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[\d;]*3[0-7]", shown(race, force_terminal=True))


def test_an_encoding_without_our_marks_gets_plain_ones(race: Race) -> None:
    """ASCII and Latin-1 terminals get a report of the same shape instead of a traceback."""
    fancy, plain = shown(race, checks=[WARNING]), shown(race, checks=[WARNING], encoding="ascii")
    assert plain.isascii()
    assert [len(line) for line in plain.splitlines()] == [len(line) for line in fancy.splitlines()]
    assert "! generator: it used 88 %" in plain
    assert "?" not in plain
    assert shown(race, encoding="latin-1").isascii()


def test_markup_in_names_is_printed_as_it_stands() -> None:
    """rich's own markup in a contender's name or reason is text."""
    race = samples.race({"[red]a[/red]": 50_000.0, "b": 20_000.0}, out={"[link=x]c": "said [bold]no[/bold] [/]"})
    text = shown(race, width=160)
    for part in ("[red]a[/red]", "[link=x]c is out", "said [bold]no[/bold] [/]"):
        assert part in text
    assert "[red]a[/red]" in page_of_parity(race, 160)


def test_the_parity_sheet_marks_what_differs(race: Race) -> None:
    """A fact that is equal has no mark; narrow terminals get the same facts one below the other."""
    wide, narrow = page_of_parity(race, 120), page_of_parity(race, 60)
    assert re.search(r"^▲\s+server header\s+return", wide, re.MULTILINE)
    assert re.search(r"^\s+HTTP version\s+1\.1", wide, re.MULTILINE)
    assert "▲ server header" in narrow
    logs = [{"access log": log} for log in ("off", "none", "to a file")]
    sheets = [
        tuple(replace(one, parity=log) for one, log in zip(race.entrants, logs[:n], strict=False)) for n in (2, 3)
    ]
    two, three = (page_of_parity(samples.changed(race, entrants=entrants), 120) for entrants in sheets)
    assert re.search(r"^\s+access log\s+off\s+none", two, re.MULTILINE)
    assert re.search(r"^▲\s+access log\s+off\s+none\s+to a file", three, re.MULTILINE)
    assert "twin: twin" in narrow
    assert "no parity sheet" in page_of_parity(samples.race({}, rounds=0, out={"dud": "x"}), 80)


def test_the_picture_loads_nothing_and_shows_the_race(race: Race, tmp_path: Path) -> None:
    """An SVG for the README: well formed, no web font."""
    from xml.etree import ElementTree

    (tmp_path / "race.svg").write_text(race_terminal.terminal_svg(JudgedRace.of(race)))
    text = (tmp_path / "race.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(text)
    assert not re.search(r"url\(\W*http|cdn|@font-face|@import", text)
    assert "fastest" in text
