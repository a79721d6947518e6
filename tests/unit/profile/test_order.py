"""The order of extra launches: random, the same for a seed, and independent of the order of names."""

from __future__ import annotations

from dragstrip.profile.run import order_of_turn


def test_a_turn_is_drawn_from_the_seed() -> None:
    """Every order occurs, about equally often."""
    seen = [tuple(order_of_turn(seed, 0, 6, ["a", "b"])) for seed in range(200)]
    assert set(seen) == {("a", "b"), ("b", "a")}
    assert 60 < seen.count(("a", "b")) < 140
    assert order_of_turn(7, 0, 6, ["b", "a"]) == order_of_turn(7, 0, 6, ["a", "b"])
