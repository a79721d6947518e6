"""Puts claims to the test: which races they want, what stored races say of them.

``contenders`` chooses who races, ``grouping`` which claims share a race, ``assess`` is the pure judgement,
``finding`` holds what came of it as values, ``run`` races.
"""
