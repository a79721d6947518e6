"""An icicle graph of CPU time: each function below its caller, as wide as its time; its layout is made here, as SVG.

The page's script only moves and hides what is drawn here, so the graph can be read without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dragstrip.analysis.call_tree import CallNode, call_tree
from dragstrip.analysis.causes import extra_launches, is_of_revisions
from dragstrip.quantities import two_digits
from dragstrip.record import CodePlace, Profile, Race
from dragstrip.report import figures

#: Pixels from one row to the next, and of a row.
STEP, ROW = 18, 17

#: Rows of the table beside a graph, and the share of the whole that a function must have to be in it.
MAX_ROWS, LEAST_SHARE = 80, 0.01

#: Differences with a smaller share of the largest have no colour.
LEAST_COLOUR = 0.03

_PLACES = {CodePlace.KERNEL: "kernel", CodePlace.USER: "user", CodePlace.COMPILED: "compiled"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Icicle:
    """One graph.

    Args:
        names: of one contender, or of the first and the contender that is compared with it.
        label: what it shows. svg: the drawing.
        heads, rows: of its table; a row has the function's depth, then a text for each head.
    """

    names: tuple[str, ...]
    label: str
    svg: Markup
    heads: tuple[str, ...]
    rows: tuple[tuple[int, tuple[str, ...]], ...]

    @property
    def compared(self) -> bool:
        """Whether it shows a difference."""
        return len(self.names) > 1


def icicles(race: Race) -> tuple[Icicle, ...]:
    """The graphs of one column: revisions against the first; of other contenders each alone.

    Args:
        race: of one column (``by_column``).
    """
    launches = {entrant.name: mine for entrant in race.entrants if (mine := extra_launches(race, entrant.name))}
    first, *others = launches or [""]
    pairs = [(first, other) for other in others] if is_of_revisions(race) else [(name,) for name in launches]
    drawn = (_icicle(names, [launches[name] for name in names]) for names in pairs)
    return tuple(icicle for icicle in drawn if icicle is not None)


def _icicle(names: tuple[str, ...], launches: Sequence[Sequence[Profile]]) -> Icicle | None:
    nodes = call_tree(launches)
    if not nodes:
        return None
    of = f"{names[1]} against {names[0]}" if len(names) > 1 else names[0]
    heads = ("function", *(f"{name}, µs" for name in names), *(("difference, µs",) if len(names) > 1 else ()))
    return Icicle(
        names=names,
        label=f"CPU time per response by function and its callers: {of}",
        svg=_svg(nodes),
        heads=heads,
        rows=tuple((node.depth, _row(node)) for node in _for_table(nodes)),
    )


def _for_table(nodes: Sequence[CallNode]) -> list[CallNode]:
    """The widest nodes and those that differ, in the graph's order."""
    whole_us = nodes[0].width_us
    kept = [node for node in nodes if node.width_us >= LEAST_SHARE * whole_us or _differs(node)]
    widest = sorted(kept, key=lambda node: (not _differs(node), -node.width_us))[:MAX_ROWS]
    chosen = set(map(id, widest))
    return [node for node in kept if id(node) in chosen]


def _row(node: CallNode) -> tuple[str, ...]:
    texts = (node.name, *(f"{us:.3f}" for us in node.cpu_us))
    return (*texts, _difference(node)) if node.difference else texts


def _difference(node: CallNode) -> str:
    """In a table: with the interval of a difference that was found."""
    if node.difference is None:
        return ""
    by = node.difference.interval
    half = two_digits((by.high - by.low) / 2) if node.difference.significant else ""
    return f"{by.estimate:+.3f} ± {half} ●" if half else f"{by.estimate:+.3f}"


def _differs(node: CallNode) -> bool:
    return node.difference is not None and node.difference.significant


def _svg(nodes: Sequence[CallNode]) -> Markup:
    """The drawing; its width is the page's, because all its places are shares."""
    height = STEP * (1 + max(node.depth for node in nodes))
    largest = max((abs(_estimate(node)) for node in nodes[1:]), default=0.0)
    drawn = Markup("").join(_drawn(node, nodes[0].width_us, largest, at == 0) for at, node in enumerate(nodes))
    return Markup('<svg class="icicle" width="100%" height="{}">{}</svg>').format(height, drawn)


def _estimate(node: CallNode) -> float:
    return node.difference.interval.estimate if node.difference else 0.0


def _drawn(node: CallNode, whole_us: float, largest_us: float, is_first: bool) -> Markup:
    shade, depth = _shade(node, largest_us)
    fill = Markup(' fill-opacity="{:.2f}"').format(depth) if depth else Markup("")
    return Markup(
        '<svg class="{}" x="{}%" y="{}" width="{}%" height="{}" role="button" tabindex="{}"><title>{}</title>'
        '<rect width="100%" height="100%"{}/><text x="3" y="12.5">{}</text></svg>'
    ).format(
        shade,
        _share(node.start_us / whole_us),
        STEP * node.depth,
        _share(node.width_us / whole_us),
        ROW,
        0 if is_first else -1,
        "; ".join(_told(node, whole_us)),
        fill,
        figures.visible(node.name),
    )


def _share(value: float) -> str:
    return f"{100 * value:.3f}".rstrip("0").rstrip(".")


def _told(node: CallNode, whole_us: float) -> Iterator[str]:
    """What a node shows, for whoever points at it."""
    yield figures.visible(node.name)
    share = 100 * node.width_us / whole_us
    yield f"{' → '.join(f'{us:.3f}' for us in node.cpu_us)} µs per response ({share:.1f} % of all)"
    if node.difference is not None:
        known = "" if node.difference.significant else ", not significant"
        yield f"difference {_difference(node).removesuffix(' ●')} µs{known}"


def _shade(node: CallNode, largest_us: float) -> tuple[str, float]:
    """The class of a node, and how deep its colour is; 0 for the style sheet's own."""
    if node.difference is None:
        return _PLACES[node.place], 0.0
    by_us = _estimate(node)
    part = abs(by_us) / largest_us if largest_us else 0.0
    if part < LEAST_COLOUR:
        return "even", 0.0
    known = "" if node.difference.significant else " open"
    return f"{'more' if by_us > 0 else 'less'}{known}", 0.15 + 0.5 * min(part, 1.0)
