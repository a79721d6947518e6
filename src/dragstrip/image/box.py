"""A box: an image's program with the image as its root, and processes and a network of its own, by bubblewrap.

bubblewrap (`bwrap`) starts the program as its child and waits. No daemon, engine or runtime is involved. The image is
read-only. Folders that programs usually write are copies of this launch alone, so that every launch begins alike.
"""

from __future__ import annotations

import csv
import functools
import os
import posixpath
import re
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dragstrip.errors import NotReady, StageError
from dragstrip.image.archive import printable
from dragstrip.image.images import BASE_ID, Image, text_of
from dragstrip.image.kept import content_of
from dragstrip.image.unpacking import IDS, inside
from dragstrip.machine.bounded_command import bounded

PROGRAM, DEBIAN = "bwrap", "bubblewrap"

#: Folders that a program may write, if the image has them; `/tmp` is always empty and writable.
WRITABLE = ("/run", "/var/run", "/var/tmp", "/var/log", "/var/cache")

#: The most bytes and files of such a folder, because each launch gets a copy.
MAX_WRITABLE_BYTES = 64 * 2**20
MAX_WRITABLE_FILES = 10_000

#: Stand for descriptors that the supervisor makes: in the options of the user namespace, in the command of the options.
USER_NAMESPACE, OPTIONS = "{user namespace}", "{options}"

#: What Docker leaves to a container's root, but for making devices and raw sockets.
_RIGHTS = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP", "NET_BIND_SERVICE")

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

#: Seconds that a trial may take.
TRY_S = 10.0

#: Longer lines of `/etc/passwd` and `/etc/group` are passed over.
_LONGEST_LINE = 4096

#: The port of an image that names none, as most published images use it.
USUAL_PORT = 8080


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a definition says about its container; texts are filled in.

    Args:
        command: in place of the image's. arguments: in place of its CMD alone. environment: added to the image's.
        mounts: files and folders of this machine by their places in the image, read-only.
        writable: further folders that the program may write.
        network: the file of a network namespace that it joins; "": it has one of its own.
    """

    command: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str]
    mounts: Mapping[str, str]
    writable: tuple[str, ...] = ()
    network: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """How a launch's box is started.

    Args:
        command: bubblewrap's, with the container's own.
        options: bubblewrap's. They have the container's environment: every user can read a command, so they are not
            part of it.
        ids: base, user and group of the user namespace that root's supervisor makes; None: bubblewrap makes it.
        stop_signal: the image's own, without SIG; "" if it names none.
        network: as in ``Wish``.
    """

    command: tuple[str, ...]
    options: tuple[str, ...]
    ids: tuple[int, int, int] | None
    stop_signal: str
    network: str = ""


@dataclass(frozen=True, slots=True)
class _User:
    user: int
    group: int
    home: str
    name: str


def bubblewrap() -> str:
    """The path of bubblewrap.

    Raises:
        NotReady: it is not installed.
    """
    if (program := shutil.which(PROGRAM)) is None:
        raise NotReady(f"`{PROGRAM}` (bubblewrap) is not on PATH; `dragstrip install {DEBIAN}` installs it")
    return program


def tried() -> str:
    """What bubblewrap printed when it could not make a box's namespaces here; "" if it can.

    Raises:
        NotReady: it is not installed.
    """
    words = [bubblewrap(), "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--die-with-parent"]
    words += ["--unshare-user", "--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    try:
        ended = bounded([*words, "true"], TRY_S)
    except OSError as error:
        return error.strerror or str(error)
    return "" if ended.status == 0 else ended.tail or f"status {ended.status}"


def port_of(image: Image) -> int:
    """The port that an image exposes; ``USUAL_PORT`` if it exposes none or several without that one."""
    given = {_number(word.partition("/")[0]) for word in image.start().ports}
    ports = [port for port in given if port is not None and 0 < port < 2**16]
    return ports[0] if len(ports) == 1 else USUAL_PORT


def boxed(image: Image, wish: Wish, scratch: Path) -> Box:
    """Makes a launch's writable folders in its scratch folder, gives it to the container's user, and makes the command.

    The scratch folder has the same path in the box.

    Raises:
        NotReady: bubblewrap is missing, or the image has no command. StageError: a folder or a user is not usable.
    """
    start, root = image.start(), image.root
    command = wish.command or (*start.entrypoint, *(wish.arguments or start.command))
    if not command:
        raise NotReady(f"image {image.name} has neither ENTRYPOINT nor CMD; give start.command in a definition")
    user = _user(image)
    ids = (BASE_ID, user.user, user.group) if os.geteuid() == 0 else None
    if ids is not None:
        _refuse_hidden(root)
        _give(scratch, BASE_ID + user.user, BASE_ID + user.group)
    for place in (*start.volumes, *wish.writable):
        _mount_point(image, place, folder=True)
    words = ["--die-with-parent", "--new-session"]
    words += ["--userns", USER_NAMESPACE] if ids else ["--unshare-user"]
    words += ["--uid", str(user.user), "--gid", str(user.group)]
    words += [] if wish.network else ["--unshare-net"]
    words += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--hostname", "container"]
    words += ["--ro-bind", str(root), "/", "--proc", "/proc", "--dev", "/dev", "--ro-bind", "/sys", "/sys"]
    words += ["--perms", "1777", "--tmpfs", "/tmp"]
    for source, place in _writable(image, (*WRITABLE, *start.volumes, *wish.writable), scratch):
        words += ["--bind", str(source), place]
    for place, outside in wish.mounts.items():
        words += ["--ro-bind", outside, _mount_point(image, place, folder=Path(outside).is_dir())]
    words += ["--bind", str(scratch), str(scratch)]
    words += ["--cap-drop", "ALL"]
    words += [word for right in _RIGHTS for word in ("--cap-add", f"CAP_{right}")] if user.user == 0 else []
    words += ["--clearenv"]
    for key, value in _environment(start.environment, user, wish.environment).items():
        words += ["--setenv", key, value]
    folder = start.folder or "/"
    words += ["--chdir", folder if posixpath.isabs(folder) else f"/{folder}"]
    stop_signal = _signal(start.stop_signal)
    return Box(
        command=(bubblewrap(), "--args", OPTIONS, "--", *command),
        options=tuple(words), ids=ids, stop_signal=stop_signal, network=wish.network,
    )  # fmt: skip


def facts(image: Image) -> dict[str, str]:
    """What the parity sheet shows of an image and its box."""
    user = _user(image)
    single = "" if os.geteuid() == 0 else ", the only user that the box has"
    return {
        "image": f"{image.name}, id {image.id[:12]}",
        "image's base": image.base,
        "image's C library": image.libc,
        "image's user": f"{user.name} (id {user.user}{single})",
        "namespaces": "user, files, processes, network, IPC and host name of its own, by bubblewrap",
        "network": "its own loopback, without this machine's firewall rules",
        "without, as Docker has": "a system call filter (about 30 ns per call), overlayfs (about 2 µs per opened file)",
    }


def _environment(given: Sequence[str], user: _User, more: Mapping[str, str]) -> dict[str, str]:
    own = dict(word.split("=", 1) for word in given if "=" in word)
    return {"PATH": _PATH, "HOME": user.home, "HOSTNAME": "container", **own, **more}


def _signal(text: str) -> str:
    """A stop signal as `TERM`, from `SIGTERM`, `TERM` or `15`; "" if it is not given or not known."""
    name = text.upper().removeprefix("SIG")
    if name.isdecimal() and int(name) in {number.value for number in signal.Signals}:
        return signal.Signals(int(name)).name.removeprefix("SIG")
    return name if f"SIG{name}" in signal.Signals.__members__ else ""


def _user(image: Image) -> _User:
    """The user that the image names, by its `/etc/passwd` and `/etc/group`; root if it names none.

    Raises:
        StageError: the image lacks that user, or its id is above 65,535.
    """
    name, _, group_name = image.start().user.partition(":")
    users, groups = list(_rows(image, "etc/passwd", 7)), list(_rows(image, "etc/group", 3))
    row = next((row for row in users if (name or "0") in (row[0], row[2])), None)
    number = _number(row[2] if row else name or "0")
    if number is None:
        raise StageError(f"image {image.name} starts as user {name[:40]!r}, which its /etc/passwd lacks")
    group: int | None = _number(row[3]) or 0 if row else 0
    if group_name:
        group = _number(next((row[2] for row in groups if group_name == row[0]), group_name))
    if group is None:
        raise StageError(f"image {image.name} starts as group {group_name[:40]!r}, which its /etc/group lacks")
    if max(number, group) >= IDS:
        raise StageError(f"image {image.name} starts as user {number}, group {group}; a box has ids up to {IDS - 1}")
    home = row[5] if row and row[5] else "/"
    return _User(number, group, home, printable(row[0]) if row else str(number))


def _rows(image: Image, path: str, least: int) -> Iterator[list[str]]:
    lines = text_of(image.root, path).replace("\0", "?").splitlines()
    short = (line for line in lines if len(line) < _LONGEST_LINE)
    for row in csv.reader(short, delimiter=":", quoting=csv.QUOTE_NONE):
        if len(row) >= least and _number(row[2]) is not None:
            yield row


def _number(text: str) -> int | None:
    """A number as an image writes it; None if it is none, or has more than 10 digits."""
    return int(text) if text.isdecimal() and len(text) <= 10 else None


def _refuse_hidden(root: Path) -> None:
    """Refuses a cache that only root may enter, because a box's root is another user of this machine.

    Raises:
        NotReady: names the folder.
    """
    for folder in (root, *root.parents):
        if not folder.stat().st_mode & stat.S_IXOTH:
            raise NotReady(
                f"{folder} can't be entered by other users, and a container's user is one; set DRAGSTRIP_CACHE to a "
                "folder that all may enter, or `chmod o+x` that one"
            )


def _give(scratch: Path, user: int, group: int) -> None:
    for path in (scratch, *scratch.rglob("*")):
        os.chown(path, user, group, follow_symlinks=False)


def _writable(image: Image, places: Iterable[str], scratch: Path) -> list[tuple[Path, str]]:
    """Copies of folders that the program may write, with their places in the box; a folder within another is left out.

    Raises:
        StageError: a folder is too large to be copied for each launch.
    """
    found: dict[Path, str] = {}
    for place in places:
        real = _inside(image, place)
        if real.is_dir() and real != image.root:
            found[real] = "/" + real.relative_to(image.root).as_posix()
    outer = {real: place for real, place in found.items() if not set(real.parents) & set(found) and place != "/tmp"}
    if not outer:
        return []
    copies = scratch / ".writable"
    copies.mkdir(mode=0o755)
    for number, (real, place) in enumerate(outer.items()):
        files, size = _content(real)
        if size > MAX_WRITABLE_BYTES or files > MAX_WRITABLE_FILES:
            most = f"{MAX_WRITABLE_FILES:,} files and {MAX_WRITABLE_BYTES >> 20} MiB"
            raise StageError(
                f"image {image.name}: {place} is writable and would be copied for each launch, but has more than {most}"
            )
        done = subprocess.run(
            ["cp", "-a", "--", str(real), str(copies / str(number))], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise StageError(f"image {image.name}: {place} can't be copied: {done.stderr.strip()}")
    return [(copies / str(number), place) for number, place in enumerate(outer.values())]


@functools.lru_cache(maxsize=256)
def _content(folder: Path) -> tuple[int, int]:
    """Files and bytes of a folder of an unpacked image, which never changes."""
    return content_of(folder)


def _inside(image: Image, place: str) -> Path:
    """Where a path is in the image's root.

    Raises:
        StageError: its links lead in a circle, or it is too long.
    """
    try:
        return inside(image.root, place)
    except OSError as error:
        raise StageError(f"image {image.name}: {error.strerror or error}") from error


def _mount_point(image: Image, place: str, *, folder: bool) -> str:
    """A place of the image where something is mounted, without links; an empty file or folder is made if it is missing.

    Raises:
        StageError: it is not an absolute path, or the image has something else there.
    """
    if not re.match(r"/[^/]", place):
        raise StageError(f"image {image.name}: {place!r} is not a path below /; give one like /data/items.json")
    real = _inside(image, place)
    try:
        if folder:
            real.mkdir(parents=True, exist_ok=True)
        elif not real.exists():
            real.parent.mkdir(parents=True, exist_ok=True)
            real.touch()
    except OSError as error:
        raise StageError(f"image {image.name}: {place} can't be made: {error.strerror}") from error
    return "/" + real.relative_to(image.root).as_posix()
