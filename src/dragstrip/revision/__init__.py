"""Revisions of a user's repository as contenders: from ``dragstrip.toml`` and a commit to a server that can be raced.

``project`` has the file's keys; ``draft`` writes a first one. ``repository`` asks git, and never changes the user's
repository. ``builds`` checks revisions out into the cache and builds each once. ``difference`` makes contenders of
them, ``learned`` a workload of a path. ``bisect`` finds the commit that made a server slower.
"""
