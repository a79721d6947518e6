"""Facts of the parity sheet: each value's text reads back as the value."""

from __future__ import annotations

from typing import Any

import pytest

from dragstrip import parity
from dragstrip.parity import CoresUsed, KeepAlive, OldHttp, OldHttpKind, ParitySheet, RunsAs, Span, UnknownPath, Untried


@pytest.mark.parametrize(
    ("name", "attribute", "value", "text"),
    [
        (parity.KEEP_ALIVE, "keep_alive", KeepAlive(1, closed=True, announced=True), "1 request"),
        (parity.KEEP_ALIVE, "keep_alive", KeepAlive(1000, closed=True, announced=True), "1,000 requests"),
        (parity.KEEP_ALIVE, "keep_alive", KeepAlive(7, closed=True), "7 requests, closed without a word"),
        (parity.KEEP_ALIVE, "keep_alive", KeepAlive(2500, closed=False), "none in 2,500 requests"),
        (parity.OLD_HTTP, "old_http", OldHttp(OldHttpKind.KEEPS), "keeps the connection"),
        (parity.OLD_HTTP, "old_http", OldHttp(OldHttpKind.CLOSES), "closes after each answer"),
        (
            parity.OLD_HTTP,
            "old_http",
            OldHttp(OldHttpKind.BREAKS),
            "says that it keeps the connection, and closes it",
        ),
        (parity.OLD_HTTP, "old_http", OldHttp(OldHttpKind.WRONG, "/: a: b"), "answered wrongly: /: a: b"),
        (parity.OLD_HTTP, "old_http", OldHttp(OldHttpKind.SECOND_WRONG, "x"), "second answer wrong: x"),
        (parity.UNKNOWN_PATH, "unknown_path", UnknownPath(404, same_body=False), "status 404"),
        (
            parity.UNKNOWN_PATH,
            "unknown_path",
            UnknownPath(200, same_body=True),
            "status 200, the same body as the right path",
        ),
        (parity.HEADER_BYTES, "header_bytes", Span(158, 160), "158–160"),
        (parity.BODY_BYTES, "body_bytes", Span(12, 12), "12"),
        (parity.CORES_USED, "cores_used", CoresUsed(0.98, 2), "0.98 of 2"),
        (parity.RUNS_AS, "runs_as", RunsAs(("nobody", "root")), "nobody, root"),
    ],
)
def test_a_fact_has_one_text_which_reads_back_as_the_fact(name: str, attribute: str, value: Any, text: str) -> None:
    """The text is what stores and exports hold (schema 1): it may not change."""
    assert parity.sheet_texts({name: value}) == {name: text}
    assert getattr(ParitySheet.of({name: text}), attribute) == value


def test_what_no_version_wrote_is_no_fact() -> None:
    """A sheet edited by hand, or of a version to come, is not guessed at."""
    names = (parity.KEEP_ALIVE, parity.OLD_HTTP, parity.UNKNOWN_PATH, parity.HEADER_BYTES, parity.CORES_USED)
    strange = ParitySheet.of(dict.fromkeys(names, "much of it"))
    assert strange == ParitySheet.of({})
    assert strange.keep_alive is None


@pytest.mark.parametrize(
    ("name", "attribute"),
    [(parity.KEEP_ALIVE, "keep_alive"), (parity.OLD_HTTP, "old_http"), (parity.UNKNOWN_PATH, "unknown_path")],
)
def test_what_could_not_be_tried_is_said_with_the_problem_and_is_unknown(name: str, attribute: str) -> None:
    """No contender differs from another by it."""
    text = "could not be tried: it is: late"
    assert parity.sheet_texts({name: Untried("it is: late")}) == {name: text}
    assert getattr(ParitySheet.of({name: text}), attribute) is None


@pytest.mark.parametrize(
    ("text", "on"),
    [("off", False), ("none (nginx without gzip)", False), ("No", False), ("on, to a file", True), ("nonesuch", True)],
)
def test_a_setting_is_off_where_its_author_says_so_first(text: str, on: bool) -> None:
    """Definitions are written by people: off, none and no all say it."""
    assert parity.switch(text).on is on
