"""What a race says of its database: counts against answers, who kept it how busy, and when it is the limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jsonschema
import pytest
import samples

from dragstrip import analysis, validity
from dragstrip.analysis.fitness import UnfitReason, database_use, lost_shares, unfit
from dragstrip.machine_facts import DatabaseFacts
from dragstrip.record import Race, Void, VoidKind
from dragstrip.report.race import database
from dragstrip.report.race.export import race_json, schema
from dragstrip.report.race.summary import JudgedRace
from dragstrip.store.database import Store
from dragstrip.validity import Check
from dragstrip.validity.messages import void_text

MS = samples.MS
FACTS = DatabaseFacts(
    title="PostgreSQL",
    version="15.18",
    cores=(1,),
    shared=True,
    data="/dev/shm",
    connections=16,
    settings={"fsync": "off"},
)


def asking(*, executed: float = 1.0, cpu: float = 0.4, within: float = 0.02, **changes: Any) -> Race:
    """A race of two servers that ask a database on their own core.

    Args:
        executed: statements per answer. cpu: the share of the blocks' time that the backends worked.
        within: the share of their time that 16 connections were in a statement.
    """
    race = samples.race(**changes)
    rounds = []
    for this in race.rounds:
        launches = []
        for launch in this.launches:
            own = [block for block in this.blocks if block.contender == launch.contender]
            lasted_ns, answered = sum(b.duration_ns for b in own), sum(b.answered for b in own)
            launches.append(
                samples.counted(
                    launch,
                    database_statements=round(executed * answered),
                    database_wanted=float(answered),
                    database_cpu_ns=round(cpu * lasted_ns),
                    database_exec_ns=round(within * 16 * lasted_ns),
                    database_connections=16,
                )
            )
        blocks = tuple(replace(block, server_cpu_ns=round((0.98 - cpu) * block.duration_ns)) for block in this.blocks)
        rounds.append(replace(this, launches=tuple(launches), blocks=blocks))
    return replace(race, rounds=tuple(rounds), machine=replace(race.machine, database=FACTS))


def check_of(race: Race) -> Check:
    (check,) = (one for one in validity.inspect(race) if one.name == "database")
    return check


def test_a_race_without_a_database_has_no_such_check() -> None:
    assert "database" not in {one.name for one in validity.inspect(samples.race())}
    assert database.text(samples.race(), analysis.judge_column(samples.race()), ["quick", "steady"]) == ""


def test_a_clean_race_beside_its_database_passes_every_check_and_tells_both_numbers() -> None:
    """The database's time on the shared core is not a disturbance, and the core counts as busy with both."""
    race = asking()
    checks = validity.inspect(race)
    assert [one.detail for one in checks if one.status != "pass"] == []
    assert unfit(race, "throughput") == {}
    waiting = tuple(
        replace(this, blocks=tuple(replace(b, server_wait_ns=round(0.4 * b.duration_ns)) for b in this.blocks))
        for this in race.rounds
    )
    assert max(lost_shares(replace(race, rounds=waiting), waiting).values()) < 0.01
    told = database.text(race, analysis.judge_column(race), ["quick", "steady"])
    assert told.startswith("PostgreSQL 15.18 on core 1, shared with the servers, at most 40 % busy.")
    use = database_use(race)["quick"]
    assert use.cpu_ns is not None
    assert f"{use.cpu_ns / 1000 / use.answered:.1f}" in told
    jsonschema.validate(race_json(JudgedRace(race, analysis.judge(race), checks)), schema())


@pytest.mark.parametrize("change", [{"cpu": 0.93}, {"within": 0.97}])
def test_a_database_that_can_do_no_more_is_the_limit_and_tells_no_servers_apart(change: dict[str, float]) -> None:
    """By its processor, or by statements that wait: every pair is without a verdict, whatever the metric."""
    race = asking(**change)  # type: ignore[arg-type]
    assert check_of(race).status == "warn"
    assert check_of(race).detail.startswith("the database is the limit: ")
    assert unfit(race, "cpu") == dict.fromkeys(("quick", "steady"), UnfitReason.DATABASE)
    assert {pair.verdict for pair in analysis.judge(race).pairs} == {"undecided"}


@pytest.mark.parametrize(("executed", "status", "word"), [(0.98, "void", "fewer"), (1.05, "warn", "more")])
def test_statements_that_are_not_those_of_the_answers_are_found(executed: float, status: str, word: str) -> None:
    check = check_of(asking(executed=executed))
    assert check.status == status
    assert f", {word} than the " in check.detail


def test_a_void_round_of_the_database_counts_nowhere_and_says_why() -> None:
    race = asking()
    broken = replace(race.rounds[0], void=(Void(kind=VoidKind.DATABASE),))
    before = database_use(race)["quick"].answered
    assert database_use(replace(race, rounds=(broken, *race.rounds[1:])))["quick"].answered < before
    assert void_text(broken.void[0]) == "database: it ended in the round, or could not be started"


def test_what_launches_made_of_the_database_is_stored(tmp_path: Any) -> None:
    race = asking()
    with Store(tmp_path / "races.sqlite") as store:
        store.begin(race)
        assert store.load(race.id).rounds == race.rounds
