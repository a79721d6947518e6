"""A run of load as its JSON has it (``data/schema/load.schema.json``): what terminal, page and files are made of.

A run that has just ended and a stored one are shown from the same JSON, so that both say the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from hdrh.histogram import HdrHistogram

from dragstrip.loading.percentiles import decoded
from dragstrip.store.json_values import decode
from dragstrip.store.loads import StoredLoad, unreadable


@dataclass(frozen=True, kw_only=True)
class ReportedRequest:
    """The request that was sent; of a pool or a script the one that its entries differ from.

    Args:
        headers: names and values as set by the user, secret values masked.
        body: as text, secret values masked; None if it is empty, too long to be kept, or not UTF-8.
        body_sha256: of a body that is not kept, in hexadecimal; "" otherwise.
    """

    headers: tuple[tuple[str, str], ...]
    body: str | None = None
    body_bytes: int
    body_sha256: str = ""


@dataclass(frozen=True, kw_only=True)
class ReportedSentences:
    """What the terminal says; see ``report.load.sentences``."""

    headline: str
    offered: str
    checked: str
    facts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ReportedSlice:
    """About a second of the run; latencies in µs, None without a correct response in time."""

    duration_s: float
    requests: int
    rate_per_s: float
    p50_us: float | None = None
    p99_us: float | None = None
    max_us: float | None = None
    errors: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class ReportedLimit:
    """A service level objective; see ``report.load.limits``."""

    name: str
    text: str
    met: bool


@dataclass(frozen=True, kw_only=True)
class ReportedOpenLoop:
    """What an open loop has in addition: latencies from the actual send, and how late requests left."""

    sustained: bool
    latency_sent_hdr: bytes
    lag_hdr: bytes


@dataclass(frozen=True, kw_only=True)
class LoadReport:
    """The run; names and units as in its JSON."""

    url: str
    method: str
    started: str
    finished: str
    software: str
    request: ReportedRequest
    sentences: ReportedSentences
    load: Mapping[str, object]
    right_answer: Mapping[str, object]
    requests: int
    plain_requests: int
    different_requests: int
    errors: Mapping[str, int]
    error_samples: Mapping[str, str]
    status_codes: Mapping[str, int]
    duration_s: float
    rate_per_s: float
    latency_us: Mapping[str, float | None]
    latency_clock: str
    latency_hdr: bytes
    open_loop: ReportedOpenLoop | None = None
    connect_us: Mapping[str, float] | None = None
    first_byte_us: Mapping[str, float] | None = None
    slices: tuple[ReportedSlice, ...]
    limits: tuple[ReportedLimit, ...]
    warnings: tuple[str, ...]

    @classmethod
    def of(cls, content: Mapping[str, object]) -> Self:
        """Reads a run's JSON.

        Raises:
            TypeError: a field is missing, or has another type.
        """
        return decode(cls, content)

    @classmethod
    def stored(cls, load: StoredLoad) -> Self:
        """Reads a stored run.

        Raises:
            StoreError: its record is not valid.
        """
        try:
            return cls.of(load.result)
        except TypeError as error:
            raise unreadable(load.id, error) from error

    @property
    def subject(self) -> str:
        """The request in a few words: method, URL, and the status that was expected."""
        status = self.right_answer.get("status")
        return f"{self.method} {self.url}" + (f" → {status}" if status else "")

    @cached_property
    def latencies(self) -> HdrHistogram | None:
        """All latencies in nanoseconds; None if no correct response came in time."""
        return decoded(self.latency_hdr)

    @property
    def histograms(self) -> Mapping[str, HdrHistogram | None]:
        """Latencies in nanoseconds by what they are; an open loop has three kinds."""
        if self.open_loop is None:
            return {"at most": self.latencies}
        sent, lag = decoded(self.open_loop.latency_sent_hdr), decoded(self.open_loop.lag_hdr)
        return {"at most": self.latencies, "from actual send": sent, "send delay": lag}

    @property
    def intervals(self) -> Sequence[tuple[float, ReportedSlice]]:
        """Each slice with its start, in seconds of measured time since the load began."""
        starts, at_s = [], 0.0
        for part in self.slices:
            starts.append((at_s, part))
            at_s += part.duration_s
        return starts
