"""Revisions of a user's repository as contenders: from ``dragstrip.toml`` and a commit to a server that can be raced.

``project`` has the file's keys, ``repository`` asks git and never changes the user's repository, ``builds`` checks
revisions out into the cache and builds each once, ``difference`` makes the race of them, ``learned`` makes a workload
of a path, ``draft`` writes a first ``dragstrip.toml``, ``bisect`` finds the commit that made a server slower.
"""
