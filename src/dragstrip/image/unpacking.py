"""Unpacks an image's layers into a folder, which becomes a container's root.

The layers are hostile until proven harmless. No path leads out of the folder, also not through a link of an earlier
layer. Devices, pipes and sockets are left out, set-user-id bits are dropped, and files and bytes are counted.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tarfile
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from dragstrip.errors import BadUsage
from dragstrip.image.archive import Archive, Readable, StrictHeader, refuse_global_headers

#: Names of files in a layer that remove a lower layer's file, or all that lower layers have in the folder.
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"

#: Links that are followed on one path, as the kernel does.
_MAX_LINKS = 40

#: Bytes that are copied at once, and the longest header of a tar file (long names, extended attributes).
_PIECE, _MAX_HEADER = 2**20, 2**20

#: The longest path in bytes (PATH_MAX), and its most folders: programs that remove a tree go down into it.
MAX_PATH_BYTES, MAX_DEPTH = 4096, 128

#: Bytes of all headers of one member together: names, extended attributes, maps of sparse files.
_MAX_HEADERS = 4 * 2**20

#: What is written as a hole.
_ZEROS = bytes(_PIECE)

#: Files and bytes between two looks at the disk's free space.
_LOOK_FILES, _LOOK_BYTES = 5_000, 64 * 2**20

#: Bytes that are remembered, because the reader of tar files goes back by one.
_REMEMBERED = 512

#: User and group ids that a container has.
IDS = 65_536


@dataclass(frozen=True, slots=True)
class UnpackingLimits:
    """What an image may need.

    Args:
        files: also folders and links. bytes: of all files together, holes included.
        spare: bytes that stay free on the disk. spare_files: files that the disk could still hold.
    """

    files: int = 500_000
    bytes: int = 16 * 2**30
    spare: int = 2**30
    spare_files: int = 20_000


@dataclass(slots=True)
class Unpacked:
    """What came out of an image: files (also folders and links), bytes, and files that were left out."""

    files: int = 0
    bytes: int = 0
    left_out: int = 0


class _ImageLayer:
    """A layer that is read forward only; its digest is over every byte.

    It has what `tarfile` needs of a seekable file: `tell`, `seek` forward or back by some bytes, and `read` in pieces
    of bounded size, so that a header that claims gigabytes can't fill the memory.
    """

    def __init__(self, stream: Readable, most: int) -> None:
        self._stream, self._left = stream, most
        self._digest = hashlib.sha256()
        self._at = self._wanted = 0
        self._last = b""
        self._headers: int | None = None

    @property
    def count(self) -> int:
        """Bytes that were read."""
        return self._at

    def expect(self, *, headers: bool) -> None:
        """Says what is read next: the headers of a member, which are bounded together, or its content."""
        self._headers = _MAX_HEADERS if headers else None

    def tell(self) -> int:
        return self._wanted

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        if whence != os.SEEK_SET or offset < self._at - len(self._last):
            raise tarfile.ReadError("it is not in the order of a tar file")
        self._wanted = offset
        return offset

    def read(self, count: int, /) -> bytes:
        if not 0 <= count <= _MAX_HEADER:
            raise tarfile.ReadError(f"a header claims {count:,} bytes")
        if self._headers is not None:
            self._headers -= count
            if self._headers < 0:
                raise tarfile.ReadError(f"a member has more than {_MAX_HEADERS:,} bytes of headers")
        while self._at < self._wanted:
            if not self._advance(min(self._wanted - self._at, _PIECE)):
                return b""
        back = self._at - self._wanted
        data = self._last[len(self._last) - back :][:count] if back else b""
        if len(data) < count:
            data += self._advance(count - len(data))
        self._wanted += len(data)
        return data

    def digest(self) -> str:
        """The digest in the form of an image's configuration, after reading what follows the end of the tar file."""
        while self._advance(_PIECE):
            pass
        return f"sha256:{self._digest.hexdigest()}"

    def _advance(self, count: int) -> bytes:
        piece = self._stream.read(count)
        self._left -= len(piece)
        if self._left < 0:
            raise _TooLargeError
        self._digest.update(piece)
        self._at += len(piece)
        self._last = (self._last + piece)[-_REMEMBERED:]
        return piece


class _TooLargeError(Exception):
    """More bytes than allowed."""


class _OutsideError(Exception):
    """A path that leads out of the image; the message says how."""


def inside(root: Path, path: str) -> Path:
    """Where a path of the image is below ``root``: links are followed as they would be if ``root`` were ``/``.

    The result contains no link. Its end may be missing.

    Raises:
        OSError: more than 40 links, or a path that is too long or too deep.
    """
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise OSError(f"a path has more than {MAX_PATH_BYTES:,} bytes: {path[:40]!r}…")
    left = deque(part for part in path.split("/") if part not in ("", "."))
    found: list[str] = []
    links = 0
    while left:
        if len(found) > MAX_DEPTH or len(left) > 2 * MAX_DEPTH:
            raise OSError(f"a path has more than {MAX_DEPTH} folders: {path[:40]!r}…")
        part = left.popleft()
        if part == "..":
            found = found[:-1]
            continue
        place = os.path.join(root, *found, part)  # noqa: PTH118 (called for each file of an image)
        try:
            target = os.readlink(place)  # noqa: PTH115 (a path would lose its trailing slash)
        except OSError:
            found.append(part)
            continue
        if (links := links + 1) > _MAX_LINKS:
            raise OSError(f"{path} has more than {_MAX_LINKS} links")
        if target.startswith("/"):
            found = []
        left.extendleft(part for part in reversed(target.split("/")) if part not in ("", "."))
    return root.joinpath(*found)


@dataclass
class Unpacker:
    """Unpacks layers into one folder, the lowest first.

    Args:
        root: an empty folder. owner: the id that the container's root has on this machine; None: all files are ours.
    """

    root: Path
    owner: int | None
    limits: UnpackingLimits = field(default_factory=UnpackingLimits)
    done: Unpacked = field(default_factory=Unpacked)
    _made: set[str] = field(default_factory=set, repr=False)
    _folders: dict[str, str] = field(default_factory=dict, repr=False)
    _read: int = field(default=0, repr=False)
    _looked: tuple[int, int] = field(default=(0, 0), repr=False)

    def unpack(self, archive: Archive) -> Unpacked:
        """Unpacks all layers of an image.

        Raises:
            BadUsage: a layer is damaged, hostile or too large; the message names layer and path.
        """
        for number, expected in enumerate(archive.config.rootfs.diff_ids):
            what = f"{archive.file}: layer {number + 1} of {len(archive.layers)}"
            try:
                with archive.layer(number) as stream:
                    self._layer(stream, expected)
            except _TooLargeError as error:
                limits = f"{self.limits.files:,} files and {self.limits.bytes:,} bytes"
                raise BadUsage(f"{what}: the image has more than {limits}; give a smaller image") from error
            except _OutsideError as error:
                raise BadUsage(f"{what}: {error}; Dragstrip does not unpack such an image") from error
            except RecursionError as error:
                raise BadUsage(f"{what} can't be unpacked: a member has too many headers") from error
            except _DAMAGED as error:
                raise BadUsage(f"{what} can't be unpacked: {_without_place(error)}") from error
        return self.done

    def _layer(self, stream: Readable, expected: str) -> None:
        """Unpacks one layer; its digest must be the expected one, or its image's id would stand for other files."""
        self._made = {str(self.root)}
        layer = _ImageLayer(stream, self.limits.bytes + 2**30 - self._read)  # headers and padding are not files
        layer.expect(headers=True)
        with tarfile.open(fileobj=layer, mode="r:", tarinfo=StrictHeader) as tar:  # type: ignore[call-overload]
            while (member := tar.next()) is not None:
                tar.members = []  # it would keep every header
                refuse_global_headers(tar)
                layer.expect(headers=False)
                self._member(tar, member)
                layer.expect(headers=True)
        layer.expect(headers=False)
        digest, self._read = layer.digest(), self._read + layer.count
        if digest != expected:
            raise ValueError(f"its digest is {digest}, and the image's configuration has {expected}")

    def _member(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        self._count(member)
        parts = [part for part in member.name.split("/") if part not in ("", ".")]
        if member.name.startswith("/") or ".." in parts or "\0" in member.name:
            raise _OutsideError(f"the path {_short(member.name)} leads out of the image")
        if parts and parts[-1].startswith(_WHITEOUT) and parts[-1].removeprefix(_WHITEOUT) in ("", ".", ".."):
            raise _OutsideError(f"the path {_short(member.name)} removes a whole folder")
        if not parts:
            return
        folder, name = self._folder(parts[:-1]), parts[-1]
        place = f"{folder}/{name}"
        if name == _OPAQUE:
            self._clear(folder)
        elif name.startswith(_WHITEOUT):
            self._remove(f"{folder}/{name.removeprefix(_WHITEOUT)}")
        elif member.isdir():
            if not stat.S_ISDIR(_mode(place)):
                self._remove(place)
                os.mkdir(place, 0o700)  # noqa: PTH102
            self._own(place, member)
            os.chmod(place, member.mode & 0o1777 | 0o700)  # noqa: PTH101
        elif member.isreg() or member.issym() or member.islnk():
            self._remove(place)
            self._file(tar, member, place)
        else:
            self.done.left_out += 1
            return
        while place not in self._made:
            self._made.add(place)
            place = os.path.dirname(place)  # noqa: PTH120

    def _count(self, member: tarfile.TarInfo) -> None:
        if member.size < 0:
            raise ValueError(f"{_short(member.name)} has {member.size:,} bytes")
        self.done.files += 1
        self.done.bytes += member.size if member.isreg() else 0
        if self.done.files > self.limits.files or self.done.bytes > self.limits.bytes:
            raise _TooLargeError
        files, size = self._looked
        if not files or self.done.files - files > _LOOK_FILES or self.done.bytes - size > _LOOK_BYTES:
            self._look_at_disk()
            self._looked = (self.done.files, self.done.bytes)

    def _look_at_disk(self) -> None:
        """Ends the unpacking before the disk is full."""
        disk = os.statvfs(self.root)
        free = disk.f_bavail * disk.f_frsize
        if free < self.limits.spare or (disk.f_files and disk.f_favail < self.limits.spare_files):
            raise OSError(
                f"its disk has {free >> 20:,} MiB and {disk.f_favail:,} files left; free some space, or let "
                "DRAGSTRIP_CACHE name a folder of another disk"
            )

    def _file(self, tar: tarfile.TarFile, member: tarfile.TarInfo, place: str) -> None:
        """Makes a file or a link at a path where there is nothing."""
        if member.islnk():
            folder, _, name = member.linkname.rpartition("/")
            source = f"{self._folder(folder.split('/'))}/{name}"
            mode = _mode(source)
            if name in ("", ".", "..") or not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
                names = f"{_short(member.name)} to {_short(member.linkname)}"
                raise _OutsideError(f"the hard link {names} is not to a file of it")
            os.link(source, place, follow_symlinks=False)
            self._folders.clear()  # the file may be a link
            return
        if member.issym():
            os.symlink(member.linkname, place)  # noqa: PTH211
            self._folders.clear()  # a path may now lead elsewhere
            self._own(place, member)
            return
        number = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(number, "wb") as file:
            content = tar.extractfile(member)
            # A sparse file is a list of its parts; there are holes between them.
            for start, size in member.sparse if isinstance(member.sparse, list) else [(0, member.size)]:
                if content is None or start < 0 or not 0 <= size <= member.size - start:
                    raise ValueError(f"{_short(member.name)} has a part that is not within it")
                content.seek(start)
                file.seek(start)
                _copy(content, file, size)
            if member.issparse() or member.size >= _PIECE:
                file.truncate(member.size)  # the end may be a hole
        self._own(place, member)
        os.chmod(place, member.mode & 0o777 | 0o400)  # noqa: PTH101
        os.utime(place, (member.mtime, member.mtime))

    def _own(self, place: str, member: tarfile.TarInfo) -> None:
        if self.owner is not None:
            ids = (number if 0 <= number < IDS else 0 for number in (member.uid, member.gid))
            os.chown(place, *(self.owner + number for number in ids), follow_symlinks=False)

    def _folder(self, parts: list[str]) -> str:
        """The path of a folder of the image without links; the folder is made if it is missing."""
        path = "/".join(parts)
        if (known := self._folders.get(path)) is not None:
            return known
        place = str(inside(self.root, path))
        missing = []
        while not stat.S_ISDIR(_mode(place)):
            missing.append(place)
            place = os.path.dirname(place)  # noqa: PTH120
        for folder in reversed(missing):
            self._remove(folder)
            os.mkdir(folder, 0o755)  # noqa: PTH102
            if self.owner is not None:
                os.chown(folder, self.owner, self.owner)
            place = folder
        self._folders[path] = place
        return place

    def _remove(self, place: str) -> None:
        mode = _mode(place)
        if stat.S_ISDIR(mode):
            shutil.rmtree(place)
        elif mode:
            os.unlink(place)  # noqa: PTH108
        if mode and not stat.S_ISREG(mode):
            self._folders.clear()

    def _clear(self, folder: str) -> None:
        """Removes what lower layers have in a folder."""
        for place in _below(folder):
            if place not in self._made:
                self._remove(place)


#: What reading a damaged or hostile layer raises.
_DAMAGED = (tarfile.TarError, zlib.error, EOFError, OSError, ValueError, ArithmeticError, LookupError)


def _short(name: str) -> str:
    """A path for a message, as Python quotes it."""
    return repr(name) if len(name) <= 200 else f"{name[:200]!r}…"


def _without_place(error: Exception) -> str:
    """What an error says, without the path on this machine, which may be as long as the hostile name in it."""
    return (error.strerror if isinstance(error, OSError) else "") or str(error) or "its end is missing"


def _copy(content: IO[bytes], file: IO[bytes], size: int) -> None:
    """Copies bytes; a piece of zeros becomes a hole."""
    left = size
    while left > 0:
        piece = content.read(min(left, _PIECE))
        if not piece:
            raise EOFError("its end is missing")
        if piece == _ZEROS:
            file.seek(len(piece), os.SEEK_CUR)
        else:
            file.write(piece)
        left -= len(piece)


def _below(folder: str) -> Iterator[str]:
    """Everything below a folder; a folder comes before its content, and has none once it is removed."""
    for name in sorted(os.listdir(folder)):  # noqa: PTH208
        place = f"{folder}/{name}"
        yield place
        if stat.S_ISDIR(_mode(place)):
            yield from _below(place)


def _mode(place: str) -> int:
    """The kind and mode of a file, also of a link itself; 0 if there is none."""
    try:
        return os.lstat(place).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
