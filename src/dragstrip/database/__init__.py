"""PostgreSQL for workloads that ask a database: found, filled, started afresh for each round, counted.

``programs`` finds it, ``template`` makes one data directory per race, ``instance`` starts copies of it under a keeper,
``usage`` has what each contender made of it.
"""

from dragstrip.database.instance import CONNECTIONS, Database, DatabaseGoneError, Instance
from dragstrip.database.programs import DEBIAN, NAME, TITLE, Programs, find
from dragstrip.database.template import drawn_rows, settings
from dragstrip.database.usage import Spent, Usage, spent

__all__ = [
    "CONNECTIONS",
    "DEBIAN",
    "NAME",
    "TITLE",
    "Database",
    "DatabaseGoneError",
    "Instance",
    "Programs",
    "Spent",
    "Usage",
    "drawn_rows",
    "find",
    "settings",
    "spent",
]
