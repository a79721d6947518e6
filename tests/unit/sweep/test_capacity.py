"""Latency against offered rate: what blocks say of a rate, and where capacity ends."""

from __future__ import annotations

import base64
import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import samples as race_samples
from commands import dragstrip
from hdrh.histogram import HdrHistogram
from samples import voided
from scipy import stats

from dragstrip.commands.sweep import RATES
from dragstrip.metrics import ANSWERS
from dragstrip.report.sweep import as_json, headline
from dragstrip.sweep.capacity import ALPHA, NEAR, STEPS, Objective, Sample, capacity, next_rates, points, ratio_of
from dragstrip.sweep.file import Sweep
from dragstrip.sweep.run import counted_ns, least_rate

HELLO = f"{sys.executable} {Path(__file__).parents[2]}/servers/misbehaving.py {{port}} none"


(WAITED,) = voided("engine waited")


(FULL,) = voided("generator the limit")


SLO = Objective(quantile="p99", limit_us=5000.0)


def histogram(p99_us: float, answers: int = 2000) -> bytes:
    """Most answers quick, one in forty at this latency."""
    made = HdrHistogram(1, 60_000_000_000, 3)
    made.record_value(min(100_000, round(p99_us * 1000)), answers - answers // 40)
    made.record_value(round(p99_us * 1000), answers // 40)
    return base64.b64decode(made.encode())


def samples(rate_per_s: float, p99_us: list[float], **changes: object) -> list[Sample]:
    """One block of each launch at this rate."""
    sample = Sample(
        contender="it",
        rate_per_s=rate_per_s,
        launch=0,
        counted_ns=200_000_000,
        offered=2000,
        departed=2000,
        unsent=0,
        requests=2000,
        answered=2400,
        failed=0,
        errors={},
        latency_hdr=b"",
        lag_p99_ns=30_000,
        server_cpu_ns=24_000_000,
        engine_cpu_ns=10_000_000,
    )
    launched = [replace(sample, launch=index, latency_hdr=histogram(value)) for index, value in enumerate(p99_us)]
    return [replace(launch, **changes) for launch in launched]  # type: ignore[arg-type]


QUICK, SLOW = [900.0, 1000, 1100, 950, 1050], [9000.0, 10000, 11000, 9500, 10500]
WIDE = [3000.0, 9000, 4000, 8000, 5000]


def test_a_rates_interval_is_over_launches_not_over_requests() -> None:
    """The t interval of the launches' log quantiles, each side at one look's share of alpha."""
    (point,) = points(samples(1000, QUICK), SLO)
    logs = np.log(QUICK)
    half = stats.t.ppf(1 - ALPHA / (1 + STEPS), 4) * stats.sem(logs)
    span = point.latency_us["p99"]
    assert span.estimate == pytest.approx(math.exp(logs.mean()), rel=0.002)
    assert (span.low, span.high) == pytest.approx(
        (math.exp(logs.mean() - half), math.exp(logs.mean() + half)), rel=0.01
    )
    assert (point.outcome, point.launches, point.server_cpu_us) == ("met", 5, pytest.approx(10.0))


def test_blocks_of_one_launch_are_one_number() -> None:
    """Twice the blocks of the same launches narrow nothing, and a pause in one of them counts."""
    once = points(samples(1000, QUICK), SLO)[0].latency_us["p99"]
    twice = points(samples(1000, QUICK) + samples(1000, QUICK), SLO)[0].latency_us["p99"]
    assert twice == once
    paused = points(samples(1000, QUICK) + samples(1000, SLOW), SLO)[0]
    assert (paused.launches, paused.outcome) == (5, "missed")


@pytest.mark.parametrize(
    ("p99_us", "changes", "verdict", "words"),
    [
        (SLOW, {}, "missed", "p99 was 9.9"),
        ([3000.0, 9000, 4000, 8000, 5000], {}, "undecided", "too close to call"),
        (QUICK, {"departed": 1960}, "missed", "not sustained, only 98 % left in time"),
        (QUICK, {"failed": 24, "errors": {"reset": 24}}, "missed", "0.99 % failed: 120 reset"),
        (
            QUICK,
            {"void": (WAITED,)},
            "undecided",
            "only 0 of 5 launches count (engine wai",
        ),
        (QUICK, {"generator": FULL}, "met", ""),
        (SLOW, {"generator": FULL}, "undecided", "generator the limit"),
        (QUICK[:2], {}, "undecided", "only 2 of 2 launches count"),
        (QUICK, {"latency_hdr": histogram(1000, 800)}, "undecided", "too few responses to determine p99"),
    ],
)
def test_a_rate_is_met_missed_or_undecided_for_a_reason_in_words(
    p99_us: list[float], changes: dict[str, object], verdict: str, words: str
) -> None:
    """Only a rate that was reached, with answers, on enough launches, whose interval lies below the limit, is met."""
    (point,) = points(samples(1000, p99_us, **changes), SLO)
    why = point.reason.text if point.reason else ""
    assert (point.outcome, words in why) == (verdict, True), why


def test_capacity_counts_upwards_to_the_first_rate_that_is_not_known_to_hold() -> None:
    """A rate that looks well above one that doesn't is chance."""
    measured = points(samples(1000, QUICK) + samples(2000, QUICK) + samples(3000, SLOW) + samples(4000, QUICK), SLO)
    ends = capacity(measured)
    assert (ends.met_per_s, ends.over_per_s) == (2000, 3000)
    assert "2,000/s, and below 3,000/s; at 3,000/s p99 was 9.9" in headline(ends, SLO)
    none = capacity(points(samples(1000, SLOW), SLO))
    assert none.met_per_s is None
    assert "not found; already at 1,000/s p99 was" in headline(none, SLO)
    assert "1,000/s or more" in headline(capacity(points(samples(1000, QUICK), SLO)), SLO)


@pytest.mark.parametrize("truth", [700.0, 2345.0, 9100.0])
def test_bisection_closes_in_on_the_rate_at_which_the_limit_is_passed(truth: float) -> None:
    """From rates that enclose it, or lie on one side of it, within the steps that a sweep has or a few more."""
    rng = np.random.default_rng(1)

    def measured(rate: float) -> list[Sample]:
        level = 5000 * (rate / truth) ** 4
        return samples(rate, list(level * np.exp(rng.normal(0, 0.02, 5))))

    held = [sample for rate in (1000.0, 2000.0, 4000.0, 8000.0) for sample in measured(rate)]
    again: set[float] = set()
    for _ in range(STEPS + 2):
        known = points(held, SLO)
        wanted = next_rates(known, outwards=True, again=again)
        again |= {point.rate_per_s for point in known} & set(wanted)
        held += [replace(s, launch=s.launch + 5 * (s.rate_per_s in again)) for rate in wanted for s in measured(rate)]
    ends = capacity(points(held, SLO))
    assert ends.met_per_s is not None
    assert ends.over_per_s is not None
    assert ends.met_per_s < truth
    assert ends.over_per_s > truth * (1 - NEAR)
    assert ends.width < 0.2


@pytest.mark.parametrize(
    ("first", "other", "bounds"),
    [
        (((1000, QUICK), (2000, SLOW)), ((1000, QUICK), (2000, SLOW)), (0.5, 2.0)),
        (((1000, QUICK), (1100, SLOW)), ((500, QUICK), (550, SLOW)), (500 / 1100, 0.55)),
        (((1000, QUICK),), ((500, QUICK), (550, SLOW)), (0.0, 0.55)),
        (((1000, QUICK), (1100, SLOW)), ((2200, QUICK),), (2.0, math.inf)),
        # Where the objective is only not known to hold, the capacity may be higher.
        (((1000, QUICK), (1100, WIDE)), ((500, QUICK), (550, SLOW)), (0.0, 0.55)),
        (((1000, SLOW),), ((500, QUICK), (550, SLOW)), (0.5, math.inf)),
    ],
)
def test_capacities_are_compared_by_what_is_known_of_both(
    first: tuple[tuple[float, list[float]], ...],
    other: tuple[tuple[float, list[float]], ...],
    bounds: tuple[float, float],
) -> None:
    brackets = [capacity(points([s for rate, p99 in of for s in samples(rate, p99)], SLO)) for of in (other, first)]
    assert ratio_of(*brackets) == pytest.approx(bounds)


def test_a_bracket_that_a_threshold_needs_narrower_is_halved_further() -> None:
    measured = points(samples(1000, QUICK) + samples(1040, SLOW), SLO)
    assert next_rates(measured, outwards=False, again=set()) == ()
    assert next_rates(measured, outwards=False, again=set(), near=0.0) == (1020,)


def test_what_noise_left_open_is_measured_once_more_before_anything_else() -> None:
    """And not a third time; the generator's own limit is not noise."""
    measured = points(samples(1000, QUICK) + samples(2000, WIDE) + samples(4000, SLOW), SLO)
    assert next_rates(measured, outwards=False, again=set()) == (2000,)
    assert next_rates(measured, outwards=False, again={2000.0}) == (1410,)
    full = points(samples(1000, WIDE, generator=FULL), SLO)
    assert next_rates(full, outwards=True, again=set()) == ()


def test_rates_are_named_by_span_list_or_not_at_all() -> None:
    """Evenly spaced, ascending; block lengths give each launch the answers that the quantile wants."""
    assert RATES.convert("1k:4k:4", None, None) == (1000, 2000, 3000, 4000)
    assert RATES.convert("5k,1k", None, None) == (1000, 5000)
    assert RATES.convert("auto", None, None) == ()
    assert counted_ns(1e6, "p99") == 200_000_000
    assert 2 * counted_ns(200.0, "p99") * 200 / 1e9 == pytest.approx(ANSWERS["p99"])
    assert least_rate("p99") == 100


def test_a_rate_too_low_for_its_quantile_is_refused_with_one_that_would_do() -> None:
    """p99 wants a thousand answers of each launch."""
    done = dragstrip("sweep", "--serve", f"one={HELLO}", "--workload", "hello", "--rates", "10,20")
    assert done.returncode == 2
    assert "use 100 per second or more" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--fail-if", "slower:20%"], 1, "fails slower:20%: slow is slower by more than 20 % (quick has 1.67–2.22"),
        (["--fail-if", "faster:20%"], 0, "holds faster:20%: slow is not faster by more than 20 % (quick has 1.67–2.22"),
        (["--fail-if", "slower:45%"], 1, "fails slower:45%"),
        (["--fail-if", "slower:80%"], 0, "open slower:80%: slow: slower by more than 80 % can be neither shown nor"),
        (["--fail-if", "slower:80%", "--strict"], 1, "open slower:80%"),
        (["--strict"], 2, "--strict needs --fail-if"),
    ],
)
def test_a_threshold_is_judged_by_both_capacities(tmp_path: Path, words: list[str], code: int, said: str) -> None:
    """quick holds at 1,000/s and not at 1,100/s, slow at 495/s and not at 600/s."""
    race = race_samples.race({"quick": 4e4, "slow": 3e4}, rounds=1)
    measured = [("quick", 1000, QUICK), ("quick", 1100, SLOW), ("slow", 495, QUICK), ("slow", 600, SLOW)]
    swept = Sweep(
        id="s", seed=1, started=race.started, software="1", workload="hello", load=race.load, objective=SLO, auto=False,
        launches=5, machine=race.machine, server_cores=(1,), engine_cores=(0,), entrants=race.entrants,
        closed_loop_per_s={}, events=(), finished="done",
        samples=tuple(s for name, rate, p99 in measured for s in samples(rate, p99, contender=name)),
    )  # fmt: skip
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps(as_json(swept)))
    done = dragstrip("sweep", "--show", str(path), *words)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize("text", ["[" * 100_000, "null", "{}", '{"schema": 1}', "\udc80"])
def test_a_file_that_holds_no_sweep_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "sweep.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    done = dragstrip("sweep", "--show", str(path))
    assert (done.returncode, "not a file written by `dragstrip sweep`" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("limit_us", [0.0, -1.0, math.nan, math.inf])
def test_a_limit_that_no_latency_has_is_refused(tmp_path: Path, limit_us: float) -> None:
    race = race_samples.race(rounds=1)
    swept = Sweep(
        id="s", seed=1, started=race.started, software="1", workload="hello", load=race.load,
        objective=Objective(quantile="p99", limit_us=limit_us), auto=False, launches=5, machine=race.machine,
        server_cores=(1,), engine_cores=(0,), entrants=race.entrants, closed_loop_per_s={}, events=(), samples=(),
        finished="done",
    )  # fmt: skip
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps(as_json(swept)))
    done = dragstrip("sweep", "--show", str(path))
    assert (done.returncode, "limit_us is" in done.stderr) == (2, True), done.stderr
