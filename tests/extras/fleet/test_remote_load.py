"""``dragstrip load --fleet``: what is sent to generators, what comes back, and what is refused."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, fields
from types import SimpleNamespace
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram
from pydantic import ValidationError

from dragstrip.contender import AllowedHost
from dragstrip.errors import BadUsage
from dragstrip.extras.fleet import remote_load
from dragstrip.extras.fleet.generator_duties import GeneratorDuties
from dragstrip.extras.fleet.messages import LoadRan
from dragstrip.extras.fleet.wire import decode_arguments, encode_call, shapes
from dragstrip.loading.arrivals import Offer, OfferStep
from dragstrip.loading.learn import given_response
from dragstrip.loading.request import LoadRequest, ScriptFile
from dragstrip.loading.request_pool import PoolRequest
from dragstrip.loading.result import Slice
from dragstrip.record import LoadEnding

#: As ``Machines`` for what is looked at before anything is sent.
MACHINES: Any = SimpleNamespace(
    server=SimpleNamespace(machine=SimpleNamespace(address="192.168.7.2")),
    generators=[SimpleNamespace(name=name) for name in ("one", "two", "three")],
)
URL = "http://192.168.7.2/"


def histogram(*latencies_ns: int) -> bytes:
    made = HdrHistogram(512, 60_000_000_000, 3)
    for latency_ns in latencies_ns:
        made.record_value(latency_ns)
    return base64.b64decode(made.encode())


def part(*latencies_ns: int, **more: Any) -> Slice:
    """One second of a generator's load."""
    values: dict[str, Any] = {
        **{field.name: 0 for field in fields(Slice)}, "errors": {}, "statuses": {200: len(latencies_ns)}, "samples": {},
        "sample": "", "requests": len(latencies_ns), "latency_hdr": histogram(*latencies_ns), "connect_hdr": b"",
        "first_byte_hdr": b"", "gave_up": False, "lag_hdr": None, "latency_sent_hdr": None, "offered": None,
        "unsent": None, "departed": None, "lag_p99_ns": None,
    }  # fmt: skip
    return Slice(**(values | more))


def test_what_load_asks_for_arrives_as_it_was_sent() -> None:
    """Any bytes, nested values, and JSON between: nothing of it may be another there."""
    asked = LoadRequest(
        url="http://192.168.7.2/", body=bytes(range(256)), headers=(("a", "b"),),
        offer=Offer(steps=(OfferStep(from_per_s=1.0, to_per_s=2.5, length_s=3.0),), arrivals="poisson", seed=5),
        script=ScriptFile(name="s.lua", source=b"-- \xff\n", args=("a", "")),
        pool=(PoolRequest(raw=b"\xff\x00"), PoolRequest(path="/x", answer=b"\xfe", headers=(("c", "d"),))),
        allowed=(AllowedHost(name="lab", rate_per_s=None),),
    )  # fmt: skip
    arguments: dict[str, Any] = {"request": asked, "cacert": None, "turns": (0, 1), "script_threads": (0, 1)}
    line = encode_call(7, GeneratorDuties.ready_load, arguments)
    assert decode_arguments(GeneratorDuties.ready_load, json.loads(line)["with"]) == arguments


def test_a_slice_over_the_wire_is_what_was_sent() -> None:
    """A counter that the engine gains is sent, too."""
    reply = shapes(GeneratorDuties.load).shown
    assert reply is not None
    sent = part(1000, 2000, errors={"reset": 1}, samples={"reset": "why"}, lag_hdr=histogram(5), offered=3)
    shown: Any = reply.model_validate_json(reply(id=7, shows=sent).model_dump_json())
    assert shown.shows == sent


def test_two_generators_seconds_become_one() -> None:
    """Counts, statuses and errors add up; the histogram holds both; begins are given by this machine's clock."""
    one = part(1000, 2000, started_ns=7_000, counted_ns=10, errors={"reset": 1}, samples={"reset": "first"}, offered=4)
    two = part(900_000, started_ns=90_500, counted_ns=12, errors={"reset": 2, "timeout": 1}, offered=5)
    both = remote_load.merged_second([(one, 0), (two, 80_000)])
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
        ("http://127.0.0.1:80/", {}, "would load itself; give the server's own address, 192.168.7.2"),
        (
            "http://192.168.7.3/",
            {},
            "192.168.7.3 is not the address of the servers' machine; give that, 192.168.7.2, or",
        ),
        ("http://server:80/", {}, "add --allow-host server if you may load it"),
        ("192.168.7.2:80", {}, "use http://192.168.7.2:80/"),
        (URL, {"requests": 8}, "-n 8: each of 3 generators sends 2 reference requests first"),
        (URL, {"requests": 8}, "and then sends at least one; give 9 or more"),
        (URL, {"requests": 2, "check": "status"}, "-n 2: each of 3 generators sends at least one; give 3 or more"),
        (
            "http://192.168.7.2/",
            {"unix": "/x"},
            "--unix and --fleet contradict each other: a socket file can't be reached",
        ),
        ("http://192.168.7.2/", {"sources": 4}, "--sources and --fleet contradict each other"),
        ("http://192.168.7.2/", {"duration_s": 3601.0}, "over a fleet, give at most 3600 s"),
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


@pytest.mark.parametrize(("requests", "connections"), [(9, 3), (1000, 32), (1001, 7), (10**15, 32)])
def test_a_count_is_split_exactly_with_each_generators_plain_requests(requests: int, connections: int) -> None:
    """All shares add up to the count; two differ by at most one; no generator has an idle connection."""
    asked = LoadRequest(url=URL, requests=requests, connections=connections)
    split = remote_load.parts(asked, 3)
    counts = [part.requests or 0 for part in split]
    assert sum(counts) == requests
    assert max(counts) - min(counts) <= 1
    assert sum(part.connections for part in split) == connections
    assert all(part.connections <= count - part.plain for part, count in zip(split, counts, strict=True))


def test_a_schedule_with_a_count_ends_at_one_number_for_all() -> None:
    """Each generator takes its turns of one schedule, and all get the end of the whole schedule."""
    asked = LoadRequest(url=URL, requests=1000, offer=Offer(rate_per_s=50.0))
    assert [part.requests for part in remote_load.parts(asked, 3)] == [1000 - 3 * 2 + 2] * 3


def test_no_connection_is_opened_that_a_count_has_no_request_for() -> None:
    """Nine requests are six plain ones and three others."""
    few, notes = remote_load._no_idle_connections(LoadRequest(url=URL, requests=9), 3)
    assert few.connections == 3
    assert notes == ["-c 32: 3 opened, enough for -n 9"]
    enough = LoadRequest(url=URL, requests=38)
    assert remote_load._no_idle_connections(enough, 3) == (enough, [])


def told(*parts: tuple[int, int]) -> list[list[int]]:
    """What was shown, by how much each second sent; each part is a generator's number and how much it sent."""
    shown = list[list[int]]()
    with remote_load.Seconds([0, 0], lambda done: shown.append([second.sent for second in done])) as seconds:
        for generator, sent in parts:
            seconds.take(generator, part(1000, sent=sent))
    seconds.take(0, part(1000))  # over: nothing more is shown
    return shown


def test_a_second_is_shown_once_every_generator_has_told_its_part() -> None:
    """Their sum, in whatever order they come."""
    assert told((0, 1), (1, 10), (1, 20), (0, 2)) == [[11], [11, 22]]


def test_a_generator_that_is_done_or_late_keeps_no_second_from_being_shown() -> None:
    """The next second of another shows it; what comes late is put in its place."""
    assert told((0, 1), (1, 10), (0, 2), (0, 3), (0, 4)) == [[11], [11, 2], [11, 2, 3]]
    assert told((0, 1), (0, 2), (1, 10)) == [[1], [11]]


@pytest.mark.parametrize("wrong", [{"sent": -1}, {"statuses": {20: 1}}, {"errors": {"reset": -1}}, {"sent": 2**63}, {}])
def test_a_part_that_no_generator_of_ours_shows_is_refused(wrong: dict[str, Any]) -> None:
    """It is held to the model of a second, and its counts to what can be counted."""
    reply = shapes(GeneratorDuties.load).shown
    assert reply is not None
    shows = {"id": 7, "shows": asdict(part(1000)) | wrong if wrong else {"sent": 5}}
    text = json.dumps(shows, default=lambda value: base64.b64encode(value).decode())
    with pytest.raises(ValidationError):
        reply.model_validate_json(text)


@pytest.mark.parametrize(("body_bytes", "valid"), [(0, True), (64 * 2**20, True), (64 * 2**20 + 1, False), (-1, False)])
def test_no_more_memory_is_taken_for_a_body_than_a_generator_may_learn(body_bytes: int, valid: bool) -> None:
    """A hostile generator could otherwise ask for any amount of the client's memory by one number."""
    reply = shapes(GeneratorDuties.ready_load).reply
    gives = {
        "learned": asdict(given_response(200, b"")), "body_bytes": body_bytes, "connections": 1, "cores": [0],
        "by_length": False, "any_body": False, "plain_statuses": {"200": 2}, "notes": [], "doubts": [], "io": "",
        "backend": "epoll", "stamps": "user", "script": None,
    }  # fmt: skip
    text = json.dumps({"id": 7, "gives": gives}, default=lambda value: base64.b64encode(value).decode())
    if not valid:
        with pytest.raises(ValidationError, match="body_bytes"):
            reply.model_validate_json(text)
        return
    assert reply.model_validate_json(text).gives.body_bytes == body_bytes


def ran(finished: str, *slices: Slice) -> LoadRan:
    return LoadRan.model_construct(finished=LoadEnding(finished), slices=list(slices))


@pytest.mark.parametrize(
    ("ends", "requests", "told"),
    [
        (("duration", "duration"), None, "duration"),
        (("gave up", "duration"), None, "duration"),
        (("gave up", "gave up"), None, "gave up"),
        (("count", "count"), 24, "count"),
        (("count", "gave up"), 25, "gave up"),
        (("count", "duration"), 25, "duration"),
    ],
)
def test_what_ended_a_run_of_several_generators(ends: tuple[str, ...], requests: int | None, told: str) -> None:
    """A count is reached or missed by all that was sent; by time the run goes on while anybody loads."""
    parts = [ran(end, part(1000, sent=10)) for end in ends]
    assert remote_load._finished(LoadRequest(url=URL, requests=requests), parts) == told


def test_a_run_lasts_as_long_as_the_generator_that_loaded_longest() -> None:
    """Their seconds end at different times: the longest of each, added up, would be longer than anybody loaded."""
    one = [part(1000, counted_ns=13, duration_ns=13), part(1000, counted_ns=7, duration_ns=9)]
    two = [part(1000, counted_ns=7, duration_ns=7), part(1000, counted_ns=12, duration_ns=12)]
    longer = [*two, part(1000, counted_ns=5, duration_ns=6)]
    equal = list(remote_load._seconds([ran("duration", *one), ran("duration", *two)], [0, 0]))
    assert [(each.counted_ns, each.duration_ns, each.requests) for each in equal] == [(13, 13, 2), (7, 9, 2)]
    apart = list(remote_load._seconds([ran("count", *one), ran("count", *longer)], [0, 0]))
    assert [(each.counted_ns, each.requests) for each in apart] == [(13, 2), (7, 2), (4, 1)]


def test_a_generator_that_lost_its_connections_is_named() -> None:
    """If others went on; if all ended early, the report has a sentence for that."""
    generators: Any = MACHINES.generators[:2]
    (note,) = remote_load._left_early(generators, [ran("duration"), ran("gave up")])
    assert note.startswith("two ended early, without a connection")
    assert remote_load._left_early(generators, [ran("gave up"), ran("gave up")]) == []
