"""Names of functions that stay the same from build to build, and the function to which a stack's time belongs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dragstrip.record import CodePlace, StackFrame

#: Kernel functions in which interrupts are allowed again: the clock's interrupt waited for that, so the time is their
#: callers'.
INTERRUPTS_ON = frozenset({"_raw_spin_unlock_irqrestore", "_raw_spin_unlock_irq", "finish_task_switch"})

#: Names in the map of V8: a mark of how it was compiled, the function, its file, line and column.
_SCRIPT = re.compile(r"^JS:[*~^+]?(?P<name>.*?) ?(?P<file>(?:node:|file:|/|\w:\\).*?)(?::\d+)*$")

#: Names in the map of CPython: the function and its file.
_PYTHON = re.compile(r"^py::(?P<name>.*?):(?P<file>.*)$")


def function(frame: StackFrame) -> str:
    """A function with its file; without folders, line numbers or marks of a compiler, which differ between builds."""
    if named := _in_program(frame):
        return named
    file = "kernel" if frame.place is CodePlace.KERNEL else frame.module.rpartition("/")[2]
    return f"{frame.name or '?'} [{file or frame.place}]"


def owner(frames: Sequence[StackFrame]) -> str:
    """The function that a stack's time belongs to; the stack's innermost frame is first.

    If the runtime names its program's functions, the innermost of these has the time of all that it called in the
    runtime and in the kernel. Otherwise it is the innermost function.
    """
    for frame in frames:
        if named := _in_program(frame):
            return named
    inner = next((frame for frame in frames if frame.name not in INTERRUPTS_ON), None)
    return function(inner) if inner else "?"


def _in_program(frame: StackFrame) -> str:
    """The function of a program in JavaScript or Python; "" for any other."""
    if frame.place is not CodePlace.COMPILED:
        return ""
    match = _SCRIPT.match(frame.name) or _PYTHON.match(frame.name)
    if match is None:
        return ""
    file = match["file"]
    return f"{match['name'] or '(anonymous)'} [{file if file.startswith('node:') else file.rpartition('/')[2]}]"
