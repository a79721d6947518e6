"""A race of one column from its seed: the order of every launch and block, the rounds, the end and the verdict."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import samples

from dragstrip import analysis, machine
from dragstrip.racing.launching import Launching
from dragstrip.racing.loop import RoundLoop
from dragstrip.racing.progress import Silent
from dragstrip.racing.race_loop import RaceLoop
from dragstrip.racing.round import RoundOutcome, RoundPlan
from dragstrip.racing.setup import RaceSetup
from dragstrip.record import Ending, Event, Load, Plan, Race, Round
from dragstrip.store.database import Store
from dragstrip.workload import load

MS, S = 1_000_000, 1_000_000_000

#: Responses per second of each contender, and the reason why a contender is out in a round.
RATES = {"quick": 40_000.0, "steady": 39_800.0, "slow": 30_000.0, "fragile": 20_000.0}
FALLS, IN_ROUND = "fragile", 6


class Recorder:
    """Plays rounds by their plans without any server, and writes down what each plan asks for."""

    def __init__(self) -> None:
        self.plans: list[RoundPlan] = []

    def run(self, loop: RoundLoop, plan: RoundPlan) -> tuple[RoundOutcome, Sequence[Event]]:
        """One round of known speeds; a second and a half of the budget."""
        self.plans.append(plan)
        loop.spent_s += 1.5
        rng = np.random.default_rng([5, plan.index])
        blocks = tuple(
            samples.block(
                planned.contender,
                round=plan.index,
                pass_index=planned.pass_index,
                position=position,
                lead_ns=planned.lead_ns,
                counted_ns=planned.counted_ns,
                requests=round(RATES[planned.contender] * planned.counted_ns / S * float(np.exp(rng.normal(0, 0.01)))),
            )
            for position, planned in enumerate(plan.blocks)
        )
        void = samples.voided("errors") if plan.index == 3 else ()
        launches = tuple(samples.launch(name, plan.index) for name in plan.launches)
        begin_ns = samples.START_NS + round(plan.index * 1.5 * S)
        record = Round(
            index=plan.index,
            started_ns=begin_ns,
            ended_ns=begin_ns + round(1.5 * S),
            launches=launches,
            blocks=blocks,
            void=void,
        )
        return RoundOutcome(round=record, planned=(), out={FALLS: "died"} if plan.index == IN_ROUND else {}), ()

    def digest(self) -> str:
        """Of every launch and block in order, with their lengths."""
        listed = [
            (p.index, p.launches, [(b.contender, b.pass_index, b.lead_ns, b.counted_ns) for b in p.blocks])
            for p in self.plans
        ]
        return hashlib.sha256(repr(listed).encode()).hexdigest()[:16]


def drive(folder: Path, monkeypatch: pytest.MonkeyPatch, plan: Mapping[str, Any]) -> tuple[Race, Recorder]:
    """A race of one column from its first round to its end."""
    usual: dict[str, Any] = {"lead_ns": 8 * MS, "counted_ns": 20 * MS, "passes": 4, "budget_s": 60.0}
    blocks = {"quick": (4 * MS, 10 * MS, 5), "steady": (8 * MS, 20 * MS, 4), "slow": (8 * MS, 20 * MS, 3)}
    blocks["fragile"] = (8 * MS, 20 * MS, 4)
    race = samples.race(RATES, rounds=0, plan=Plan(**usual | {"blocks": blocks} | plan), finished=Ending.NONE)
    lanes = machine.lanes(None, None)
    setup = RaceSetup(
        engine=None,  # type: ignore[arg-type]
        lanes=lanes,
        load=Load(connections=32, threads=1, keepalive=True, timeout_ns=1),
        workload=load("hello"),
        launching=Launching(lanes.server, folder, ExitStack(), race.seed),
        seed=race.seed,
    )
    ready: dict[str, Any] = {
        name: SimpleNamespace(calibration=SimpleNamespace(p50_ns=round(32 * S / rate))) for name, rate in RATES.items()
    }
    seen = Recorder()
    monkeypatch.setattr(RoundLoop, "_run", lambda loop, round_plan: seen.run(loop, round_plan))
    with Store(folder / "races.sqlite") as store:
        store.begin(race)
        return RaceLoop(store, Silent(), race, [(setup, ready)]).drive(), seen


#: What seeded races of one column do: how they ended, the digest of their plans, and each pair's verdict, ratio and
#: interval, to the last digit.
RECORDED: Sequence[tuple[dict[str, Any], str, int, str, Sequence[tuple[str, str, str, float, float, float]]]] = (
    (
        {"planned_rounds": 30},
        *("decided", 21, "865c89cafb556fb4"),
        (
            ("quick", "steady", "faster", 1.0059624970365144, 1.0016619098212312, 1.0102815486160857),
            ("quick", "slow", "faster", 1.3263916925237107, 1.2347831884006524, 1.4247966270699384),
            ("steady", "slow", "faster", 1.322985816992206, 1.2477347918567996, 1.402775239887206),
        ),
    ),
    (
        {"planned_rounds": 12, "rounds_fixed": True},
        *("rounds", 13, "841d88b97c2f81c2"),
        (
            ("quick", "steady", "faster", 1.0039759601173406, 1.000157771437739, 1.0078087250620171),
            ("quick", "slow", "faster", 1.3310001998483878, 1.3205737797252894, 1.3415089404281335),
            ("steady", "slow", "faster", 1.3257291536072497, 1.3167480989403413, 1.334771464746064),
        ),
    ),
    (
        {"planned_rounds": 40, "budget_s": 12.0, "margin": 0.0005},
        *("budget", 8, "a27272864168aec1"),
        (
            ("quick", "steady", "undecided", 1.0031106230802431, math.nan, math.nan),
            ("quick", "slow", "faster", 1.3291276712770828, 1.2459547191310987, 1.4178527834353523),
            ("steady", "slow", "faster", 1.3244897712933936, 1.261418829803232, 1.3907142598580633),
        ),
    ),
)


@pytest.mark.parametrize(("plan", "finished", "rounds", "digest", "pairs"), RECORDED)
def test_one_column_is_raced_and_judged_as_a_race_of_one_workload_was(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    plan: Mapping[str, Any],
    finished: str,
    rounds: int,
    digest: str,
    pairs: Sequence[tuple[str, str, str, float, float, float]],
) -> None:
    """A void round, a contender that falls out, contenders that rest, and fewer blocks for a short budget included."""
    race, seen = drive(tmp_path, monkeypatch, plan)
    assert (race.finished, len(race.rounds), seen.digest()) == (finished, rounds, digest)
    judged = analysis.judge(race).pairs
    assert [(pair.a, pair.b, pair.verdict) for pair in judged] == [pair[:3] for pair in pairs]
    for pair, (*_, ratio, low, high) in zip(judged, pairs, strict=True):
        assert (pair.ratio, pair.low, pair.high) == pytest.approx((ratio, low, high), rel=1e-12, nan_ok=True)
    with Store(tmp_path / "races.sqlite") as store:
        assert [entrant.name for entrant in store.load("last").entrants if entrant.out] == [FALLS]
