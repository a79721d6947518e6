"""What one definition's templates, draws and files may cost together, so that a stranger's file stays a small one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from dragstrip.errors import DragstripError

#: What one definition may cost: evaluated nodes, and bytes of memory for what is made; about a second, 64 MB.
MAX_STEPS, MAX_BYTES = 2_000_000, 2**26

#: What a template may do, for messages.
ALLOWED = (
    "a template may have names, numbers, texts, lists, + - * / // % ~, comparisons, and, or, not, in, x if y else z, "
    "[index], [first:end], range(), {% for %}, {% if %} and the filters abs, int, join, length, lower, string, upper "
    "and urlencode"
)


class TemplateRefused(DragstripError):
    """A template is not valid, or does more than a template may.

    Args:
        problem: what is refused. remedy: what is allowed.
        line: within the template, 1-based.
        unknown: the name that nothing defines, if that is the problem.
    """

    exit_code = 2

    def __init__(self, problem: str, remedy: str = ALLOWED, line: int | None = None, unknown: str = "") -> None:
        super().__init__(f"{problem}; {remedy}")
        self.problem, self.remedy, self.line, self.unknown = problem, remedy, line, unknown


class Budget:
    """How much work and text the templates of one definition may still cost."""

    def __init__(self) -> None:
        self.steps, self.bytes = MAX_STEPS, MAX_BYTES

    def spend(self, steps: int = 0, made: int = 0) -> None:
        """Takes from what is left.

        Raises:
            TemplateRefused: there is not that much left.
        """
        self.steps -= steps
        self.bytes -= made
        if self.steps < 0:
            raise TemplateRefused(
                f"one definition's templates and draws take over {MAX_STEPS:,} steps", "use fewer or shorter loops"
            )
        if self.bytes < 0:
            raise TemplateRefused(
                f"one definition's templates and draws make over {MAX_BYTES:,} bytes", "make shorter texts, or fewer"
            )


_BUDGET: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextmanager
def budget() -> Iterator[Budget]:
    """One budget for everything within; one that is open already counts for this, too."""
    known = _BUDGET.get()
    if known is not None:
        yield known
        return
    made = Budget()
    token = _BUDGET.set(made)
    try:
        yield made
    finally:
        _BUDGET.reset(token)


def spend(steps: int = 0, made: int = 0) -> None:
    """Takes from the budget that is open, if one is.

    Raises:
        TemplateRefused: as ``Budget.spend``.
    """
    if (left := _BUDGET.get()) is not None:
        left.spend(steps, made)
