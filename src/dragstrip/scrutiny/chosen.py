"""Judges responses whose rows the server chooses: each row must be a row of the database's tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from html.parser import HTMLParser

from dragstrip.scrutiny import items
from dragstrip.scrutiny.reader import quoted
from dragstrip.workload import Exchange, Tables, fortunes_page

#: Of this many rows that a server chose at random, fewer than half differ only if it does not choose them.
_ENOUGH = 6


def rows_in(body: bytes) -> list[tuple[int, int]]:
    """The ids and numbers of the rows in a correct response."""
    given = json.loads(body)
    return [(row["id"], row["randomNumber"]) for row in (given if isinstance(given, list) else [given])]


def chosen_fault(exchange: Exchange, body: bytes) -> str | None:
    """What is wrong with a response whose rows the server chose, in words; None if it is correct."""
    judge: Mapping[str, Callable[[Exchange, bytes], str | None]] = {
        "world": _world,
        "worlds": _worlds,
        "updates": _worlds,
        "fortunes": _fortunes,
        "items": items.several,
        "item": items.single,
        "listed": items.listed,
        "created": items.written,
        "updated": items.written,
    }
    return judge[exchange.compare](exchange, body)


def _world(exchange: Exchange, body: bytes) -> str | None:
    row = items.parsed(body)
    if not isinstance(row, dict):
        return f"sent {quoted(body)}; expected one object with id and randomNumber, as JSON"
    return _row_fault(row, exchange.tables, any_number=False)


def _worlds(exchange: Exchange, body: bytes) -> str | None:
    rows = items.parsed(body)
    if not isinstance(rows, list) or len(rows) != exchange.count:
        given = f"{len(rows):,} rows" if isinstance(rows, list) else quoted(body)
        return f"sent {given}; expected a list of {exchange.count:,} rows"
    for row in rows:
        if fault := _row_fault(row, exchange.tables, any_number=exchange.compare == "updates"):
            return fault
    return None


def _row_fault(row: object, tables: Tables, *, any_number: bool) -> str | None:
    """Why a row is not one of TechEmpower's table.

    Args:
        any_number: the server may have changed the number since.
    """
    if not isinstance(row, dict) or set(row) != {"id", "randomNumber"}:
        return f"sent a row {quoted(json.dumps(row).encode())}; expected id and randomNumber"
    number, value = row["id"], row["randomNumber"]
    if type(number) is not int or type(value) is not int or not 1 <= number <= len(tables.numbers):
        shown = quoted(json.dumps(row).encode())
        return f"sent a row {shown}; expected whole numbers, with an id from 1 to {len(tables.numbers):,}"
    if any_number:
        return None if 1 <= value <= 10_000 else f"sent {value:,} as a new number; expected 1 to 10,000"
    right = tables.numbers[number - 1]
    if value != right:
        return f"sent randomNumber {value:,} of row {number:,}, which the table does not have; expected {right:,}"
    return None


class _Page(HTMLParser):
    """The cells of a page's table, row by row, and its title and type."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: list[list[str]] = []
        self.heads: list[str] = []
        self.title = self.doctype = ""
        self._within = ""

    def handle_decl(self, decl: str) -> None:
        self.doctype = self.doctype or decl.strip().lower()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag == "td" and self.rows:
            self.rows[-1].append("")
        elif tag == "th":
            self.heads.append("")
        self._within = tag

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within == "td" and self.rows and self.rows[-1]:
            self.rows[-1][-1] += data
        elif self._within == "th" and self.heads:
            self.heads[-1] += data
        elif self._within == "title":
            self.title += data


def _fortunes(exchange: Exchange, body: bytes) -> str | None:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return f"sent a page that is not UTF-8, {quoted(body)}; expected UTF-8"
    page = _Page()
    page.feed(text)
    page.close()
    right = fortunes_page(exchange.tables)
    if unescaped := next((message for _, message in right if message.startswith("<") and message in text), None):
        return f"did not escape the message {quoted(unescaped.encode())}; expected it as text of the page"
    rows = [tuple(cell.strip() for cell in cells) for cells in page.rows if cells]
    if rows != right:
        return _rows_fault(rows, right)
    if page.doctype != "doctype html" or page.title.strip() != "Fortunes":
        return f"sent a page that begins {quoted(body)}; expected <!DOCTYPE html> and the title Fortunes"
    if [head.strip() for head in page.heads] != ["id", "message"]:
        return f"sent the table's heads {quoted(str(page.heads).encode())}; expected id and message"
    return None


def _rows_fault(rows: list[tuple[str, ...]], right: list[tuple[str, str]]) -> str:
    if sorted(rows) == sorted(right):
        wrong = next(given for given, due in zip(rows, right, strict=True) if given != due)
        return f"did not sort the messages: {quoted(wrong[-1].encode())} is in another place; expected them by message"
    if len(rows) != len(right):
        return f"sent {len(rows):,} rows; expected {len(right):,}: the table's and the added message"
    given, due = next((given, due) for given, due in zip(rows, right, strict=True) if given != due)
    return f"sent the row {quoted(str(given).encode())}; expected {quoted(str(due).encode())}, as the table has it"


def unrandom(chosen: list[int]) -> str | None:
    """Why the ids in a server's responses were not chosen at random, in words; None if they may have been."""
    if len(chosen) < _ENOUGH or len(set(chosen)) >= len(chosen) / 2:
        return None
    return (
        f"chose only {len(set(chosen)):,} different rows in {len(chosen):,} cases; expected rows chosen at random for "
        "each response"
    )


def unwritten(
    returned: Mapping[int, int], before: Sequence[Mapping[int, int]] | None, after: Sequence[Mapping[int, int]]
) -> str | None:
    """Why the numbers that a server returned were not written into its table, in words; None if they were.

    Args:
        returned: the last number that it returned for each id.
        before, after: the numbers in each of its tables, of which it uses one, before its first and after its last
            response. None: the requests determine the numbers, so that they may be the old ones.
    """
    faults = []
    for old, numbers in zip(before or [{}] * len(after), after, strict=True):
        wrong = [number for number, value in returned.items() if numbers.get(number) != value]
        if not wrong:
            kept = sum(old.get(number) == value for number, value in returned.items())
            if len(returned) >= _ENOUGH and kept > len(returned) / 2:
                return f"returned the old numbers of {kept:,} of {len(returned):,} rows; expected new numbers"
            return None
        faults.append((len(wrong), wrong[0], numbers.get(wrong[0])))
    count, number, has = min(faults, key=lambda fault: fault[0])
    return (
        f"did not write what it returned: {count:,} of {len(returned):,} rows differ, and row {number:,} has "
        f"{has} in the table; expected {returned[number]} there"
    )
