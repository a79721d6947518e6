"""A standard output that may be full or closed, and the report of unexpected errors."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, cast

import click

from dragstrip.errors import EXTRAS, DiskFull, DragstripError, LacksExtra
from dragstrip.paths import NO_SPACE

#: EX_SOFTWARE of sysexits.h: an internal error, not a refusal.
EXIT_OURS = 70

#: Printed text is also kept in memory, up to this size, so that a full disk does not lose a result.
MAX_HELD = 8 * 2**20


def fill_closed() -> None:
    """Puts /dev/null in place of a standard stream that was closed; otherwise the store's file would get its number."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free


class WatchedStream(io.RawIOBase):
    """Writes to a descriptor and remembers the first failure instead of raising it.

    A race goes on, and keeps its record and exit code, when its output can't be written.
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
        if self._size < MAX_HELD:
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


class GuardedStream:
    """A text stream that shows control characters instead of passing them on; see ``report.console``."""

    def __init__(self, stream: TextIO) -> None:
        #: By this name rich's consoles find the stream to write to; ours guards its texts itself, not its colours.
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        if text.isprintable() or text == "\n":
            return self.rich_proxied_file.write(text)
        from dragstrip.report.console import harmless

        self.rich_proxied_file.write(harmless(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


@contextmanager
def guarded() -> Iterator[None]:
    """Guards both standard streams within it; once is enough."""
    before = sys.stdout, sys.stderr
    if isinstance(sys.stdout, GuardedStream):
        yield
        return
    sys.stdout, sys.stderr = (cast(TextIO, GuardedStream(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


@contextmanager
def watched_output() -> Iterator[WatchedStream | None]:
    """Replaces the standard output by a watched stream if the output is descriptor 1; otherwise (in tests) None."""
    before = sys.stdout
    try:
        number = before.fileno()
    except (AttributeError, OSError, ValueError):
        number = -1
    if number != 1:
        yield None
        return
    before.flush()
    stream = WatchedStream(number)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(stream), before.encoding, before.errors, line_buffering=before.isatty()
    )
    try:
        yield stream
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        sys.stdout.detach()
        sys.stdout = before


def exit_code(code: int, output: WatchedStream, *, measured: bool) -> int:
    """The exit code once everything is written; if that failed, prints where the text is kept.

    A failure's code stays. A success ends with 3 if the disk under the output is full. For another reason it ends
    with 1 unless it measured, and unless the reader left (``| head``).
    """
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    failure = output.failure
    if failure is None or failure.errno == errno.EPIPE:
        return code
    file = write_report("output", output.held())
    where = f"its text is kept in {file}" if file else "and its text could not be kept elsewhere"
    _print_error(f"the standard output can't be written ({failure.strerror}); {where}; a stored race is kept")
    if failure.errno in NO_SPACE:
        return code or DiskFull.exit_code
    return code if measured else code or 1


def report_failure(error: BaseException) -> int:
    """Prints to stderr what ended the command, and returns its exit code; details of an internal error go to a file."""
    from dragstrip.report.figures import visible

    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        error = LacksExtra(error.name)
    if isinstance(error, DragstripError):
        _print_error(visible(str(error), lines=True))
        return error.exit_code
    if isinstance(error, OSError) and error.errno in NO_SPACE:
        path = error.filename2 or error.filename
        where = f" for {visible(str(path))}" if path else ""
        _print_error(f"no disk space left{where}; free some and try again. Everything measured so far is in the store.")
        return DiskFull.exit_code
    import platform
    import traceback

    from dragstrip import __version__

    about = f"dragstrip {__version__}, Python {platform.python_version()}, {platform.platform()}\n{sys.argv!r}\n\n"
    file = write_report(
        "crash", (about + "".join(traceback.format_exception(error))).encode("utf-8", "backslashreplace")
    )
    what = visible(f"{type(error).__name__}: {error}")[:300]
    details = f"the details are in {file}; please report it with that file" if file else "please report it"
    _print_error(f"internal error ({what}); {details}. Everything measured so far is in the store.")
    return EXIT_OURS


def _print_error(text: str) -> None:
    with suppress(OSError):
        click.echo(f"dragstrip: {text}", err=True)


def write_report(what: str, data: bytes) -> Path | None:
    """Writes a report in the user's state folder, otherwise in the temporary folder; None if neither works."""
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
