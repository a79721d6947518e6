"""What a race over several machines says of their links: each fault planted in the events that such a race leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest
import samples

from dragstrip import validity
from dragstrip.record import Event, EventKind, Race
from dragstrip.validity import Check

LASTED_NS = 1_000_000_000


def over(*, split: tuple[float, ...] = (1.0, 1.0), trip_ns: float = 20_000, **server: float) -> Race:
    """A race over a servers' machine and generators, whose round left such events.

    Args:
        split: each generator's answers. trip_ns: of all generators. server: numbers of its link that are as given.
    """
    race = samples.race()
    blocks = [block for this in race.rounds for block in this.blocks]
    loaded = {
        "bytes_in": float(sum(one.bytes_in for one in blocks)), "requests": float(sum(one.sent for one in blocks)),
        "lasted_ns": float(LASTED_NS),
    }  # fmt: skip
    calm = {
        "received_bytes": 1.4 * loaded["bytes_in"], "sent_bytes": 1.2 * loaded["bytes_in"], "segments": 1e6,
        "retransmitted": 10.0, "line_mbps": 100_000.0, "1": 1e7,
    }  # fmt: skip
    events = [Event(at_ns=1, kind=EventKind.LINK, subject="far", numbers={**calm, **loaded, "serves": 1.0, **server})]
    for at, answered in enumerate(split):
        numbers = {"requests": answered, "answered": answered, "sent": answered, "round_trip_ns": trip_ns}
        events.append(Event(at_ns=1, kind=EventKind.GENERATOR, subject=f"near{at}", numbers=numbers))
        own = {**calm, **loaded, "serves": 0.0}
        events.append(Event(at_ns=1, kind=EventKind.LINK, subject=f"near{at}", numbers=own))
    machine = replace(race.machine, fleet={"far": "a b", "near0": "c d"})
    return replace(race, machine=machine, events=(*race.events, *events))


def links(race: Race) -> list[Check]:
    return [one for one in validity.inspect(race) if one.name == "links"]


def test_a_race_on_one_machine_has_no_such_check() -> None:
    assert links(samples.race()) == []


def test_calm_links_pass_and_say_what_was_seen() -> None:
    (check,) = links(over())
    assert check.status == "pass"
    assert "of their line rate" in check.detail
    assert "round trip 20 µs" in check.detail


def test_a_line_rate_that_no_driver_tells_is_not_guessed() -> None:
    race = over(line_mbps=0.0)
    events = tuple(
        replace(one, numbers={**one.numbers, "line_mbps": 0.0}) if one.kind is EventKind.LINK else one
        for one in race.events
    )
    (check,) = links(replace(race, events=events))
    assert check.status == "pass"
    assert "line rate is unknown" in check.detail


@pytest.mark.parametrize(
    ("planted", "told"),
    [
        ({"line_mbps": 10.0}, "Mbit/s of far's data link, which may set its pace: take a faster link"),
        ({"retransmitted": 5_000.0}, "far retransmitted 0.5 % of its TCP segments: see cables"),
        ({"1": 0.9 * LASTED_NS, "2": 1e6}, "interrupts took 90 % of core 1 of far: spread the link's queues"),
        ({"trip_ns": 1e9}, "the round trip from near0 takes 1,000,000 µs of"),
        ({"split": (1.0, 30.0)}, "generator near0 got 3.2 % of all responses, one of 2: it or its link is slower"),
    ],
)
def test_each_fault_of_a_link_is_named_with_what_to_do(planted: dict[str, float], told: str) -> None:
    (check,) = links(over(**planted))  # type: ignore[arg-type]
    assert check.status == "warn"
    assert told in check.detail, check.detail
