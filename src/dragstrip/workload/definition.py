"""A workload, and the requests and correct responses that are rendered from it."""

from __future__ import annotations

import base64
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Self

from dragstrip.contender import Entry, Key, Source
from dragstrip.contender.template import Json, TemplateRefused, budget, names_in, render, spend
from dragstrip.errors import BadUsage
from dragstrip.requested import typed_as
from dragstrip.workload import draw
from dragstrip.workload.draw import Data, Drawn, drawn
from dragstrip.workload.exchange import (
    CHOSEN,
    HOST,
    HTTP2,
    IDENTITY,
    WRITING,
    Compare,
    Exchange,
)
from dragstrip.workload.fields import (
    MARK_LENGTH,
    MAX_FILE_BYTES,
    AnswerFields,
    MixFile,
    RequestKind,
    TrafficFields,
    WorkloadFile,
)
from dragstrip.workload.kinds import kind_of
from dragstrip.workload.kinds.http import HttpExchanges
from dragstrip.workload.tables import Schema, Tables

#: The maximum length of a mix's drawn sequence, which then repeats.
SEQUENCE = 4096

#: The content type in a definition that stands for any.
ANY_TYPE = "*/*"

#: The largest numbers of statements and of rows that one response may need.
MAX_COUNT = {"statements": 1000, "count": 1000}


@dataclass(frozen=True)
class Workload:
    """Requests and their correct responses, with what varies in them."""

    fields: WorkloadFile | MixFile
    source: Source
    kinds: tuple[RequestKind, ...]

    @property
    def name(self) -> str:
        """Its own name; see ``served_as``."""
        return self.fields.name

    @cached_property
    def shown(self) -> str:
        """Its name for a reader: method and path of a typed request, ``POST /orders``; otherwise its own name."""
        return typed_as(self.source.text) or self.name

    @property
    def traffic(self) -> TrafficFields:
        """How its requests are sent, unless options set it."""
        return self.fields.load

    @property
    def served_as(self) -> str:
        """The name in the definitions of contenders: its own, or the name of the workload with the same requests.

        "" if it needs no definition to name it."""
        return "" if self.fields.anywhere else self.fields.like or self.name

    def version(self, usual: str) -> str:
        """The version of HTTP that it needs; the usual one if it works with any."""
        return HTTP2 if self.traffic.http == HTTP2 else usual

    @cached_property
    def traffic_kind(self) -> HttpExchanges:
        """What kind of workload it is: exchanges of HTTP, messages over WebSocket."""
        return kind_of(self.fields, self.source, self.kinds)

    @property
    def kind_names(self) -> tuple[str, ...]:
        """The names of its requests, if there are several; otherwise ()."""
        return tuple(kind.name for kind in self.kinds) if len(self.kinds) > 1 else ()

    @cached_property
    def needs_mark(self) -> bool:
        """Whether its responses carry the contender's own four characters."""
        return any("mark" in names_in(kind.answer.body or "") for kind in self.kinds)

    @property
    def needs_data(self) -> bool:
        """Whether its launches need the workload's files to respond."""
        return bool(self.fields.data)

    @property
    def asks_database(self) -> bool:
        """Whether its responses come from the race's database."""
        return self.schema is not None

    @property
    def queries(self) -> bool:
        """Whether any response needs a statement of its own in the database."""
        return any(kind.answer.statements for kind in self.kinds)

    @property
    def schema(self) -> Schema | None:
        """The tables of the race's database; None if no response comes from it."""
        return self.fields.database or ("rows" if self.queries else None)

    @property
    def writes(self) -> bool:
        """Whether its requests change rows of the database."""
        return any(kind.answer.compare in WRITING for kind in self.kinds)

    @property
    def cached_ms(self) -> float:
        """The longest time for which a server may keep rows of the database, in milliseconds."""
        return max(kind.answer.cached_ms for kind in self.kinds)

    @property
    def waits(self) -> bool:
        """Whether any of its responses waits for something else: a delay, a database, or as its definition declares."""
        return any(kind.answer.waiting for kind in self.kinds)

    @property
    def by_length(self) -> bool:
        """Whether large bodies are mostly compared by their length under load."""
        return all(kind.answer.check == "length" for kind in self.kinds)

    def data(self, launch: str) -> Data:
        """The files of one launch's folder ``{data}``.

        Args:
            launch: a text that differs from launch to launch; the same text gives the same files.
        """
        made = Data()
        with budget():
            for number, fields in enumerate(self.fields.data):
                with refusing(self.source, ("data", number)):
                    made = drawn(fields, f"{self.name} {launch}", made)
        return made

    def pool(self, kind: RequestKind, seed: int) -> list[Drawn]:
        """The drawn values of one kind's requests under load."""
        with refusing(self.source, (*kind.at, "load")):
            return draw.distinct(self._random(kind, seed, "load"), kind.load, kind.load.count)

    def probed(self, kind: RequestKind, seed: int, count: int) -> list[Drawn]:
        """The values of one kind's requests in scrutineering: the fixed cases first, at most ``count`` in all.

        Drawn values are not in the load's pool, if there are other values.
        """
        pool = {draw.key(values) for values in self.pool(kind, seed)}
        more = max(count - len(kind.probes.always), 0)
        with refusing(self.source, (*kind.at, "probes")):
            others = draw.distinct(self._random(kind, seed, "probes"), kind.probes, more, without=pool)
        return [*kind.probes.always, *others][:count]

    def _random(self, kind: RequestKind, seed: int, use: str) -> random.Random:
        name = self.name if len(self.kinds) == 1 else f"{self.name} {kind.name}"
        return random.Random(f"{seed} {name} {use}")

    def sequence(self, exchanges: Sequence[Exchange], seed: int) -> tuple[int, ...]:
        """The order in which a mix's exchanges are sent, as indices; drawn by the kinds' weights, then repeated.

        Each kind has its exact share of the sequence. () if there is one kind: its exchanges are sent in turn.
        """
        if len(self.kinds) == 1:
            return ()
        indices: list[list[int]] = [[] for _ in self.kinds]
        for index, exchange in enumerate(exchanges):
            indices[exchange.kind].append(index)
        rounds = max(SEQUENCE // sum(kind.weight for kind in self.kinds), 1)
        sequence = [
            indices[number][turn % len(indices[number])]
            for number, kind in enumerate(self.kinds)
            for turn in range(rounds * kind.weight)
        ]
        random.Random(f"{seed} {self.name} sequence").shuffle(sequence)
        return tuple(sequence)


@dataclass(frozen=True, slots=True)
class Asking:
    """The requests for one launch of a contender.

    Args:
        seed: the same seed gives the same requests.
        mark: the contender's four characters; needed only if the responses carry it.
        own_form: responses in JSON may have the contender's own form, and are compared parsed.
        framed: requests are sent over HTTP/2.
        path: the contender's own, in place of the workload's up to the first value that varies; "": the workload's.
        host: the header Host. data: the files of the launch. before: the files of an earlier launch.
    """

    workload: Workload
    _: KW_ONLY
    seed: int = 0
    mark: str = ""
    own_form: bool = False
    framed: bool = False
    path: str = ""
    host: str = HOST
    data: Data | None = None
    before: Data | None = None

    @classmethod
    def of(cls, workload: Workload, seed: int, entry: Entry, data: Data, before: Data | None = None) -> Self:
        """For a launch of this contender."""
        framed = entry.http(workload.version("1.1")) == HTTP2
        forms = {"own_form": workload.name in entry.own_forms, "framed": framed}
        path, host = entry.path(workload.served_as), (entry.url and entry.url.authority) or HOST
        return cls(
            workload=workload, seed=seed, mark=entry.mark, path=path, host=host, data=data, before=before, **forms
        )

    @property
    def plain(self) -> bool:
        """Whether requests are sent over HTTP/1."""
        return not self.framed and self.workload.traffic_kind.over_http

    def exchanges(self, *, keepalive: bool = True, http: str = "1.1") -> tuple[Exchange, ...]:
        """The pool of different requests for the load, kind by kind; one request per kind in which nothing varies.

        Args:
            keepalive: False: each request asks the server to close the connection (``connection_words``).
            http: "1.1", "1.0" or "2"; no effect if ``framed`` or over WebSocket.

        Raises:
            BadUsage: the workload needs a mark and the contender has none.
        """
        return self._exchanges(lambda kind: self.workload.pool(kind, self.seed), keepalive, http)

    def probes(self, *, keepalive: bool = True, http: str = "1.1", count: int = 12) -> tuple[Exchange, ...]:
        """At most ``count`` further requests of each kind; only a server that computes responses gets them right.

        Raises:
            BadUsage: as ``exchanges``.
        """
        return self._exchanges(lambda kind: self.workload.probed(kind, self.seed, count), keepalive, http)

    def _exchanges(
        self, values_of: Callable[[RequestKind], list[Drawn]], keepalive: bool, http: str
    ) -> tuple[Exchange, ...]:
        with budget():
            return tuple(
                self._exchange(number, values, keepalive, http)
                for number, kind in enumerate(self.workload.kinds)
                for values in values_of(kind)
            )

    def _exchange(self, number: int, values: Drawn, keepalive: bool, http: str) -> Exchange:
        workload, kind = self.workload, self.workload.kinds[number]
        if workload.needs_mark and not re.fullmatch(rf"[!-~]{{{MARK_LENGTH}}}", self.mark):
            raise BadUsage(
                f"workload {workload.shown} needs each contender's mark in its responses, but {self.mark!r} is not a"
                f' valid mark; write mark = "{MARK_LENGTH} characters" into its contender.toml'
            )
        request, answer, http = kind.request, kind.answer, HTTP2 if self.framed else http
        message = self._message(kind, values)
        path, sends = self._filled(kind.asked_at("path"), self._path(request.path), values), self._body_of(kind, values)
        chunked = request.framing == "chunked" and sends is not None
        codings = [coding for coding in answer.encodings if coding != IDENTITY]
        headers = {"Accept-Encoding": ", ".join(codings)} if codings and answer.negotiated else {}
        headers |= {
            name: self._filled(kind.asked_at("headers", name), text, values) for name, text in request.headers.items()
        }
        right = self._right(kind, values, self.data, sends)
        before = self._right(kind, values, self.before, sends) if self.before else None
        sent = workload.traffic_kind.sent(
            kind, path, http, headers, sends, chunked=chunked, keepalive=keepalive, host=self.host
        )
        return Exchange(
            path=path,
            request=sent.request,
            status=sent.status,
            content_type="" if answer.content_type == ANY_TYPE else answer.content_type,
            body=right,
            headers=answer.headers,
            encodings=answer.encodings,
            negotiated=answer.negotiated,
            compare=self._compare(answer),
            earliest_ns=round(answer.earliest_ms * 1e6),
            kind=number,
            kind_name=kind.name if len(workload.kinds) > 1 else "",
            sends=sends or b"",
            chunked=chunked,
            chunks=request.chunks,
            stale=before if before != right else None,
            statements=self._count(kind, "statements", values),
            http=sent.http,
            message=message,
            tables=self.data.tables if self.data else Tables(),
            written=self.data.written if self.data else {},
            cached_ms=answer.cached_ms,
            count=self._count(kind, "count", values),
            low=self._count(kind, "low", values),
            high=self._count(kind, "high", values),
            changing=answer.changing,
            sha256=answer.sha256 or "",
        )

    def _message(self, kind: RequestKind, values: Drawn) -> str:
        """The type of a message, "text" or "binary"; "" if the request is not a message."""
        filled = self._filled(kind.asked_at("message"), kind.request.message, values)
        return self.workload.traffic_kind.message_type(kind, filled)

    def _path(self, usual: str) -> str:
        """The template of a request's path, with the contender's own beginning if it has one."""
        _, braces, rest = usual.partition("{{")
        return f"{self.path}{braces}{rest}" if self.path else usual

    def _filled(self, at: tuple[Key, ...], text: str, values: Mapping[str, Json]) -> str:
        with refusing(self.workload.source, at):
            return render(text, values)

    def _count(self, kind: RequestKind, key: str, values: Drawn) -> int:
        """The number that a template of the response becomes."""
        at = (*kind.at, "answer", key)
        text = self._filled(at, str(getattr(kind.answer, key)), values)
        if not (text.isascii() and text.isdigit()) or len(text) > 6 or int(text) > MAX_COUNT.get(key, 10**6):
            raise self.workload.source.bad(at, f"becomes {text!r}", f"give 0 to {MAX_COUNT.get(key, 10**6):,}")
        return int(text)

    def _compare(self, answer: AnswerFields) -> Compare:
        if answer.compare == "echo" or (answer.compare == "json" and not self.own_form):
            return "bytes"
        return answer.compare

    def _right(self, kind: RequestKind, values: Drawn, data: Data | None, sends: bytes | None) -> bytes:
        answer = kind.answer
        if answer.compare == "echo":
            return sends or b""
        if answer.compare in ("length", "digest"):
            return bytes(answer.length or 0)
        if answer.body_base64 is not None:
            return base64.b64decode(answer.body_base64)
        if answer.compare == "status" or answer.compare in CHOSEN:
            return b""
        if self.workload.needs_data and data is None:
            raise ValueError(f"workload {self.workload.name} needs the files of a launch")
        data = data or Data()
        if answer.data is not None:
            return data.files[self._filled((*kind.at, "answer", "data"), answer.data, values)]
        names = {**values, "mark": self.mark, "table": data.tables.numbers, **data.rows}
        return self._filled((*kind.at, "answer", "body"), answer.body or "", names).encode()

    def _body_of(self, kind: RequestKind, values: Drawn) -> bytes | None:
        """The body of a request; None if it has no body."""
        if kind.body is not None:
            with refusing(self.workload.source, kind.asked_at("body_file")):
                spend(1, len(kind.body))  # each request has a copy
            return kind.body
        if kind.request.body is not None:
            return self._filled(kind.asked_at("body"), kind.request.body, values).encode()
        if kind.request.body_bytes is not None:
            return self._random_body(kind, kind.request.body_bytes, values)
        return b"" if kind.request.method in ("POST", "PUT", "PATCH") else None

    def _random_body(self, kind: RequestKind, size: str, values: Drawn) -> bytes:
        at = kind.asked_at("body_bytes")
        text = self._filled(at, size, values)
        if not (text.isascii() and text.isdigit()) or len(text) > 9 or int(text) > MAX_FILE_BYTES:
            raise self.workload.source.bad(at, f"becomes {text!r}", f"give 0 to {MAX_FILE_BYTES:,} bytes")
        with refusing(self.workload.source, at):
            spend(1, int(text))
        rng = random.Random(f"{self.seed} {kind.name} {draw.key(values)}")
        if self._message(kind, values) == "text":
            return "".join(rng.choices(draw.LETTERS, k=int(text))).encode()
        return rng.randbytes(int(text))


@contextmanager
def refusing(source: Source, at: tuple[Key, ...]) -> Iterator[None]:
    """Turns the refusal of a template into the refusal of the key ``at`` of its file.

    Raises:
        BadDefinition: names file, line, field, problem and remedy.
    """
    try:
        yield
    except TemplateRefused as error:
        raise source.bad(at, error.problem, error.remedy) from error
