"""Requests and their correct responses, as defined in ``workloads/*.toml``.

A request and its response are templates over a few values. The load draws a pool of values, fixed by the race's seed;
scrutineering draws others, so that it detects responses that the server did not compute. ``fields`` has a file's keys,
``reading`` checks a file, and ``definition`` renders requests.
``kinds`` has a class for each kind of workload. ``draw`` draws values and the files of a launch,
``tables`` the rows of the database. ``exchange`` is one request with its correct response.
"""

from dragstrip.workload.definition import Asking, Workload
from dragstrip.workload.draw import Data
from dragstrip.workload.exchange import (
    HOST,
    HTTP2,
    IDENTITY,
    WEBSOCKET,
    WRITING,
    Exchange,
    connection_words,
    in_chunks,
)
from dragstrip.workload.fields import MARK_LENGTH, MixFile, RequestKind, WorkloadFile
from dragstrip.workload.kinds.http import HttpExchanges
from dragstrip.workload.reading import load, loads, names, several
from dragstrip.workload.tables import (
    CATEGORIES,
    ITEMS,
    NUMBERS,
    OWN_CHANGING,
    TABLE_ROWS,
    TAGS,
    Schema,
    Tables,
    Written,
    drawn_fortunes,
    drawn_tables,
    fortunes_page,
)
