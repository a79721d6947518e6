"""The keys of a workload's file. ``docs/workloads.md`` shows them by example; ``make docs`` writes its tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from dragstrip.contender import Key, Strict
from dragstrip.workload.tables import Schema

MARK_LENGTH = 4

Span = Annotated[tuple[int, int], Field(strict=False)]
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]
Choices = Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
Value = int | str

#: Content codings of bodies (RFC 9110, 8.4.1), by the names that headers have.
Coding = Literal["gzip", "br"]

#: How a body is compared.
Compared = Literal[
    "bytes", "json", "values", "digest", "length", "status", "echo",
    "world", "worlds", "updates", "fortunes", "items", "item", "listed", "created", "updated",
]  # fmt: skip

#: Bytes and rows of one file of ``{data}``; ``contender.template`` bounds all of them together.
MAX_FILE_BYTES, MAX_ROWS = 2**26, 50_000


class Varying(Strict):
    """What varies: each name's values."""

    numbers: dict[str, Span] = Field(default_factory=dict, description="by name, a number's first and last value")
    choices: dict[str, Choices] = Field(default_factory=dict, description="by name, the values to choose from")
    texts: dict[str, Span] = Field(
        default_factory=dict, description="by name, the minimum and maximum length of a text of letters and digits"
    )

    def names(self) -> set[str]:
        """All names that vary."""
        return {*self.numbers, *self.choices, *self.texts}


def _in_capitals(given: object) -> object:
    """A method as HTTP writes it, also if it is given in small letters; methods are case-sensitive (RFC 9110, 9.1)."""
    return given.upper() if isinstance(given, str) else given


class RequestFields(Strict):
    """The request; path, headers and body are templates that may use what varies."""

    path: str = Field(pattern=r"^/[!-~ ]*$", description="path with its query, like `/multiply?a={{ a }}`")
    method: Annotated[str, BeforeValidator(_in_capitals)] = Field(
        default="GET", pattern=r"^[A-Z]{1,20}$", description="method, in capitals"
    )
    headers: dict[str, str] = Field(
        default_factory=dict, description="headers in addition to Host, or in place of User-Agent and Accept"
    )
    mask: Annotated[tuple[HeaderName, ...], Field(strict=False)] = Field(
        default=(), description='headers whose values are secrets, which no record shows, like `["X-Tenant"]`'
    )
    body: str | None = Field(default=None, description="request body")
    body_file: str | None = Field(
        default=None, description="file next to this one whose bytes are the request body, instead of `body`"
    )
    body_bytes: str | None = Field(
        default=None,
        description="size in bytes of a random request body, instead of `body`; a template; a message of "
        "the type `text` has letters and digits",
    )
    body_base64: str | None = Field(default=None, description="request body in base64 (RFC 4648), instead of `body`")
    message: str = Field(
        default="",
        description="`text` or `binary`: the body is a message of this type over WebSocket, and so is the response; a "
        "template",
    )
    framing: Literal["length", "chunked"] = Field(
        default="length", description="send the body with its length, or in chunks"
    )
    chunks: bool = Field(
        default=True, description="`false`: scrutineering does not also send a body that has its length in chunks"
    )


class AnswerFields(Strict):
    """The correct response; `body` is a template that may use what varies, `mark` and the rows of `[[data]]`."""

    status: int = Field(default=200, ge=200, le=599, description="status of the response")
    content_type: str = Field(
        default="",
        pattern=r"^([a-z0-9.+-]+/[a-z0-9.+-]+|\*/\*)?$",
        description='content type, like "text/plain", or "*/*" for any; needed unless `compare` is `status` or the '
        "response is a message",
    )
    headers: Annotated[tuple[HeaderName, ...], Field(strict=False)] = Field(
        default=(), description='headers that the response must have, like `["Date"]`'
    )
    body: str | None = Field(default=None, description="exact body, as a template")
    data: str | None = Field(
        default=None, description="file of `[[data]]` that is the body, instead of `body`; a template"
    )
    body_base64: str | None = Field(default=None, description="exact body in base64 (RFC 4648), instead of `body`")
    length: int | None = Field(
        default=None, ge=0, le=MAX_FILE_BYTES, description='bytes of the body, with `compare = "length"` or `digest`'
    )
    sha256: str | None = Field(
        default=None,
        pattern=r"^[0-9a-f]{64}$",
        description='with `compare = "digest"`: SHA-256 of the body (FIPS 180-4), in hexadecimal digits',
    )
    changing: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(),
        description='with `compare = "values"`: JSON Pointers (RFC 6901), like `["/requestId"]`, of fields that are '
        "compared by their type alone",
    )
    compare: Compared = Field(
        default="bytes",
        description="`bytes`: every byte; `json`: every byte, unless a contender declares a form of its own; `values`: "
        "JSON by value, whatever its spacing and order of keys; `digest`: every byte, by the body's hash; `length`: "
        "its length; `status`: the status alone; `echo`: the request's body comes back. "
        "Rows that the server chooses: `world`, one of "
        "TechEmpower's; `worlds`, `count` of them; `updates`, the same with new numbers that are in the table "
        "afterwards; `fortunes`, the page of its messages; `items`, up to `count` of HttpArena's with prices from "
        "`low` to `high`; `item`, the item whose id ends the path; `listed`, the page that `category`, `page` and "
        "`limit` of the query name; `created` and `updated`, the "
        "values of the request's body, which are in the contender's own table afterwards",
    )
    count: str = Field(default="1", description="number of rows that the server chooses, as a template")
    low: str = Field(default="1", description="lowest price of `items`, as a template")
    high: str = Field(default="500", description="highest price of `items`, as a template")
    check: Literal["full", "length"] = Field(
        default="full", description="`length`: under load, compare most large bodies by their length"
    )
    encodings: Annotated[tuple[Coding | Literal["identity"], ...], Field(strict=False)] = Field(
        default=(),
        description="content codings that the request accepts (`gzip`, `br`); the response must have one of them, or "
        "may be plain if `identity` is among them; its decoded body is compared",
    )
    negotiated: bool = Field(
        default=True,
        description="`false`: the request doesn't ask for `encodings` unless its headers do, and no request is sent "
        "that accepts none",
    )
    because: Literal["", "content", "length", "compressed", "coding"] = Field(
        default="", description="why no more than length or status of a learned response is compared, for readers"
    )
    statements: int | str = Field(
        default=0,
        description="statements that the response needs in the database, 0 to 1,000, or a template; a row that is "
        "written counts as a statement; above 0, the race has a database, and templates know its rows as `table`",
    )
    cached_ms: float = Field(
        default=0.0,
        ge=0,
        le=60_000,
        description="milliseconds for which the server may keep an `item` in its cache, unless the item is updated",
    )
    earliest_ms: float = Field(
        default=0.0, ge=0, le=60_000, description="milliseconds from the request before which a response is incorrect"
    )
    waits: bool | None = Field(
        default=None,
        description="whether the response waits for something else, so that `--metric auto` chooses throughput; by "
        "default it does if `earliest_ms` or `statements` is above 0",
    )

    @property
    def waiting(self) -> bool:
        """``waits``, or its default."""
        return self.earliest_ms > 0 or bool(self.statements) if self.waits is None else self.waits


class DrawFields(Varying):
    """The pool of requests under load: what varies, and how many to draw."""

    count: int = Field(default=16, ge=1, le=10_000, description="number of different requests")


class TrafficFields(Strict):
    """How requests are sent."""

    connections: int | None = Field(
        default=None, ge=1, le=100_000, description="open connections, unless an option sets them"
    )
    pipelining: int = Field(
        default=1, ge=1, le=1024, description="requests in flight on each connection, with responses in the same order"
    )
    keepalive: bool = Field(default=True, description="`false`: a new connection for each request")
    requests_per_connection: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="a connection ends with this many requests, and a new one follows",
    )
    http: Literal["any", "2"] = Field(default="any", description="`2`: requests are sent over HTTP/2")
    tls: Literal["any", "on", "full", "resumed"] = Field(
        default="any",
        description="all but `any` need TLS; `full`: each connection makes a full handshake; `resumed`: connections "
        "resume earlier sessions",
    )


class LoadFields(DrawFields, TrafficFields):
    """The load: its pool of requests, and how they are sent."""


class ProbeFields(Varying):
    """The requests of scrutineering: fixed cases, then others drawn from wider spans."""

    always: Annotated[tuple[dict[str, Value], ...], Field(strict=False)] = Field(
        default=(), description="cases that are always sent"
    )


class DataFields(Varying):
    """A file in each launch's folder `{data}`, drawn again for every launch."""

    file: str = Field(
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$", description="its path in `{data}`"
    )
    bytes_: int = Field(
        default=0, ge=0, le=MAX_FILE_BYTES, alias="bytes", description="size of random content, in bytes"
    )
    content: str = Field(default="", description="template over `rows`, instead of random content")
    encodings: Annotated[tuple[Coding, ...], Field(strict=False)] = Field(
        default=(), description="also write the file compressed, as `FILE.gz` (`gzip`) and `FILE.br` (`br`)"
    )
    rows: int = Field(
        default=0,
        ge=0,
        le=MAX_ROWS,
        description="number of rows for the template; each has an `id`, from 1 on, and what varies",
    )
    name: str = Field(default="", description="name of these rows in templates of responses")


#: A request's or a workload's name.
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.+-]{0,59}$")]


class NamedFields(Strict):
    """The keys of every workload."""

    name: Name = Field(description="small letters, digits and `. + -`")
    title: str = Field(min_length=1, description="what the server does, in one line")
    anywhere: bool = Field(
        default=False, description="every contender is asked, also one whose definition does not name this workload"
    )
    like: str = Field(default="", description="another workload with the same requests; its servers serve this one too")
    database: Schema | None = Field(
        default=None,
        description="the race's database has these tables: `rows`, TechEmpower's `hello_world` or HttpArena's `items`; "
        "by default `rows` if a response needs statements",
    )
    data: Annotated[tuple[DataFields, ...], Field(strict=False)] = Field(
        default=(), description="`[[data]]`: files for each launch"
    )


class WorkloadFile(NamedFields):
    """A workload of one request."""

    request: RequestFields = Field(description="the request")
    answer: AnswerFields = Field(description="the correct response")
    load: LoadFields = Field(default=LoadFields(), description="what varies under load")
    probes: ProbeFields = Field(default=ProbeFields(), description="what varies in scrutineering")


class MixedRequest(RequestFields):
    """One of several requests, with its correct response and what varies in it."""

    name: Name = Field(description="its name in reports")
    weight: int = Field(default=1, ge=1, le=1000, description="how often it is sent, relative to the others' weights")
    answer: AnswerFields = Field(description="the correct response, as above")
    load: DrawFields = Field(default=DrawFields(), description="what varies under load, as above")
    probes: ProbeFields = Field(default=ProbeFields(), description="what varies in scrutineering, as above")


class MixFile(NamedFields):
    """A workload of several requests, `[[request]]` each."""

    request: Annotated[tuple[MixedRequest, ...], Field(strict=False, min_length=1, max_length=64)] = Field(
        description="`[[request]]`: a request with a name and its correct response"
    )
    load: TrafficFields = Field(default=TrafficFields(), description="how requests are sent")


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
