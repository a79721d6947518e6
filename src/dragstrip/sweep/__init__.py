"""Latency against offered rate, and each contender's capacity under a service-level objective.

``points`` judges (pure), ``run`` measures, ``kept`` writes and reads a sweep's file. Method: ``docs/METHOD.md``,
"Latency against rate".
"""
