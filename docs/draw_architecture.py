"""Who imports whom, in Python and in Rust: prints circles and imports upwards, draws docs/pictures/architecture.svg.

    python docs/draw_architecture.py            # draws, and prints what breaks a rule
    python docs/draw_architecture.py --check    # prints only; the exit code is 1 where a rule is broken

``tests/unit/test_house.py`` holds the same facts against the rules.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
CRATE = ROOT / "crates" / "engine" / "src"
PICTURE = ROOT / "docs" / "pictures" / "architecture.svg"

#: Rows of the picture, from the top. Every room has its own rank: in a row, a room may import those to its right.
ROWS = (
    ("cli",),
    ("site", "api"),
    ("report",),
    ("claim", "sweep", "doctor"),
    ("racing", "loading"),
    ("validity", "scrutiny"),
    ("analysis", "process"),
    ("workload", "contender", "store", "machine"),
    ("record", "parity", "metrics", "paths", "version", "errors"),
)
ROOMS = tuple(room for row in ROWS for room in row)
RANK = {room: len(ROOMS) - at for at, room in enumerate(ROOMS)}

#: The same for the engine's modules; ``worker`` and ``io`` stand for all their parts.
RUST_ROOMS = (
    "lib", "threads", "worker", "conn", "block_run", "snapshots", "coalescing", "reference_server", "barrier",
    "cpu_accounting", "io", "clock", "response", "error_sample", "tally", "failure", "plan", "schedule", "tls", "error",
    "target", "sys",
)  # fmt: skip
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


def rust_edges() -> dict[str, frozenset[str]]:
    """The same for the engine's modules, by ``crate::`` and ``super::`` paths outside of tests."""
    places = sorted(CRATE.rglob("*.rs"))
    names = {path.relative_to(CRATE).with_suffix("").as_posix().removesuffix("/mod"): path for path in places}
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


def between_rooms(edges: Edges) -> dict[tuple[str, str], int]:
    """How many imports lead from one room to another."""
    found: dict[tuple[str, str], int] = {}
    for module, others in edges.items():
        for other in others:
            pair = (room_of(module), room_of(other))
            if pair[0] != pair[1] and pair[0] in RANK:
                found[pair] = found.get(pair, 0) + 1
    return found


def draw(counts: Mapping[tuple[str, str], int]) -> str:
    """The rooms in their rows, and a line for each pair of them; thicker for more imports."""
    width, step, high = 960, 86, 34
    place = {
        room: (width * (at + 0.5) / len(row), 40 + step * number)
        for number, row in enumerate(ROWS)
        for at, room in enumerate(row)
    }
    height = 40 + step * (len(ROWS) - 1) + 50
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="15">',
        "<title>Rooms of src/dragstrip: each imports only what stands below it, or to its right</title>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for (a, b), count in sorted(counts.items()):
        (x1, y1), (x2, y2) = place[a], place[b]
        parts.append(
            f'<path d="M{x1:.0f} {y1:.0f} Q{(x1 + x2) / 2 + 20:.0f} {(y1 + y2) / 2:.0f} {x2:.0f} {y2:.0f}" fill="none" '
            f'stroke="#8aa" stroke-opacity="0.55" stroke-width="{min(1 + count / 6, 5):.1f}">'
            f"<title>{escape(a)} imports {escape(b)}: {count}</title></path>"
        )
    for room, (x, y) in place.items():
        wide = 16 + 9 * len(room)
        parts.append(
            f'<rect x="{x - wide / 2:.0f}" y="{y - high / 2:.0f}" width="{wide}" height="{high}" rx="6" '
            'fill="#eef4f4" stroke="#355"/>'
        )
        parts.append(f'<text x="{x:.0f}" y="{y + 5:.0f}" text-anchor="middle">{escape(room)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def told(kind: str, edges: Edges, rank: Mapping[str, int]) -> Iterable[str]:
    """What breaks a rule, a line each."""
    yield from (f"{kind}: circle of {', '.join(group)}" for group in circles(edges))
    yield from (f"{kind}: {module} imports {other}, which ranks higher" for module, other in upwards(edges, rank))


def main() -> None:
    """Prints, and draws unless told only to check."""
    python, rust = python_edges(), rust_edges()
    lines = [*told("Python", python, RANK), *told("Rust", rust, RUST_RANK)]
    print("\n".join([*lines, f"{len(python)} Python modules, {len(rust)} Rust modules, {len(lines)} rules broken"]))
    if "--check" not in sys.argv[1:]:
        PICTURE.write_text(draw(between_rooms(python)))
    sys.exit(bool(lines) and "--check" in sys.argv[1:])


if __name__ == "__main__":
    main()
