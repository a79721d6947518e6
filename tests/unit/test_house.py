"""The house rules: ranks, purity, lengths, no stray print. Reads the sources as text and syntax, runs nothing."""

from __future__ import annotations

import ast
import itertools
import re
import tomllib
from pathlib import Path

import architecture
import pytest

# The text is the same on every machine: once in `make check` is enough.
pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "dragstrip"
SOURCES = sorted(p for p in PACKAGE.rglob("*.py") if "data" not in p.relative_to(PACKAGE).parts)


#: Rooms whose code may load the compiled engine; judging and drawing old results must work where it cannot load.
ENGINE_ROOMS = {"compat", "fleet", "racing", "loading", "doctor", "cli", "profile"}

#: What arithmetic on records has no use for.
IMPURE = {
    "asyncio", "http", "io", "multiprocessing", "os", "pathlib", "psutil", "random", "select", "shutil", "signal",
    "socket", "sqlite3", "ssl", "subprocess", "sys", "tempfile", "threading", "time", "urllib",
}  # fmt: skip
PURE_ROOMS = ("analysis", "validity")

#: What starts, loads or stops something.
RUNNERS = re.compile(
    r"fleet\.|racing\.|profile\.|process\.|scrutiny\.|doctor\.(examine|noise_floor)$|loading\.(run|learn)$|sweep\.run$|claim\.(run|counted_run)$"
)

FUNCTION_LINES = 60


@pytest.fixture(scope="module")
def edges() -> dict[str, frozenset[str]]:
    """Every module's imports of ours, those for the type checker included."""
    found = architecture.python_edges()
    assert len(found) > 100
    return found


def test_every_room_has_a_rank_of_its_own_and_the_top_stays_small(edges: dict[str, frozenset[str]]) -> None:
    """At most 22 packages and 11 modules at the top, each in one place of the picture."""
    rooms = {architecture.room_of(module) for module in edges} - {"", "__main__"}
    assert rooms == set(architecture.ROOMS)
    assert len(set(architecture.RANK.values())) == len(architecture.ROOMS)
    packages = [path.parent.name for path in PACKAGE.glob("*/__init__.py")]
    assert len(packages) <= 22, packages
    assert len(list(PACKAGE.glob("*.py"))) <= 11


def test_imports_lead_down_and_never_round_about(edges: dict[str, frozenset[str]]) -> None:
    """No room imports one above it; no modules import each other in a circle."""
    assert not architecture.upwards(edges, architecture.RANK)
    assert not architecture.circles(edges)
    assert edges["__main__"] == {"cli.main"}
    assert edges[""] <= {"api", "version"}


def test_rust_modules_import_downwards_too() -> None:
    """The same for the engine; it holds all of its modules."""
    found = architecture.rust_edges()
    assert {architecture.room_of(module) for module in found} == set(architecture.RUST_ROOMS)
    assert not architecture.circles(found)
    assert not architecture.upwards(found, architecture.RUST_RANK)


def test_the_facts_find_what_is_wrong() -> None:
    """A planted circle and a planted import upwards are seen."""
    edges = {"report.a": frozenset({"cli.b"}), "cli.b": frozenset({"errors"}), "errors": frozenset({"report.a"})}
    assert architecture.circles(edges) == [["cli.b", "errors", "report.a"]]
    assert architecture.upwards(edges, architecture.RANK) == [("report.a", "cli.b"), ("errors", "report.a")]


def test_report_imports_nothing_that_runs_a_race() -> None:
    """Neither itself nor through others; what only a type checker follows is left out."""
    edges = architecture.python_edges(types=False)
    found = set()
    for module in (name for name in edges if name.startswith("report.")):
        reached, waiting = set(), [module]
        while waiting:
            for other in edges[waiting.pop()] - reached:
                reached.add(other)
                waiting.append(other)
        found |= {f"{module} -> {other}" for other in reached if RUNNERS.match(other)}
    assert not found


@pytest.mark.parametrize("room", PURE_ROOMS)
def test_analysis_and_validity_compute_and_do_nothing_else(room: str) -> None:
    """No file, process, clock or engine; what they import of ours is as pure, or plain values."""
    found = set()
    for path in sorted((PACKAGE / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("open", "print", "input")
            ):
                names = [node.func.id]
            for name in names:
                own = name.split(".")
                if own[0] in (*IMPURE, "open", "print", "input") or own[:2] == ["dragstrip", "_engine"]:
                    found.add(f"{room}/{path.name}: {name}")
    assert not found


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_only_those_who_measure_touch_the_compiled_engine(path: Path) -> None:
    """Judging and re-rendering old results must work where it cannot load."""
    if path.relative_to(PACKAGE).parts[0] not in ENGINE_ROOMS:
        assert not re.search(r"^\s*(from dragstrip\._engine|import dragstrip\._engine)", path.read_text(), re.M)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_functions_stay_short_enough_to_be_read_whole(path: Path) -> None:
    """A function has up to 60 lines, without its docstring. A file has no such limit: it holds one thing."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            doc = ast.get_docstring(node, clean=False)
            lines = (node.end_lineno or 0) - node.lineno + 1 - (len(doc.splitlines()) if doc else 0)
            assert lines <= FUNCTION_LINES, f"{path.name}:{node.lineno} {node.name} has {lines} lines"


def test_no_contender_is_named_in_code() -> None:
    """What varies is a file: a shipped contender's name stands in no Python source of the package."""
    names = [p.name for p in (PACKAGE / "data" / "contenders").iterdir() if (p / "contender.toml").exists()]
    assert len(names) >= 8
    for path in SOURCES:
        strings = [
            node.value
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        exact = set(strings) & set(names)
        assert not exact, f"{path.name} names {exact}"


def test_unsafe_rust_stays_where_the_house_says() -> None:
    """Only the engine's io back ends and its system-call shim hold unsafe code; and what opens all of Lua.

    And, of the sampler, what opens events and tracefs, maps rings and programs' files, and traces.
    """
    sampler = tuple(f"profile/src/{name}.rs" for name in ("event", "modules", "ring", "tracefs", "tracer"))
    allowed = ("engine/src/sys.rs", "script/src/state.rs", *sampler)
    for path in (ROOT / "crates").rglob("src/**/*.rs"):
        inside = path.relative_to(ROOT / "crates").as_posix()
        if re.search(r"\bunsafe\s*(\{|fn|impl)", path.read_text()):
            assert inside.startswith("engine/src/io/") or inside in allowed, inside


def test_the_fuzzer_reads_the_parsers_that_the_engine_is_built_of() -> None:
    """All targets use the parsers from the engine's own files, with the same versions of the same crates."""
    fuzz = ROOT / "crates" / "engine" / "fuzz"
    needed = tomllib.loads((fuzz / "Cargo.toml").read_text())["dependencies"]
    pinned = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["dependencies"]
    shared = {name: pinned[name] for name in needed if name in pinned}
    assert len(shared) == 3
    assert {name: needed[name] for name in shared} == shared
    modules = set(re.findall(r"pub mod (\w+);", (fuzz / "parsers.rs").read_text()))
    # WebSocket's frames alone: its upgrade needs a crate that takes long to build.
    assert {"response", "http2", "frames"} <= modules
    assert modules - {"frames"} <= set(architecture.RUST_ROOMS)


def test_no_registry_host_and_no_lock_file_with_addresses() -> None:
    """Packages are asked for by name; where they come from is the user's own setting."""
    hosts = re.compile(
        "|".join(
            ["py" + "pi.org", "pythonhosted" + ".org", "crates" + r"\.io", "npmjs" + ".org", r"proxy\.golang" + ".org"]
        )
    )
    for path in ROOT.rglob("*"):
        parts = path.relative_to(ROOT).parts
        if parts[0] in (".git", ".venv", "target", "runs", ".stamps") or not path.is_file() or "node_modules" in parts:
            continue
        if path.suffix in (".py", ".toml", ".md", ".txt", ".rs", ".json", ".yml", "") and path.name != "Cargo.lock":
            assert not hosts.search(path.read_text(errors="replace")), path
    assert not (ROOT / "uv.lock").exists()


#: Fields that hold sentences for a person. No program takes one apart: what it would look for is a value beside it.
SENTENCES = {"detail", "seen", "void", "remedy", "reason", "why", "out", "told"}

#: What takes a text apart.
TAKES_APART = {"split", "rsplit", "partition", "rpartition", "startswith", "endswith", "find", "index"}

#: Texts that have no values: sentences of records (two readers), /proc, a list of paths, a parser's message that is
#: only shown otherwise.
READERS = {"parity.py", "process/keep_awake.py", "cli/completion.py", "scrutiny/reader.py"}


def taken_apart(source: str) -> list[str]:
    """Where a program splits or searches a sentence, as far as the syntax shows it."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare) and any(isinstance(one, ast.In | ast.NotIn) for one in node.ops):
            within = node.comparators[0]
            of_error = ast.unparse(within) in ("str(error)", "str(why)", "repr(error)")
            of_field = isinstance(within, ast.Attribute) and within.attr in SENTENCES - {"void"}
            if isinstance(node.left, ast.Constant) and isinstance(node.left.value, str) and (of_error or of_field):
                found.append(f"{node.lineno}: {ast.unparse(node)}")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TAKES_APART:
            text, first = node.func.value, node.args[0] if node.args else None
            of_field = isinstance(text, ast.Attribute) and text.attr in SENTENCES
            of_error = ast.unparse(text) in ("str(error)", "str(why)", "repr(error)")
            at_colon = isinstance(first, ast.Constant) and first.value in (":", ": ") and "split" in node.func.attr
            at_colon |= isinstance(first, ast.Constant) and first.value == ": " and "partition" in node.func.attr
            if of_field or at_colon or of_error:
                found.append(f"{node.lineno}: {ast.unparse(node)}")
    return found


def sentences_in(source: str) -> list[str]:
    """Texts of three words and more, except docstrings, messages of exceptions and arguments of ``show``.

    Nor are an enumeration's values sentences.
    """
    tree, told = ast.parse(source), set[int]()
    for node in ast.walk(tree):
        shown = isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        shown |= isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "show"
        if shown or (isinstance(node, ast.ClassDef) and "StrEnum" in map(ast.unparse, node.bases)):
            told |= {id(inside) for inside in ast.walk(node)}
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in told]
    found = [(node.lineno, node.value) for node in texts if isinstance(node.value, str)]
    return [f"{line}: {text}" for line, text in found if text.strip().count(" ") >= 2]


#: Where values of any kind come in, or leave: JSON of files, pipes and wires, settings of definitions, the store's
#: columns, the engine's fields, data frames.
EDGES = frozenset(
    {
        *("api.py", "compat/outputs.py", "racing/qualification_store.py"),
        "contender/definition.py",
        "racing/round.py",
        *("store/database.py", "store/json_values.py"),
        *("store/machine_profile.py", "store/rows.py"),
        *(f"fleet/{name}.py" for name in ("agent", "wire")),
    }
)

#: A mapping of anything, or arguments of any kind by name.
ANYTHING = re.compile(r"\b(?:dict|Mapping)\[str, Any\]|\*\*\w+: Any\b")


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_facts_between_rooms_are_types(path: Path) -> None:
    """No mapping of anything outside the edges; in rooms that judge or report no Any at all."""
    name, text = path.relative_to(PACKAGE).as_posix(), path.read_text(encoding="utf-8")
    if name in EDGES:
        assert ANYTHING.search(text), f"{name} needs no exception any more"
        return
    assert ANYTHING.findall(text) == []
    if name.partition("/")[0] in (*PURE_ROOMS, "report"):
        assert re.findall(r"^.*\bAny\b.*$", text, re.MULTILINE) == []


#: Modules that judge, or that pass facts to the modules that write about them.
JUDGES = (*PURE_ROOMS, "doctor", "claim/finding.py", "claim/assess.py", "claim/run.py", "sweep/capacity.py")


@pytest.mark.parametrize("room", JUDGES)
def test_what_judges_hands_over_values_and_writes_no_sentence(room: str) -> None:
    """Sentences are written in ``report``."""
    place = PACKAGE / room
    known = {
        *("numbers.py: there is no", "numbers.py:  was run by"),  # an exception's beginning
        *("assess.py: keep-alive on the wire", "noise_floor.py: a difference where there is none"),  # exported values
    }
    paths = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    found = {f"{path.name}:{text.partition(':')[2]}" for path in paths for text in sentences_in(path.read_text())}
    assert found <= known


def test_a_sentence_is_seen() -> None:
    """Composed or plain; messages of exceptions are allowed anywhere."""
    assert sentences_in('told = f"{a} serves more requests than {b}"') == ["1:  serves more requests than "]
    assert sentences_in('note = "the load generator was the limit of"')
    assert sentences_in('raise BadUsage(f"{a} is no share between 0 and 1")\nclass A(StrEnum):\n  B = "c d e"') == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_program_takes_a_sentence_apart(path: Path) -> None:
    """A reworded message must change no judgement."""
    if path.relative_to(PACKAGE).as_posix() not in READERS:
        assert taken_apart(path.read_text()) == []


@pytest.mark.parametrize(
    "line",
    [
        'event.detail.partition(": ")[0]',
        'why.split(":")[0]',
        '"descriptor" in str(error)',
        '"in use" not in str(error)',
        'check.detail.startswith("heat")',
        '"two kinds" in finding.seen',
        'str(error).startswith("x")',
    ],
)
def test_what_takes_a_sentence_apart_is_seen(line: str) -> None:
    """The patterns that this house once had."""
    assert taken_apart(line) == [f"1: {ast.unparse(ast.parse(line).body[0])}".removesuffix("[0]")]


def test_no_two_test_modules_share_a_name() -> None:
    """Pytest imports them by their names alone: with two alike, a run over both folders ends in an error."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def unbounded_loops(source: str) -> list[str]:
    """Loops of Rust that ask no `patience`, and have no comment `Ends: …` above them; without a file's tests."""
    lines, found = source.partition("\n#[cfg(test)]")[0].split("\n"), []
    for at, line in enumerate(lines):
        if not re.match(r"\s*(?:let .* = |'\w+: )?(?:loop|while)\b", line):
            continue
        end = re.compile(rf"\s{{{len(line) - len(line.lstrip())}}}\}}")
        closed = at if line.endswith("}") else next(n for n in range(at + 1, len(lines)) if end.match(lines[n]))
        above = list(itertools.takewhile(lambda one: one.lstrip().startswith("//"), reversed(lines[:at])))
        if "patience" not in "\n".join(lines[at : closed + 1]) and not any("// Ends: " in one for one in above):
            found.append(f"{at + 1}: {line.strip()}")
    return found


def test_no_loop_over_what_a_peer_sends_is_without_end() -> None:
    """Each loop of the engine's workers and transports asks the deadline and the stop flag, or says what ends it."""
    engine = ROOT / "crates" / "engine" / "src"
    files = [engine / "worker.rs", *(engine / "worker").rglob("*.rs"), *(engine / "io").rglob("*.rs")]
    assert len(files) > 20
    for path in (path for path in files if path.name != "tests.rs"):
        assert unbounded_loops(path.read_text()) == [], path
    assert unbounded_loops("    loop {\n        read();\n    }\n") == ["1: loop {"]
    assert unbounded_loops("    while let Some(x) = f() {\n        if !patience.lasts() {\n        }\n    }\n") == []
    assert unbounded_loops("    // Ends: soon.\n    loop {\n    }\n") == []
