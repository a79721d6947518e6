"""Requests and their right answers, as ``workloads/*.toml`` has them.

A request and its answer are templates over a few whole numbers. The load draws a pool of them, fixed by the race's
seed; scrutineering draws others, so that an answer which isn't computed is found out.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from jinja2 import Environment, StrictUndefined, TemplateError, meta
from pydantic import Field

from dragstrip.contender import Source, Strict, nearest, read
from dragstrip.errors import BadUsage
from dragstrip.paths import is_file

SHIPPED = Path(__file__).parent / "data" / "workloads"

#: Every contender is asked with the same bytes, so the Host header has no port in it.
HOST = "127.0.0.1"

MARK_LENGTH = 4

_JINJA = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)

Span = Annotated[tuple[int, int], Field(strict=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request and its right answer.

    Args:
        path: with its query, as in the request line.
        request: the whole HTTP/1.1 request; ``Connection: close`` in it exactly if it isn't keep-alive.
        content_type: without parameters, small letters.
        body: the right one, byte for byte.
    """

    path: str
    request: bytes
    status: int
    content_type: str
    body: bytes


class RequestFields(Strict):
    """What is asked; ``path`` is a template."""

    path: str = Field(pattern=r"^/[!-~ ]*$", description="a path with its query, like `/multiply?a={{ a }}`")


class AnswerFields(Strict):
    """The right answer; ``body`` is a template that may use the numbers and ``mark``."""

    status: int = Field(default=200, ge=200, le=599, description="the right one")
    content_type: str = Field(pattern=r"^[a-z0-9.+-]+/[a-z0-9.+-]+$", description='like "text/plain"')
    body: str = Field(description="the exact body, as a template")
    check: Literal["full", "length"] = Field(
        default="full", description="`length`: under load, large bodies mostly by their length"
    )


class LoadFields(Strict):
    """The pool of requests under load: each number's first and last value, and how many to draw."""

    count: int = Field(default=16, ge=1, le=10_000, description="how many different requests")
    numbers: dict[str, Span] = Field(default_factory=dict, description="each number's first and last value")


class ProbeFields(Strict):
    """What scrutineering asks: some cases always, then numbers drawn from wider spans."""

    always: Annotated[tuple[dict[str, int], ...], Field(strict=False)] = Field(
        default=(), description="cases that are always asked"
    )
    numbers: dict[str, Span] = Field(default_factory=dict, description="the same numbers, from wider spans")


class WorkloadFile(Strict):
    """One workload's TOML file."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.+-]{0,59}$", description="small letters, digits, . + -")
    title: str = Field(min_length=1, description="what the server does, in one line")
    request: RequestFields = Field(description="what is asked")
    answer: AnswerFields = Field(description="the right answer")
    load: LoadFields = Field(default=LoadFields(), description="what varies under load")
    probes: ProbeFields = Field(default=ProbeFields(), description="what varies in scrutineering")


@dataclass(frozen=True)
class Workload:
    """A request and its right answer, with the numbers that vary."""

    fields: WorkloadFile
    source: Source

    @property
    def name(self) -> str:
        """As contenders list it."""
        return self.fields.name

    @property
    def title(self) -> str:
        """What the server does, in one line."""
        return self.fields.title

    @property
    def needs_mark(self) -> bool:
        """Whether its answers carry the contender's own four characters."""
        return "mark" in _names_in(self.fields.answer.body)

    def exchanges(
        self, *, mark: str = "", keepalive: bool = True, http: str = "1.1", seed: int = 0, host: str = HOST
    ) -> tuple[Exchange, ...]:
        """The pool of different requests that a race is loaded with; one where nothing varies.

        Args:
            mark: the contender's four characters; asked for only where the answer has them.
            keepalive: without it each request asks for the connection's end; how, ``connection_words`` has.
            http: "1.1" or "1.0".
            seed: the same one gives the same pool.

        Raises:
            BadUsage: the workload needs a mark and the contender has none.
        """
        load = self.fields.load
        drawn = _distinct(random.Random(f"{seed} {self.name} load"), load.numbers, load.count)
        words = connection_words(http, keepalive)
        return tuple(self._exchange(numbers, mark, http, words, host) for numbers in drawn)

    def probes(
        self,
        *,
        mark: str = "",
        keepalive: bool = True,
        http: str = "1.1",
        seed: int = 0,
        count: int = 12,
        host: str = HOST,
    ) -> tuple[Exchange, ...]:
        """At most ``count`` randomised requests for scrutineering, the fixed cases first; one where nothing varies.

        Raises:
            BadUsage: as ``exchanges``.
        """
        fields = self.fields.probes
        rng = random.Random(f"{seed} {self.name} probes")
        more = max(count - len(fields.always), 0)
        drawn = [*fields.always, *_distinct(rng, fields.numbers, more)][:count]
        words = connection_words(http, keepalive)
        return tuple(self._exchange(numbers, mark, http, words, host) for numbers in drawn)

    def _exchange(self, numbers: Mapping[str, int], mark: str, http: str, words: list[str], host: str) -> Exchange:
        if self.needs_mark and not re.fullmatch(rf"[!-~]{{{MARK_LENGTH}}}", mark):
            raise BadUsage(
                f"workload {self.name} wants each contender's mark in its answers, and {mark!r} is none; "
                f'write mark = "{MARK_LENGTH} characters" into its contender.toml'
            )
        path = _render(self.fields.request.path, numbers)
        head = [f"GET {path} HTTP/{http}", f"Host: {host}", "User-Agent: dragstrip", "Accept: */*", *words]
        answer = self.fields.answer
        return Exchange(
            path=path,
            request=("\r\n".join(head) + "\r\n\r\n").encode("ascii"),
            status=answer.status,
            content_type=answer.content_type,
            body=_render(answer.body, {**numbers, "mark": mark}).encode(),
        )


def connection_words(http: str, keepalive: bool) -> list[str]:
    """The header, if any, that says what shall become of the connection.

    HTTP/1.1 keeps it unless told otherwise (RFC 9112, 9.3); HTTP/1.0 closes it unless asked as ``ab -k`` asks.
    """
    if http == "1.0":
        return ["Connection: Keep-Alive"] if keepalive else []
    return [] if keepalive else ["Connection: close"]


def load(word: str | Path) -> Workload:
    """A shipped workload by its name, or one from the path of a TOML file.

    Raises:
        BadUsage: there is none of that name. BadDefinition: file, line, field, what would do.
    """
    file = Path(word) if str(word).endswith(".toml") else SHIPPED / f"{word}.toml"
    if not is_file(file):
        there = nearest(str(word), names(), "there are")
        raise BadUsage(f"there is no workload {str(word)!r}; {there}, or give a TOML file")
    return _loaded(file.absolute(), file.stat().st_mtime_ns)


def several(words: str | Path) -> tuple[Workload, ...]:
    """One workload, or several with commas between them; the path of a file may have commas of its own.

    Raises:
        BadUsage: there is none of that name. BadDefinition: as ``load``.
    """
    if is_file(Path(words)):
        return (load(words),)
    return tuple(map(load, str(words).split(",")))


def names() -> list[str]:
    """The shipped workloads."""
    return sorted(file.stem for file in SHIPPED.glob("*.toml"))


@cache
def _loaded(file: Path, _changed_ns: int) -> Workload:
    fields, source = read(file, WorkloadFile)
    _check_numbers(fields, source)
    _check_templates(fields, source)
    workload = Workload(fields, source)
    _check_rendering(workload)
    return workload


def _check_numbers(fields: WorkloadFile, source: Source) -> None:
    """Load and probes must vary the same numbers, within spans that aren't empty."""
    for table, numbers in (("load", fields.load.numbers), ("probes", fields.probes.numbers)):
        for name, (first, last) in numbers.items():
            if first > last or not re.fullmatch(r"[a-z_][a-z0-9_]*", name) or name == "mark":
                raise source.bad(
                    (table, "numbers", name), f"given [{first}, {last}]", "give a plain name and [first, last]"
                )
    if set(fields.load.numbers) != set(fields.probes.numbers):
        raise source.bad(
            ("probes", "numbers"),
            f"varies {sorted(fields.probes.numbers)} where the load varies {sorted(fields.load.numbers)}",
            "give both the same names",
        )
    for number, case in enumerate(fields.probes.always):
        if set(case) != set(fields.load.numbers):
            raise source.bad(
                ("probes", "always", number),
                f"has {sorted(case)}",
                f"give each of {sorted(fields.load.numbers)} a value",
            )


def _check_templates(fields: WorkloadFile, source: Source) -> None:
    known = set(fields.load.numbers)
    for at, text, valid in (
        (("request", "path"), fields.request.path, known),
        (("answer", "body"), fields.answer.body, known | {"mark"}),
    ):
        try:
            unknown = sorted(_names_in(text) - valid)
        except TemplateError as error:
            raise source.bad(at, f"is no template: {error}", "{{ name }} puts a number in its place") from error
        if unknown:
            raise source.bad(at, f"there is no {unknown[0]!r}", nearest(unknown[0], valid, "there are"))


def _check_rendering(workload: Workload) -> None:
    """Every request of the load must be one line of visible ASCII: a space in it would split the request line."""
    for one in (*workload.exchanges(mark="MARK"), *workload.probes(mark="MARK")):
        if not re.fullmatch(r"/[!-~]*", one.path):
            raise workload.source.bad(
                ("request", "path"), f"becomes {one.path!r}", "use visible ASCII without spaces; %20 is a space"
            )


def _names_in(template: str) -> set[str]:
    return meta.find_undeclared_variables(_JINJA.parse(template))


@cache
def _template(text: str) -> Any:
    return _JINJA.from_string(text)


def _render(text: str, values: Mapping[str, Any]) -> str:
    return str(_template(text).render(values))


def _distinct(rng: random.Random, spans: Mapping[str, Sequence[int]], count: int) -> list[dict[str, int]]:
    """Up to ``count`` different draws; fewer where the spans have no more. One empty draw where nothing varies."""
    if not spans:
        return [{}]
    drawn: dict[tuple[int, ...], dict[str, int]] = {}
    for numbers in _draws(rng, spans, tries=50 * count):
        if len(drawn) == count:
            break
        drawn.setdefault(tuple(numbers.values()), numbers)
    return list(drawn.values())


def _draws(rng: random.Random, spans: Mapping[str, Sequence[int]], tries: int) -> Iterator[dict[str, int]]:
    for _ in range(tries):
        yield {name: rng.randint(*spans[name]) for name in sorted(spans)}
