"""The house rules: layers, lengths, no stray print. Reads the sources as text and syntax, runs nothing."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "dragstrip"
SOURCES = sorted(p for p in PACKAGE.rglob("*.py") if not {"contenders", "skeleton"} & set(p.parts))

LAYERS = {
    "errors": 0,
    "keeper": 0,  # a stand-alone script of the standard library; stage shares its reading of /proc
    **dict.fromkeys(["contender", "workload", "claim", "foreign", "record", "scratch", "shares", "store_words"], 1),
    **dict.fromkeys(["bounds", "fitness", "metrics", "paths", "store_file", "store_rows", "store_schema"], 1),
    **dict.fromkeys(["awake", "machine", "stage", "store", "schedule", "warm_up", "scrutiny"], 2),
    **dict.fromkeys(["verdict", "inquiry", "install"], 2),
    **dict.fromkeys(["racing", "rounds", "loading", "trial", "report", "site", "doctor", "rerun", "api"], 3),
    **dict.fromkeys(["conditions", "director", "noise", "sweep", "proving", "proofs"], 3),
    **{path.stem: 4 for path in PACKAGE.glob("cli*.py")},
}
WORKERS = {name for name, layer in LAYERS.items() if layer == 2}

FUNCTION_LINES = 60
FILE_LINES = 500
# A stand-alone script that starts in milliseconds: it can import nothing of ours, so it can't be split.
LONGER = {"keeper.py": 560}


def module_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def house_imports(path: Path) -> set[str]:
    """Names of the package's own modules that a file imports, wherever in the file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "dragstrip":
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("dragstrip.")}
    return {name for name in found if not name.startswith("__")}


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_run_one_way_and_workers_never_import_each_other(path: Path) -> None:
    """errors <- definitions <- workers <- race, report <- cli."""
    own = module_of(path)
    if own == "__main__":
        assert house_imports(path) == {"cli_main"}
        return
    if own in ("__init__", "keeper"):
        assert house_imports(path) <= ({"api"} if own == "__init__" else set())  # the public calls' types
        return
    for name in house_imports(path) - {own, "_engine"}:
        assert name in LAYERS, f"{own} imports {name}, which has no place in the house"
        assert LAYERS[name] <= LAYERS[own], f"{own} imports {name} from above"
        assert not (own in WORKERS and name in WORKERS), f"worker {own} imports worker {name}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_only_those_who_measure_touch_the_compiled_engine(path: Path) -> None:
    """Judging and re-rendering old results must work where it cannot load."""
    if module_of(path) not in ("racing", "rounds", "loading", "doctor", "cli", "conditions", "noise", "proving"):
        assert "_engine" not in house_imports(path)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_files_and_functions_stay_short_enough_to_be_read_whole(path: Path) -> None:
    """Functions up to 60 lines (docstring apart), files up to 500."""
    text = path.read_text()
    assert len(text.splitlines()) <= LONGER.get(path.name, FILE_LINES)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            doc = ast.get_docstring(node, clean=False)
            lines = (node.end_lineno or 0) - node.lineno + 1 - (len(doc.splitlines()) if doc else 0)
            assert lines <= FUNCTION_LINES, f"{path.name}:{node.lineno} {node.name} has {lines} lines"


def test_no_contender_is_named_in_code() -> None:
    """What varies is a file: a shipped contender's name stands in no Python source of the package."""
    names = [p.name for p in (PACKAGE / "contenders").iterdir() if (p / "contender.toml").exists()]
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
    """Only the engine's io back ends (and its system-call shim) hold unsafe code."""
    for path in (ROOT / "crates").rglob("src/**/*.rs"):
        inside = path.relative_to(ROOT / "crates").as_posix()
        if re.search(r"\bunsafe\s*(\{|fn|impl)", path.read_text()):
            assert inside.startswith("engine/src/io/") or inside == "engine/src/sys.rs", inside


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
