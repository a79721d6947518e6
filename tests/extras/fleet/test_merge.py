"""Several generators' parts of one block become one: counts add up, histograms are added, percentiles never are."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from pydantic import ValidationError

from dragstrip.extras.fleet.generator_duties import GeneratorDuties
from dragstrip.extras.fleet.merging import merge
from dragstrip.extras.fleet.messages import Tallies, Tally, Traffic
from dragstrip.extras.fleet.remote_engine import shares, turns
from dragstrip.extras.fleet.wire import shapes
from dragstrip.record import Block, KindCount

PLAIN = {"contender", "round", "pass_index", "position", "void"}


def histogram(latencies_ns: list[int]) -> bytes:
    """V2 compressed, as the engine makes them; the library gives base64 text."""
    made = HdrHistogram(512, 60_000_000_000, 3)
    for latency_ns in latencies_ns:
        made.record_value(latency_ns)
    return base64.b64decode(made.encode())


def tally(latencies_ns: list[int], **more: object) -> Tally:
    numbers: dict[str, Any] = dict.fromkeys((field.name for field in fields(Tally)), 0)
    values = {
        **numbers, "errors": {}, "gave_up": False, "sample": "", "latency_hdr": histogram(latencies_ns),
        "requests": len(latencies_ns), "latency_sum_ns": sum(latencies_ns), "counted_ns": 25_000_000,
        "duration_ns": 35_000_000, "engine_threads": 1, "lag_hdr": None, "latency_sent_hdr": None, "offered": None,
        "unsent": None, "departed": None, "lag_p99_ns": None, "kinds": [],
    }  # fmt: skip
    return Tally(**(values | more))


def test_a_tally_over_the_wire_has_all_that_a_blocks_record_wants() -> None:
    """A counter that the engine gains must be sent, too."""
    assert {field.name for field in fields(Block)} - PLAIN <= {field.name for field in fields(Tally)}


def over_the_wire(values: dict[str, Any]) -> Any:
    """The tallies that a generator's reply with these values gives."""
    traffic = Traffic(
        lasted_ns=1, received_bytes=2, sent_bytes=3, segments=4, retransmitted=5, line_mbps=6, interrupt_ns={"0": 7}
    )
    reply = shapes(GeneratorDuties.run).reply
    gives = {"tallies": [values], "traffic": traffic.model_dump()}
    text = json.dumps({"id": 7, "gives": gives}, default=lambda value: base64.b64encode(value).decode())
    return reply.model_validate_json(text).gives.tallies


KINDS = [KindCount(requests=1, failed=2, latency_sum_ns=3, latency_hdr=b"\xff")]


def test_a_tally_over_the_wire_is_what_was_sent() -> None:
    """Bytes, errors by kind and counts by kind of request among it."""
    sent = tally([1000, 2000], errors={"reset": 1}, kinds=KINDS, lag_hdr=b"\x00", offered=3, server_cpu_ns=None)
    reply = shapes(GeneratorDuties.run).reply
    traffic = Traffic(
        lasted_ns=1, received_bytes=2, sent_bytes=3, segments=4, retransmitted=5, line_mbps=6, interrupt_ns={"0": 7}
    )
    line = reply(id=7, gives=Tallies(tallies=[sent], traffic=traffic)).model_dump_json()
    assert reply.model_validate_json(line).gives == Tallies(tallies=[sent], traffic=traffic)
    assert over_the_wire(asdict(sent)) == [sent]


@pytest.mark.parametrize(
    "wrong",
    [
        {"sent": -1},
        {"sent": 2**63},
        {"sent": "5"},
        {"sent": True},
        {"sent": 5.0},
        {"offered": -1},
        {"errors": {"reset": -1}},
        {"kinds": [asdict(KINDS[0]) | {"failed": -1}]},
        {"kinds": [asdict(KINDS[0]) | {"more": 1}]},
        {"sample": "x" * 100_001},
        {"latency_hdr": 5},
        {"more": 1},
    ],
)
def test_a_tally_that_no_generator_of_ours_sends_is_refused(wrong: dict[str, Any]) -> None:
    """It has no other keys and types than ours have, and no count that can't be counted."""
    with pytest.raises(ValidationError):
        over_the_wire(asdict(tally([1000], kinds=KINDS)) | wrong)


def test_the_merged_histogram_is_that_of_all_latencies() -> None:
    """Two generators, one of them ten times slower: every quantile is the quantile of all responses together."""
    rng = np.random.default_rng(3)
    parts = [[int(latency_ns) for latency_ns in rng.gamma(4.0, scale, 5000)] for scale in (50_000, 500_000)]
    merged = merge([tally(part, server_cpu_ns=7_000) for part in parts])
    everything = tally([*parts[0], *parts[1]])
    assert merged.requests == 10_000
    assert merged.latency_sum_ns == everything.latency_sum_ns
    alone = merge([everything, tally([])])  # through the same encoder
    assert merged.latency_hdr == alone.latency_hdr
    expected = HdrHistogram(512, 60_000_000_000, 3)
    for latency_ns in (*parts[0], *parts[1]):
        expected.record_value(latency_ns)
    got = (merged.p50_ns, merged.p90_ns, merged.p99_ns, merged.p999_ns, merged.max_ns)
    wanted = tuple(expected.get_value_at_percentile(at) for at in (50, 90, 99, 99.9, 100))
    assert got == pytest.approx(wanted, rel=1e-3)
    # The server was read once, for all: its time is not counted twice; both engines' threads worked.
    assert (merged.server_cpu_ns, merged.engine_threads, merged.counted_ns) == (7_000, 2, 25_000_000)


def test_what_one_did_not_know_is_unknown_and_errors_add_up_by_kind() -> None:
    """Half of a server's reading is none."""
    one = tally([1000], server_cpu_ns=None, errors={"timeout": 1}, gave_up=True, failed=1)
    other = tally([1000], server_cpu_ns=5, errors={"timeout": 2, "reset": 1}, sample="reset by peer", failed=3)
    merged = merge([one, other])
    assert merged.server_cpu_ns is None
    assert merged.errors == {"reset": 1, "timeout": 3}
    assert (merged.failed, merged.gave_up, merged.sample) == (4, False, "reset by peer")


def test_connections_and_turns_are_split_exactly() -> None:
    """32 over 3; and a worker without a connection takes no turn of the schedule."""
    assert shares(32, 3) == (11, 11, 10)
    assert shares(2, 2) == (1, 1)
    assert turns([2, 2], [16, 16]) == ((0, 4), (2, 4))
    assert turns([4, 4], [2, 1]) == ((0, 3), (2, 3))
