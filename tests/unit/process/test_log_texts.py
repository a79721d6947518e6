"""A server's last lines, as messages show them."""

from __future__ import annotations

from dragstrip.process.launcher import without_repeats


def test_lines_that_differ_in_digits_only_are_told_once() -> None:
    """An access log of the tries says nothing, and would push what matters off the screen."""
    access = [f'127.0.0.1 - - [02/Jan/2026 10:00:0{second}] "GET / HTTP/1.1" 200 -' for second in range(4)]
    text = "\n".join(["listening on 8080", *access, "warning: slow", access[0]])
    assert without_repeats(text).splitlines() == [
        "listening on 8080",
        f"{access[3]} (4 lines like it)",
        "warning: slow",
        access[0],
    ]
