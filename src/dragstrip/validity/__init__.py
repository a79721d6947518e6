"""What voids or warns: validity of blocks, rounds and whole races. Pure; needs no engine.

Method: ``docs/METHOD.md``, "What voids or warns". A rule may examine the machine, the engine and
whether responses were correct, but never which contender would win.
"""

from dragstrip.validity.block import BlockRules, block_reasons, round_reasons, with_reasons, wrong_under_load
from dragstrip.validity.check import Check, CheckName, Finding, Status
from dragstrip.validity.disturbance import Noise, by_passing, causes, may_pass, noise
from dragstrip.validity.launch import KINDS_ROUNDS, held, of_two_kinds
from dragstrip.validity.race import held_by_generator, inspect, is_void
