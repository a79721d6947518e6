"""Puts claims to the test: which races they want, what stored races say of them.

``cast`` says who races for whom, ``groups`` which claims share a race, ``settle`` is the pure judgement, ``run`` races.
"""
