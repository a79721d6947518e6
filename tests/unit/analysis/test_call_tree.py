"""The tree of calls: places to scale, what is left out, and what differs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import samples

from dragstrip.analysis.call_tree import call_tree
from dragstrip.record import CodePlace, Profile, Stack, StackFrame


def launch(stacks: dict[str, int], index: int = 0) -> Profile:
    """An extra launch of 6 µs per response; stacks by functions, the outermost first."""
    names = sorted({name for stack in stacks for name in stack.split(";")})
    frames = tuple(StackFrame(place=CodePlace.USER, module="/srv/app", name=name) for name in names)
    made = tuple(
        Stack(samples=count, frames=tuple(names.index(name) for name in reversed(stack.split(";"))))
        for stack, count in stacks.items()
    )
    counts = {"cpu_ns": 600e6, "samples": float(sum(stacks.values())), "kernel_samples": 0.0}
    return samples.profile("quick", index, counts=counts, frames=frames, stacks=made)


def test_a_node_has_what_it_calls_and_is_drawn_to_scale() -> None:
    """Widest first; a function that calls itself is one node; a share below a thousandth is left out."""
    stacks = {"main;parse": 200, "main;render;render;escape": 300, "main;render": 499, "main;rare": 1}
    nodes = call_tree([[launch(stacks)]])
    shown = {node.name.partition(" ")[0]: (node.depth, node.start_us, node.width_us) for node in nodes}
    assert list(shown) == ["all", "main", "render", "escape", "parse", "rare"]
    assert shown["render"] == (2, 0.0, pytest.approx(4.794))
    assert shown["escape"] == (3, 0.0, pytest.approx(1.8))
    assert shown["parse"] == (2, pytest.approx(4.794), pytest.approx(1.2))
    rarer = call_tree([[launch({**stacks, "main;parse": 400})]])
    assert "rare" not in {node.name.partition(" ")[0] for node in rarer}


def test_time_without_interrupts_is_the_caller_s() -> None:
    names = [node.name for node in call_tree([[launch({"main;send;_raw_spin_unlock_irq": 200})]])]
    assert names == ["all", "main [app]", "send [app]"]


def test_only_the_added_function_of_two_revisions_differs() -> None:
    """And its callers; the tree is empty unless each launch has samples."""
    race = samples.planted()
    sides = [[p for p in race.profiles if p.contender == name] for name in ("quick", "steady")]
    nodes = call_tree(sides)
    found = {node.name for node in nodes if node.difference and node.difference.significant}
    assert found == {"all", "main [app]", "planted [app]"}
    (planted,) = (node for node in nodes if node.name == "planted [app]")
    assert planted.cpu_us == (0.0, pytest.approx(0.66, rel=0.01))
    assert planted.width_us == pytest.approx(0.33, rel=0.01)
    assert call_tree([sides[0], [replace(sides[1][0], stacks=())]]) == ()
    assert call_tree([sides[0], []]) == ()
