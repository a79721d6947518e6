"""The standard output that may be full or gone, and the last resort when something fails that nobody foresaw."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from dragstrip.errors import DragstripError

#: As sysexits.h has it for an error within the program: tells a fault of ours from a refusal.
EXIT_OURS = 70

#: What was printed is held up to this size, so that a full disk under the standard output does not lose a result.
MOST_HELD = 8 * 2**20


def fill_closed() -> None:
    """Puts /dev/null in place of a standard stream that was closed: else the store's file would take its number."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


class _Raw(io.RawIOBase):
    """Writes to a descriptor and remembers the first failure instead of raising it.

    A race goes on, and keeps its record and exit code, when nobody can read what it prints.
    """

    def __init__(self, number: int) -> None:
        self._number, self._size = number, 0
        self._held: list[bytes] = []
        self.failure: OSError | None = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def isatty(self) -> bool:
        return os.isatty(self._number)

    def write(self, data: object, /) -> int:
        part = bytes(memoryview(data))  # type: ignore[arg-type]
        if self._size < MOST_HELD:
            self._held.append(part)
            self._size += len(part)
        if self.failure is None:
            try:
                return os.write(self._number, part)
            except OSError as error:
                self.failure = error
        return len(part)

    def held(self) -> bytes:
        """All that was to be printed."""
        return b"".join(self._held)


class Output:
    """What became of the standard output; ``raw`` is None where it is not ours to watch (a test's own)."""

    def __init__(self, raw: _Raw | None) -> None:
        self.raw = raw

    def settled(self, code: int, *, measured: bool) -> int:
        """The exit code, after everything is written; says where the text went if it could not be.

        The code of a failure or of a measurement stays; any other success whose words nobody got ends with 1, unless
        the reader left of its own (``| head``).
        """
        if self.raw is None:
            return code
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        failure = self.raw.failure
        if failure is None or failure.errno == errno.EPIPE:
            return code
        kept = _keep("output", self.raw.held())
        where = f"what was to be shown is in {kept}" if kept else "and no other place takes what was to be shown"
        _say(f"the standard output can't be written ({failure.strerror}); {where}; a stored race is kept as ever")
        return code if measured else code or 1


@contextmanager
def kept_output() -> Iterator[Output]:
    """Stands a watched stream in for the standard output, where that is a real one."""
    before = sys.stdout
    try:
        number = before.fileno()
    except (AttributeError, OSError, ValueError):
        yield Output(None)
        return
    if number != 1:
        yield Output(None)
        return
    before.flush()
    raw = _Raw(number)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw), before.encoding, before.errors, line_buffering=before.isatty()
    )
    try:
        yield Output(raw)
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        sys.stdout.detach()
        sys.stdout = before


def told(error: BaseException) -> int:
    """Says on stderr what ended the command, and gives its exit code; what nobody foresaw goes to a file."""
    from dragstrip.report.figures import visible

    if isinstance(error, DragstripError):
        _say(visible(str(error), lines=True))
        return error.exit_code
    import platform
    import traceback

    from dragstrip.version import __version__

    about = f"dragstrip {__version__}, Python {platform.python_version()}, {platform.platform()}\n{sys.argv!r}\n\n"
    kept = _keep("crash", (about + "".join(traceback.format_exception(error))).encode("utf-8", "backslashreplace"))
    what = visible(f"{type(error).__name__}: {error}")[:300]
    details = f"the details are in {kept}; please report it with that file" if kept else "please report it"
    _say(f"something failed that should not have ({what}); {details}. What was measured before is in the store.")
    return EXIT_OURS


def _say(text: str) -> None:
    with suppress(OSError):
        click.echo(f"dragstrip: {text}", err=True)


def _keep(what: str, data: bytes) -> Path | None:
    """Writes a file that says what happened, in the user's state folder or wherever one can; None if nowhere."""
    import tempfile
    import time

    home = Path(os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()) / "dragstrip"
    for folder in (home, Path(tempfile.gettempdir())):
        file = folder / f"dragstrip-{what}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with file.open("xb") as opened:
                opened.write(data)
        except (OSError, RuntimeError):
            with suppress(OSError):
                file.unlink()
            continue
        return file
    return None
