"""Addresses drawn from a template: which, how many, always the same of a seed; what makes no sense is refused."""

from __future__ import annotations

import re

import pytest

from dragstrip.errors import BadUsage
from dragstrip.loading.url_template import drawn


def paths(template: str, count: int | None = None, seed: int = 1) -> list[str]:
    """What is drawn, as text."""
    return [request.path or "" for request in drawn(template, count=count, seed=seed)]


def test_a_small_range_is_drawn_whole_once_each_in_random_order() -> None:
    """So each is asked for equally often, and another seed has another order."""
    values = paths("/item/{int:1..1000}")
    assert values != (ordered := [f"/item/{number}" for number in range(1, 1001)])
    assert sorted(values) == sorted(ordered)
    assert (values == paths("/item/{int:1..1000}"), values == paths("/item/{int:1..1000}", seed=2)) == (True, False)


def test_of_a_large_range_so_many_different_ones_are_drawn() -> None:
    """Each within the range, none twice, about evenly."""
    values = [int(path.removeprefix("/")) for path in paths("/{int:5..999999999999999999}", count=4000)]
    assert len(set(values)) == len(values) == 4000
    assert min(values) >= 5
    assert 1800 < sum(number < 5 * 10**17 for number in values) < 2200


def test_several_places_are_drawn_each_for_itself() -> None:
    """Braces doubled stand for themselves."""
    values = paths("/{choice:a,b,}/{{{text:8}}}?n={int:7..7}", count=500)
    assert len(set(values)) == 500
    assert all(re.fullmatch(r"/[ab]?/\{[a-z0-9]{8}\}\?n=7", path) for path in values)
    assert sorted(paths("/{choice:a,b}{int:1..2}")) == ["/a1", "/a2", "/b1", "/b2"]


def test_a_sequence_keeps_its_order_and_its_cycle() -> None:
    """Alone it is drawn once; beside a random place as many whole rounds as there is room for."""
    assert paths("/{seq:8..11}") == ["/8", "/9", "/10", "/11"]
    assert paths("/{seq:1..2}/{seq:1..3}") == ["/1/1", "/2/2", "/1/3", "/2/1", "/1/2", "/2/3"]
    values = paths("/{seq:1..3}/{text:4}", count=100)
    assert (len(values), len(set(values))) == (99, 99)
    assert [path[1] for path in values] == ["1", "2", "3"] * 33


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("/plain", "has no placeholder"),
        ("item/{int:1..2}", "start with /"),
        ("/a b/{int:1..2}", "percent-encode"),
        ("/{choice:a,\u00e9}", "percent-encode"),
        ("/{int:9..1}", "smaller number first"),
        ("/{int}", "has no valid range; use {int:1..1000}"),
        ("/{seq:a..b}", "has no valid range; use {seq:1..1000}"),
        ("/{choice:a}", "two different texts"),
        ("/{choice:a,a}", "two different texts"),
        ("/{text:0}", "1 to 1,024"),
        ("/{text:}", "1 to 1,024"),
        ("/{uuid}", "not a valid placeholder; use {int:1..1000}, {choice:a,b}, {text:8} or {seq:1..1000}"),
        ("/{int:1..2", "write {{"),
        ("/}{int:1..2}", "write }}"),
        ("/{seq:1..2000}", "give --urls 2000"),
    ],
)
def test_a_template_that_makes_no_sense_is_refused(template: str, message: str) -> None:
    """In words that name the template and what would do."""
    with pytest.raises(BadUsage, match=re.escape(message)) as refused:
        drawn(template)
    assert repr(template) in str(refused.value)


@pytest.mark.parametrize("count", [0, 10_001])
def test_a_count_of_addresses_has_bounds(count: int) -> None:
    """Each costs memory, and two plain requests."""
    with pytest.raises(BadUsage, match="give 1 to 10,000"):
        drawn("/{int:1..2}", count=count)
