"""Servers that recognize the load and cheat only then (``servers/cheats.py``): what is found out, and how."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import cheats_race
import pytest
from races import HERE, PYTHON

from dragstrip import machine
from dragstrip.contender import Entry, serve_entry
from dragstrip.racing.launching import LaunchedServer, Servers
from dragstrip.racing.request import Request, load_of
from dragstrip.racing.setup import RaceSetup, block_plan, race_setup
from dragstrip.workload import load as load_workload

#: What the reason must say of each; None: no response shows that it cheats.
TOLD = {
    "connections": 'content-type is missing, "text/plain" is expected',
    "rate": 'content-type is "text/html", "text/plain" is expected',
    "time": "wrong[_ ]length|sent a body of 6 bytes",
    "number": 'server is missing, "cheats/1.0" is expected',
    "reuse": "wrong[_ ]status",
    "agent": "another head than Dragstrip",
    "port": "x-work is",
    "pause": "wrong[_ ]body|differs from the correct",
    "burst": ':reason is "", "OK" is expected',
    "together": "date is missing",
    "idle": None,
    "priority": None,
}


@contextmanager
def connected(served: Entry, **load: object) -> Iterator[tuple[RaceSetup, LaunchedServer]]:
    """A server that is up, and connected to the engine as for a race."""
    lanes = machine.lanes(None, None)
    request = Request(entries=(served,), workload=load_workload("hello"))
    asked = replace(load_of(request, lanes), **load)  # type: ignore[arg-type]
    with race_setup(request.workload, asked, lanes, seed=1) as setup, Servers(setup.engine) as servers:
        launched = servers.add(setup.launch(served))
        launched.session = setup.connect(launched)
        yield setup, launched


def ad_hoc(cheat: str) -> Entry:
    return serve_entry(f"{cheat}={PYTHON} {HERE}/servers/cheats.py {{port}} {cheat}")


@pytest.mark.parametrize("keepalive", [True, False], ids=["kept", "closing"])
@pytest.mark.parametrize(
    ("cheat", "words"),
    [
        ("connections", 'content-type is missing, "text/plain" is expected; the head: HTTP/1.1 200 OK'),
        ("none", ""),
        ("leaves", ""),
    ],
)
def test_a_head_that_changes_under_load_is_named_with_what_was_expected(
    cheat: str, words: str, keepalive: bool
) -> None:
    """Each response is compared, over connections that are kept and over one each."""
    responses = 0
    with connected(ad_hoc(cheat), keepalive=keepalive, connections=32) as (setup, launched):
        while responses <= 100:  # one block, unless other programs take the cores
            (tally,) = setup.engine.run([block_plan(launched.connected(), counted_ns=300_000_000)])
            assert tally.sample.startswith(words)
            assert set(tally.errors) == ({"wrong_head"} if words else set())
            responses += tally.answered + tally.failed


def test_a_server_that_ends_its_connections_and_says_so_is_right() -> None:
    """The last head of each connection says Connection: close, and no other one does."""
    counted_ns, answered = 300_000_000, 0
    with connected(ad_hoc("ends"), connections=2) as (setup, launched):
        while answered < 150:  # one block, unless other programs take the cores
            (tally,) = setup.engine.run([block_plan(launched.connected(), counted_ns=counted_ns)])
            counted_ns, answered = 2 * counted_ns, tally.answered
            assert tally.errors == {}
    # The last fifty of each connection may not be over.
    assert tally.connects >= tally.answered // 50 - 2 > 0


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_ten_of_twelve_cheats_are_out_and_each_reason_says_what_came(tmp_path: Path) -> None:
    """One race of all of them beside two honest servers, which end it with a verdict."""
    assert set(TOLD) == set(cheats_race.cheats())
    out = cheats_race.race([*cheats_race.HONEST, *TOLD], tmp_path)
    assert [out[name] for name in cheats_race.HONEST] == ["", ""]
    seen = {name: reason for name, reason in out.items() if name in TOLD}
    assert {name for name, reason in seen.items() if not reason} == set(cheats_race.UNSEEN)
    assert not {name: seen[name] for name, words in TOLD.items() if words and not re.search(words, seen[name])}
    assert len(cheats_race.table(out).splitlines()) == 4 + len(TOLD)
