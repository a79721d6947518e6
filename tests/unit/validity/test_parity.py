"""What tilts a race is warned of, and what merely differs is not."""

from __future__ import annotations

from dataclasses import replace

import pytest
import samples

from dragstrip import validity
from dragstrip.record import Race

CLEAN = {
    "HTTP version": "HTTP/1.1", "header bytes": "146", "body bytes": "12", "body framing": "Content-Length",
    "keep-alive limit found": "none in 2,500 requests", "an unknown path": "status 404", "runs as": "nobody",
    "access log": "off", "compression": "none", "cores used": "0.98 of 1",
}  # fmt: skip


def raced(*changes: dict[str, str], **race: object) -> Race:
    """A race of as many contenders as there are changes to the clean sheet; a fact changed to "" is absent."""
    names = [f"server-{number}" for number in range(len(changes))]
    made = samples.race(dict.fromkeys(names, 1000.0))
    sheets = [{fact: told for fact, told in {**CLEAN, **change}.items() if told} for change in changes]
    entrants = [replace(one, parity=sheet) for one, sheet in zip(made.entrants, sheets, strict=True)]
    return samples.changed(made, entrants=tuple(entrants), **race)


def warned(race: Race) -> dict[str, str]:
    return {one.label: one.detail for one in validity.inspect(race) if one.label.startswith("parity")}


def test_sheets_that_differ_only_in_words_tilt_nothing() -> None:
    """A few bytes, another word for off, another HTTP/1.0 habit: on the sheet, no warning."""
    other = {"header bytes": "158–160", "access log": "none", "compression": "off", "HTTP/1.0": "closes"}
    assert warned(raced({}, other)) == {"parity": "nothing on the parity sheet tilts the race"}


@pytest.mark.parametrize(
    ("change", "fact", "words"),
    [
        ({"body framing": "chunked"}, "body framing", "server-0: Content-Length; server-1: chunked"),
        ({"header bytes": "234"}, "answer bytes", "a response of server-1 has 246 bytes, one of server-0 has 158"),
        ({"HTTP version": "HTTP/1.0"}, "HTTP version", "server-1: HTTP/1.0"),
        ({"access log": "on, to a file"}, "access log", "server-1 writes an access log, server-0 does not"),
        ({"compression": "gzip"}, "compression", "server-1 would compress"),
        ({"runs as": "nobody, root"}, "runs as", "server-1 runs as root"),
        (
            {"an unknown path": "status 200, the same body as the right path"},
            "routing",
            "server-1 gives the same response to every path",
        ),
        ({"keep-alive limit found": "100 requests"}, "keep-alive limit", "server-1 after 100 requests"),
        ({"doubled headers": "Server 2 times ('a', 'b')"}, "doubled headers", "server-1: Server 2 times ('a', 'b')"),
        ({"note": "already running: not launched afresh"}, "note", "server-1: already running"),
    ],
)
def test_what_tilts_a_race_is_named_with_whom(change: dict[str, str], fact: str, words: str) -> None:
    """One sentence each; no other fact is blamed."""
    told = warned(raced({}, change))
    assert list(told) == [f"parity, {fact}"]
    assert words in told[f"parity, {fact}"]


def test_cores_are_compared_only_where_the_lane_has_several() -> None:
    """On one core all share the same; on two, a single event loop can't use what others do."""
    sheets = ({"cores used": "1.97 of 2"}, {"cores used": "1.00 of 2"})
    assert "parity, cores used" in warned(raced(*sheets, server_cores=(1, 2)))
    assert list(warned(raced(*sheets, server_cores=(1,)))) == ["parity"]


def test_a_keep_alive_limit_matters_only_where_connections_are_kept() -> None:
    """With a connection per request none is kept; if all servers close alike, none is favoured."""
    sheets = ({}, {"keep-alive limit found": "100 requests"})
    load = replace(raced({}, {}).load, keepalive=False)
    assert list(warned(raced(*sheets, load=load))) == ["parity"]
    assert list(warned(raced(sheets[1], sheets[1]))) == ["parity"]


def test_over_http_1_0_it_matters_who_keeps_connections_then() -> None:
    """As ab asks; the limit over HTTP/1.1 says nothing there."""
    sheets = ({"HTTP/1.0": "keeps the connection"}, {"HTTP/1.0": "closes after each answer"})
    assert list(warned(raced(*sheets))) == ["parity"]
    told = warned(raced(*sheets, load=replace(raced({}, {}).load, http="1.0")))
    assert "server-1 closes each HTTP/1.0 connection" in told["parity, HTTP/1.0"]
    untried = ({"HTTP/1.0": "keeps the connection"}, {"HTTP/1.0": "could not be tried: reset the connection"})
    assert list(warned(raced(*untried, load=replace(raced({}, {}).load, http="1.0")))) == ["parity"]


def test_who_is_out_and_who_has_no_sheet_is_not_compared() -> None:
    """A race recorded by an older version has fewer facts."""
    race = raced({}, {"body framing": "chunked"}, dict.fromkeys(CLEAN, ""))
    out = tuple(replace(one, out="died") if one.name == "server-1" else one for one in race.entrants)
    assert list(warned(samples.changed(race, entrants=out))) == ["parity"]
