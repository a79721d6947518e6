"""Imports between packages, in Python and Rust: the data of the picture and of the house rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "dragstrip"
CRATE = ROOT / "crates" / "engine" / "src"

#: Rows of the picture, from the top. Every room has its own rank: in a row, a room may import those to its right.
ROWS = (
    ("extras",),
    ("commands",),
    ("site", "api"),
    ("report",),
    ("sweep", "doctor", "revision", "why"),
    ("racing", "loading"),
    ("validity", "scrutiny"),
    ("analysis", "process"),
    ("workload", "contender", "image", "store", "machine"),
    (
        "requested",
        "json_by_value",
        "record",
        "machine_facts",
        "parity",
        "metrics",
        "quantities",
        "paths",
        "extensions",
        "errors",
    ),
)
ROOMS = tuple(room for row in ROWS for room in row)
RANK = {room: len(ROOMS) - at for at, room in enumerate(ROOMS)}

#: The same for the engine's modules; ``worker`` and ``io`` stand for all their parts.
RUST_ROWS = (
    ("lib",),
    ("threads", "worker"),
    ("block_run", "snapshots", "coalescing", "reference_server", "observer"),
    ("barrier", "cpu_accounting", "io", "clock"),
    ("plan", "websocket", "script", "response", "error_sample", "tally", "failure"),
    ("schedule", "tls", "error", "patience"),
    ("http2", "target", "sys", "heads", "exchange", "request"),
)
RUST_ROOMS = tuple(room for row in RUST_ROWS for room in row)
RUST_RANK = {room: len(RUST_ROOMS) - at for at, room in enumerate(RUST_ROOMS)}

Edges = Mapping[str, frozenset[str]]


def python_edges(*, types: bool = True) -> dict[str, frozenset[str]]:
    """Module -> modules of ours that it imports, wherever in its file.

    Args:
        types: with imports that only a type checker follows.
    """
    graph = grimp.build_graph("dragstrip", exclude_type_checking_imports=not types, cache_dir=None)
    return {
        module.removeprefix("dragstrip.") if module != "dragstrip" else "": frozenset(
            other.removeprefix("dragstrip.")
            for other in graph.find_modules_directly_imported_by(module)
            if other != "dragstrip"
        )
        for module in sorted(graph.modules)
    }


def rust_edges(crate: Path = CRATE) -> dict[str, frozenset[str]]:
    """The same for a crate's modules, by ``crate::`` and ``super::`` paths outside of tests."""
    places = sorted(crate.rglob("*.rs"))
    names = {path.relative_to(crate).with_suffix("").as_posix().removesuffix("/mod"): path for path in places}
    found = {}
    for name, path in names.items():
        code = re.sub(r"//.*", "", path.read_text()).partition("#[cfg(test)]\nmod tests {")[0]
        used = set()
        for part in _use_paths(code):
            parts = part.split("::")
            if name == "lib" or parts[0] == "crate":
                parts = parts[1:] if parts[0] == "crate" else parts
                used |= {parts[0]} & set(names)
            elif parts[0] == "super" and "/" in name and len(parts) > 1:
                used |= {f"{name.rpartition('/')[0]}/{parts[1]}"} & set(names)
        found[name] = frozenset(used - {name})
    return found


def _use_paths(code: str) -> Iterator[str]:
    """Every path of a ``use``, braces opened; and paths within the code that begin with ``crate::``."""
    for tree in re.findall(r"\buse\s+([^;]+);", code):
        yield from _opened("".join(tree.split()))
    yield from re.findall(r"\bcrate(?:::\w+)+", code)


def _opened(tree: str) -> Iterator[str]:
    head, brace, rest = tree.partition("{")
    if not brace:
        yield tree
        return
    depth, part = 0, ""
    for letter in rest.rpartition("}")[0] + ",":
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            if part:
                yield from _opened(head + part)
            part = ""
        else:
            part += letter


def circles(edges: Edges) -> list[list[str]]:
    """Groups of modules that import each other round about (Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            group = stack[at:]
            del stack[at:]
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found


def room_of(module: str) -> str:
    """The first part of a module's name; "" for the package's face."""
    return re.split(r"[./]", module)[0]


def upwards(edges: Edges, rank: Mapping[str, int]) -> list[tuple[str, str]]:
    """Imports of a room that ranks higher. The package's face and ``__main__`` only hand on and have no rank."""
    return [
        (module, other)
        for module, others in edges.items()
        for other in sorted(others)
        if room_of(module) not in ("", "__main__")
        and room_of(module) != room_of(other)
        and rank[room_of(other)] > rank[room_of(module)]
    ]


def between_rooms(edges: Edges, rank: Mapping[str, int]) -> dict[tuple[str, str], int]:
    """How many imports lead from one room to another."""
    found: dict[tuple[str, str], int] = {}
    for module, others in edges.items():
        for other in others:
            pair = (room_of(module), room_of(other))
            if pair[0] != pair[1] and pair[0] in rank:
                found[pair] = found.get(pair, 0) + 1
    return found
