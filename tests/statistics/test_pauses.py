"""A contender's own pauses: found, and named."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import samples
from judging import of_blocks, racing

from dragstrip import analysis
from dragstrip.record import Round
from dragstrip.report.race.wording import pauses_text


def test_pauses_of_its_own_count_and_are_named() -> None:
    """a stands still in one block of ten: totals say 10 % slower, the median over passes equal, the note says who."""
    rng = np.random.default_rng(5)
    rounds = []
    for index in range(12):
        pause = rng.integers(10)
        rounds.append(
            of_blocks(
                index,
                [
                    samples.block(name, pass_index=at, requests=1 if name == "a" and at == pause else 1000 + at)
                    for at in range(10)
                    for name in ("a", "b")
                ],
            )
        )
    judged = analysis.judge_column(racing("ab", rounds))
    (pair,) = judged.pairs
    assert pair.ratio == pytest.approx(0.9, rel=0.01)
    assert pair.median_ratio == pytest.approx(1.0, rel=0.001)
    (found,) = judged.pauses
    assert (found.contender, found.least) == ("a", "b")
    assert found.lost == pytest.approx(0.099, abs=5e-4)
    assert pauses_text(found, judged).startswith("a loses 9.9 %")
    assert analysis.judge(samples.race(rounds=12)).column.pauses == ()
    by_cpu = racing("ab", rounds)
    by_cpu = samples.changed(by_cpu, plan=replace(by_cpu.plan, metric="cpu"))
    judged = analysis.judge_column(by_cpu)
    assert "does not include them" in pauses_text(judged.pauses[0], judged)


@pytest.mark.thorough
def test_what_told_two_apart_is_named_as_pauses_in_nine_of_ten_races() -> None:
    """a stands still for 1.5 of 10 blocks in every third round: as soon as that tells them apart, it is named."""
    named = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rounds: list[Round] = []
        while True:
            paused = {0: 1, 1: 500} if rng.random() < 0.3 else {}
            blocks = [
                samples.block(
                    name,
                    pass_index=at,
                    requests=paused[at]
                    if name == "a" and at in paused
                    else round(1000 * math.exp(rng.normal(0, 0.02))),
                )
                for at in range(10)
                for name in ("a", "b")
            ]
            rounds.append(of_blocks(len(rounds), blocks))
            if len(rounds) % 5 or len(rounds) < 10:
                continue
            judged = analysis.judge_column(racing("ab", rounds, planned=300))
            if judged.pairs[0].verdict in ("faster", "slower"):
                break
        named += any(found.contender == "a" for found in judged.pauses)
    assert named >= 18
