"""A run of load as it goes: one line on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from dragstrip.report import figures
from dragstrip.report.load.latency import latency_text
from dragstrip.store import masking

if TYPE_CHECKING:
    from dragstrip.loading.learn import Learned
    from dragstrip.loading.request import LoadRequest
    from dragstrip.loading.result import Slice


class Live:
    """A run as it goes: one line on a terminal, redrawn between slices only and gone at the end; elsewhere nothing."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self._console, self._quiet = console, quiet
        self.shown = console.is_terminal and not quiet

    def begun(self, request: LoadRequest, learned: Learned, doubts: Sequence[str]) -> None:
        """The reference response is learned and the load begins; ``doubts`` stay on the screen, unless quiet."""
        for line in () if self._quiet else doubts:
            self._console.print(Text(f"dragstrip: {line}"), soft_wrap=True)
        what = f"status {learned.status}, {len(learned.body):,} bytes; " if request.plain else ""
        self._draw(f"{masking.url(request.url)}: {what}loading")

    def slice_done(self, request: LoadRequest, done: Sequence[Slice]) -> None:
        """The run so far."""
        part, spent_s = done[-1], sum(slice_.counted_ns for slice_ in done) / 1e9
        sent, failed = sum(slice_.sent for slice_ in done), sum(sum(slice_.errors.values()) for slice_ in done)
        of = f" of {request.duration_s:g} s" if request.duration_s else ""
        of += f", {sent:,} of {request.requests:,} sent" if request.requests else ""
        rate = figures.brief(part.requests * 1e9 / max(part.counted_ns, 1))
        errors = f"{failed:,} errors" if failed else "no error"
        self._draw(f"{spent_s:.0f} s{of} · {rate}/s · p99 {latency_text(part.p99_ns)} · {errors}")

    def close(self) -> None:
        """Takes the line away; safe to call twice."""
        self._draw("")

    def _draw(self, line: str) -> None:
        if self.shown:
            line = line if not self._console.options.ascii_only else line.replace("·", "-").replace("µ", "u")
            self._console.file.write(f"\r{line[: self._console.width - 1]}\x1b[K")
            self._console.file.flush()
