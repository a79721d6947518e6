"""What all HTML pages share: how their templates are filled, what keeps them harmless, and the style sheet."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from dragstrip.report import figures, glyphs
from dragstrip.report.race import charts, vega
from dragstrip.store.json_values import Json


def templates(*folders: Path) -> Environment:
    """Templates with the filters of all pages, and the parts that they share; each page adds its own."""
    made = Environment(
        loader=FileSystemLoader([*folders, Path(__file__).parent]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=harmless,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: Mapping[str, Callable[..., str]] = {
        "figure": figures.figure,
        "ratio": figures.ratio,
        "span": lambda interval: figures.span(interval.low, interval.high),
        "failures": figures.errors,
        "local": figures.local,
    }
    made.filters |= filters
    made.globals |= {"style": Markup(style()), "ratio_span": figures.ratio_span}
    return made


def frame(
    kind: str, content: Json, drawn: Mapping[str, charts.Chart], *, software: str, longest: int = 1
) -> dict[str, object]:
    """What ``page_base.html.j2`` needs: the data of a page, its charts, and the scripts that draw them.

    Args:
        kind: of the data, "race" or "load". content: the data, which the page has as JSON and as a download.
        drawn: the page's charts, by the place of each.
        longest: letters of the longest name next to a chart.
    """
    data = json.dumps(content, indent=1, ensure_ascii=True)
    drawing = {"charts": drawn, "config": charts.config(charts.PAGE), "longest": longest}
    scripts = _scripts() if drawn else _scripts()[1:]  # ours alone, for the theme
    return {
        "kind": kind,
        "software": software,
        "drawing": _inside_script(json.dumps(drawing, separators=(",", ":"))),
        "scripts": scripts,
        "allowed": " ".join(map(_allowed, scripts)),
        "data": _inside_script(data),
        "download": base64.b64encode(data.encode()).decode(),
        "marks": glyphs.VERDICT_MARK | glyphs.STATUS_MARK,
    }


@cache
def _scripts() -> list[Markup]:
    """Vega, Vega-Lite and vega-embed, then our own script; neither comes from input."""
    ours = (Path(__file__).parent / "race" / "page.js").read_text(encoding="utf-8")
    # An end tag in a string of theirs would end the element; in JavaScript <\/ is the same text.
    return [Markup(text.replace("</script", "<\\/script")) for text in (vega.scripts(), ours)]


def _allowed(script: str) -> str:
    """What the page's policy lets run: these very scripts by their digest, and nothing that slipped in."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _inside_script(text: str) -> Markup:
    """JSON that no parser can take for the end of its script element."""
    # Each of these characters can only be inside a JSON string, in which \uXXXX means the same.
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def harmless(value: object) -> object:
    """Control characters from outside are shown as such; markup of our own stays as it is."""
    return figures.visible(value, lines=True) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def style() -> str:
    """The style sheet with the charts' colours filled in as variables."""
    text = (Path(__file__).parent / "race" / "page.css").read_text(encoding="utf-8")
    dark = "color-scheme: dark; --raised: #1d2126; --better: #173a53; --worse: #4d3413; --even: #2a2f36;"
    dark += " --pass: #56b4e9; --warn: #f0a33c;"
    for name, more, colours in (("LIGHT", "", charts.LIGHT), ("DARK", dark, charts.DARK)):
        listed = " ".join(f"--{key}: {colour};" for key, colour in colours.items())
        text = text.replace(f"{{{{ {name} }}}}", f"{more} {listed}".strip())
    return text
