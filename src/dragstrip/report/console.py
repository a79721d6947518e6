"""The console of all commands, through which every text on its way to a terminal passes.

What others wrote, such as a server's log or a commit's subject, may have control characters. They could clear a
screen, rename a window or type a command. Rich passes them on, so this console shows them instead. ``commands.streams``
does the same for what is printed without a console.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import rich.console
from rich.segment import Segment

#: What a terminal obeys: control characters except line ends and tabs, and marks that turn the direction of text.
_OBEYED = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]|\r(?!\n)")


def harmless(text: str) -> str:
    """A text with what a terminal would obey shown as ``\\x1b``."""
    if text.isprintable():
        return text
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class Console(rich.console.Console):
    """Rich's console; only its own control sequences reach the terminal."""

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        shown = (part if part.control else Segment(harmless(part.text), part.style) for part in buffer)
        return super()._render_buffer(shown)
