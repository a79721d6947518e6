"""Imports between packages, in Python and Rust: draws them for the site, prints cycles and upward imports.

    python docs/draw_architecture.py            # writes docs/ARCHITECTURE.md's tables, draws runs/architecture.svg
    python docs/draw_architecture.py --check    # prints only; the exit code is 1 where a rule is broken

MkDocs calls ``on_page_markdown``, which puts the picture into the site's page. It is not committed: each new import
would redraw it. ``tests/unit/test_house.py`` holds the same facts against the rules.
"""

from __future__ import annotations

import ast
import itertools
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import pages
from architecture import (
    CRATE,
    PACKAGE,
    RANK,
    ROOMS,
    ROOT,
    ROWS,
    RUST_RANK,
    RUST_ROOMS,
    RUST_ROWS,
    Edges,
    between_rooms,
    circles,
    python_edges,
    room_of,
    rust_edges,
    upwards,
)

PICTURE = ROOT / "runs" / "architecture.svg"
PAGE = ROOT / "docs" / "ARCHITECTURE.md"

#: The picture's width, in its own units.
WIDTH = 960

#: From row to row.
STEP = 74


def draw(python: Edges, rust: Edges) -> str:
    """The rooms of both languages in their rows, and a line for each pair of them; thicker for more imports.

    An import that others imply (a room imports one that imports the third) is drawn faintly.
    """
    above = _Panel("Python: src/dragstrip", ROWS, python, RANK, top=60, paper="#eef4f4", ink="#488")
    below = _Panel(
        "Rust: crates/engine/src", RUST_ROWS, rust, RUST_RANK, top=above.bottom + 150, paper="#f7efe6", ink="#a75"
    )
    height = below.bottom + 40
    middle, door = WIDTH / 2, above.bottom + 85
    through = [
        _line(*above.place[room], middle, door, "#868", 1.5, 0.8, f"{room} drives the engine") for room in drivers()
    ]
    through.append(_line(middle, door, *below.place["lib"], "#868", 3, 0.8, "the doorway hands blocks to the engine"))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
            'font-family="sans-serif" font-size="14">',
            "<title>Rooms of Dragstrip: each imports only what stands below it, or to its right</title>",
            f'<rect width="{WIDTH}" height="{height:.0f}" fill="#fff"/>',
            *through,
            *above.lines(),
            *_box(middle, door, "crates/python: the doorway, dragstrip._engine", "#f2e9f5"),
            *below.lines(),
            "</svg>",
            "",
        ]
    )


def drivers() -> list[str]:
    """Rooms that load the compiled engine."""
    needle = re.compile(r"^\s*from dragstrip\._engine import", re.MULTILINE)
    typed = re.compile(r"^if TYPE_CHECKING:\n(?: .*\n)+", re.MULTILINE)
    found = {
        room_of(path.relative_to(PACKAGE).with_suffix("").as_posix())
        for path in PACKAGE.rglob("*.py")
        if needle.search(typed.sub("", path.read_text()))
    }
    return sorted(found, key=ROOMS.index)


def implied(counts: Mapping[tuple[str, str], int]) -> set[tuple[str, str]]:
    """Imports between rooms that a chain of others implies."""
    below: dict[str, set[str]] = {}
    for a, b in counts:
        below.setdefault(a, set()).add(b)

    def reached(room: str) -> set[str]:
        seen: set[str] = set()
        waiting = [room]
        while waiting:
            new = below.get(waiting.pop(), set()) - seen
            seen |= new
            waiting += new
        return seen

    return {(a, b) for a, b in counts if any(b in reached(other) for other in below[a] - {b})}


def _box(x: float, y: float, text: str, paper: str) -> list[str]:
    wide = 18 + 8 * len(text)
    return [
        f'<rect x="{x - wide / 2:.0f}" y="{y - 16:.0f}" width="{wide}" height="32" rx="6" '
        f'fill="{paper}" stroke="#355"/>',
        f'<text x="{x:.0f}" y="{y + 5:.0f}" text-anchor="middle">{escape(text)}</text>',
    ]


def _line(x1: float, y1: float, x2: float, y2: float, ink: str, wide: float, opacity: float, title: str) -> str:
    """Curved, so that a line over several rows does not run behind the rooms between."""
    x, y = (x1 + x2) / 2 + (26 if y1 != y2 else 0), (y1 + y2) / 2 - (34 if y1 == y2 else 0)
    return (
        f'<path d="M{x1:.0f} {y1:.0f} Q{x:.0f} {y:.0f} {x2:.0f} {y2:.0f}" fill="none" stroke="{ink}" '
        f'stroke-opacity="{opacity}" stroke-width="{wide:.1f}"><title>{escape(title)}</title></path>'
    )


class _Panel:
    """One language's rooms."""

    def __init__(
        self,
        title: str,
        rows: Sequence[Sequence[str]],
        edges: Edges,
        rank: Mapping[str, int],
        *,
        top: float,
        paper: str,
        ink: str,
    ) -> None:
        self.title, self.counts, self.top, self.paper, self.ink = title, between_rooms(edges, rank), top, paper, ink
        self.bottom = top + STEP * (len(rows) - 1)
        self.place = {
            room: (WIDTH * (at + 0.5) / len(row), top + STEP * number)
            for number, row in enumerate(rows)
            for at, room in enumerate(row)
        }

    def lines(self) -> list[str]:
        """Title, imports, boxes: in this order, so that no line crosses a name."""
        parts = [f'<text x="16" y="{self.top - 30:.0f}" font-weight="bold">{escape(self.title)}</text>']
        faint = implied(self.counts)
        for pair, count in sorted(self.counts.items(), key=lambda item: (item[0] not in faint, item[0])):
            opacity = 0.12 if pair in faint else 0.9
            title = f"{pair[0]} imports {pair[1]}: {count}"
            ends = (*self.place[pair[0]], *self.place[pair[1]])
            parts.append(_line(*ends, self.ink, min(1 + count / 6, 5), opacity, title))
        for room, (x, y) in self.place.items():
            parts += _box(x, y, room, self.paper)
        return parts


def purposes() -> dict[str, str]:
    """What each room of the package is for: the first sentence of its docstring."""
    found = {}
    for room in ROOMS:
        path = PACKAGE / room / "__init__.py" if (PACKAGE / room).is_dir() else PACKAGE / f"{room}.py"
        doc = " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0].split())
        found[room] = re.split(r"(?<=[.!?]) ", doc)[0].replace("``", "`").removesuffix(".")
    return found


def room_table() -> str:
    """The rooms from the top, with what they are for."""
    return "\n".join(["| room | is for |", "|-|-|", *(f"| `{room}` | {what} |" for room, what in purposes().items())])


def rust_table() -> str:
    """The engine's modules from the top, with the first sentence of what they say of themselves."""
    lines = ["| module | is for |", "|-|-|"]
    for room in RUST_ROOMS:
        path = CRATE / room / "mod.rs" if (CRATE / room / "mod.rs").exists() else CRATE / f"{room}.rs"
        head = itertools.takewhile(lambda line: line.startswith("//!"), path.read_text().splitlines())
        doc = " ".join(line.removeprefix("//!").strip() for line in head)
        sentence = re.split(r"(?<=[.!?]) ", " ".join(doc.split()))[0].removesuffix(".")
        lines.append(f"| `{room}` | {sentence} |")
    return "\n".join(lines)


def counted(python: Edges, rust: Edges) -> str:
    """How many modules, imports between rooms, circles and imports upwards there are; a line for each language."""
    told = []
    for kind, edges, rank in (("Python", python, RANK), ("Rust", rust, RUST_RANK)):
        between = sum(between_rooms(edges, rank).values())
        up = upwards(edges, rank)
        named = f" ({', '.join(f'`{a}` imports `{b}`' for a, b in up)})" if up else ""
        told.append(
            f"{kind}: {len(edges)} modules in {len(rank)} rooms, {between} imports between rooms, "
            f"{len(circles(edges))} circles, {len(up)} upwards{named}."
        )
    return "\n".join(f"- {line}" for line in told)


def rows() -> str:
    """The rooms of both languages in the picture's rows."""
    parts = (("src/dragstrip", ROWS), ("crates/engine/src", RUST_ROWS))
    return "\n\n".join("\n".join([f"{title}:", *("    " + ", ".join(row) for row in of)]) for title, of in parts)


def write_page() -> None:
    """Puts rows and tables between the page's marks."""
    pages.splice(PAGE, "rows", f"```text\n{rows()}\n```")
    pages.splice(PAGE, "rooms", room_table())
    pages.splice(PAGE, "engine", rust_table())


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """The site's page about the architecture with counts and the picture; other pages as they are."""
    if page.file.src_path != PAGE.name:
        return markdown
    python, rust = python_edges(), rust_edges()
    return markdown.replace("<!-- picture -->", f"{counted(python, rust)}\n\n<div>\n{draw(python, rust)}</div>\n")


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
        write_page()
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_text(draw(python, rust))
    sys.exit(bool(lines) and "--check" in sys.argv[1:])


if __name__ == "__main__":
    main()
