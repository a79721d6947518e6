"""Reads and writes files that a user or a definition names.

Devices and pipes are written into, and links are followed. A plain file is replaced as a whole by a rename, and keeps
its owner, group and mode. If that is impossible (a folder without write permission, a mounted file), it is written in
place. Stores, definitions and programs are never overwritten.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from dragstrip.errors import BadUsage, DiskFull

ELSEWHERE = "give another path"

#: The folder for interpreters and tools that need none. In the current folder, and in the folders above one in /tmp,
#: others may have left files that such programs load: modules, settings, a choice of another compiler.
NOWHERE = Path("/")

#: Errors of a rename after which the file may still be written in place.
_NOT_BY_RENAME = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV)

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)

#: First bytes of a database of SQLite, of its log, and of programs.
_DATABASES = (b"SQLite format 3\0", b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
_PROGRAMS = (b"#!", b"\x7fELF")
_BESIDE_DATABASE = ("-wal", "-shm", "-journal")


def is_file(path: Path) -> bool:
    """Whether the path is an existing file; False if it can't be a path at all (too long, or with a NUL)."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def read(file: Path, max_bytes: int, *, pipes: bool = False) -> bytes:
    """The bytes of a file that the user named; if the file has no end, at most ``max_bytes`` + 1 are read.

    Args:
        pipes: the file may also be a pipe or a device.

    Raises:
        ValueError: the reason why it can't be read; or it is longer than ``max_bytes``.
    """
    try:
        # Without blocking: opening a pipe would wait for its other end.
        number = os.open(file, os.O_RDONLY | os.O_CLOEXEC | (0 if pipes else os.O_NONBLOCK))
        if not pipes and not stat.S_ISREG(os.fstat(number).st_mode):
            os.close(number)
            raise ValueError("it is not a regular file")
        with open(number, "rb") as opened:  # noqa: PTH123 (a descriptor)
            data = opened.read(max_bytes + 1)
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from error
    if len(data) > max_bytes:
        raise ValueError(f"it is longer than {max_bytes:,} bytes")
    return data


def read_beside(folder: Path, name: str, max_bytes: int) -> bytes:
    """The bytes of a file that a definition in ``folder`` names; links must not lead out of the folder.

    Raises:
        ValueError: it is outside of the folder, not a regular file, longer than ``max_bytes``, or can't be read.
    """
    file = Path(os.path.realpath(folder / name))
    if not file.is_relative_to(folder.resolve()):
        raise ValueError(f"{name} is outside of {folder}")
    try:
        return read(file, max_bytes)
    except ValueError as error:
        raise ValueError(f"{folder / name} can't be read ({error})") from error


def refusal(path: Path, *, folder: bool = False) -> str | None:
    """The reason why a path can't be written, and the remedy; None if it can be. Leaves nothing behind.

    Args:
        folder: the path is a folder, which may be missing if its parent exists.
    """
    try:
        if folder:
            return _folder_refusal(path)
        if (number := descriptor(path)) is not None:
            if fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
                raise PermissionError(errno.EBADF, "it is open for reading only")
        elif _exists(path):
            return _existing_refusal(path)
        elif not path.is_symlink() and not path.parent.is_dir():
            return _no_folder(path)
        else:
            _try_new(path)
    except (OSError, ValueError) as error:
        return f"{path}: can't be written ({_why(error, path)}); {ELSEWHERE}"
    return None


def write(path: Path, data: str | bytes, *, new: bool = False) -> None:
    """Writes a file as a whole or not at all; writes into devices and pipes, as a shell's ``>`` does.

    Args:
        new: refuse to overwrite a plain file.

    Raises:
        BadUsage: it can't be written; the message names the path.
        DiskFull: no space is left.
    """
    content = data if isinstance(data, bytes) else data.encode("utf-8", "backslashreplace")
    with failing(f"{path}: can't be written", ELSEWHERE, path):
        opened = descriptor(path)
        if opened is None and not _exists(path):
            _write_new(path, content)
            return
        if opened is None:
            problem = _existing_refusal(path)
            if problem is None and new and path.is_file():
                problem = f"{path} already exists; remove it first, or {ELSEWHERE}"
            if problem is not None:
                raise BadUsage(problem)
        number = os.dup(opened) if opened is not None else os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            if opened is None and stat.S_ISREG(os.fstat(number).st_mode):
                _replace_or_overwrite(path, number, content)
            else:
                _write_into(number, content)
        finally:
            os.close(number)


def write_durably(path: Path, data: bytes) -> Path:
    """Writes a file as a whole, replacing a former one; it and its name are on the disk when this returns.

    Raises:
        BadUsage: it can't be written; the message names the path. DiskFull: no space is left.
    """
    with failing(f"{path}: can't be written", ELSEWHERE, path):
        with _part(path, 0o644) as (part, number):
            _write_into(number, data)
            os.fsync(number)
            part.replace(path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return path


@contextmanager
def temporary(base: Path | None = None, *, after_kill: str = "") -> Iterator[Path]:
    """A new folder, which is removed after the block.

    Its name has this process's id, and a shared lock shows that a process uses it. After a ``kill -9`` of this process,
    the next race removes it (``process.scratch``), or with ``after_kill`` a shell, at once.

    Args:
        base: the folder's parent; None: the user's own folder for temporary files.
        after_kill: a shell command that removes what else a killed process leaves, ``:`` for nothing.
    """
    folder = (base or Path(tempfile.gettempdir())) / f"dragstrip-{os.getpid()}-{secrets.token_hex(8)}"
    # The guard waits before the folder is made: a `kill -9` may come at any moment.
    with _guard(folder, after_kill) if after_kill else nullcontext():
        folder.mkdir(mode=0o700)
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


@contextmanager
def _guard(folder: Path, after_kill: str) -> Iterator[None]:
    """A shell removes the folder after the block or this process, once no process locks it (flock(1))."""
    remove = '[ ! -d "$1" ] || { chmod -R u+rwx -- "$1"; flock -w 60 "$1" rm -rf -- "$1"; }'
    with guarded(f"{remove}; [ $killed = 0 ] || {after_kill}", str(folder)):
        yield


@contextmanager
def guarded(command: str, word: str) -> Iterator[None]:
    """A shell runs a command after the block, or after this process if that is killed in it.

    It waits for the end of a pipe whose other end only this process holds; without a line before that end, this process
    was killed. Its own session shields it from Ctrl-C.

    Args:
        command: ``$1`` is ``word`` in it, and ``$killed`` is 0 if this process was not killed.
    """
    with subprocess.Popen(
        ["/bin/sh", "-c", f"read -r _; killed=$?; {command}", "sh", word],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
        bufsize=0,
    ) as shell:
        try:
            yield
        finally:
            assert shell.stdin is not None
            with suppress(BrokenPipeError):
                shell.stdin.write(b"\n")


def own_folder(path: Path, remedy: str) -> Path:
    """A folder of Dragstrip's own, created if it is missing.

    Raises:
        BadUsage: it can't be written. DiskFull: no space is left.
    """
    with failing(f"{path}: can't be created", remedy):
        path.mkdir(parents=True, exist_ok=True)
    if (problem := refusal(path, folder=True)) is not None:
        raise BadUsage(f"{problem}, or {remedy}")
    return path


@contextmanager
def failing(what: str, remedy: str, path: Path | None = None) -> Iterator[None]:
    """Turns an OSError within the block into a refusal: ``what``, the system's reason, and ``remedy``.

    Raises:
        BadUsage: the block failed. DiskFull: because no space is left.
    """
    try:
        yield
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            raise DiskFull(f"{what} ({error.strerror}); make room there, or {remedy}") from error
        raise BadUsage(f"{what} ({_why(error, path)}); {remedy}") from error


def descriptor(path: Path) -> int | None:
    """The open descriptor of this process that a path like /dev/stdout or /dev/fd/3 names; None for any other path."""
    pattern = re.compile(rf"/proc/(?:self|{os.getpid()})/fd/(\d+)")
    try:
        for _ in range(20):
            path = Path(os.path.realpath(path.parent)) / path.name
            if match := pattern.fullmatch(str(path)):
                os.fstat(int(match[1]))
                return int(match[1])
            if not path.is_symlink():
                return None
            path = path.parent / path.readlink()
    except (OSError, ValueError):
        return None
    return None


def _exists(path: Path) -> bool:
    """Whether the path exists; False for a link whose target is missing.

    Raises:
        OSError: the system does not tell, for another reason than a missing file.
    """
    try:
        path.stat()
    except FileNotFoundError:
        return False
    return True


def _folder_refusal(path: Path) -> str | None:
    if not path.parent.is_dir():
        return _no_folder(path)
    if path.exists() or path.is_symlink():
        if not path.is_dir():
            return f"{path} is not a folder; {ELSEWHERE}"
        path = path / "x"
    _try_new(path.with_name(f".dragstrip-{secrets.token_hex(8)}"))
    return None


def _no_folder(path: Path) -> str:
    return f"{path}: folder {path.parent} does not exist; create it, or {ELSEWHERE}"


def _existing_refusal(path: Path) -> str | None:
    """The reason why an existing path must not be overwritten; None if it may be.

    Raises:
        OSError: it can't be opened for writing.
    """
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        return f"{path} is a folder; {ELSEWHERE}"
    if stat.S_ISSOCK(mode) or stat.S_ISBLK(mode):
        return f"{path} is a {'socket' if stat.S_ISSOCK(mode) else 'disk'}, not a file; {ELSEWHERE}"
    if not stat.S_ISREG(mode):
        # Opening a pipe or a device may block, and its other end may notice.
        if not os.access(path, os.W_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return None
    os.close(os.open(path, os.O_WRONLY | os.O_CLOEXEC))
    kind = _kept_kind(path)
    return f"{path} is {kind}, and Dragstrip does not overwrite it; {ELSEWHERE}" if kind else None


def _kept_kind(path: Path) -> str | None:
    """The kind of a plain file that no report may replace; None for other files."""
    if path.stat().st_size == 0:
        return None
    target = Path(os.path.realpath(path))
    for place in (path, target):
        if place.suffix == ".toml":
            return "a definition (TOML)"
        if (place.parent / "contender.toml").is_file():
            return f"part of the contender in {place.parent}"
        for suffix in _BESIDE_DATABASE:
            if place.name.endswith(suffix) and place.with_name(place.name.removesuffix(suffix)).is_file():
                return "part of a database"
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except PermissionError:
        return None
    if start.startswith(_PROGRAMS):
        return "a program"
    return "a store or another SQLite database" if start.startswith(_DATABASES) else None


def _try_new(path: Path) -> None:
    """Creates a file, or a link's target, and removes it again.

    Raises:
        OSError: the file can't be created.
    """
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
    _remove_empty(path, number)
    os.close(number)


def _remove_empty(path: Path, number: int) -> None:
    """Removes an empty file through its path, if that still leads to the descriptor's file."""
    target, state = os.path.realpath(path), os.fstat(number)
    with suppress(OSError):
        if state.st_size == 0 and os.path.samestat(state, os.lstat(target)):
            Path(target).unlink()


def _write_new(path: Path, content: bytes) -> None:
    if path.is_symlink():  # opened by its own name, so that the kernel judges whose link may be followed
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            _overwrite(number, content)
        except BaseException:
            _remove_empty(path, number)
            raise
        finally:
            os.close(number)
        return
    with _part(path, 0o666) as (part, number):
        _write_into(number, content)
        part.replace(path)


@contextmanager
def _part(path: Path, mode: int) -> Iterator[tuple[Path, int]]:
    """A new file next to a path, open for writing; removed if the block has not renamed it."""
    part = path.with_name(f".dragstrip-{secrets.token_hex(8)}")
    number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        yield part, number
    finally:
        os.close(number)
        part.unlink(missing_ok=True)


def _replace_or_overwrite(path: Path, number: int, content: bytes) -> None:
    """Replaces a plain file by a rename, with its owner, group and mode; if that is impossible, overwrites it."""
    old, target = os.fstat(number), Path(os.path.realpath(path))
    try:
        if os.path.samestat(old, os.lstat(target)):
            with _part(target, 0o600) as (part, made):
                os.fchown(made, old.st_uid, old.st_gid)
                os.fchmod(made, stat.S_IMODE(old.st_mode))
                _write_into(made, content)
                part.replace(target)
            return
    except OSError as error:
        if error.errno not in _NOT_BY_RENAME:
            raise
    _overwrite(number, content)


def _overwrite(number: int, content: bytes) -> None:
    """Overwrites a plain file in place; if the disk has no room for the content, the file stays as it was."""
    size = os.fstat(number).st_size
    try:
        if content:
            os.posix_fallocate(number, 0, len(content))
        _write_into(number, content)
        os.ftruncate(number, len(content))
    except BaseException:
        os.ftruncate(number, size)
        raise


def _write_into(number: int, content: bytes) -> None:
    """Writes all content; a pipe's reader may close it before the end."""
    left = memoryview(content)
    try:
        while left:
            left = left[os.write(number, left) :]
    except BrokenPipeError:
        return


def _why(error: OSError | ValueError, path: Path | None) -> str:
    if isinstance(error, FileNotFoundError) and path is not None:
        target = Path(os.path.realpath(path))
        return f"folder {target.parent} does not exist"
    return (isinstance(error, OSError) and error.strerror) or str(error)
