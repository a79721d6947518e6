"""A block's numbers are declared once, in the engine (`each_counter!`, crates/engine/src/tally.rs).

Rust's types and the Python class are made of that list. What else names the numbers one by one is held against the
class here: the stub, a race's record and its columns, a load run's slice, and the documentation of each. Whoever adds a
number learns here which of these lacks it.
"""

from __future__ import annotations

import ast
import inspect
import re
import sqlite3
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from dragstrip import record
from dragstrip._engine import Tally
from dragstrip.loading.result import Slice
from dragstrip.racing.round import block_record
from dragstrip.store.database import Store

ROOT = Path(__file__).parents[2]
STUB = ROOT / "src" / "dragstrip" / "_engine.pyi"

#: What a race's record has of its own: the block's place, its judgement, and kinds of requests by their names.
RECORDS_OWN = {"contender", "round", "pass_index", "position", "void", "kinds"}
#: What a race does not keep as it came: it knows the session, tells no slices apart, and asks for no first bytes.
NOT_RECORDED = {
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
#: What a load run does not record: it has one session, no lead-in, and a server that is not watched.
NOT_IN_A_SLICE = {
    "session",
    "kinds",
    "counted_start_ns",
    "lead_ns",
    "sample",
    "p90_ns",
    "p999_ns",
    "server_cpu_ns",
    "server_wait_ns",
    "server_runs",
    "engine_switches",
    "engine_threads",
    "steal_ns",
    "lag_p50_ns",
    "lag_max_ns",
}


def of_engine() -> set[str]:
    """The numbers as the compiled engine hands them over."""
    return {name for name in vars(Tally) if not name.startswith("_")}


def of_stub() -> dict[str, str]:
    """The same as the stub has them, each with its type."""
    tree = ast.parse(STUB.read_text())
    (tally,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Tally")
    members = [node for node in tally.body if isinstance(node, ast.FunctionDef)]
    return {node.name: ast.unparse(node.returns) for node in members if node.returns}


def of_list() -> dict[str, str]:
    """The plain numbers in the one list, each with its Rust type."""
    text = (ROOT / "crates" / "engine" / "src" / "tally.rs").read_text()
    found = re.search(r"\$then! \{(.*?)\n        \}\n", text, re.DOTALL)
    assert found
    counted, read, open_loop = re.findall(r"\w+ \{(.*?)\n            \}", found[1], re.DOTALL)
    names = dict.fromkeys(re.findall(r"^\s+(\w+): \w+;", counted, re.MULTILINE), "u64")
    names |= dict(re.findall(r"^\s+(\w+): ([\w<>]+);", read, re.MULTILINE))
    return names | dict.fromkeys(re.findall(r"^\s+(\w+);", open_loop, re.MULTILINE), "Option<u64>")


def test_the_stub_has_each_number_with_its_type() -> None:
    """None is missing, none is left over."""
    assert set(of_stub()) == of_engine()
    python = {"u64": "int", "u32": "int", "usize": "int", "Option<u64>": "int | None"}
    assert {name: of_stub()[name] for name in of_list()} == {name: python[kind] for name, kind in of_list().items()}
    assert len(of_list()) >= 29


@pytest.mark.parametrize(
    ("kind", "own", "left_out"),
    [(record.Block, RECORDS_OWN, NOT_RECORDED), (Slice, set(), NOT_IN_A_SLICE)],
)
def test_each_number_is_kept_or_left_out_on_purpose(kind: type, own: set[str], left_out: set[str]) -> None:
    """Under the engine's own name."""
    kept = {field.name for field in fields(kind)} - own
    assert kept <= of_engine()
    assert of_engine() - kept == left_out


@pytest.mark.parametrize("kind", [record.Block, Slice])
def test_each_kept_number_is_documented(kind: type) -> None:
    """In the docstring's arguments, or in the engine's stub by a text of its own."""
    arguments = "\n".join(
        (inspect.getdoc(part) or "").partition("Args:")[2] for part in kind.__mro__ if is_dataclass(part)
    )
    entries = re.findall(r"^    ([\w, ]+?):", arguments, re.MULTILINE)
    named = {name.strip() for entry in entries for name in entry.split(",")}
    assert {field.name for field in fields(kind)} - named == set()


def test_the_engine_documents_each_plain_number() -> None:
    """By the text of its declaration."""
    assert [name for name in of_list() if not getattr(Tally, name).__doc__] == []


def test_the_store_has_a_column_for_each_number_of_the_record(tmp_path: Path) -> None:
    """And no counter without a source."""
    with Store(tmp_path / "races.sqlite"):
        pass
    with sqlite3.connect(tmp_path / "races.sqlite") as db:
        columns = {name for _, name, *_ in db.execute("PRAGMA table_info(block)")}
    assert columns == {"race", "seq"} | {field.name for field in fields(record.Block)}


def test_a_record_holds_what_the_engine_handed_over() -> None:
    """Each number under its own name, none twice, none in another's place."""
    stub = of_stub()
    tally = type("Told", (), {name: _value(name, stub[name], at) for at, name in enumerate(sorted(stub))})()
    block = block_record(tally, "a", 1, 2, 3)
    assert (block.contender, block.round, block.pass_index, block.position, block.void) == ("a", 1, 2, 3, ())
    for field in fields(block):
        if field.name not in RECORDS_OWN:
            assert getattr(block, field.name) == getattr(tally, field.name), field.name


def _value(name: str, kind: str, at: int) -> object:
    """One that no other number has."""
    values: Mapping[str, object] = {
        "int": at, "bool": True, "str": name, "bytes": name.encode(), "list[KindTally]": [],
    }  # fmt: skip
    return values.get(kind.removesuffix(" | None"), {name: at})


def test_kinds_of_refusal_are_those_that_the_stub_names() -> None:
    """Each that Rust may give stands there, and nothing else."""
    crates = ROOT / "crates"
    engine = (crates / "engine" / "src" / "error.rs").read_text().partition("pub fn kind(&self)")[2]
    given = set(re.findall(r'(?:=> |Some\(|or\()"(\w+)"', engine))
    for path in (crates / "python" / "src").glob("*.rs"):
        given |= set(re.findall(r'of_kind\("(\w+)"', path.read_text()))
    named = re.search(r"ErrorKind = Literal\[(.*?)\]", STUB.read_text(), re.DOTALL)
    assert named
    assert given == set(re.findall(r'"(\w+)"', named[1]))
    documented = STUB.read_text().partition("ErrorKind = Literal")[0]
    assert all(f"``{kind}``" in documented for kind in given)
