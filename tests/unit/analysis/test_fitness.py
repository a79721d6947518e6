"""Which metric decides, who can't be compared, how noisy it was: by the machine's evidence, never by who is faster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import jsonschema
import numpy as np
import pytest
import samples

from dragstrip import analysis, validity
from dragstrip.analysis.fitness import GeneratorLimit, SameRate, UnfitReason, choose, lost_shares, unfit
from dragstrip.analysis.unequal_disturbance import unevenness
from dragstrip.errors import BadUsage
from dragstrip.record import Block, Race
from dragstrip.report.race import notes
from dragstrip.report.race.export import race_json, schema
from dragstrip.report.race.headline import headline
from dragstrip.report.race.summary import JudgedRace
from dragstrip.report.race.wording import metric_reason_text, sentence

MS = samples.MS


def auto(**changes: object) -> Race:
    """A quiet race whose metric was left open."""
    race = samples.race(**changes)  # type: ignore[arg-type]
    return samples.changed(race, plan=replace(race.plan, metric="auto"))


def with_blocks(race: Race, change: Callable[[Block], Block]) -> Race:
    """The race with every block changed, servers of one thread."""
    return replace(
        race,
        rounds=tuple(
            replace(
                this,
                blocks=tuple(map(change, this.blocks)),
                launches=tuple(samples.counted(one, threads=1) for one in this.launches),
            )
            for this in race.rounds
        ),
    )


def taken(share: float) -> Callable[[Block], Block]:
    """Others had the engine's core for this share of every block."""
    return lambda block: replace(block, engine_wait_ns=int(share * block.duration_ns))


def test_on_a_quiet_machine_throughput_decides_without_a_word() -> None:
    """So does a metric that the user named, whatever the machine did."""
    assert choose(auto()).metric == "throughput"
    assert choose(auto()).reason is None
    spoilt = with_blocks(samples.race(), taken(0.4))
    assert choose(spoilt) == choose(spoilt, "throughput")
    assert choose(spoilt).metric == "throughput"
    assert choose(spoilt, "typical-cpu").typical


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (taken(0.2), "other programs kept servers or load generator waiting for 20 % of the time"),
        (lambda b: replace(b, steal_ns=10 * MS), "other programs and the hypervisor kept servers or load"),
        (lambda b: replace(b, engine_cpu_ns=24_500_000, server_cpu_ns=20 * MS), "the load generator, not "),
    ],
)
def test_where_the_machine_spoils_throughput_cpu_per_request_decides(
    change: Callable[[Block], Block], told: str
) -> None:
    """And the reason is part of the verdict."""
    race = with_blocks(auto(), change)
    judged = analysis.judge_column(race)
    assert judged.metric == "cpu"
    assert metric_reason_text(judged.metric_reason).startswith(told)
    assert {pair.metric for pair in judged.pairs} == {"cpu"}


def test_the_choice_is_made_once_by_the_first_ten_valid_rounds() -> None:
    """What comes later changes nothing; before the fifth it is throughput, and nothing is decided."""
    quiet = auto(rounds=14)
    late = replace(quiet, rounds=(*quiet.rounds[:10], *with_blocks(quiet, taken(0.5)).rounds[10:]))
    assert choose(late).metric == "throughput"
    early = replace(quiet, rounds=(*with_blocks(quiet, taken(0.5)).rounds[:10], *quiet.rounds[10:]))
    assert choose(early).metric == "cpu"
    assert choose(replace(early, rounds=early.rounds[:5])).metric == "cpu"
    assert choose(replace(early, rounds=early.rounds[:4])).metric == "throughput"
    assert all(pair.verdict == "undecided" for pair in analysis.judge(replace(early, rounds=early.rounds[:4])).pairs)


def test_later_rounds_and_later_falls_leave_the_choice() -> None:
    """Neither how threads wait later, nor a contender that is out after the tenth round, changes the evidence."""
    names = {"quick": 40_000.0, "steady": 30_000.0, "third": 20_000.0}
    race = samples.race(names, rounds=24, plan=replace(auto().plan, passes=6, planned_rounds=30))
    spoilt = with_blocks(race, lambda block: taken(0.3)(block) if block.contender == "third" else block)
    spoilt = samples.changed(spoilt, plan=replace(race.plan, metric="auto"))
    assert choose(spoilt) == choose(replace(spoilt, rounds=spoilt.rounds[:10]))
    for out_round, entrants in ((20, 3), (10, 3), (9, 2), (5, 2)):
        fallen = (replace(e, out="died", out_round=out_round) if e.name == "third" else e for e in spoilt.entrants)
        metric = choose(samples.changed(spoilt, entrants=tuple(fallen))).metric
        assert metric == ("cpu" if entrants == 3 else "throughput"), out_round
    waiting = replace(
        spoilt,
        rounds=tuple(
            replace(one, blocks=tuple(replace(b, server_wait_ns=b.duration_ns // 2) for b in one.blocks))
            if one.index >= 10
            else one
            for one in spoilt.rounds
        ),
    )
    assert choose(waiting) == choose(spoilt)


def test_an_open_loop_without_one_contenders_cpu_time_gives_it_no_verdict() -> None:
    """The rate that all were offered is not a result, so throughput does not decide instead."""
    race = auto(rounds=12)
    race = samples.changed(race, load=replace(race.load, rate_per_s=10_000.0))
    race = with_blocks(race, lambda block: replace(block, server_cpu_ns=None) if block.contender == "quick" else block)
    verdict = analysis.judge_column(race)
    assert [pair.verdict for pair in verdict.pairs] == ["undecided"]


def test_the_choice_never_looks_at_who_was_faster() -> None:
    """The same machine, any other counts of answers and of CPU time within the server's core: the same metric."""
    for factor in (0.5, 1.0, 1.9):
        race = with_blocks(auto(), lambda b, f=factor: replace(taken(0.2)(b), requests=int(b.requests * f)))
        assert choose(race).metric == "cpu"


def test_cpu_that_can_not_be_read_leaves_throughput() -> None:
    """An address that was already running has no CPU time."""
    race = with_blocks(auto(), lambda b: replace(taken(0.3)(b), server_cpu_ns=None, server_wait_ns=None))
    assert choose(race).metric == "throughput"


def test_an_open_loop_is_decided_by_cpu_per_request() -> None:
    """All are offered the same rate."""
    race = auto()
    offered = samples.changed(race, load=replace(race.load, rate_per_s=1000.0))
    assert (choose(offered).metric, choose(offered).reason) == ("cpu", SameRate())


# --- answers that wait --------------------------------------------------------------------------------------------


def held_back(*names: str) -> Callable[[Block], Block]:
    """The generator was the limit of these contenders."""

    def change(block: Block) -> Block:
        return replace(block, engine_cpu_ns=24_500_000, server_cpu_ns=20 * MS) if block.contender in names else block

    return change


def test_where_answers_wait_a_disturbed_machine_leaves_throughput() -> None:
    """A server that waits uses no CPU time during the wait; if answers don't wait, CPU time decides."""
    waiting = samples.changed(with_blocks(auto(), taken(0.2)), waits=True)
    judged = analysis.judge_column(waiting)
    assert (judged.metric, judged.metric_reason) == ("throughput", None)
    assert {pair.metric for pair in judged.pairs} == {"throughput"}
    working = analysis.judge_column(samples.changed(waiting, waits=False))
    assert working.metric == "cpu"
    assert metric_reason_text(working.metric_reason) == (
        "other programs kept servers or load generator waiting for 20 % of the time"
    )
    assert analysis.round_numbers(waiting).metric == "throughput"
    assert analysis.round_numbers(samples.changed(waiting, waits=False)).metric == "cpu"


def test_where_answers_wait_a_generator_at_its_limit_leaves_those_that_it_does_not_limit() -> None:
    """Two can still be compared by throughput, and the third has no verdict; CPU time would hide who waits."""
    rates = {"held": 44_000.0, "one": 40_000.0, "two": 30_000.0}
    race = samples.changed(with_blocks(auto(rates_per_s=rates, rounds=14), held_back("held")), waits=True)
    judged = analysis.judge_column(race)
    words = {(p.a, p.b): (p.verdict, p.unfit) for p in judged.pairs}
    assert (judged.metric, judged.metric_reason) == ("throughput", None)
    assert words["one", "two"] == ("faster", ())
    assert words["held", "one"] == ("undecided", ((UnfitReason.GENERATOR, ("held",)),))
    assert choose(samples.changed(race, waits=False)).reason == GeneratorLimit(("held",))


def test_where_answers_wait_and_throughput_compares_nobody_cpu_decides_and_says_what_it_hides() -> None:
    """One of two, or two of three, were held back by the generator."""
    two = samples.changed(with_blocks(auto(), held_back("quick")), waits=True)
    rates = {"held": 44_000.0, "one": 40_000.0, "two": 30_000.0}
    three = samples.changed(with_blocks(auto(rates_per_s=rates), held_back("held", "one")), waits=True)
    for race, names in ((two, ("quick",)), (three, ("held", "one"))):
        assert choose(race).metric == "cpu"
        assert choose(race).reason == GeneratorLimit(names, waits=True)
    said = headline(JudgedRace.of(two))
    assert "CPU time per request decides: the load generator, not quick, limited the throughput, so" in said
    assert "a server that handles one wait at a time can't be recognised" in said


def test_who_falls_out_after_the_tenth_round_does_not_change_the_choice() -> None:
    """Who falls out before has no part in it."""
    rates = {"held": 44_000.0, "one": 40_000.0, "two": 30_000.0}
    race = samples.changed(with_blocks(auto(rates_per_s=rates, rounds=14), held_back("held")), waits=True)

    def without_one(at: int) -> Race:
        gone = (replace(e, out="died", out_round=at) if e.name == "one" else e for e in race.entrants)
        return samples.changed(race, entrants=tuple(gone))

    assert [choose(one).metric for one in (race, without_one(12), without_one(4))] == [
        "throughput",
        "throughput",
        "cpu",
    ]


def test_one_block_whose_cpu_time_can_not_be_read_costs_its_round_alone() -> None:
    """As when a cgroup has vanished; the metric stays."""

    def change(block: Block) -> Block:
        lost = (block.round, block.pass_index, block.contender) == (6, 0, "quick")
        held = held_back("quick", "steady")(block)
        return replace(held, server_cpu_ns=None) if lost else held

    (pair,) = analysis.judge(with_blocks(auto(rounds=12), change)).pairs
    assert (pair.metric, pair.rounds) == ("cpu", 11)


def test_at_one_offered_rate_throughput_compares_nobody() -> None:
    """If CPU time can't be read of one, nothing else is left; more rounds would not change that."""
    race = with_blocks(auto(rounds=12), lambda b: replace(b, server_cpu_ns=None) if b.contender == "quick" else b)
    judged = analysis.judge_column(samples.changed(race, load=replace(race.load, rate_per_s=1000.0)))
    assert [(pair.verdict, pair.lasting) for pair in judged.pairs] == [("undecided", True)]
    assert judged.lasting
    assert analysis.still_needed(judged, race) == frozenset()


def test_where_answers_wait_an_open_loop_is_decided_by_cpu_and_says_where_waits_show() -> None:
    """All are offered the same rate: throughput would say nothing."""
    race = samples.changed(auto(), waits=True)
    race = samples.changed(race, load=replace(race.load, rate_per_s=1000.0))
    assert (choose(race).metric, choose(race).reason) == ("cpu", SameRate(waits=True))
    assert choose(samples.changed(race, waits=False)).reason == SameRate()
    assert metric_reason_text(choose(race).reason).endswith("the latencies show how long each one waits")


def test_each_workload_of_several_has_its_own_choice() -> None:
    """On the same disturbed machine: by CPU time where servers work, by throughput where they wait."""
    race = samples.race_of_two()
    race = samples.changed(with_blocks(race, taken(0.2)), plan=replace(race.plan, metric="auto"))
    race = replace(race, columns=(race.columns[0], replace(race.columns[1], waits=True)))
    assert [column.metric for column in analysis.judge(race).columns] == ["cpu", "throughput"]


def test_a_metric_that_there_is_none_of_is_refused() -> None:
    """With those that there are."""
    with pytest.raises(BadUsage, match="auto or throughput"):
        choose(samples.race(), "speed")


def test_one_that_the_generator_holds_back_gets_no_verdict_and_the_others_do() -> None:
    """By throughput only: CPU per request is not changed by a client that can't send more."""
    race = samples.race({"held": 44_000.0, "one": 40_000.0, "two": 30_000.0}, rounds=14)
    race = with_blocks(
        race,
        lambda b: replace(b, engine_cpu_ns=24_500_000, server_cpu_ns=20 * MS) if b.contender == "held" else b,
    )
    assert list(unfit(race, "throughput")) == ["held"]
    assert unfit(race, "cpu") == {}
    words = {(p.a, p.b): (p.verdict, p.unfit) for p in analysis.judge(race).pairs}
    assert words["one", "two"] == ("faster", ())
    assert words["held", "one"] == ("undecided", ((UnfitReason.GENERATOR, ("held",)),))
    assert not validity.is_void(validity.inspect(race))


def test_one_that_still_warms_up_within_the_rounds_gets_no_verdict() -> None:
    """8 % from the first pass to the last, in every round; more rounds show whether noise looked like a rise."""
    race = with_blocks(
        samples.race(passes=6),
        lambda b: replace(b, requests=int(b.requests * (1 + 0.016 * b.pass_index))) if b.contender == "steady" else b,
    )
    assert unfit(race, "throughput") == {"steady": UnfitReason.WARMING}
    (pair,) = analysis.judge(race).pairs
    assert (pair.verdict, pair.unfit) == ("undecided", ((UnfitReason.WARMING, ("steady",)),))
    assert "no verdict, still warming up: steady (so far" in sentence(pair)
    assert analysis.still_needed(analysis.judge_column(race), race) == {entrant.name for entrant in race.entrants}


# --- disturbed unequally ------------------------------------------------------------------------------------------


def test_a_machine_that_takes_from_one_alone_widens_its_pairs_and_is_told() -> None:
    """A tenth of one's time; the other's is left alone."""
    race = samples.race({"hit": 40_000.0, "spared": 40_000.0}, rounds=14)
    hit = with_blocks(race, lambda b: taken(0.1)(b) if b.contender == "hit" else b)
    before, after = (analysis.judge(one, metric="cpu").pairs[0] for one in (race, hit))
    assert (before.disturbed, before.widened) == (None, 0.0)
    assert after.widened == pytest.approx(0.4 * 0.1, rel=0.05)
    assert after.disturbed is not None
    assert (after.disturbed.more, after.disturbed.less) == ("hit", "spared")
    assert after.disturbed.text.startswith("hit was disturbed more than spared")
    assert after.low < before.low / 1.035
    assert lost_shares(hit, hit.rounds)["hit"] == pytest.approx(0.1, abs=5e-3)


AB = ("a", "b")


def test_a_machine_that_takes_from_both_alike_is_not_uneven() -> None:
    """In 300 races of 12 rounds the rule, at three standard errors, speaks in few; a difference is found."""
    rng = np.random.default_rng(4)
    spoke = sum(
        unevenness(AB, *(rng.gamma(4, 0.05, 12) for _ in range(2)), "cpu", 0.01) is not None  # type: ignore[arg-type]
        for _ in range(300)
    )
    assert spoke <= 15
    assert unevenness(AB, rng.gamma(4, 0.05, 12) + 0.4, rng.gamma(4, 0.05, 12), "cpu", 0.01) is not None


@pytest.mark.parametrize("rounds", [4, 5, 6])
def test_few_rounds_name_a_disturbance_of_one_side_and_seldom_one_of_both(rounds: int) -> None:
    """Three standard errors of four differences are passed by chance in 5.8 % of races (Student's t, 3 degrees)."""
    rng = np.random.default_rng(rounds)

    def named(more: float) -> int:
        drawn = ((rng.gamma(16, 0.02, rounds) + more, rng.gamma(16, 0.02, rounds)) for _ in range(400))
        return sum(unevenness(AB, a, b, "throughput", 0.01) is not None for a, b in drawn)

    assert named(0.0) <= 40
    assert named(0.3) >= 300


def test_too_little_to_matter_is_left_out() -> None:
    """A thousandth of the time, for certain, does not move CPU per request by a quarter of the margin."""
    steady = np.full(12, 0.001) + np.linspace(0, 1e-5, 12)
    assert unevenness(AB, steady, np.zeros(12), "cpu", 0.01) is None
    assert unevenness(AB, steady * 20, np.zeros(12), "memory", 0.01) is None


# --- how noisy it was ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "level"), [(0.0, "quiet"), (0.1, "disturbed"), (0.6, "very disturbed")])
def test_the_noise_light_goes_by_the_time_that_the_machine_took(share: float, level: str) -> None:
    """Taken from the engine's core alone: of both, that is half of it. A third of the time is very disturbed."""
    found = validity.noise(with_blocks(samples.race(), taken(share)))
    assert found.level == level
    assert found.lost == pytest.approx(share / 2, abs=5e-3)


def test_the_factor_is_how_much_more_blocks_scatter_than_calm_ones() -> None:
    """Half of the blocks are hit and lose up to half of their answers."""
    rng = np.random.default_rng(2)

    def hit(block: Block) -> Block:
        if rng.random() < 0.5:
            return block
        return replace(taken(0.1)(block), requests=int(block.requests * rng.uniform(0.5, 1.0)))

    found = validity.noise(with_blocks(samples.race(rounds=20), hit))
    assert found.level == "very disturbed"
    assert found.factor is not None
    assert found.factor > 5


@pytest.mark.parametrize(
    "race",
    [
        replace(samples.race(), rounds=()),
        replace(samples.race(), rounds=tuple(replace(r, void=samples.voided("errors")) for r in samples.race().rounds)),
    ],
    ids=["no round", "all void"],
)
def test_how_noisy_it_was_is_unknown_where_nothing_that_counts_tells_it(race: Race) -> None:
    """It is not "quiet", with nothing lost."""
    assert validity.noise(race) == validity.Noise(level="unknown", lost=None, factor=None)
    assert notes.noise_level(race) == notes.NoiseLevel(None, "how disturbed the machine was is unknown")
    exported = race_json(JudgedRace(race, analysis.judge(race)))
    assert exported["noise"] == {"level": "unknown", "lost": None, "factor": None}
    jsonschema.validate(exported, schema())


def test_a_race_whose_lanes_share_a_core_does_not_know_that_its_machine_was_quiet() -> None:
    """Waits are its own there: of its engine, or of its database."""
    race = samples.race()
    assert validity.noise(race).level == "quiet"
    shared = replace(race, engine_cores=race.server_cores)
    assert validity.noise(shared) == validity.Noise(level="unknown", lost=None, factor=None)
