"""Tests published claims: which races they need, and what stored races show about them.

``contenders`` chooses who races, ``grouping`` which claims share a race, ``assess`` is the pure judgement,
``finding`` holds what came of it as values, ``run`` races.
"""
