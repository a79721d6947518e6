"""The kinds of workloads, each a class in a file of its own: what its requests are, and which loads it can have.

A workload's file shows its kind. What scrutiny adds to a kind, a session that sends its requests, is registered in
``scrutiny.sessions``.
"""

from __future__ import annotations

from collections.abc import Sequence

from dragstrip.contender import Source
from dragstrip.workload.fields import MixFile, WorkloadFile
from dragstrip.workload.kinds.http import HttpExchanges
from dragstrip.workload.kinds.websocket import WebSocketMessages
from dragstrip.workload.request_kind import RequestKind

#: Every kind; the first that recognises a workload's requests is the workload's, and HTTP recognises all.
KINDS: tuple[type[HttpExchanges], ...] = (WebSocketMessages, HttpExchanges)


def kind_of(fields: WorkloadFile | MixFile, source: Source, requests: Sequence[RequestKind]) -> HttpExchanges:
    """The kind of a workload with these requests."""
    found = next(kind for kind in KINDS if kind.recognises(requests))
    return found(fields.name, source, fields.load, tuple(requests))
