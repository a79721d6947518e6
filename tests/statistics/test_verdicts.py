"""The verdict on a pair, by the metric that decides and by others."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import samples
from judging import normal, of_blocks, only, race_of, racing

from dragstrip import analysis
from dragstrip.errors import BadUsage
from dragstrip.report.race.wording import contradiction_text, pauses_text, sentence

MS = samples.MS


def test_a_clear_difference_a_tie_and_a_close_one_get_their_words() -> None:
    """faster and slower by the interval, same by the margin, both at once, and undecided."""
    flat = [0.0] * 20
    cases = {
        ("faster", False): normal(1, 20, 0.005, 0.10),
        ("slower", False): normal(1, 20, 0.005, -0.10),
        ("same", True): normal(1, 20, 0.002),
        ("faster", True): normal(1, 20, 0.001, 0.004),
        ("undecided", False): normal(1, 20, 0.05),
    }
    for (word, within), a in cases.items():
        pair = only(race_of({"a": a, "b": flat}))
        assert (pair.verdict, pair.within_margin) == (word, within)
        assert pair.low < pair.ratio < pair.high


def test_small_differences_are_not_decided_before_the_tenth_round() -> None:
    """The pair has no interval, and the sentence says what is missing."""
    a = normal(1, 10, 0.001, 0.1)
    nine, ten = only(race_of({"a": a[:9], "b": [0.0] * 9})), only(race_of({"a": a, "b": [0.0] * 10}))
    assert (nine.verdict, ten.verdict) == ("undecided", "faster")
    assert math.isnan(nine.low)
    assert math.isnan(nine.high)
    assert "its rounds differ too much among each other for fewer than 10 rounds to decide" in sentence(nine)


@pytest.mark.parametrize("sign", [1, -1])
def test_large_differences_are_decided_from_the_fifth_round_with_a_wide_interval(sign: int) -> None:
    """Not before it; never as the same, however wide the margin; and scatter still counts."""
    a = normal(1, 5, 0.001, sign * math.log(1.25))
    four, five = (only(race_of({"a": a[:n], "b": [0.0] * n})) for n in (4, 5))
    assert (four.verdict, five.verdict) == ("undecided", "faster" if sign > 0 else "slower")
    assert math.isnan(four.low)
    assert five.high / five.ratio == pytest.approx(1.05)
    assert five.ratio / five.low == pytest.approx(1.05)
    scattered = normal(1, 5, 0.05, sign * math.log(1.25))
    assert only(race_of({"a": scattered, "b": [0.0] * 5})).verdict == "undecided"
    alike = race_of({"a": normal(1, 9, 0.001), "b": [0.0] * 9})
    assert analysis.judge(alike, margin=0.5).pairs[0].verdict == "undecided"


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_a_race_that_has_hardly_begun_is_judged_without_complaint(rounds: int) -> None:
    """Undecided, everybody still needed; what there is of numbers is shown."""
    race = race_of({"a": [0.1] * 3, "b": [0.0] * 3})
    race = replace(race, rounds=race.rounds[:rounds])
    judged = analysis.judge_column(race)
    assert [pair.verdict for pair in judged.pairs] == ["undecided"]
    assert analysis.still_needed(judged, race) == {"a", "b"}
    assert judged.groups == ((("a", "b"),) if rounds else ())
    assert sentence(judged.pairs[0])


def test_less_cpu_per_request_is_faster() -> None:
    """The ratio stays a's speed over b's: b spends 1.5 times the CPU of a."""
    rounds = [
        of_blocks(i, [samples.block("a", server_cpu_ns=20 * MS + i), samples.block("b", server_cpu_ns=30 * MS - i)])
        for i in range(12)
    ]
    pair = only(racing("ab", rounds), metric="cpu")
    assert (pair.verdict, pair.metric) == ("faster", "cpu")
    assert pair.ratio == pytest.approx(1.5, rel=1e-5)
    assert sentence(pair).startswith("b needed 1.5000 times the CPU per request of a (1.5000–1.5000, 12 rounds")


def test_cpu_that_cannot_be_read_gives_no_verdict_and_no_number() -> None:
    """An already running server: its throughput still counts."""
    rounds = [of_blocks(i, [samples.block("a", server_cpu_ns=None), samples.block("b")]) for i in range(12)]
    race = racing("ab", rounds)
    pair = only(race, metric="cpu")
    assert (pair.verdict, pair.rounds) == ("undecided", 0)
    assert "readable CPU time" in sentence(pair)
    estimate = analysis.judge(race).column.estimates["a"]
    assert estimate.server_cpu_us_per_request is None
    assert estimate.throughput_per_s is not None


def test_every_other_metric_is_compared_beside_the_one_that_decides() -> None:
    """CPU per request and memory have their own intervals and words; none of them asks for more rounds."""
    rng = np.random.default_rng(31)
    rounds = []
    for index in range(12):
        noise = rng.normal(0, 0.002, 4)
        blocks = [
            samples.block("a", round=index, requests=round(1e5 * math.exp(noise[0])), server_cpu_ns=30 * MS),
            samples.block("b", round=index, requests=round(1e5 * math.exp(noise[1])), server_cpu_ns=20 * MS),
        ]
        peaks = {"a": round(5e7 * math.exp(noise[2])), "b": round(1e7 * math.exp(noise[3]))}
        launches = tuple(samples.launch(name, index, {"peak_memory_bytes": peak}) for name, peak in peaks.items())
        rounds.append(of_blocks(index, blocks, launches=launches))
    judged = analysis.judge_column(racing(["a", "b"], rounds))
    assert (judged.metric, judged.pairs[0].verdict, judged.all_decided) == ("throughput", "same", True)
    (cpu,), (memory,) = judged.beside["cpu"], judged.beside["memory"]
    assert (cpu.verdict, memory.verdict) == ("slower", "slower")
    assert memory.low < 0.2 < memory.high
    assert sentence(memory).startswith("a needed 5.0")
    assert "times the memory of b" in sentence(memory)
    assert analysis.judge(racing(["a", "b"], rounds), metric="memory").pairs == (memory,)


def test_who_serves_more_but_spends_more_is_said() -> None:
    """The faster one by throughput is the dearer by CPU: the reader learns why that can be."""
    noise = np.random.default_rng(32).normal(0, 0.002, (12, 2))
    rounds = [
        of_blocks(
            index,
            [
                samples.block("a", round=index, requests=round(2e5 * math.exp(a)), server_cpu_ns=60 * MS),
                samples.block("b", round=index, requests=round(1e5 * math.exp(b)), server_cpu_ns=20 * MS),
            ],
        )
        for index, (a, b) in enumerate(noise)
    ]
    (found,) = analysis.judge(racing(["a", "b"], rounds)).column.contradictions
    assert (found.ahead, found.behind) == ("a", "b")
    assert contradiction_text(found).startswith("a serves more requests, but b uses less CPU time per request")


def test_typical_judges_by_the_median_over_passes_and_says_that_pauses_are_ignored() -> None:
    """One contender pauses in one of nine passes: slower by its totals, the same by the median over passes."""
    rng = np.random.default_rng(33)
    rounds = []
    for index in range(14):
        noise = rng.normal(0, 0.002, (9, 2))
        blocks = [
            samples.block(
                name,
                round=index,
                pass_index=at,
                requests=round(1e5 * math.exp(noise[at, side]) * (0.5 if (name, at) == ("b", index % 9) else 1)),
            )
            for at in range(9)
            for side, name in enumerate("ab")
        ]
        rounds.append(of_blocks(index, blocks))
    by_totals = only(racing(["a", "b"], rounds))
    race = racing(["a", "b"], rounds, metric="typical-throughput")
    by_median = only(race)
    assert (by_totals.verdict, by_median.verdict) == ("faster", "same")
    assert (by_median.metric, by_median.typical) == ("throughput", True)
    assert "by the median over passes: pauses ignored" in sentence(by_median)
    typical = analysis.judge_column(race)
    assert "ignores pauses" in pauses_text(typical.pauses[0], typical)
    shown = [analysis.judge(race).column.estimates[name].throughput_per_s.estimate for name in "ab"]  # type: ignore[union-attr]
    assert shown[0] == pytest.approx(shown[1], rel=0.01)


@pytest.mark.parametrize("words", [{"metric": "latency"}, {"margin": 0.0}, {"margin": 1.5}, {"alpha": 2.0}])
def test_a_judgement_that_makes_no_sense_is_refused(words: dict[str, object]) -> None:
    """The message says what was given."""
    with pytest.raises(BadUsage, match=str(next(iter(words.values())))):
        analysis.judge(samples.race(rounds=1), **words)  # type: ignore[arg-type]
