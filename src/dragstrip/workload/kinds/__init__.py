"""The kinds of workloads, each a class in a file of its own: what its requests are, and which loads it can have.

A workload's file shows its kind. What scrutiny adds to a kind, a session that sends its requests, is registered in
``scrutiny.session``.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from dragstrip.contender import Source
from dragstrip.workload.fields import MixFile, RequestKind, WorkloadFile
from dragstrip.workload.kinds.http import HttpExchanges

#: Kinds of requests that have this key, by module and class; all other requests are HTTP's.
KINDS = {"message": ("dragstrip.workload.kinds.websocket", "WebSocketMessages")}


def kind_of(fields: WorkloadFile | MixFile, source: Source, requests: Sequence[RequestKind]) -> HttpExchanges:
    """The kind of a workload with these requests; its module is imported now."""
    found = HttpExchanges
    for key, (module, name) in KINDS.items():
        if any(getattr(request.request, key) for request in requests):
            found = getattr(import_module(module), name)
    return found(fields.name, source, fields.load, tuple(requests))
