"""Reports of sample races as text, for the tests of ``report``; and races that tempt a report to break."""

from __future__ import annotations

import html.parser
import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import samples
from rich.console import Console

from dragstrip.analysis import Verdict, judge, judge_column
from dragstrip.machine_facts import Facts
from dragstrip.record import EventKind, Race
from dragstrip.report.race import export as race_export
from dragstrip.report.race import page as race_page
from dragstrip.report.race import (
    summary,
)
from dragstrip.report.race import terminal as race_terminal
from dragstrip.report.race.summary import JudgedRace
from dragstrip.validity import inspect

HOSTILE = "<script>alert(1)</script>"
SPEEDS = {"return": 118_000.0, "static": 96_000.0, "twin": 96_000.0, "slow": 4_000.0}


def shown(race: Race, *, width: int = 100, checks: Any = None, encoding: str = "utf-8", **more: Any) -> str:
    """What the terminal report writes, as text."""
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, write_through=True)
    console = Console(width=width, file=file, **{key: more.pop(key) for key in ("force_terminal",) if key in more})
    judged = JudgedRace(race, judge(race), inspect(race) if checks is None else checks)
    race_terminal.show_race(console, judged, **more)
    return raw.getvalue().decode(encoding)


def part_of(race: Race) -> summary.Part:
    """The one column of a race."""
    (part,) = JudgedRace.of(race).parts
    return part


#: The latest pages, each with its race: several tests look at the page of the same one.
_pages: list[tuple[Race, str]] = []


def rendered(race: Race) -> str:
    for known, page in _pages:
        if known is race:
            return page
    page = race_page.render(JudgedRace.of(race))
    _pages[:] = [*_pages[-3:], (race, page)]
    return page


def told(race: Race) -> dict[str, Any]:
    return race_export.race_json(JudgedRace.of(race))


class Reader(html.parser.HTMLParser):
    """Collects what a browser would: open elements, attributes, and text by element."""

    VOID = frozenset({"meta", "link", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, Mapping[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs), f"<{tag}> names an attribute twice"
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.scripts if self.open and self.open[-1] == "script" else self.text).append(data)


def hostile_race() -> Race:
    """Markup wherever text comes from outside."""
    nasty = f"\"'&{HOSTILE}"
    race = samples.race({f"a{nasty}": 50_000.0, f"b{nasty}": 20_000.0}, out={f"c{nasty}": f"it said {nasty}"})
    entrants = tuple(
        replace(e, title=nasty, version=nasty, language=nasty, parameters={nasty: nasty}, parity={nasty: e.name})
        for e in race.entrants
    )
    first = race.rounds[0]
    first = replace(
        first,
        blocks=(
            replace(first.blocks[0], void=samples.voided("errors", **{nasty: 1}), errors={nasty: 1}),
            *first.blocks[1:],
        ),
    )
    event = samples.noted(EventKind.INTRUDER, subject=nasty, numbers={"pid": 7, "share": 0.5})
    return samples.changed(
        race,
        entrants=entrants,
        name=nasty,
        workload=nasty,
        software=nasty,
        started=nasty,
        machine=Facts(cpu=nasty, mitigations={nasty: nasty}, physical_cores=(nasty,)),
        rounds=(first, *race.rounds[1:]),
        events=(event,),
    )


def spoilt_race() -> Race:
    """One void block in the first round, the second round void as a whole."""
    race = samples.race(rounds=12, passes=6)
    first = race.rounds[0]
    voided = replace(first, blocks=(replace(first.blocks[0], void=samples.voided("errors")), *first.blocks[1:]))
    return replace(race, rounds=(voided, replace(race.rounds[1], void=samples.voided("database")), *race.rounds[2:]))


def page_of_parity(race: Race, width: int) -> str:
    console = Console(width=width, file=io.StringIO())
    race_terminal.show_parity(console, race)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def judged_of(race: Race, checks: Any = (), **changes: Any) -> JudgedRace:
    return JudgedRace(race, Verdict((replace(judge_column(race), **changes),)), checks)


VOID = samples.said("void passes", "void", "half of the passes are void: steal")
