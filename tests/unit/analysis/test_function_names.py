"""Names of functions that two builds have in common, and whose a stack's time is."""

from __future__ import annotations

import pytest

from dragstrip.analysis.function_names import function, owner
from dragstrip.record import CodePlace, StackFrame


def frame(name: str, module: str = "", place: str = "compiled") -> StackFrame:
    """A frame of compiled code unless another place is given."""
    return StackFrame(place=CodePlace(place), module=module, name=name)


LIBRARY = frame("PyNumber_Add", "/usr/lib/libpython3.12.so.1.0", "user")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("JS:*answer /tmp/builds/12ab/tree/server.js:17:3", "answer [server.js]"),
        ("JS:~get foo /srv/my app/index.js:2:1", "get foo [index.js]"),
        ("JS:^ /srv/server.js:21:19", "(anonymous) [server.js]"),
        (
            "JS:+readableAddChunk node:internal/streams/readable:264:26",
            "readableAddChunk [node:internal/streams/readable]",
        ),
        ("JS:*run file:///srv/module.mjs:1:1", "run [module.mjs]"),
        ("py::Server.data_received:/tmp/builds/12ab/tree/server.py", "Server.data_received [server.py]"),
        ("py::<module>:/srv/server.py", "<module> [server.py]"),
        ("Builtin:ArrayMap", "Builtin:ArrayMap [compiled]"),
        ("", "? [compiled]"),
    ],
)
def test_a_name_has_no_folder_line_or_mark(name: str, expected: str) -> None:
    """These differ between two builds of a function."""
    assert function(frame(name)) == expected


def test_other_functions_are_shown_with_their_file() -> None:
    assert function(LIBRARY) == "PyNumber_Add [libpython3.12.so.1.0]"
    assert function(frame("tcp_sendmsg", place="kernel")) == "tcp_sendmsg [kernel]"


def test_a_script_s_function_has_the_time_of_what_it_calls() -> None:
    """Of the runtime and of the kernel; without such a function the innermost has it."""
    inner, outer = frame("py::planted:/srv/a.py"), frame("py::serve:/srv/a.py")
    assert owner([frame("clear_page", place="kernel"), LIBRARY, inner, LIBRARY, outer]) == "planted [a.py]"
    assert owner([LIBRARY, LIBRARY]) == "PyNumber_Add [libpython3.12.so.1.0]"


def test_time_without_interrupts_is_the_caller_s() -> None:
    switching = frame("_raw_spin_unlock_irqrestore", place="kernel")
    assert owner([switching, frame("sock_def_readable", place="kernel")]) == "sock_def_readable [kernel]"
    assert owner([switching]) == "?"
