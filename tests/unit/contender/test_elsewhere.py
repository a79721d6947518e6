"""Whose server may be loaded: this machine's own, and a host that was named, within its bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragstrip import contender
from dragstrip.contender import AllowedHost, allowed_host
from dragstrip.errors import BadUsage
from dragstrip.loading import request as loading
from dragstrip.loading.arrivals import Offer
from dragstrip.racing.request import Request
from dragstrip.workload import load as load_workload

SHIPPED = Path(contender.__file__).parents[1] / "data" / "contenders"


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("lab.example", (256, 10_000.0, 60.0)),
        ("Lab.Example:connections=500", (500, 10_000.0, 60.0)),
        ("192.0.2.1:rate=20000,time=5m", (256, 20_000.0, 300.0)),
        ("lab:rate=any,connections=1,time=30", (1, None, 30.0)),
    ],
)
def test_a_host_has_bounds_unless_others_are_typed(text: str, bounds: tuple[int, float | None, float]) -> None:
    """Each behind its name; times in s, m or h."""
    host = allowed_host(text)
    assert (host.connections, host.rate_per_s, host.time_s) == bounds
    assert host.name == text.partition(":")[0].lower()


@pytest.mark.parametrize("text", ["", "a b", "lab:", "lab:rate=", "lab:rate=0", "lab:threads=2", "lab:time=1d", "-lab"])
def test_a_bound_that_there_is_not_is_refused(text: str) -> None:
    """Said is what would do."""
    with pytest.raises(BadUsage, match="--allow-host"):
        allowed_host(text)


def bounded(url: str, *allowed: str, **more: object) -> loading.LoadRequest:
    hosts = tuple(map(allowed_host, allowed))
    request = loading.LoadRequest(url=url, allowed=hosts, **more)  # type: ignore[arg-type]
    return loading.bounded(request, loading.target(url, allowed=hosts))


def test_a_host_that_nobody_named_is_not_loaded() -> None:
    """Nor one that is named alike; this machine needs no leave."""
    for allowed in ((), ("other.example",), ("lab.example.com",)):
        with pytest.raises(BadUsage, match=r"not an address of this machine.*--allow-host"):
            bounded("http://lab.example/", *allowed)
    request = bounded("http://127.0.0.1:8080/", connections=5000)
    assert request.offer is None


def test_what_is_asked_of_a_host_elsewhere_stays_within_its_bounds() -> None:
    """Without a word a moderate rate is offered; each bound is refused by name, with the word that raises it."""
    usual = bounded("http://lab.example/", "lab.example")
    assert usual.offer == Offer(rate_per_s=loading.USUAL_ELSEWHERE_PER_S, usual=True)
    slow = bounded("http://lab.example/", "lab.example:rate=10")
    assert slow.offer == Offer(rate_per_s=10.0, usual=True)
    free = bounded("http://lab.example/", "lab.example:rate=any")
    assert free.offer is None
    for more, word in (
        ({"connections": 300}, "connections=300"),
        ({"duration_s": 90.0}, "time=90"),
        ({"offer": Offer(rate_per_s=20_000.0)}, "rate=20000"),
        ({"offer": Offer(ramp=(1.0, 30_000.0))}, "rate=30000"),
    ):
        with pytest.raises(BadUsage, match=f"lab.example:{word}"):
            bounded("http://lab.example/", "lab.example", **more)
    counted = bounded("http://lab.example/", "lab.example", requests=1000)
    assert counted.duration_s == 60.0


def test_a_race_of_addresses_elsewhere_wants_a_host_without_a_rates_bound() -> None:
    """Its calibration asks as fast as a server answers."""

    def asked(*allowed: AllowedHost) -> Request:
        words = [f"http://{name}/" for name in ("a.example", "b.example")]
        entries = contender.entrants(words, allowed=allowed)
        return Request(entries=entries, workload=load_workload("hello"), allowed=allowed)

    with pytest.raises(BadUsage, match="--allow-host"):
        asked()
    with pytest.raises(BadUsage, match=r"a\.example:rate=any"):
        asked(allowed_host("a.example"), allowed_host("b.example"))
    assert len(asked(allowed_host("a.example:rate=any"), allowed_host("b.example:rate=any")).entries) == 2


def test_no_shipped_definition_listens_where_it_was_not_told() -> None:
    """``{address}`` instead of a literal: else it could not be raced from another machine."""
    literal = {
        str(file.relative_to(SHIPPED))
        for file in SHIPPED.rglob("*")
        if file.is_file() and any(text in file.read_bytes() for text in (b"127.0.0.1", b"0.0.0.0", b":localhost"))
    }
    assert literal == set()
