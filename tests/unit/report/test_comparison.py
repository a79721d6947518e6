"""Two stored races compared: what differs is said, the interval holds, the exit code follows the interval."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import samples
from click.testing import CliRunner
from scipy import stats

from dragstrip.analysis import factor_within, round_numbers
from dragstrip.analysis.comparison import compare, joined, welch_half
from dragstrip.commands.main import cli
from dragstrip.errors import BadUsage, StoreError
from dragstrip.record import Ending, Race
from dragstrip.report import comparison
from dragstrip.report.comparison import ComparisonReport
from dragstrip.store.database import Store

BASE = {"yardstick": 50_000.0, "mine": 30_000.0}
SLOWER = BASE | {"mine": 27_000.0}


def fixed(rates: dict[str, float], *, seed: int, rounds: int = 12, noise: float = 0.01, **changes: object) -> Race:
    """A race whose number of rounds was fixed; ``mine`` is a command of one's own."""
    race = samples.race(rates, seed=seed, rounds=rounds, passes=3, noise=noise, **changes)
    entrants = tuple(replace(e, kind="serve") if e.name == "mine" else e for e in race.entrants)
    return samples.changed(race, plan=replace(race.plan, rounds_fixed=True), entrants=entrants)


def test_fixed_races_are_compared_by_welchs_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers as scipy's Welch t-test on the rounds' logarithms, if races don't differ."""
    monkeypatch.setattr("dragstrip.analysis.comparison.BETWEEN_RACES", 0.0)
    old, new = fixed({"mine": 30_000.0}, seed=1), fixed({"mine": 29_000.0}, seed=2, rounds=15)
    (change,) = compare(old, new).changes
    logs = [np.log(round_numbers(race).totals[:, 0]) for race in (new, old)]
    welch = stats.ttest_ind(*logs, equal_var=False).confidence_interval(0.95)
    assert math.log(change.low) == pytest.approx(welch.low)
    assert math.log(change.high) == pytest.approx(welch.high)
    assert (change.rounds_old, change.rounds_new, change.against) == (12, 15, "")
    assert compare(old, new).fixed


def test_a_contender_that_did_not_change_takes_the_machines_change_out() -> None:
    """Everything runs 20 % slower today; mine is the same, and only the reference's drift says so."""
    old, new = fixed(BASE, seed=1), fixed({name: 0.8 * rate for name, rate in BASE.items()}, seed=2)
    found = compare(old, new, margin=0.05)
    assert found.reference == "yardstick"
    assert [change.name for change in found.changes] == ["mine"]
    assert found.changes[0].verdict == "same"
    assert found.drift is not None
    assert found.drift.ratio == pytest.approx(0.8, rel=0.02)
    alone = compare(old, new, margin=0.05, reference="")
    assert {change.name: change.verdict for change in alone.changes} == {"yardstick": "slower", "mine": "slower"}
    assert "machine's own change" in comparison.design(alone)


def test_a_race_that_stopped_by_what_it_saw_gets_a_wider_interval() -> None:
    """Its own anytime-valid half-widths are added up; a fixed race of the same numbers is narrower."""
    races = [fixed(BASE, seed=seed) for seed in (1, 2)]
    loose = [samples.changed(race, plan=replace(race.plan, rounds_fixed=False, planned_rounds=500)) for race in races]
    tight, wide = compare(*races).changes[0], compare(*loose).changes[0]
    assert wide.low < tight.low < tight.ratio < tight.high < wide.high
    assert wide.ratio == pytest.approx(tight.ratio)


def test_too_few_launches_give_no_interval_and_say_so() -> None:
    """Below ten rounds of either, or a fixed race cut off, nothing is decided."""
    old, few = fixed(BASE, seed=1), fixed(BASE, seed=2, rounds=6)
    (change,) = compare(old, few).changes
    assert change.verdict == "undecided"
    assert not change.interval.bounded
    assert "10 rounds" in comparison.sentence(change, "throughput")
    cut = samples.changed(old, plan=replace(old.plan, planned_rounds=40))
    assert "interrupted" in comparison.sentence(compare(old, replace(cut, id="f" * 12)).changes[0], "throughput")


@pytest.mark.parametrize("rounds", [10, 15, 30, 60])
@pytest.mark.parametrize("sd", [0.003, 0.01, 0.03])
def test_equal_contenders_are_called_different_in_at_most_five_of_a_hundred(rounds: int, sd: float) -> None:
    """Two races of the same server, each off by 0.4 %: with the luck of 3000 comparisons."""
    rng, wrong = np.random.default_rng(rounds), 0
    for _ in range(3000):
        old, new = (rng.normal(0, sd, rounds) + rng.normal(0, 0.004) for _ in range(2))
        wrong += abs(new.mean() - old.mean()) > welch_half(old, new, 0.05)
    assert wrong <= 3000 * 0.05 + 3 * math.sqrt(3000 * 0.05 * 0.95)


@pytest.mark.parametrize("sd", [0.003, 0.01, 0.03])
def test_so_are_contenders_of_races_that_stopped_by_what_they_saw(sd: float) -> None:
    """Each race ends at the round at which its own mean was furthest from the truth."""
    rng, wrong, looks = np.random.default_rng(7), 0, np.arange(10, 61)
    factors = np.array([factor_within(int(n), 0.025, 60) for n in looks])
    for _ in range(1000):
        means, halves = [], []
        for towards in (-1, 1):
            logs = rng.normal(0, sd, 60)
            sums, squares = logs.cumsum()[9:], (logs**2).cumsum()[9:]
            mean, error = sums / looks, np.sqrt((squares - sums**2 / looks) / (looks - 1) / looks)
            worst = int((towards * mean / error).argmax())
            means.append(mean[worst] + rng.normal(0, 0.004))
            halves.append(factors[worst] * error[worst])
        wrong += abs(means[1] - means[0]) > joined(halves, 0.05)
    assert wrong <= 1000 * 0.05 + 3 * math.sqrt(1000 * 0.05 * 0.95)


def test_a_contender_without_a_verdict_in_one_race_gets_none_here() -> None:
    """The load generator was its limit, then or now, or the reference's: neither "same" nor a number to test."""
    old, new = (fixed(BASE, seed=seed) for seed in (1, 2))
    for who in BASE:
        for races in ((_limited(old, who), new), (old, _limited(new, who))):
            found = compare(*races, metric="throughput", margin=0.1)
            (change,) = found.changes
            assert (change.name, change.verdict, change.interval.bounded) == ("mine", "undecided", False)
            assert "load generator" in comparison.sentence(change, "throughput")
            assert comparison.judge(found, [("slower:3%", "slower", 0.03)])[0].outcome == "open"
    assert compare(old, new, metric="throughput", margin=0.1).changes[0].verdict == "same"


def _limited(race: Race, name: str) -> Race:
    """The race with the generator full and this contender's server half idle."""
    full = {"engine_cpu_ns": 25 * samples.MS, "server_cpu_ns": 17 * samples.MS}
    blocks = (
        (replace(block, **full) if block.contender == name else block for block in round_.blocks)  # type: ignore[arg-type]
        for round_ in race.rounds
    )
    return replace(
        race, rounds=tuple(replace(one, blocks=tuple(each)) for one, each in zip(race.rounds, blocks, strict=True))
    )


def test_races_that_were_decided_before_the_tenth_round_have_an_interval() -> None:
    """At least as wide as an early pair's on either side, and wide enough for the truth."""
    early = [fixed({"yardstick": 50_000.0, "mine": 25_000.0}, seed=seed, rounds=6) for seed in (1, 2)]
    early = [samples.changed(race, plan=replace(race.plan, rounds_fixed=False, planned_rounds=30)) for race in early]
    (change,) = compare(*early).changes
    assert change.low < 1 / 1.1 < 1.1 < change.high
    assert change.verdict == "undecided"
    (change,) = compare(replace(early[0], rounds=early[0].rounds[:4]), early[1]).changes
    assert not change.interval.bounded


def test_what_can_not_be_compared_is_named() -> None:
    """Another processor, load or workload blocks; a kernel is a caveat; a version is a change."""
    old = fixed(BASE, seed=1)
    new = fixed(BASE, seed=2)
    for other, word in (
        (replace(new, machine=replace(new.machine, cpu="Another CPU")), "Another CPU"),
        (samples.changed(new, load=replace(new.load, connections=64)), "connections: 32, then 64"),
        (samples.changed(new, workload="multiply"), "multiply"),
        (replace(new, server_cores=(1, 2)), "server cores"),
    ):
        found = compare(old, other)
        assert not found.comparable
        assert word in next(comparison.difference_text(one) for one in found.unlike if one.weight == "blocks")
    mild = compare(old, replace(new, machine=replace(new.machine, kernel="Linux 9")))
    assert mild.comparable
    assert [one.weight for one in mild.unlike] == ["caveat"]
    moved = samples.changed(new, entrants=tuple(replace(e, version="2.0") for e in new.entrants))
    found = compare(old, moved)
    assert found.reference is None
    assert {one.weight for one in found.unlike} == {"change"}


WORKLOAD: dict[str, Any] = {
    "name": "shop",
    "title": "a shop",
    "request": {"path": "/", "headers": {"Authorization": f"masked: {'0' * 32}:{'0' * 64}"}},
    "answer": {"compare": "values", "changing": ["/at"], "body": '{"id": 1, "at": 5}'},
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"request": {**WORKLOAD["request"], "method": "POST"}}, ["shop, method: GET, then POST"]),
        ({"request": {**WORKLOAD["request"], "path": "/a"}}, ["shop, path: /, then /a"]),
        ({"request": {**WORKLOAD["request"], "body": "x"}}, ["shop, body: none, then x"]),
        (
            {"request": {"path": "/"}},
            ["shop, headers: authorization: «masked», then none"],
        ),
        ({"answer": {**WORKLOAD["answer"], "status": 201}}, ["shop, expected status: 200, then 201"]),
        (
            {"answer": {**WORKLOAD["answer"], "body": '{"at": 7, "id": 22}'}},
            ['shop, expected response: {"id": 1}, then {"id": 22}'],
        ),
        ({"load": {"connections": 4}}, ['shop, load: {}, then {"load": {"connections": 4}}']),
        # Values that change, another salt, and another form are no differences; nor is a title.
        (
            {
                "title": "the shop",
                "request": {"path": "/", "headers": {"authorization": f"masked: {'1' * 32}:{'1' * 64}"}},
                "answer": {**WORKLOAD["answer"], "changing": ["/at", "/id"], "body": '{"at": 7, "id": 22}'},
            },
            [],
        ),
    ],
)
def test_one_name_of_two_requests_is_not_compared(change: dict[str, Any], said: list[str]) -> None:
    """Records hold the definitions: what differs is named."""
    old = fixed(BASE, seed=1, workload="shop", definition=json.dumps(WORKLOAD))
    found = compare(old, fixed(BASE, seed=2, workload="shop", definition=json.dumps(WORKLOAD | change)))
    assert found.comparable is not bool(said)
    assert [comparison.difference_text(one) for one in found.unlike] == [f"workload {text}" for text in said]


def test_less_compared_is_a_caveat_and_a_long_response_is_shown_where_it_differs() -> None:
    """As is a record without its definition."""
    old = fixed(BASE, seed=1, workload="shop", definition=json.dumps(WORKLOAD))
    assert compare(old, fixed(BASE, seed=2, workload="shop")).unlike == ()
    plain = [json.dumps(WORKLOAD | {"answer": {"body": f"{'x' * 200}{end}"}}) for end in "ab"]
    a, b = (fixed(BASE, seed=3 + at, workload="shop", definition=text) for at, text in enumerate(plain))
    (one,) = compare(a, b).unlike
    assert comparison.difference_text(one) == f"workload shop, expected response: …{'x' * 20}a, then …{'x' * 20}b"
    less = json.dumps(WORKLOAD | {"answer": {"compare": "status"}})
    found = compare(old, fixed(BASE, seed=5, workload="shop", definition=less))
    assert [*map(comparison.difference_text, found.unlike)] == ["workload shop, compared: values, then status"]
    assert found.comparable


def test_one_race_with_itself_and_strangers_are_refused() -> None:
    """Each with what would do."""
    old = fixed(BASE, seed=1)
    with pytest.raises(BadUsage, match="itself"):
        compare(old, old)
    with pytest.raises(BadUsage, match="share no contender"):
        compare(old, samples.race({"x": 1e4, "y": 2e4}, seed=3))
    with pytest.raises(BadUsage, match="reference 'nobody'"):
        compare(old, fixed(BASE, seed=2), reference="nobody")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "races.sqlite"
    hostile = "<script>alert(1)</script>|`x`"
    out = {"mine": "body differs\x1b[2J"}
    with Store(path) as kept:
        kept.begin(fixed(BASE, seed=1))
        kept.begin(fixed(BASE, seed=2))
        kept.begin(fixed(SLOWER, seed=3))
        kept.begin(samples.changed(fixed(BASE, seed=4), load=replace(samples.race().load, timeout_ns=9)))
        kept.begin(fixed({"yardstick": 50_000.0, "other": 9_000.0}, seed=5, out=out))
        kept.begin(fixed(BASE | {hostile: 20_000.0}, seed=6))
        kept.begin(fixed(BASE | {hostile: 20_000.0}, seed=7))
        kept.begin(replace(fixed(BASE, seed=8), finished=Ending.VOID))
        kept.begin(fixed(BASE, seed=9, rounds=5))
    return path


def id_of(seed: int) -> str:
    return f"{seed:012x}"


def run(store: Path, *words: str) -> tuple[int, str]:
    done = CliRunner(catch_exceptions=False).invoke(cli, ["compare", *words, "--store", str(store)])
    return done.exit_code, done.output


def test_the_exit_code_follows_the_interval(store: Path) -> None:
    """0 for the same server twice, 1 for 10 % less, 3 where nothing can be said; 1 for one that fell out."""
    same, slower, other_load, fallen, few = (id_of(seed) for seed in (2, 3, 4, 5, 9))
    rule = ("--fail-if", "slower:3%")
    assert run(store, id_of(1), same, *rule)[0] == 0
    code, told = run(store, id_of(1), slower, *rule)
    assert (code, "mine is slower by more than 3 %" in told) == (1, True)
    assert run(store, id_of(1), slower)[0] == 0
    assert run(store, id_of(1), slower, "--fail-if", "slower:30%")[0] == 0
    assert run(store, slower, id_of(1), "--fail-if", "faster:3%")[0] == 1
    assert run(store, id_of(1), other_load, *rule)[0] == 3
    assert run(store, id_of(1), other_load, *rule, "--anyway")[0] == 0
    assert run(store, id_of(1), fallen, *rule)[0] == 1
    assert run(store, id_of(1), few, *rule)[0] == 3
    assert run(store, id_of(1), few)[0] == 0


def test_strict_also_fails_where_the_case_is_open(store: Path) -> None:
    """A threshold within the interval is neither shown nor ruled out."""
    edge = ("--fail-if", "slower:11%")
    code, told = run(store, id_of(1), id_of(3), *edge)
    assert (code, "can be neither shown nor ruled out" in " ".join(told.split())) == (0, True)
    assert run(store, id_of(1), id_of(3), *edge, "--strict")[0] == 1


def test_a_void_race_is_compared_with_nothing(store: Path) -> None:
    """It ends with 3, whichever side it is on."""
    from dragstrip.errors import MeasurementVoid

    for words in ((id_of(1), id_of(8)), (id_of(8), id_of(1))):
        with pytest.raises(MeasurementVoid, match="void"):
            run(store, *words)


def test_an_exported_file_is_compared_like_a_stored_race(store: Path, tmp_path: Path) -> None:
    """The baseline of a CI job is a file; a damaged one is refused."""
    with Store(store) as kept:
        kept.export_race(id_of(1), tmp_path / "base.race")
    assert run(store, str(tmp_path / "base.race"), id_of(3), "--fail-if", "slower:3%")[0] == 1
    (tmp_path / "bad.race").write_bytes(b"nothing")
    with pytest.raises(StoreError, match=r"bad\.race"):
        run(store, str(tmp_path / "bad.race"), id_of(3))


def test_json_and_markdown_say_the_same_and_escape_what_came_from_outside(store: Path) -> None:
    """No tag, no cell and no code of a contender's name gets through."""
    _, told = run(store, id_of(6), id_of(7), "--fail-if", "slower:3%", "--json", "-")
    made = json.loads(told)
    assert made["reference"] in ("yardstick", "<script>alert(1)</script>|`x`")
    assert {change["verdict"] for change in made["changes"]} <= {"same", "undecided", "faster", "slower"}
    _, text = run(store, id_of(6), id_of(7), "--reference", "yardstick", "--markdown", "-")
    assert "<script>" not in text
    assert r"&lt;script&gt;alert(1)&lt;/script&gt;\|\`x\`" in text
    _, shown = run(store, id_of(1), id_of(5))
    assert "\x1b[2J" not in shown
    assert r"\x1b[2J" in shown


def test_thresholds_become_a_test_report(store: Path, tmp_path: Path) -> None:
    """One case per threshold and contender: the one that is shown has failed."""
    junitparser = pytest.importorskip("junitparser")
    run(store, id_of(1), id_of(3), "--fail-if", "slower:3%", "--junit", str(tmp_path / "c.xml"))
    (suite,) = list(junitparser.JUnitXml.fromfile(str(tmp_path / "c.xml")))
    assert (suite.tests, suite.failures) == (1, 1)
    assert "slower by more than 3 %" in next(iter(suite)).result[0].message


def test_a_very_disturbed_machine_is_told_beside_the_ratios() -> None:
    """Two races don't share what others did; of quiet ones nothing is said."""
    quiet = samples.race(rounds=12)
    blocks = [tuple(replace(b, engine_wait_ns=14 * samples.MS) for b in one.blocks) for one in quiet.rounds]
    rounds = tuple(replace(one, blocks=each) for one, each in zip(quiet.rounds, blocks, strict=True))
    loud = replace(quiet, id="00000000000a", rounds=rounds)
    assert comparison.disturbance(quiet, quiet) == ""
    for before, after in ((quiet, loud), (loud, quiet), (loud, loud)):
        assert "very disturbed: others took" in comparison.disturbance(before, after)
    found, told = compare(quiet, loud), comparison.disturbance(quiet, loud)
    assert "race both versions in one race" in comparison.markdown(
        ComparisonReport(comparison=found, compared=True, disturbed=told)
    )
    assert "disturbed" not in comparison.markdown(ComparisonReport(comparison=found, compared=True))
