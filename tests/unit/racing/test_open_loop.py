"""An open loop: which metric decides, and what warns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import samples

from dragstrip import analysis, validity
from dragstrip.errors import BadUsage
from dragstrip.racing import schedule
from dragstrip.record import Block, Load, Race


def at_one_rate(slower: float = 1.0, **changes: Any) -> Race:
    """A race at 40,000/s in which one contender's latencies are a multiple of the other's."""
    race = samples.race({"quick": 40_000.0, "slow": 40_000.0})
    load = Load(connections=32, threads=1, keepalive=True, timeout_ns=samples.S, rate_per_s=40_000.0)

    def offered(block: Block) -> Block:
        times = slower if block.contender == "slow" else 1.0
        quantiles = {name: round(getattr(block, name) * times) for name in ("p50_ns", "p90_ns", "p99_ns", "p999_ns")}
        lag = {"offered": 1000, "unsent": 0, "departed": 1000, "lag_p99_ns": 40_000}
        of_slow = {key: value for key, value in changes.items() if block.contender == "slow"}
        return replace(block, requests=1000, **{**quantiles, "max_ns": quantiles["p999_ns"], **lag, **of_slow})

    rounds = tuple(replace(this, blocks=tuple(map(offered, this.blocks))) for this in race.rounds)
    return samples.changed(race, load=load, rounds=rounds, plan=replace(race.plan, metric="latency-p99"))


def check_of(race: Race, name: str) -> validity.Check:
    return next(check for check in validity.inspect(race) if check.name == name)


def test_a_latency_quantile_is_judged_by_the_median_over_passes_of_the_ratio() -> None:
    """Twice the latency is half the speed; a quantile with too few responses is not compared."""
    judged = analysis.judge_column(at_one_rate(2.0))
    (pair,) = judged.pairs
    assert (pair.metric, pair.verdict) == ("latency-p99", "faster")
    assert pair.ratio == pytest.approx(2.0, rel=0.02)
    assert judged.estimates["slow"].latency_us["latency-p99"].estimate == pytest.approx(
        2 * judged.estimates["quick"].latency_us["latency-p99"].estimate, rel=0.02
    )
    assert judged.beside["latency-p50"][0].ratio == pytest.approx(2.0, rel=0.02)
    assert judged.beside["latency-p99.9"] == ()  # 1000 responses in a block; it needs 10,000


def test_one_stalled_block_does_not_decide_a_quantile() -> None:
    """The median over a round's passes is the others' median."""
    race = at_one_rate()
    stalled = [
        replace(this, blocks=tuple(replace(b, p99_ns=10**9, p999_ns=10**9, max_ns=10**9) if n == 0 else b
                                   for n, b in enumerate(this.blocks)))
        for this in race.rounds
    ]  # fmt: skip
    (pair,) = analysis.judge(replace(race, rounds=tuple(stalled))).pairs
    assert pair.ratio == pytest.approx(1.0, rel=0.03)


def test_a_closed_loop_has_no_latency_to_compare() -> None:
    """Its quantiles describe its own queue."""
    assert not any(
        analysis.judge(samples.race()).column.beside.get(f"latency-{q}") for q in ("p50", "p90", "p99", "p99.9")
    )
    with pytest.raises(BadUsage, match="--rate auto"):
        schedule.refuse_metric("latency-p99", None)
    schedule.refuse_metric("latency-p99", "auto")
    schedule.refuse_metric("cpu", None)


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({}, "pass", "on time"),
        ({"departed": 985, "unsent": 15}, "warn", "slow: only 98 % of the offered 40,000/s"),
        ({"lag_p99_ns": 150_000}, "warn", "slow: 1 % of its requests left more than 150 µs late"),
    ],
)
def test_a_rate_that_is_not_sustained_and_a_late_engine_warn(changes: dict[str, Any], status: str, words: str) -> None:
    """Checked over all blocks of a contender: dropping slow ones would make it look faster."""
    found = check_of(at_one_rate(**changes), "offered rate")
    assert (found.status, words in found.detail) == (status, True), found.detail


def test_checks_of_a_closed_loop_do_not_judge_an_open_one() -> None:
    """Connections are idle for most of the time, and so are servers: as they should."""
    found = {check.label: check.status for check in validity.inspect(at_one_rate())}
    assert (found["Little's law"], found["turnaround"]) == ("pass", "pass")
    assert "saturation" not in found


def test_half_of_what_the_slowest_serves_and_blocks_long_enough_for_the_quantile() -> None:
    """Rates are rounded to two digits, so that they can be typed again."""
    assert schedule.rate("auto", {"a": 31_234.5, "b": 9_876.0}) == 4900.0
    assert (schedule.rate(1234.5, {"a": 1.0}), schedule.rate(None, {"a": 1.0})) == (1234.5, 0.0)
    assert schedule.long_enough(25 * samples.MS, "latency-p99", 20_000.0) == 50 * samples.MS
    assert schedule.long_enough(25 * samples.MS, "latency-p99.9", 20_000.0) == 500 * samples.MS
    assert schedule.long_enough(25 * samples.MS, "throughput", 0.0) == 25 * samples.MS
