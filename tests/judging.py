"""Races of given numbers, and the judgement on their only pair."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import samples

from dragstrip import analysis
from dragstrip.record import Block, Plan, Race, Round

MS, S = samples.MS, samples.S


def race_of(logs: Mapping[str, Sequence[float]], *, planned: int = 10_000, **plan: object) -> Race:
    """A race of one pass per round whose log throughputs (above 4,000,000/s) are these; NaN: did not run."""
    count = len(next(iter(logs.values())))
    rounds = []
    for index in range(count):
        ran = [name for name, values in logs.items() if not math.isnan(values[index])]
        blocks = [
            samples.block(name, round=index, position=i, requests=round(1e8 * math.exp(logs[name][index])))
            for i, name in enumerate(ran)
        ]
        rounds.append(of_blocks(index, blocks))
    return racing(list(logs), rounds, planned=planned, **plan)


def of_blocks(index: int, blocks: Sequence[Block], **changes: object) -> Round:
    """A round that lasts a second, of these blocks."""
    names = dict.fromkeys(block.contender for block in blocks)
    start = samples.START_NS + index * S
    launches = tuple(samples.launch(name, index) for name in names)
    made = Round(index=index, started_ns=start, ended_ns=start + S, launches=launches, blocks=tuple(blocks))
    return replace(made, **changes)  # type: ignore[arg-type]


def racing(names: Sequence[str], rounds: Sequence[Round], *, planned: int = 10_000, **plan: object) -> Race:
    """A race of these rounds; by default its plan is too long to reach the last round."""
    passes = max((block.pass_index + 1 for this in rounds for block in this.blocks), default=1)
    usual = {"lead_ns": 10 * MS, "counted_ns": 25 * MS, "passes": passes, "budget_s": 60.0, "planned_rounds": planned}
    return replace(samples.race(dict.fromkeys(names, 1e4), rounds=0, plan=Plan(**(usual | plan))), rounds=tuple(rounds))


def normal(seed: int, count: int, sd: float = 0.01, mean: float = 0.0) -> list[float]:
    """Fixed normal numbers."""
    return list(np.random.default_rng(seed).normal(mean, sd, count))


def only(race: Race, **words: object) -> analysis.Pair:
    """The one pair of a race of two."""
    (pair,) = analysis.judge(race, **words).pairs  # type: ignore[arg-type]
    return pair
