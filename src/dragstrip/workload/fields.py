"""The keys of a workload's file. ``docs/workloads.md`` shows them by example; ``make docs`` writes its tables."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dragstrip.contender import Strict
from dragstrip.workload.exchange import Compare

MARK_LENGTH = 4

Span = Annotated[tuple[int, int], Field(strict=False)]
Choices = Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
Value = int | str

#: Bytes of one file of ``{data}``, and rows of one; ``contender.template`` bounds what all of them come to.
MOST_FILE_BYTES, MOST_ROWS = 2**26, 50_000


class Varying(Strict):
    """What varies: each name's values."""

    numbers: dict[str, Span] = Field(default_factory=dict, description="each number's first and last value")
    choices: dict[str, Choices] = Field(default_factory=dict, description="each choice's values")
    texts: dict[str, Span] = Field(
        default_factory=dict, description="each text's least and most characters: letters and digits"
    )

    def names(self) -> set[str]:
        """All that varies."""
        return {*self.numbers, *self.choices, *self.texts}


class RequestFields(Strict):
    """What is asked; path, headers and body are templates over what varies."""

    path: str = Field(pattern=r"^/[!-~ ]*$", description="a path with its query, like `/multiply?a={{ a }}`")
    method: str = Field(default="GET", pattern=r"^[A-Z]{1,20}$", description="in capitals")
    headers: dict[str, str] = Field(
        default_factory=dict, description="beside Host; in place of User-Agent and Accept where it names them"
    )
    body: str | None = Field(default=None, description="what is sent")
    body_file: str | None = Field(
        default=None, description="instead: a file beside this one, whose bytes are sent as they are"
    )
    framing: Literal["length", "chunked"] = Field(
        default="length", description="whether the body's length is said, or it comes in chunks"
    )


class AnswerFields(Strict):
    """The right answer; ``body`` is a template that may use what varies, ``mark`` and the rows of ``[[data]]``."""

    status: int = Field(default=200, ge=200, le=599, description="the right one")
    content_type: str = Field(
        default="", pattern=r"^([a-z0-9.+-]+/[a-z0-9.+-]+)?$", description='like "text/plain"; needed but for `status`'
    )
    body: str | None = Field(default=None, description="the exact body, as a template")
    data: str | None = Field(default=None, description="instead: the file of `[[data]]` that is the body; a template")
    compare: Compare = Field(
        default="bytes",
        description="`bytes`: every byte; `json`: likewise, but a contender may declare a form of its own; `status`: "
        "the body is the server's own",
    )
    check: Literal["full", "length"] = Field(
        default="full", description="`length`: under load, large bodies mostly by their length"
    )
    statements: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="above 0: the race has a database, whose rows the template knows as `table`, and the answer takes "
        "so many statements there",
    )
    earliest_ms: float = Field(
        default=0.0, ge=0, le=60_000, description="milliseconds; an answer sooner after its request left is wrong"
    )
    waits: bool | None = Field(
        default=None,
        description="whether it waits for something else, so that `--metric auto` stays with throughput; usual: yes "
        "where it has `earliest_ms` or `statements`",
    )


class DrawFields(Varying):
    """The pool of requests under load: what varies, and how many to draw."""

    count: int = Field(default=16, ge=1, le=10_000, description="how many different requests")


class TrafficFields(Strict):
    """How several requests are put to a server."""

    connections: int | None = Field(
        default=None, ge=1, le=100_000, description="open at once where nobody says otherwise; else the race's own"
    )
    pipelining: int = Field(
        default=1, ge=1, le=1024, description="requests on their way on each connection, answered in order"
    )
    keepalive: bool = Field(default=True, description="`false`: a new connection for each request")
    tls: Literal["any", "full", "resumed"] = Field(
        default="any",
        description="only over TLS; `full`: with a whole handshake for each connection, `resumed`: connections take up "
        "the sessions of those before them",
    )


class LoadFields(DrawFields, TrafficFields):
    """The load: its pool of requests, and how they are put."""


class ProbeFields(Varying):
    """What scrutineering asks: some cases always, then others drawn from wider spans."""

    always: Annotated[tuple[dict[str, Value], ...], Field(strict=False)] = Field(
        default=(), description="cases that are always asked"
    )


class DataFields(Varying):
    """A file that each launch finds in its folder `{data}`: drawn anew for every launch."""

    file: str = Field(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$", description="its path within `{data}`"
    )
    bytes_: int = Field(
        default=0, ge=0, le=MOST_FILE_BYTES, alias="bytes", description="random content of so many bytes"
    )
    content: str = Field(default="", description="instead: a template over `rows`")
    rows: int = Field(
        default=0,
        ge=0,
        le=MOST_ROWS,
        description="how many rows the template has: each with `id`, from 1 on, and what varies",
    )
    name: str = Field(default="", description="what the answers' templates call these rows")


class NamedFields(Strict):
    """What every workload says of itself."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.+-]{0,59}$", description="small letters, digits, . + -")
    title: str = Field(min_length=1, description="what the server does, in one line")
    like: str = Field(default="", description="another one that asks for the same: who serves that serves this, too")


Files = Annotated[tuple[DataFields, ...], Field(strict=False)]


class WorkloadFile(NamedFields):
    """A workload of one request."""

    request: RequestFields = Field(description="what is asked")
    answer: AnswerFields = Field(description="the right answer")
    load: LoadFields = Field(default=LoadFields(), description="what varies under load")
    probes: ProbeFields = Field(default=ProbeFields(), description="what varies in scrutineering")
    data: Files = Field(default=(), description="`[[data]]`: files that each launch finds")


class MixedRequest(RequestFields):
    """One of several requests, with its answer and what varies in it."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.+-]{0,59}$", description="what reports call it")
    weight: int = Field(default=1, ge=1, le=1000, description="how often it is sent, beside the others' weights")
    answer: AnswerFields = Field(description="the right answer, as above")
    load: DrawFields = Field(default=DrawFields(), description="what varies under load, as above")
    probes: ProbeFields = Field(default=ProbeFields(), description="what varies in scrutineering, as above")


class MixFile(NamedFields):
    """A workload of several requests, `[[request]]` each."""

    request: Annotated[tuple[MixedRequest, ...], Field(strict=False, min_length=1, max_length=64)] = Field(
        description="`[[request]]`: what is asked, each with a name and its answer"
    )
    load: TrafficFields = Field(default=TrafficFields(), description="how they are put to a server")
    data: Files = Field(default=(), description="`[[data]]`: files that each launch finds")
