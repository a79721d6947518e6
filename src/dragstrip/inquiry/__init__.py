"""What voids or warns: validity of blocks, rounds and whole races. Pure; needs no engine.

Method: ``docs/METHOD.md``, "What voids or warns". A rule may look at the machine, at the engine and at whether answers
were right; never at which contender would win.
"""

from dragstrip.inquiry.blocks import block_reasons, round_reasons, undisturbed, with_reasons, wrong_under_load
from dragstrip.inquiry.checks import Check, held_by_generator, inspect, is_void

__all__ = [
    "Check",
    "block_reasons",
    "held_by_generator",
    "inspect",
    "is_void",
    "round_reasons",
    "undisturbed",
    "with_reasons",
    "wrong_under_load",
]
