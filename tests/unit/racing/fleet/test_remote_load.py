"""``dragstrip load --fleet``: what is sent to generators, what comes back, and what is refused."""

from __future__ import annotations

import base64
import json
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram

from dragstrip.contender import AllowedHost
from dragstrip.errors import BadUsage
from dragstrip.loading.arrivals import Offer, Step
from dragstrip.loading.request import LoadRequest
from dragstrip.loading.request_pool import Asked
from dragstrip.loading.result import Slice
from dragstrip.racing.fleet import remote_load
from dragstrip.racing.fleet.messages import LoadSlice
from dragstrip.racing.fleet.sent import request_of, request_values

#: As ``Machines`` for what is looked at before anything is sent.
MACHINES: Any = SimpleNamespace(server=SimpleNamespace(machine=SimpleNamespace(address="192.168.7.2")))


def histogram(*latencies_ns: int) -> str:
    made = HdrHistogram(512, 60_000_000_000, 3)
    for latency_ns in latencies_ns:
        made.record_value(latency_ns)
    return str(made.encode().decode())


def part(*latencies_ns: int, **more: Any) -> LoadSlice:
    """As it comes from an agent."""
    values: dict[str, Any] = {
        **dict.fromkeys(LoadSlice.model_fields, 0), "errors": {}, "statuses": {"200": len(latencies_ns)}, "samples": {},
        "requests": len(latencies_ns), "latency_hdr": histogram(*latencies_ns), "connect_hdr": "", "first_byte_hdr": "",
        "gave_up": False, "lag_hdr": None, "latency_sent_hdr": None, "offered": None, "unsent": None, "departed": None,
        "lag_p99_ns": None,
    }  # fmt: skip
    return LoadSlice.model_validate(values | more)


def test_what_load_asks_for_arrives_as_it_was_sent() -> None:
    """Any bytes, nested values, and JSON between: nothing of it may be another there."""
    asked = LoadRequest(
        url="http://192.168.7.2/", body=bytes(range(256)), headers=(("a", "b"),),
        offer=Offer(steps=(Step(from_per_s=1.0, to_per_s=2.5, length_s=3.0),), arrivals="poisson", seed=5),
        pool=(Asked(raw=b"\xff\x00"), Asked(path="/x", answer=b"\xfe", headers=(("c", "d"),))),
        allowed=(AllowedHost(name="lab", rate_per_s=None),),
    )  # fmt: skip
    assert request_of(json.loads(json.dumps(request_values(asked)))) == asked


def test_a_slice_over_the_wire_has_all_that_a_slice_has() -> None:
    """A counter that the engine gains must be sent, too."""
    assert {field.name for field in fields(Slice)} == set(LoadSlice.model_fields)


def test_two_generators_seconds_become_one() -> None:
    """Counts, statuses and errors add up; the histogram holds both; begins are told by this machine's clock."""
    one = part(1000, 2000, started_ns=7_000, counted_ns=10, errors={"reset": 1}, samples={"reset": "first"}, offered=4)
    two = part(900_000, started_ns=90_500, counted_ns=12, errors={"reset": 2, "timeout": 1}, offered=5)
    both = remote_load.merge([(one, 0), (two, 80_000)])
    assert (both.requests, both.offered, both.counted_ns, both.started_ns) == (3, 9, 12, 7_000)
    assert (both.errors, both.statuses, both.samples) == ({"reset": 3, "timeout": 1}, {200: 3}, {"reset": "first"})
    whole = HdrHistogram.decode(base64.b64encode(both.latency_hdr))
    assert whole.get_total_count() == 3
    assert both.max_ns == pytest.approx(900_000, rel=1e-3)
    assert not both.gave_up
    assert both.lag_hdr is None


@pytest.mark.parametrize(
    ("url", "more", "told"),
    [
        ("http://127.0.0.1:80/", {}, "each generator would load itself; give the server's own address, as 192.168.7.2"),
        ("http://192.168.7.3/", {}, "say --allow-host NAME"),
        ("http://192.168.7.2/", {"requests": 100}, "-n and --fleet contradict each other"),
        ("http://192.168.7.2/", {"unix": "/x"}, "--unix and --fleet contradict each other"),
        ("http://192.168.7.2/", {"sources": 4}, "--sources and --fleet contradict each other"),
        ("http://192.168.7.2/", {"duration_s": 3601.0}, "over a fleet give at most 3600 s"),
    ],
)
def test_what_several_machines_cannot_do_is_refused(url: str, more: dict[str, Any], told: str) -> None:
    """Before anything is sent, and with what would do."""
    with pytest.raises(BadUsage) as refused:
        remote_load._allowed(MACHINES, LoadRequest(url=url, **more))
    assert told in str(refused.value)


def test_the_servers_machine_needs_no_leave_and_another_is_held_to_its_bounds() -> None:
    """A machine of the fleet is the user's own; a host that was named is offered a moderate rate."""
    own, _ = remote_load._allowed(MACHINES, LoadRequest(url="http://192.168.7.2/", connections=5000, duration_s=600.0))
    assert own.offer is None
    named = LoadRequest(url="http://lab/", allowed=(AllowedHost(name="lab"),))
    bounded, to = remote_load._allowed(MACHINES, named)
    assert bounded.offer is not None
    assert to.host == "lab"
