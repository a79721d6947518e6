"""PostgreSQL for workloads with a database: found, filled, started afresh for each round, counted.

``programs`` finds it, ``template`` makes one data directory per race. ``instance`` starts copies of that under a
supervisor and counts each contender's use.
"""

from dragstrip.process.database.instance import (
    CONNECTIONS,
    Database,
    DatabaseGoneError,
    DatabaseUsage,
    Instance,
    room_of,
    spent,
)
from dragstrip.process.database.programs import DEBIAN, NAME, TITLE, Programs, find
from dragstrip.process.database.template import drawn_rows, settings
