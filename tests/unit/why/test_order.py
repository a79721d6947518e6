"""Extra launches: their order is random, the same for a seed, and independent of names; and when each ends."""

from __future__ import annotations

from dragstrip.why.launch import is_enough
from dragstrip.why.run import order_of_turn


def test_a_turn_is_drawn_from_the_seed() -> None:
    """Every order occurs, about equally often."""
    seen = [tuple(order_of_turn(seed, 0, 6, ["a", "b"])) for seed in range(200)]
    assert set(seen) == {("a", "b"), ("b", "a")}
    assert 60 < seen.count(("a", "b")) < 140
    assert order_of_turn(7, 0, 6, ["b", "a"]) == order_of_turn(7, 0, 6, ["a", "b"])


def test_a_busy_machine_gives_a_launch_more_time() -> None:
    """Until the server had CPU time for its samples, but not without an end."""
    assert is_enough(1.7, 1.0)
    assert not is_enough(1.1, 2.0)
    assert is_enough(1.1, 2.6)
    assert not is_enough(0.3, 6.0)
    assert is_enough(0.3, 10.1)
    assert is_enough(None, 2.6)
