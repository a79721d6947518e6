"""The documentation's screenshots of a stored race's page, by headless Chromium: light, dark, and on a phone.

python docs/take_pictures.py [RUN]      (RUN: an id, the beginning of one, or last)
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from browser import Watched, browser

import dragstrip

#: Name, theme, width and height in pixels.
SHOTS = (
    ("page-light", "light", 1100, 900),
    ("page-dark", "dark", 1100, 900),
    ("page-phone", "light", 390, 900),
)


def main() -> None:
    """Writes docs/pictures/page-*.png."""
    result = dragstrip.stored(sys.argv[1] if len(sys.argv) > 1 else "last")
    with tempfile.TemporaryDirectory() as folder, browser() as running:
        file = result.to_html(Path(folder) / "race.html")
        for name, theme, width, height in SHOTS:
            watched = Watched(running, file.as_uri(), width=width, theme=theme)
            watched.page.goto(file.as_uri())
            watched.page.wait_for_selector("#chart-ranking[data-drawn] svg")
            watched.page.wait_for_selector("#chart-pairs[data-drawn] svg")
            path = ROOT / "docs" / "pictures" / f"{name}.png"
            watched.page.set_viewport_size({"width": width, "height": height})
            watched.page.screenshot(path=str(path))
            if watched.said:
                sys.exit(f"{name}: the page said {watched.said}")
            watched.close()


if __name__ == "__main__":
    main()
