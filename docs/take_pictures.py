"""The documentation's screenshots of a stored race, by headless Chromium: its page light, dark and on a phone; the
terminal at 80 columns; two servers of one's own in all three; the list of races on a phone; and the table of the newest
race of several workloads.

python docs/take_pictures.py [RUN]      (RUN: an id, the beginning of one, or last; of one workload)

README's stamp of its pictures is renewed with them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]

from browser import Watched, browser
from pages import stamp

import dragstrip
from dragstrip.report.race import terminal
from dragstrip.store.database import RunLine, Store, default_path

#: Name, theme, width and height in pixels.
SHOTS = (
    ("page-light", "light", 1100, 900),
    ("page-dark", "dark", 1100, 900),
    ("page-phone", "light", 390, 900),
)


def main() -> None:
    """Writes docs/pictures/page-*.png."""
    result = dragstrip.stored(sys.argv[1] if len(sys.argv) > 1 else "last")
    several = _newest(lambda line: "," in line.workload)
    if len(result.record.columns) > 1 or several is None:
        sys.exit("pictures want two stored races: RUN of one workload, and one of several (--workload hello,multiply)")
    with tempfile.TemporaryDirectory() as folder, browser() as running:
        file = result.to_html(Path(folder) / "race.html")
        for name, theme, width, height in SHOTS:
            watched = Watched(running, file.as_uri(), width=width, theme=theme)
            watched.page.goto(file.as_uri())
            watched.page.wait_for_selector("#chart-ranking[data-drawn] svg")
            watched.page.wait_for_selector("#chart-pairs[data-drawn] svg")
            watched.page.set_viewport_size({"width": width, "height": height})
            watched.page.screenshot(path=str(PICTURES / f"{name}.png"))
            if watched.said:
                sys.exit(f"{name}: the page said {watched.said}")
            watched.close()
        _columns(running, several, Path(folder) / "columns.html")
        _terminal(running, result, Path(folder) / "terminal.svg")
        if own := _newest(lambda line: line.contenders == ("orders-v1", "orders-v2")):
            _own(running, own, Path(folder))
        _site(running)
    stamp("../README.md#pictures")


def _newest(wanted: Callable[[RunLine], bool]) -> Any:
    """The newest of these races; None where none is stored."""
    with Store(default_path(), write=False) as store:
        ids = [line.race for line in store.runs() if wanted(line)]
    return dragstrip.stored(ids[0]) if ids else None


def _own(running: Any, result: Any, folder: Path) -> None:
    """Two servers of one's own: the page's first screen at 1200 and 390 pixels, and the terminal at 80 columns."""
    file = result.to_html(folder / "own.html")
    for width, height in ((1200, 760), (390, 760)):
        watched = Watched(running, file.as_uri(), width=width, theme="light")
        watched.page.goto(file.as_uri())
        watched.page.wait_for_selector("#chart-ranking[data-drawn] svg")
        watched.page.set_viewport_size({"width": width, "height": height})
        watched.page.screenshot(path=str(PICTURES / f"own-{width}.png"))
        if watched.said:
            sys.exit(f"own-{width}: the page said {watched.said}")
        watched.close()
    (PICTURES / "own-80.svg").write_text(terminal.terminal_svg(result, columns=80), encoding="utf-8")


def _columns(running: Any, result: Any, file: Path) -> None:
    """The top of its page: headline, chart and table."""
    result.to_html(file)
    watched = Watched(running, file.as_uri(), width=1000, theme="light")
    watched.page.goto(file.as_uri())
    watched.page.wait_for_selector("#chart-columns[data-drawn] svg")
    bottom = watched.page.evaluate("document.querySelector('#columns .scroll').getBoundingClientRect().bottom")
    watched.page.set_viewport_size({"width": 1000, "height": round(bottom) + 20})
    watched.page.screenshot(path=str(PICTURES / "columns.png"))
    if watched.said:
        sys.exit(f"columns: the page said {watched.said}")
    watched.close()


def _terminal(running: Any, result: Any, drawn: Path) -> None:
    """What `dragstrip show` prints at 80 columns."""
    picture = terminal.terminal_svg(result, columns=80)
    drawn.write_text(picture, encoding="utf-8")
    watched = Watched(running, drawn.as_uri(), width=980)
    watched.page.goto(drawn.as_uri())
    box = watched.page.evaluate("(({width, height}) => ({width, height}))(document.documentElement.viewBox.baseVal)")
    watched.page.set_viewport_size({side: int(length) for side, length in box.items()})
    watched.page.screenshot(path=str(PICTURES / "terminal-80.png"))
    watched.close()


def _site(running: Any) -> None:
    """The list that `dragstrip serve` shows, on a phone."""
    words = [sys.executable, "-m", "dragstrip", "serve", "--port", "0"]
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            told = re.match(r"(http://127\.0\.0\.1:\d+)/", process.stdout.readline() if process.stdout else "")
            if not told:
                sys.exit("dragstrip serve said no address")
            watched = Watched(running, told[1], width=390)
            watched.page.goto(told[1])
            watched.page.screenshot(path=str(PICTURES / "site-phone.png"))
            watched.close()
        finally:
            process.terminate()
            process.wait(10)


if __name__ == "__main__":
    main()
