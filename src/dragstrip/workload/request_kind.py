"""One of a workload's requests, as its file defines it."""

from __future__ import annotations

from dataclasses import dataclass

from dragstrip.contender import Key
from dragstrip.workload.fields import AnswerFields, DrawFields, ProbeFields, RequestFields


@dataclass(frozen=True, slots=True)
class RequestKind:
    """One of a workload's requests, with its correct response and what varies in it.

    Args:
        name: its name in the file; the workload's name if it is the only request.
        weight: how often it is sent, relative to the others' weights.
        at: location of its table in the file; () if its tables are at the top of the file.
        body: content of its ``body_file`` or ``body_base64``; None: the request may have a template instead.
    """

    name: str
    weight: int
    request: RequestFields
    answer: AnswerFields
    load: DrawFields
    probes: ProbeFields
    at: tuple[Key, ...]
    body: bytes | None

    def asked_at(self, *keys: Key) -> tuple[Key, ...]:
        """The location of a request's key in the file."""
        return (*self.at, *keys) if self.at else ("request", *keys)
