"""Requests of several kinds, answers by status alone, and answers that come too early, as the engine judges them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dragstrip._engine import BlockPlan, Engine, Exchange, ReferenceServer, SessionPlan, Tally, Target
from dragstrip.errors import EngineError

BODY = b"hello world\n"
REQUEST = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 1024\r\n\r\n" + bytes(1024)
SECOND_NS = 10**9


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = ReferenceServer([0])
    yield server.port
    server.stop()


def run(port: int, exchanges: list[Exchange], io: str = "auto", count: int = 3000, **how: object) -> Tally:
    """Sends this many requests over four connections."""
    engine = Engine([0], io=io)
    try:
        plan = SessionPlan(
            Target("127.0.0.1", port), exchanges, connections=4, keepalive=True, timeout_ns=SECOND_NS,
            **how,  # type: ignore[arg-type]
        )  # fmt: skip
        (tally,) = engine.run([BlockPlan(engine.open(plan), counted_ns=60 * SECOND_NS, max_requests=count)])
        return tally
    finally:
        engine.shutdown()


@pytest.mark.parametrize("io", ["auto", "epoll"])
@pytest.mark.parametrize("pipelining", [1, 16])
def test_a_sequence_sends_each_kind_as_often_as_it_says(port: int, io: str, pipelining: int) -> None:
    """Every answer is one of its kind: counts, latencies and histograms add up to the whole."""
    exchanges = [Exchange(REQUEST, 200, BODY, kind=0), Exchange(POST, 200, BODY, kind=1)]
    tally = run(port, exchanges, io, sequence=[0, 1, 0], pipelining=pipelining)
    assert [(kind.requests, kind.failed) for kind in tally.kinds] == [(2000, 0), (1000, 0)]
    assert sum(kind.latency_sum_ns for kind in tally.kinds) == tally.latency_sum_ns
    assert all(kind.latency_hdr for kind in tally.kinds)
    assert (tally.answered, tally.failed, tally.errors) == (3000, 0, {})


@pytest.mark.parametrize("pipelining", [1, 16])
def test_what_goes_wrong_is_counted_for_its_kind(port: int, pipelining: int) -> None:
    """The second kind's right answer is another one."""
    exchanges = [Exchange(REQUEST, 200, BODY, kind=0), Exchange(REQUEST, 404, b"", kind=1)]
    tally = run(port, exchanges, sequence=[0, 0, 0, 1], count=400, pipelining=pipelining)
    assert [(kind.requests, kind.failed) for kind in tally.kinds] == [(300, 0), (0, 100)]
    assert tally.errors == {"wrong_status": 100}


def test_one_kind_is_not_counted_twice(port: int) -> None:
    """As in every load of before."""
    assert run(port, [Exchange(REQUEST, 200, BODY)]).kinds == []


def test_any_body_of_the_right_status_is_right_where_nobody_knows_it(port: int) -> None:
    """And another status is as wrong as ever."""
    assert run(port, [Exchange(REQUEST, 200, b"", any_body=True)]).errors == {}
    assert run(port, [Exchange(REQUEST, 404, b"", any_body=True)], count=10).errors == {"wrong_status": 10}
    same, longer = b"x" * len(BODY), b"x" * (len(BODY) + 1)
    assert run(port, [Exchange(REQUEST, 200, same, any_body=True)]).errors == {}
    assert run(port, [Exchange(REQUEST, 200, longer, any_body=True)], count=10).errors == {"wrong_length": 10}


@pytest.mark.parametrize("how", [{}, {"pipelining": 16}])
def test_an_answer_that_comes_too_early_is_wrong(port: int, how: dict[str, object]) -> None:
    """Its bytes are right; it says how long it took."""
    tally = run(port, [Exchange(REQUEST, 200, BODY, earliest_ns=SECOND_NS)], count=100, **how)
    assert (tally.requests, tally.failed, tally.errors) == (0, 100, {"too_early": 100})
    assert "before 1000.00 ms" in tally.sample
    assert run(port, [Exchange(REQUEST, 200, BODY, earliest_ns=1)], count=100, **how).errors == {}


@pytest.mark.parametrize(
    ("exchanges", "how", "words"),
    [
        ([Exchange(REQUEST, 200, BODY)], {"sequence": [1]}, "sequence: 1 given of 1 exchanges"),
        ([Exchange(REQUEST, 200, BODY, kind=1)], {}, "exchanges: kinds up to 1 given"),
        ([Exchange(REQUEST, 200, BODY, kind=99)], {}, "exchanges: kinds up to 99 given"),
    ],
)
def test_what_makes_no_sense_is_refused(
    port: int, exchanges: list[Exchange], how: dict[str, object], words: str
) -> None:
    """In words of the plan."""
    with pytest.raises(EngineError, match=words):
        run(port, exchanges, **how)
