"""When a server counts as warm: pure, with fixed seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from dragstrip.analysis.cpu_shares import left_ns, own_p50_ns, speed_of
from dragstrip.contender.entries import serve_entry
from dragstrip.racing.calibration import Calibrated, Calibration, with_equal_warm_ups
from dragstrip.racing.warm_up import WINDOW, enough_s, rise, settled, warm_up

if TYPE_CHECKING:
    from dragstrip._engine import BlockPlan, Tally
    from dragstrip.racing.launching import LaunchedServer
    from dragstrip.racing.setup import RaceSetup


def noisy(levels: np.ndarray, share: float, seed: int) -> list[float]:
    return list(levels * (1 + share * np.random.default_rng(seed).standard_normal(len(levels))))


def test_fewer_slices_than_a_window_are_never_settled() -> None:
    """Too few slices for a reliable slope."""
    assert not settled([100.0] * (WINDOW - 1))
    assert settled([100.0] * WINDOW)


def test_a_clear_rise_is_not_settled_and_its_size_is_told() -> None:
    """10 % over the window, without noise: the slope says so."""
    rates = list(np.linspace(100, 110, WINDOW))
    up, error = rise(rates)
    assert up == pytest.approx(10 / 105, rel=1e-9)
    assert error == pytest.approx(0, abs=1e-12)
    assert not settled(rates)


def test_only_the_last_slices_count() -> None:
    """A cold start that is over does not keep a server waiting."""
    assert settled([10.0] * 5 + [100.0] * WINDOW)


def test_a_fall_is_settled() -> None:
    """A server that slows down has warmed up; the trend check watches for the rest."""
    assert settled(list(np.linspace(110, 100, WINDOW)))


def test_one_disturbed_slice_does_not_decide() -> None:
    """Theil's slope is a median of slopes."""
    rates = [100.0] * WINDOW
    rates[0] = 30.0
    assert settled(rates)


def test_noise_without_a_rise_settles_nearly_always() -> None:
    """Within two standard errors: of pure noise only a few windows in a hundred may look like a rise."""
    called = [settled(noisy(np.full(WINDOW, 100.0), 0.03, seed)) for seed in range(400)]
    assert sum(called) >= 0.9 * len(called)


def test_a_server_without_a_rise_needs_one_window_only() -> None:
    """Watched for half a second, flat from the start: 50 ms would have done."""
    rates = noisy(np.full(100, 100.0), 0.01, 3)
    assert enough_s(rates, 0.005) == pytest.approx(WINDOW * 0.005)


def test_a_server_that_rises_needs_as_long_as_it_rose() -> None:
    """30 % too slow for the first 40 slices: the window after them is the first that counts."""
    levels = np.concatenate([np.full(40, 70.0), np.full(60, 100.0)])
    assert enough_s(noisy(levels, 0.01, 4), 0.005) == pytest.approx((40 + WINDOW) * 0.005)


def test_a_later_dip_is_a_disturbance_and_no_rise() -> None:
    """Another program took the core for a while in the middle: 50 ms of warm-up were enough all the same."""
    levels = np.full(100, 100.0)
    levels[50:60] = 60.0
    assert enough_s(noisy(levels, 0.01, 5), 0.005) == pytest.approx(WINDOW * 0.005)


def test_noise_cannot_hide_a_rise_above_three_per_cent() -> None:
    """However much the last third scatters, 5 % below its median is below it."""
    levels = np.concatenate([np.full(30, 95.0), np.full(70, 100.0)])
    levels[60::3] *= 1.2
    levels[61::3] *= 0.8
    assert enough_s(list(levels), 0.005) == pytest.approx((30 + WINDOW) * 0.005)


@pytest.mark.parametrize(
    ("first_slices", "p50_ms", "slices", "flat"),
    [
        ([60, 70, 80, 90], 111, 2 * WINDOW, True),  # slow and cold at first: ten slices are all of its two seconds
        ([100], 111, WINDOW, True),
        ([100], 1, WINDOW, True),
        (range(100, 3000), 111, 2 * WINDOW, False),  # it rises for good
        (range(100, 3000), 20, 40, False),
        (range(100, 9000), 5, 80, False),
    ],
)
def test_a_slow_server_has_a_second_window_before_it_is_called_unsettled(
    first_slices: Iterable[int], p50_ms: int, slices: int, flat: bool
) -> None:
    """Its definition allows two seconds; slices are of 222, 50, 25 or 5 ms."""
    assert warmed_up([*first_slices, *[100] * 200], p50_ms) == (slices, flat)


@pytest.mark.parametrize(("correct", "slices", "flat"), [(0, WINDOW, False), (1, 40, False)])
def test_a_server_that_sends_only_incorrect_responses_is_not_warmed_up_to_the_end(
    correct: int, slices: int, flat: bool
) -> None:
    """One correct response in a window is a server that may still become warm."""
    speeds = [correct, *[0] * (WINDOW - 1)] * 20
    assert warmed_up(speeds, 20, failed=50) == (slices, flat)


@pytest.mark.parametrize(
    ("first_slices", "slices"),
    [
        ([], 10 * WINDOW),  # it never rose: half a second is ten times what it needs
        ([70] * 80, 18 * WINDOW),  # it rose after 80 slices: the ninth window would do
    ],
)
def test_an_unknown_server_is_watched_for_twice_the_time_that_it_needs(first_slices: list[int], slices: int) -> None:
    """Slices are of 5 ms, and no server is watched for less than half a second."""
    speeds = [*first_slices, *[100] * 200]
    assert warmed_up(speeds, 1, least_s=0.5, learns=True) == (slices, True)
    assert warmed_up(speeds, 1, least_s=0.5) == (10 * WINDOW, True)


@pytest.mark.parametrize(
    ("rate", "share", "slices"),
    [
        (100, 1.0, 10 * WINDOW),  # 20,000 requests per second: ten thousand of them in half a second
        (50, 1.0, 20 * WINDOW),
        (1, 1.0, 60 * WINDOW),  # 200 per second: it is watched for three seconds
        (1, 0.5, 30 * WINDOW),  # with half of the usual budget
    ],
)
def test_an_unknown_server_is_watched_until_it_answered_many_requests(rate: int, share: float, slices: int) -> None:
    """Runtimes compile what was called often."""
    assert warmed_up([rate] * 1000, 1, least_s=0.5, most_s=10.0, learns=True, learning=share) == (slices, True)


def test_a_slow_rise_of_an_unknown_server_is_seen() -> None:
    """Each window of 0.25 s rises by 2.5 %, which noise could hide, for 4 s: it is not called settled before."""
    rising = [round(1000 * min(1.0025**number, 1.5)) for number in range(2000)]
    slices, flat = warmed_up(rising, 5, least_s=0.5, most_s=10.0, learns=True)
    assert (slices >= 160, flat) == (True, True)


@pytest.mark.parametrize(("learns", "slices"), [(True, 50 * WINDOW), (False, 30 * WINDOW)])
def test_what_an_unknown_server_needs_is_learned_in_time_of_its_own(
    monkeypatch: pytest.MonkeyPatch, learns: bool, slices: int
) -> None:
    """Others leave it a fifth of the clock: half a second of its own takes 2.5 s, a known server's at most 1.5 s."""
    clock_ns = [0]
    monkeypatch.setattr("dragstrip.racing.warm_up.time", SimpleNamespace(monotonic_ns=lambda: clock_ns[0]))
    given: list[BlockPlan] = []

    def run(plans: Sequence[BlockPlan]) -> list[Tally]:
        given.extend(plans)
        clock_ns[0] += sum(plan.counted_ns for plan in plans)
        return [
            slice_of(duration_ns=plan.counted_ns, counted_ns=plan.counted_ns, engine_wait_ns=plan.counted_ns * 0.8)
            for plan in plans
        ]

    setup = SimpleNamespace(
        connect=lambda _: 7,
        watch=lambda *_: None,
        engine=SimpleNamespace(run=run),
        lanes=SimpleNamespace(server=(1,)),
        learning=1.0,
    )
    entry = SimpleNamespace(warm_up_least_s=0.495, warm_up_most_s=10.0)
    launched = SimpleNamespace(session=None, running=None, entry=entry)
    warm_up(cast("RaceSetup", setup), cast("LaunchedServer", launched), 1_000_000, learns=learns)
    assert len(given) == slices


def test_builds_of_one_server_are_warmed_up_for_equally_long() -> None:
    """The longest time that one of them needed; a contender with a definition keeps its own."""
    times_s = {"first": 0.35, "second": 0.5, "third": 0.05}
    calibrated = {
        name: Calibrated(
            entry=replace(serve_entry(f"{name}=true {{port}}"), warm_up_least_s=least_s),
            calibration=Calibration(p50_ns=1, capacity_per_s=1.0, launch_s=1.0, block_factor=1, restless=False),
            facts={},
            disturbed=False,
        )
        for name, least_s in times_s.items()
    }
    equal = with_equal_warm_ups(calibrated)
    assert {contender.entry.warm_up_least_s for contender in equal.values()} == {0.5}
    assert equal["first"].calibration.launch_s == pytest.approx(1 + 0.5 - 0.35)
    assert equal["second"] == calibrated["second"]


def warmed_up(
    speeds: Iterable[int],
    p50_ms: int,
    *,
    failed: int = 0,
    least_s: float = 0.05,
    most_s: float = 2.0,
    learns: bool = False,
    learning: float = 1.0,
) -> tuple[int, bool]:
    """The slices that a warm-up takes if they are of these speeds, and whether it says that the server has settled.

    Args:
        failed: incorrect responses in each slice.
        least_s, most_s: the definition's shortest and longest warm-up.
        learns: the time that the server needs is learned, in the share ``learning`` of the usual time.
    """
    coming, given = iter(speeds), []

    def run(plans: Sequence[BlockPlan]) -> list[Tally]:
        given.extend(plans)
        return [
            slice_of(
                answered=next(coming),
                failed=failed,
                duration_ns=plan.counted_ns,
                counted_ns=plan.counted_ns,
                server_cpu_ns=10,
            )
            for plan in plans
        ]

    setup = SimpleNamespace(
        connect=lambda _: 7,
        watch=lambda *_: None,
        engine=SimpleNamespace(run=run),
        lanes=SimpleNamespace(server=(1,)),
        learning=learning,
    )
    launched = SimpleNamespace(
        session=None, running=None, entry=SimpleNamespace(warm_up_least_s=least_s, warm_up_most_s=most_s)
    )
    result = warm_up(cast("RaceSetup", setup), cast("LaunchedServer", launched), p50_ms * 1_000_000, learns=learns)
    return len(given), result.settled


# --- what others take from a slice ---------------------------------------------------------------------------------


def slice_of(**changes: object) -> Tally:
    """A slice of 10 ms on one engine thread, as the engine hands it back; ``changes`` override."""
    usual: dict[str, object] = {
        "duration_ns": 10_000_000, "counted_ns": 10_000_000, "requests": 900, "answered": 1000, "p50_ns": 400_000,
        "server_cpu_ns": 8_000_000, "server_wait_ns": 0, "engine_wait_ns": 0, "engine_threads": 1, "gave_up": False,
        "failed": 0,
    }  # fmt: skip
    return cast("Tally", SimpleNamespace(**(usual | changes)))


def test_a_slices_speed_is_by_the_servers_own_cpu_time_where_that_can_be_read() -> None:
    """What others take from its core does not change it."""
    assert speed_of(slice_of()) == speed_of(slice_of(duration_ns=30_000_000)) == pytest.approx(1000 / 8e6)
    assert speed_of(slice_of(server_cpu_ns=None)) == pytest.approx(900 / 1e7)


def test_time_that_others_took_warms_nothing_up() -> None:
    """The engine's wait counts, and the server's as far as its core was not used by itself."""
    assert left_ns(slice_of(), 1) == 10_000_000
    assert left_ns(slice_of(engine_wait_ns=3_000_000), 1) == pytest.approx(7_000_000)
    assert left_ns(slice_of(server_wait_ns=9_000_000), 1) == pytest.approx(8_000_000)
    assert left_ns(slice_of(server_wait_ns=9_000_000, server_cpu_ns=None), 1) == 10_000_000
    assert left_ns(slice_of(engine_wait_ns=30_000_000), 1) == 0


def test_a_block_is_not_made_longer_by_a_latency_that_others_made() -> None:
    """Half of the time taken: the queue took twice as long."""
    assert own_p50_ns(slice_of(), 400_000, 1) == 400_000
    assert own_p50_ns(slice_of(engine_wait_ns=5_000_000), 400_000, 1) == 200_000
    # Threads that wait for each other add up to more than others can have taken: a latency of 0 would mean no block.
    assert own_p50_ns(slice_of(engine_wait_ns=10_000_000), 400_000, 1) == 100_000


def test_who_waits_for_something_else_waits_no_longer_for_others() -> None:
    """A server that sleeps 15 ms used a twentieth of what was left: half of the time taken is a fortieth of its own."""
    asleep = {"server_cpu_ns": 250_000, "engine_wait_ns": 5_000_000}
    assert own_p50_ns(slice_of(**asleep), 15_000_000, 1) == 14_625_000
    assert own_p50_ns(slice_of(**asleep | {"server_cpu_ns": None}), 15_000_000, 1) == 7_500_000
