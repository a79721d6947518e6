"""A race of several workloads before and between its rounds: what is refused, the next column, and its budget."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import samples

from dragstrip import contender, machine
from dragstrip.errors import BadUsage
from dragstrip.racing import schedule
from dragstrip.racing.launching import Launching
from dragstrip.racing.progress import Silent
from dragstrip.racing.race_loop import RaceLoop
from dragstrip.racing.request import (
    Request,
    refuse_efficiency,
    refuse_pause,
    refuse_unfit_load,
    refuse_workloads,
    request_of,
)
from dragstrip.racing.setup import RaceSetup
from dragstrip.record import Ending, Load, Race
from dragstrip.store.database import Store
from dragstrip.workload import load, several


def asked(*names: str, workloads: str = "hello,multiply", **more: Any) -> Request:
    """A request for these contenders."""
    first, *also = several(workloads)
    entries = tuple(map(contender.entry, names))
    return Request(entries=entries, workload=first, also=tuple(also), **more)


def refused(request: Request) -> str:
    with pytest.raises(BadUsage) as error:
        refuse_workloads(request)
    return str(error.value)


def test_a_workload_wants_two_contenders_and_each_contender_a_workload() -> None:
    """nginx-static supports only hello: it may be left out of multiply if two others support that."""
    refuse_workloads(asked("nginx-lua", "node", "nginx-static"))
    assert "workload multiply: a race needs at least two" in refused(asked("nginx-lua", "nginx-static"))
    assert "nginx-static has no workload 'multiply'" in refused(
        asked("nginx-lua", "node", "nginx-static", workloads="multiply")
    )
    assert "hello is given twice" in refused(asked("nginx-lua", "node", workloads="hello,hello"))
    with pytest.raises(BadUsage, match="unknown workload 'helo'; did you mean hello"):
        several("multiply,helo")


def test_a_file_whose_path_has_a_comma_is_one_workload(tmp_path: Path) -> None:
    """As it always was."""
    file = tmp_path / "a,b.toml"
    file.write_text(load("hello").source.text)
    assert [workload.name for workload in several(str(file))] == ["hello"]


def test_messages_over_websocket_need_http_1_1_and_connections_that_are_kept() -> None:
    """Options of the load that do not suit a workload are refused by name."""
    unfit: list[tuple[dict[str, Any], str]] = [
        ({"keepalive": False}, "leave --no-keepalive out"),
        ({"http": "1.0"}, "leave --http 1.0 out"),
    ]
    for options, told in unfit:
        with pytest.raises(BadUsage, match=f"arena-echo-ws is sent over WebSocket.*{told}"):
            refuse_unfit_load(asked("nginx-return", "node", workloads="arena-echo-ws", **options))
    with pytest.raises(BadUsage, match="leave HTTP/2 of nginx-return:http=2 out"):
        refuse_unfit_load(asked("nginx-return:http=2", "node", workloads="arena-echo-ws"))
    refuse_unfit_load(asked("nginx-return", "node", workloads="arena-echo-ws", rate_per_s=100.0))


def test_efficiency_decides_by_cpu_and_chooses_its_rates_itself() -> None:
    """Another metric, or a rate, is refused by name; the message shows two digits of each rate."""
    assert asked("nginx-lua", "node", efficiency=True).metric == "cpu"
    assert asked("nginx-lua", "node", efficiency=True, metric="typical-auto").metric == "typical-cpu"
    with pytest.raises(BadUsage, match="--efficiency compares CPU per request, not --metric throughput"):
        refuse_efficiency(asked("nginx-lua", "node", efficiency=True, metric="throughput"))
    with pytest.raises(BadUsage, match="leave out --rate"):
        refuse_efficiency(asked("nginx-lua", "node", efficiency=True, rate_per_s=100.0))
    assert schedule.efficiency_rates({"a": 31_234.5, "b": 9_876.0}) == (990.0, 4900.0)


def test_a_race_of_several_is_asked_for_again_as_it_was() -> None:
    """The same workloads, or the same rates: calibration need not come to the same ones."""
    names = ("nginx-return", "nginx-static")
    entries = {name: contender.entry(name) for name in names}

    def known(race: Race) -> Race:
        entrants = tuple(
            replace(samples.entrant(name), kind=one.kind, parameters=dict(one.parameters))
            for name, one in entries.items()
        )
        return samples.changed(race, entrants=entrants, server_cores=(), engine_cores=())

    two = {name: dict.fromkeys(names, 1e4) for name in ("hello", "multiply")}
    again = request_of(known(samples.race_of_two(two)))
    assert [workload.name for workload in again.workloads] == ["hello", "multiply"]
    assert again.offered == {"hello": (0.0,), "multiply": (0.0,)}
    rates = {"500/s": 500.0, "2,500/s": 2500.0}
    again = request_of(known(samples.race_of_two(dict.fromkeys(rates, two["hello"]), per_s=rates)))
    assert ([workload.name for workload in again.workloads], again.offered) == (["hello"], {"hello": (500.0, 2500.0)})
    refuse_efficiency(again)


def test_the_order_of_columns_is_drawn_for_each_turn() -> None:
    """A pure function of seed and turn; every order comes up, and none of it is a round's own."""
    names = ("one", "two", "three")
    orders = [schedule.order_of_columns(7, turn, names) for turn in range(60)]
    assert orders == [schedule.order_of_columns(7, turn, names) for turn in range(60)]
    assert len(set(orders)) == 6
    assert orders != [schedule.order_of_columns(8, turn, names) for turn in range(60)]


def loop_of(race: Race, folder: Path) -> RaceLoop:
    """The loop that would continue a stored race; it runs nothing here, so it needs no engine."""
    lanes = machine.lanes(None, None)
    setup = RaceSetup(
        engine=None,  # type: ignore[arg-type]
        lanes=lanes,
        load=Load(connections=1, threads=1, keepalive=True, timeout_ns=1),
        workload=load("hello"),
        launching=Launching(lanes.server, folder, ExitStack(), race.seed),
        seed=race.seed,
    )
    store = Store(folder / "races.sqlite")
    store.begin(race)
    ready: dict[str, Any] = dict.fromkeys(("quick", "steady", "slow"))
    return RaceLoop(store, Silent(), race, [(setup, ready) for _ in race.columns])


def next_of(loop: RaceLoop) -> str:
    return loop._next(loop._open()).name


def open_race(rounds: Sequence[int], *, budget_s: float = 600.0) -> Race:
    """An undecided race with this many rounds of each column, a second each."""
    alike = {"quick": 3e4, "steady": 3e4, "slow": 3e4}
    race = samples.race_of_two({"hello": alike, "multiply": alike}, rounds=max(rounds), noise=0.1)
    kept = [r for r in race.rounds if r.index // 2 < rounds[r.column]]
    plan = replace(race.plan, planned_rounds=40, budget_s=budget_s)
    rounds_kept = tuple(replace(r, index=at) for at, r in enumerate(kept))
    return samples.changed(race, rounds=rounds_kept, plan=plan, finished=Ending.NONE)


def renumbered(race: Race) -> Race:
    """Parts of a round have its number."""
    return replace(
        race,
        rounds=tuple(
            replace(
                r,
                launches=tuple(replace(launch, round=r.index) for launch in r.launches),
                blocks=tuple(replace(block, round=r.index) for block in r.blocks),
            )
            for r in race.rounds
        ),
    )


def test_the_column_with_the_fewest_rounds_is_next(tmp_path: Path) -> None:
    """Among equals by the drawn order; a void round is run again by its own column."""
    race = renumbered(open_race((5, 7)))
    assert next_of(loop_of(race, tmp_path)) == "hello"
    even = renumbered(open_race((6, 6)))
    (tmp_path / "even").mkdir()
    drawn = schedule.order_of_columns(race.seed, 6, ["hello", "multiply"])[0]
    assert next_of(loop_of(even, tmp_path / "even")) == drawn
    last = even.rounds[-1]
    again = replace(even, rounds=(*even.rounds[:-1], replace(last, void=samples.voided("errors"))))
    (tmp_path / "again").mkdir()
    assert next_of(loop_of(again, tmp_path / "again")) == again.columns[last.column].name


def test_columns_share_what_is_left_of_the_budget_by_how_long_their_rounds_are(tmp_path: Path) -> None:
    """Together all of it; a column that has ended leaves its part to the others."""
    loop = loop_of(renumbered(open_race((10, 10), budget_s=300.0)), tmp_path)
    spent_s = sum(column.spent_s for column in loop.columns)
    assert len(loop._open()) == 2
    assert sum(column.budget_s() for column in loop.columns) == pytest.approx(300.0)
    assert loop.left_s() == pytest.approx(300.0 - spent_s)
    loop.columns[0].spent_s *= 3
    first, second = map(loop.part, loop.columns)
    assert first == pytest.approx(3 * second)
    loop.columns[0].finished = "decided"
    assert loop.part(loop.columns[1]) == 1.0
    assert sum(column.spent_s for column in loop.columns[:1]) + loop.columns[1].budget_s() == pytest.approx(300.0)


def test_a_race_begins_no_round_that_its_budget_does_not_pay_for(tmp_path: Path) -> None:
    """Also not for the tenth round; what one column can't use is left to the other."""
    race = renumbered(open_race((10, 9)))
    spent_s = race.spent_s
    for name, left, goes_on in (("a", 0.9, ["multiply"]), ("b", 0.3, [])):
        (tmp_path / name).mkdir()
        plan = replace(race.plan, budget_s=spent_s + left * spent_s / 19)
        loop = loop_of(samples.changed(race, plan=plan), tmp_path / name)
        assert [column.name for column in loop._open()] == goes_on
        assert loop.columns[0].finished == "budget"


def test_a_default_budget_grows_to_what_ten_rounds_take(tmp_path: Path) -> None:
    """At most five minutes, also read from the store; one that was given stays, and so do the looks' levels."""
    race = renumbered(open_race((4, 4), budget_s=1.0))
    for name, grows, each_s, budget_s in (("a", True, 5, 100), ("b", True, 90, 300), ("c", False, 5, 1)):
        (tmp_path / name).mkdir()
        loop = loop_of(race, tmp_path / name)
        loop.grows = grows
        for column in loop.columns:
            column.spent_s = 4.0 * each_s
        loop._grow(loop.columns)
        with Store(tmp_path / name / "races.sqlite") as store:
            for plan in (loop.race.plan, store.load("last").plan):
                assert (plan.budget_s, plan.planned_rounds, plan.extensions) == (budget_s, 40, ())


def test_a_decided_column_rests_and_the_race_ends_with_its_last_one(tmp_path: Path) -> None:
    """Without a round more: what is decided stays so when a race is resumed."""
    apart, alike = {"quick": 9e4, "steady": 3e4, "slow": 1e4}, {"quick": 3e4, "steady": 3e4, "slow": 3e4}
    race = samples.race_of_two({"hello": apart, "multiply": alike}, noise=0.1, rounds=20)
    open_ = samples.changed(race, plan=replace(race.plan, planned_rounds=40, budget_s=900.0), finished=Ending.NONE)
    loop = loop_of(open_, tmp_path)
    assert [column.name for column in loop._open()] == ["multiply"]
    assert loop.columns[0].finished == "decided"
    done = samples.race_of_two({"hello": apart, "multiply": apart}, rounds=20, seed=9)
    (tmp_path / "done").mkdir()
    ended = loop_of(replace(done, finished=Ending.NONE), tmp_path / "done").drive()
    assert (ended.finished, len(ended.rounds)) == ("decided", 40)
    with Store(tmp_path / "done" / "races.sqlite") as store:
        assert store.load("last").finished == "decided"


def test_who_falls_out_of_one_column_races_on_in_the_other(tmp_path: Path) -> None:
    """In the record and in the store; out of both, it is out of the race."""
    loop = loop_of(renumbered(open_race((4, 4))), tmp_path)
    loop.columns[1].take_out_contenders({"slow": "died under load"}, 8)
    assert not any(entrant.out for entrant in loop.race.entrants)
    assert "slow" in loop.columns[0].contenders
    assert "slow" not in loop.columns[1].contenders
    stored = loop.store.load("last")
    assert [[e.name for e in column.entrants if e.out] for column in stored.columns] == [[], ["slow"]]
    loop.columns[0].take_out_contenders({"slow": "died again"}, 9)
    assert [entrant.name for entrant in loop.race.entrants if entrant.out] == ["slow"]


def test_a_contender_that_no_longer_starts_is_not_in_a_resumed_columns_next_round(tmp_path: Path) -> None:
    """Its pairs are open, so it was needed; the others go on without it."""
    race = renumbered(open_race((4, 4)))
    (column, _) = loop_of(race, tmp_path).columns
    assert "slow" in column.needed
    column.take_out_contenders({"slow": "its port is taken"}, 8)
    latency: Any = SimpleNamespace(calibration=SimpleNamespace(p50_ns=1_000_000))
    column.contenders = dict.fromkeys(column.contenders, latency)
    assert sorted(column.next_round().launches) == ["quick", "steady"]


def test_a_race_pauses_once_every_open_column_has_its_rounds(tmp_path: Path) -> None:
    """It counts as interrupted, so it can be resumed; rounds before the pause were counted before."""
    loop = loop_of(renumbered(open_race((6, 6))), tmp_path)
    loop.pause_after = 5
    for column, steps in zip(loop.columns, (5, 5), strict=True):
        column.steps = steps
    assert loop.drive().finished is Ending.INTERRUPTED
    with Store(tmp_path / "races.sqlite") as store:
        assert store.load("last").finished.goes_on


def test_a_last_round_is_planned_without_the_clock() -> None:
    """With a fixed number of rounds it would mean nothing."""
    with pytest.raises(BadUsage, match="--rounds fixes"):
        refuse_pause(asked("nginx-lua", "node", rounds=20, last_round=80))
    refuse_pause(asked("nginx-lua", "node", last_round=80, pause_after=10))
    with pytest.raises(BadUsage, match="last_round=9: use a whole number from 10"):
        asked("nginx-lua", "node", last_round=9)
