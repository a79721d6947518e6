"""Requests and their right answers, as ``workloads/*.toml`` has them.

A request and its answer are templates over a few values. The load draws a pool of them, fixed by the race's seed;
scrutineering draws others, so that an answer which isn't computed is found out. ``fields`` has a file's keys,
``reading`` checks it, ``definition`` renders it, ``draw`` draws values and the files that a launch finds, ``exchange``
is one request with its correct response.
"""

from dragstrip.workload.definition import Asking, Kind, Workload
from dragstrip.workload.draw import TABLE_ROWS, Data
from dragstrip.workload.exchange import HOST, HTTP2, Exchange, connection_words, in_chunks
from dragstrip.workload.fields import MARK_LENGTH, MixFile, WorkloadFile
from dragstrip.workload.reading import load, names, several
