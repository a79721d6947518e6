"""Images in the cache: each is unpacked once for its id, kept, listed, and removed when others came."""

from __future__ import annotations

import fcntl
import functools
import json
import os
import re
import shutil
import stat
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from dragstrip import paths
from dragstrip.errors import BadUsage, NotReady
from dragstrip.image import archive, engines
from dragstrip.image.archive import ARCHITECTURES, ImageConfig
from dragstrip.image.kept import last_used, locked, remove_old
from dragstrip.image.unpacking import Unpacker, UnpackingLimits, inside

#: Images that are kept; the one that was used longest ago is removed first.
MAX_IMAGES = 20

#: The first of the ids that containers' users have on this machine if Dragstrip runs as root: above those that
#: Debian gives to users, and below 2^31.
BASE_ID = 1_878_982_656

#: Folders that a container needs, whether its image has them or not.
_NEEDED = ("proc", "dev", "sys", "tmp", "run", "etc")

_NOTE, _ROOT = "image.json", "root"

#: The most bytes of a library that are searched for its version.
_LIBRARY_BYTES = 8 * 2**20

#: Locks of images that this process uses, which it holds until it ends.
_held: dict[Path, int] = {}


@dataclass(frozen=True, slots=True)
class FoundImage:
    """An image that can be unpacked.

    Args:
        name: as the user wrote it. id: SHA-256 of its configuration, in hex. engine: which has it; None: a file.
    """

    name: str
    id: str
    engine: engines.Engine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An unpacked image.

    Args:
        root: its files.
        name: as the user wrote it (in a list of kept images, when it was unpacked). id: as in ``FoundImage``.
        config: its configuration, as JSON.
        base: its distribution. libc: its C library.
        files, bytes: what it has. left_out: devices, pipes and sockets that were not unpacked.
        seconds: how long unpacking took. used: when it was last used, in seconds since 1970.
    """

    root: Path
    name: str
    id: str
    config: str
    base: str
    libc: str
    files: int
    bytes: int
    left_out: int
    seconds: float
    used: float = 0.0

    def start(self) -> archive.ImageStart:
        """How its program is started."""
        return ImageConfig.model_validate_json(self.config).config


def find(name: str, engine: str) -> FoundImage:
    """An image by the path of a saved one, or by its name in Docker or Podman; nothing is unpacked.

    Args:
        engine: "auto", "podman", "docker", or "none": only a file will do.

    Raises:
        BadUsage: the file is not a saved image. NotReady: no engine has it, or the file is missing.
    """
    file = Path(name)
    if paths.is_file(file):
        state = file.stat()
        return FoundImage(name, _id_of(file.absolute(), state.st_size, state.st_mtime_ns))
    if engine == "none" or file.is_absolute() or name.endswith((".tar", ".oci")):
        raise NotReady(f"image {name}: the file does not exist; {archive.REMEDY}")
    has = engines.find(name, engine)
    return FoundImage(name, has.image, has)


@functools.lru_cache(maxsize=64)
def _id_of(file: Path, _size: int, _changed_ns: int) -> str:
    with archive.opened(file) as saved:
        _refuse_foreign(str(file), saved.config)
        return saved.id


def _refuse_foreign(name: str, config: ImageConfig) -> None:
    here = ARCHITECTURES.get(os.uname().machine, os.uname().machine)
    if (config.architecture or here, config.os or "linux") != (here, "linux"):
        given = f"{config.os or 'linux'}/{config.architecture}"
        raise NotReady(f"image {name} is for {given}, and this machine is linux/{here}; build it for linux/{here}")


def place_of(found: FoundImage, cache: Path) -> Path:
    """The folder of an image in the cache; root's and another user's differ, because the owners of their files do."""
    owner = "root" if os.geteuid() == 0 else f"user{os.geteuid()}"
    return cache / "images" / f"{found.id[:24]}-{owner}"


def is_unpacked(found: FoundImage, cache: Path) -> bool:
    """Whether an image is in the cache."""
    return (place_of(found, cache) / _NOTE).is_file()


def unpacked(found: FoundImage, cache: Path, limits: UnpackingLimits | None = None) -> Image:
    """An image's files, unpacked now unless they are kept. No process removes them before this one ends.

    Raises:
        BadUsage: the image is damaged, hostile or too large. NotReady, StageError: the engine does not save it.
    """
    place = place_of(found, cache)
    note = place / _NOTE
    if place not in _held:
        with locked(place) as lock:
            if not note.is_file():
                fcntl.flock(lock, fcntl.LOCK_EX)
            if not note.is_file():  # another process may just have done it
                _make(found, place, limits or UnpackingLimits())
            fcntl.flock(lock, fcntl.LOCK_SH)
            _held[place] = os.dup(lock)
        remove_old(place.parent, _NOTE, MAX_IMAGES)
    os.utime(note)
    return replace(_read(note), name=found.name)


def _make(found: FoundImage, place: Path, limits: UnpackingLimits) -> None:
    began = time.monotonic()
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    place.parent.chmod(0o755)
    try:
        if found.engine is None:
            _unpack(found, Path(found.name), place, began, limits)
            return
        with tempfile.TemporaryDirectory(prefix=".saved-", dir=place) as folder:
            file = Path(folder) / "image.tar"
            engines.save(found.engine, file)
            _unpack(found, file, place, began, limits)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


def _unpack(found: FoundImage, file: Path, place: Path, began: float, limits: UnpackingLimits) -> None:
    root = place / _ROOT
    root.mkdir(mode=0o755)
    owner = BASE_ID if os.geteuid() == 0 else None
    with archive.opened(file) as saved:
        if saved.id != found.id:
            raise BadUsage(f"image {found.name}: {file} has the id {saved.id[:12]}, expected {found.id[:12]}")
        _refuse_foreign(found.name, saved.config)
        done = Unpacker(root, owner, limits).unpack(saved)
        config = saved.config.model_dump_json(by_alias=True)
    if owner is not None:
        os.chown(root, owner, owner)
    _complete(root, owner)
    made = Image(
        root=root, name=found.name, id=found.id, config=config, base=_base(root), libc=_libc(root), files=done.files,
        bytes=done.bytes, left_out=done.left_out, seconds=time.monotonic() - began,
    )  # fmt: skip
    paths.write(place / _NOTE, json.dumps(asdict(made) | {"root": str(root)}))


def _complete(root: Path, owner: int | None) -> None:
    """Makes the folders that a container needs, and a file of host names if the image has none."""
    root.chmod(0o755)
    for name in _NEEDED:
        folder = root / name
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            folder.unlink()
        if not folder.exists():
            folder.mkdir(mode=0o755)
            if owner is not None:
                os.chown(folder, owner, owner)
    hosts = root / "etc" / "hosts"
    if not (hosts.is_symlink() or hosts.is_dir() or (hosts.is_file() and hosts.stat().st_size)):
        hosts.unlink(missing_ok=True)
        hosts.write_text("127.0.0.1 localhost\n::1 localhost\n")


def kept(cache: Path) -> list[Image]:
    """All unpacked images, the one that was used last first."""
    notes = (cache / "images").glob(f"*/{_NOTE}")
    return sorted(map(_read, notes), key=lambda image: -image.used)


def remove(cache: Path) -> int:
    """Removes all unpacked images that no process uses; returns how many."""
    return remove_old(cache / "images", _NOTE, 0)


def _read(note: Path) -> Image:
    stored = json.loads(note.read_text(encoding="utf-8"))
    return Image(**stored | {"root": Path(stored["root"]), "used": last_used(note.parent, _NOTE)})


def text_of(root: Path, path: str, most: int = 2**20) -> str:
    """The text of an image's file, without following links out of the image; "" if it has no such regular file."""
    try:
        place = inside(root, path)
        if not stat.S_ISREG(place.lstat().st_mode):
            return ""
        with place.open("rb") as file:
            return file.read(most).decode("utf-8", "replace")
    except OSError:
        return ""


def _base(root: Path) -> str:
    """The distribution, as its os-release(5) names it."""
    for path in ("etc/os-release", "usr/lib/os-release"):
        if match := re.search(r"^PRETTY_NAME=[\"']?([^\"'\n]{1,100})", text_of(root, path), re.MULTILINE):
            return archive.printable(match[1])
    return "none"


def _libc(root: Path) -> str:
    """The C library and its version, by the files of the image."""
    triplet = f"{os.uname().machine}-linux-gnu"
    for folder in ("lib", "lib64", "usr/lib", "usr/lib64", f"lib/{triplet}", f"usr/lib/{triplet}"):
        try:
            place = inside(root, f"{folder}/libc.so.6")
            if stat.S_ISREG(place.lstat().st_mode):
                with place.open("rb") as file:
                    match = re.search(rb"GNU C Library [^\n]{0,60}version ([\d.]+\d)", file.read(_LIBRARY_BYTES))
                return f"glibc {match[1].decode()}" if match else "glibc"
        except OSError:
            continue
    for folder in ("lib", "usr/lib"):
        try:
            if any(name.startswith("ld-musl-") for name in os.listdir(inside(root, folder))):  # noqa: PTH208
                return "musl"
        except OSError:
            continue
    return "none"
