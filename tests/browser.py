"""A real browser for tests: headless Chromium by Playwright, which may reach only what a test serves."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

#: As root in a container, without the background look-ups that a closed network would refuse one by one.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


def chromium() -> str:
    """Path of Chromium; skips the test if it is missing."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium here: `apt-get install chromium` (`make check` does, as root)")
    return path


@contextmanager
def browser() -> Iterator[Any]:
    """One browser."""
    api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install 'dragstrip[test]'"
    )
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium(), args=list(ARGUMENTS))
        try:
            yield running
        finally:
            running.close()


class Watched:
    """A page that records its faults.

    Args:
        allowed: the beginning of every address that it may ask for.
    """

    def __init__(self, running: Any, allowed: str, *, width: int = 1200, theme: str = "light") -> None:
        self.context = running.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme, accept_downloads=True
        )
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.on("dialog", self._dismissed)
        self.page.on("request", lambda request: self._asked(request.url, allowed))
        self.page.on("requestfailed", self._failed)

    def _asked(self, url: str, allowed: str) -> None:
        if not url.startswith((allowed, "data:")):
            self.said.append(f"request: {url[:200]}")

    def _dismissed(self, dialog: Any) -> None:
        self.said.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _failed(self, request: Any) -> None:
        # A page that closes its own stream, or navigates away, aborts the request: not a failure.
        if request.failure != "net::ERR_ABORTED":
            self.said.append(f"failed: {request.url[:200]} ({request.failure})")

    def close(self) -> None:
        """Closes the page and its context."""
        self.context.close()


def contrast_and_names(page: Any) -> list[str]:
    """The violations that axe finds, one per line: rule, severity, and the first element."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    found = axe.Axe().run(page).response["violations"]
    return [f"{one['id']} ({one['impact']}): {one['nodes'][0]['html'][:160]}" for one in found]


def screenshot(page: Any, path: Path) -> None:
    """The whole page as PNG."""
    page.screenshot(path=str(path), full_page=True)
