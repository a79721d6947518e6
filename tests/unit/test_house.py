"""The house rules, each with its reason. Reads the sources as text and syntax, runs nothing.

An exception of a file stands in the file, as a comment ``# House: EXCEPTION: reason``, so that it moves with the file.
"""

from __future__ import annotations

import ast
import itertools
import re
import sys
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
ENGINE_ROOMS = {"extras", "racing", "loading", "doctor", "commands", "why"}

#: What arithmetic on records has no use for.
IMPURE = {
    "asyncio", "http", "io", "multiprocessing", "os", "pathlib", "psutil", "random", "select", "shutil", "signal",
    "socket", "sqlite3", "ssl", "subprocess", "sys", "tempfile", "threading", "time", "urllib",
}  # fmt: skip
PURE_ROOMS = ("analysis", "validity")

#: What starts, loads or stops something.
RUNNERS = re.compile(
    r"extras\.(fleet|claims\.(run|counted_run))|racing\.|why\.|process\.|scrutiny\.|doctor\.(examine|noise_floor)$|loading\.(run|learn)$|sweep\.run$"
)

FUNCTION_LINES = 60


@pytest.fixture(scope="module")
def edges() -> dict[str, frozenset[str]]:
    """Every module's imports of ours, those for the type checker included."""
    found = architecture.python_edges()
    assert len(found) > 100
    return found


def excepted(path: Path, exception: str) -> bool:
    """Whether a source has this exception, with a reason."""
    return bool(re.search(rf"^# House: {exception}: \S+", path.read_text(encoding="utf-8"), re.MULTILINE))


def test_every_room_has_a_rank_of_its_own(edges: dict[str, frozenset[str]]) -> None:
    """A room without one could import anything, and be imported by anything."""
    rooms = {architecture.room_of(module) for module in edges} - {"", "__main__"}
    assert rooms == set(architecture.ROOMS)
    assert len(set(architecture.RANK.values())) == len(architecture.ROOMS)


def test_imports_lead_down_and_never_round_about(edges: dict[str, frozenset[str]]) -> None:
    """No room imports one above it; no modules import each other in a circle.

    So a room can be read, tested and changed with only what is below it in mind.
    """
    assert not architecture.upwards(edges, architecture.RANK)
    assert not architecture.circles(edges)
    assert edges["__main__"] == {"commands.main"}
    assert edges[""] <= {"api"}


def test_rust_modules_import_downwards_too() -> None:
    """The same for the engine, for the same reason; each of its modules has a rank."""
    found = architecture.rust_edges()
    assert {architecture.room_of(module) for module in found} == set(architecture.RUST_ROOMS)
    assert not architecture.circles(found)
    assert not architecture.upwards(found, architecture.RUST_RANK)


@pytest.mark.parametrize("crate", ["profile", "python", "script"])
def test_no_rust_files_import_each_other_in_a_circle(crate: str) -> None:
    """Nor in the crates beside the engine."""
    found = architecture.rust_edges(ROOT / "crates" / crate / "src")
    assert found
    assert not architecture.circles(found)


def test_the_facts_find_what_is_wrong() -> None:
    """A planted circle and a planted import upwards are seen."""
    edges = {
        "report.a": frozenset({"commands.b"}),
        "commands.b": frozenset({"errors"}),
        "errors": frozenset({"report.a"}),
    }
    assert architecture.circles(edges) == [["commands.b", "errors", "report.a"]]
    assert architecture.upwards(edges, architecture.RANK) == [("report.a", "commands.b"), ("errors", "report.a")]


def test_a_class_name_has_one_meaning() -> None:
    """In all of the package, so that a reader who meets a name need not ask which one; ``_Name`` is ``Name``, too."""
    places: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name.lstrip("_"), []).append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_report_imports_nothing_that_runs_a_race() -> None:
    """Neither itself nor through others: what is stored must be shown where nothing can be raced.

    What only a type checker follows is left out.
    """
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


def test_a_file_started_as_a_program_of_its_own_needs_no_package() -> None:
    """Python is started with ``-I -S`` for it, so that no foreign package is loaded; ours isn't found either."""
    texts = [path.read_text(encoding="utf-8") for path in SOURCES]
    alone = []
    for path, text in zip(SOURCES, texts, strict=True):
        module = ".".join(("dragstrip", *path.relative_to(PACKAGE).with_suffix("").parts))
        if (
            '__name__ == "__main__"' not in text
            or path.stem == "__main__"
            or any(f'"{module}"' in one for one in texts)
        ):
            continue
        alone.append(path.name)
        for node in ast.parse(text).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                named = [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
                assert {name.partition(".")[0] for name in named} <= sys.stdlib_module_names | {"__future__"}, path
    assert {"door.py", "supervisor.py", "namespaces.py", "keep_awake.py"} <= set(alone)


@pytest.mark.parametrize("room", PURE_ROOMS)
def test_analysis_and_validity_compute_and_do_nothing_else(room: str) -> None:
    """No file, process, clock or engine: the same records give the same verdict, today and anywhere."""
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
    """What varies is a file: no contender can be favoured by code that knows it."""
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
    """Who checks that memory is safe reads these files alone.

    They are the engine's io back ends and its system calls, what opens all of Lua, and, of the sampler, what opens
    events and tracefs, maps rings and programs' files, and traces.
    """
    sampler = tuple(f"profile/src/{name}.rs" for name in ("event", "modules", "ring", "tracefs", "tracer"))
    allowed = ("engine/src/sys.rs", "script/src/state.rs", *sampler)
    for path in (ROOT / "crates").rglob("src/**/*.rs"):
        inside = path.relative_to(ROOT / "crates").as_posix()
        if re.search(r"\bunsafe\s*(\{|fn|impl)", path.read_text()):
            assert inside.startswith("engine/src/io/") or inside in allowed, inside


def test_the_fuzzer_reads_the_parsers_that_the_engine_is_built_of() -> None:
    """From its own files, with the same versions of the same crates: otherwise another parser is fuzzed."""
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


#: A mapping of anything, or arguments of any kind by name.
ANYTHING = re.compile(r"\b(?:dict|Mapping)\[str, Any\]|\*\*\w+: Any\b")


def test_an_exception_is_needed_where_it_stands() -> None:
    """One that is not needed any more would hide the next fault of its file."""
    edges, readers = ([path for path in SOURCES if excepted(path, one)] for one in ("an edge", "reads sentences"))
    assert len(edges) > 5
    assert len(readers) > 2
    assert [path for path in edges if not ANYTHING.search(path.read_text())] == []
    assert [path for path in readers if not taken_apart(path.read_text())] == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_facts_between_rooms_are_types(path: Path) -> None:
    """A misspelt field is found by mypy and not by a user: no mapping of anything where values don't come in or leave.

    In rooms that judge or report there is no Any at all.
    """
    name, text = path.relative_to(PACKAGE).as_posix(), path.read_text(encoding="utf-8")
    if not excepted(path, "an edge"):
        assert ANYTHING.findall(text) == []
    if name.partition("/")[0] in (*PURE_ROOMS, "report"):
        assert re.findall(r"^.*\bAny\b.*$", text, re.MULTILINE) == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_program_takes_a_sentence_apart(path: Path) -> None:
    """A reworded message must change no judgement. Texts that have no values are exceptions."""
    if not excepted(path, "reads sentences"):
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
    """Otherwise a peer could hold the engine for ever.

    Each loop of the engine's workers and transports asks the deadline and the stop flag, or says what ends it.
    """
    engine = ROOT / "crates" / "engine" / "src"
    files = [engine / "worker.rs", *(engine / "worker").rglob("*.rs"), *(engine / "io").rglob("*.rs")]
    assert len(files) > 20
    for path in (path for path in files if path.name != "tests.rs"):
        assert unbounded_loops(path.read_text()) == [], path
    assert unbounded_loops("    loop {\n        read();\n    }\n") == ["1: loop {"]
    assert unbounded_loops("    while let Some(x) = f() {\n        if !patience.lasts() {\n        }\n    }\n") == []
    assert unbounded_loops("    // Ends: soon.\n    loop {\n    }\n") == []
