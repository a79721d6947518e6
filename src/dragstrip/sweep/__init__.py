"""Latency against offered rate, and each contender's capacity under a service-level objective.

``capacity`` judges (pure), ``run`` measures in the race's loop of rounds, ``file`` keeps a sweep.
Method: ``docs/METHOD.md``, "Latency against rate".
"""
