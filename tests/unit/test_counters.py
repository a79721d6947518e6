"""A block's numbers are declared once, in the engine (`each_counter!`, crates/engine/src/tally.rs).

Rust's types, the Python class and its stub are made of that list. What Python keeps of them is declared once, too:
``record.Counted``, of which the blocks of a race and of a fleet and the slices of a load are made. Both lists and the
store's columns are compared here.
"""

from __future__ import annotations

import inspect
import re
import sqlite3
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest

from dragstrip import errors, record
from dragstrip._engine import Tally
from dragstrip.extras.fleet.messages import Tally as SentTally
from dragstrip.loading.result import Slice
from dragstrip.racing.round import block_record
from dragstrip.store.database import Store

CRATES = Path(__file__).parents[2] / "crates"
#: The numbers as the compiled engine hands them over.
OF_ENGINE = {name for name in vars(Tally) if not name.startswith("_")}
#: The numbers that every record has.
KEPT = {field.name for field in fields(record.Counted)}
#: What no record has: a race asks for no first bytes, and other quantiles are read off the histograms.
NOT_KEPT = {
    "session",
    "kinds",
    "counted_start_ns",
    "statuses",
    "samples",
    "connect_hdr",
    "first_byte_hdr",
    "lag_p50_ns",
    "lag_max_ns",
}
#: What a race's record has of its own: the block's place, its judgement, and kinds of requests by their names.
RECORDS_OWN = {"contender", "round", "pass_index", "position", "void", "kinds"}


def test_each_number_is_kept_or_left_out_on_purpose() -> None:
    """Under the engine's own name; a load and a fleet keep some more."""
    assert KEPT <= OF_ENGINE
    assert OF_ENGINE - KEPT == NOT_KEPT
    for kind in (Slice, SentTally):
        assert {field.name for field in fields(kind)} - KEPT <= NOT_KEPT


@pytest.mark.parametrize("kind", [record.Block, Slice])
def test_each_kept_number_is_documented(kind: type) -> None:
    """In the docstring's arguments."""
    arguments = "\n".join(
        (inspect.getdoc(part) or "").partition("Args:")[2] for part in kind.__mro__ if is_dataclass(part)
    )
    entries = re.findall(r"^    ([\w, ]+?):", arguments, re.MULTILINE)
    named = {name.strip() for entry in entries for name in entry.split(",")}
    assert {field.name for field in fields(kind)} - named == set()


def test_the_engine_documents_each_number() -> None:
    """By the comment of its declaration, which the stub repeats."""
    assert [name for name in OF_ENGINE if not getattr(Tally, name).__doc__] == []


def test_the_store_has_a_column_for_each_number_of_the_record(tmp_path: Path) -> None:
    """And no counter without a source."""
    with Store(tmp_path / "races.sqlite"):
        pass
    with sqlite3.connect(tmp_path / "races.sqlite") as db:
        columns = {name for _, name, *_ in db.execute("PRAGMA table_info(block)")}
    assert columns == {"race", "seq"} | {field.name for field in fields(record.Block)}


def test_a_record_holds_what_the_engine_handed_over() -> None:
    """Each number under its own name, none twice, none in another's place."""
    tally = SimpleNamespace(**dict.fromkeys(NOT_KEPT), **{name: at for at, name in enumerate(sorted(KEPT))})
    tally.kinds = []
    block = block_record(tally, "a", 1, 2, 3)  # type: ignore[arg-type]
    assert (block.contender, block.round, block.pass_index, block.position, block.void) == ("a", 1, 2, 3, ())
    for name in {field.name for field in fields(block)} - RECORDS_OWN:
        assert getattr(block, name) == getattr(tally, name), name


def test_kinds_of_refusal_are_those_that_are_documented() -> None:
    """Each that Rust may give is in ``errors.ErrorKind``, and nothing else."""
    engine = (CRATES / "engine" / "src" / "error.rs").read_text().partition("pub fn kind(&self)")[2]
    given = set(re.findall(r'(?:=> |Some\(|or\()"(\w+)"', engine))
    for path in (CRATES / "python" / "src").glob("*.rs"):
        given |= set(re.findall(r'of_kind\("(\w+)"', path.read_text()))
    assert given == set(get_args(errors.ErrorKind))
    documented = (inspect.getsource(errors)).partition("ErrorKind = Literal")[0]
    assert all(f"``{kind}``" in documented for kind in given)
