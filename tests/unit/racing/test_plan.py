"""From calibration to the plan: its budget and its lengths."""

from __future__ import annotations

from typing import Any

import pytest

from dragstrip import contender
from dragstrip.contender import AllowedHost
from dragstrip.racing import schedule
from dragstrip.racing.calibration import Calibration
from dragstrip.racing.columns import plan_of, plans_of
from dragstrip.racing.qualification import Qualification, Qualified
from dragstrip.racing.request import Request
from dragstrip.record import Load, Plan
from dragstrip.workload import load

NAMES = ("nginx-return", "node")


def qualified(launch_s: float) -> Qualification:
    """Two contenders, with their total time to launch and warm up."""
    calibration = Calibration(
        p50_ns=500_000, capacity_per_s=1e4, launch_s=launch_s / 2, block_factor=1, restless=False
    )  # fmt: skip
    return Qualification(
        tuple(
            Qualified(entry=contender.entry(name), version="1", key=None, facts={}, calibration=calibration)
            for name in NAMES
        )
    )


def asked(**more: Any) -> Request:
    """A request for both."""
    return Request(entries=tuple(map(contender.entry, NAMES)), workload=load("hello"), **more)


LOAD = Load(connections=32, threads=1, keepalive=True, timeout_ns=2 * 10**9)


def plan(launch_s: float, columns: int = 1, **more: Any) -> Plan:
    """The plan of such a race."""
    return plan_of(asked(**more), qualified(launch_s), LOAD, columns=columns)


def test_a_race_without_a_budget_has_time_for_ten_rounds() -> None:
    """A minute if the rounds fit into it; otherwise what they take, up to five minutes."""
    assert plan(0.5).budget_s == schedule.USUAL_S
    slow = plan(15.0)
    assert slow.budget_s == 210.0
    assert schedule.MIN_ROUNDS * (15.0 + schedule.loaded_s(slow.blocks)) <= 210.0
    assert plan(200.0).budget_s == schedule.MAX_USUAL_S


@pytest.mark.parametrize("more", [{"budget_s": 45.0}, {"rounds": 20}], ids=str)
def test_a_budget_that_was_given_and_a_fixed_number_of_rounds_stay_as_they_are(more: dict[str, Any]) -> None:
    """However long rounds take."""
    assert plan(15.0, **more).budget_s == more.get("budget_s", schedule.USUAL_S)


def test_columns_have_their_own_time_and_the_race_the_sum() -> None:
    """One of three is slow: it takes no time from the others."""
    launches_s = (0.5, 0.5, 7.0)
    assert [plan(launch_s, columns=3).budget_s for launch_s in launches_s] == [20.0, 20.0, 100.0]
    columns = [(qualified(launch_s), LOAD) for launch_s in launches_s]
    assert [column.budget_s for column in plans_of(asked(), columns)] == [140.0] * 3
    assert [column.budget_s for column in plans_of(asked(budget_s=90.0), columns)] == [90.0] * 3


def test_a_race_of_hosts_that_were_allowed_takes_a_minute_and_no_more() -> None:
    """More was not allowed."""
    assert asked(allowed=(AllowedHost(name="example.test"),)).budget_s == schedule.USUAL_S
