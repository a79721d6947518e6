"""Builds images by Podman or Docker: once for each content of a folder, with the whole output in a log."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dragstrip import paths
from dragstrip.errors import BadUsage, NotReady, StageError
from dragstrip.image import engines
from dragstrip.image.images import FoundImage, is_unpacked
from dragstrip.image.kept import locked, remove_old
from dragstrip.machine.bounded_command import tail_of

#: Builds whose results are remembered; the build that was used longest ago is forgotten first.
MAX_BUILDS = 200

#: What the folder of a build may hold, because it is read for each race.
MAX_FILES, MAX_BYTES = 100_000, 4 * 2**30

#: A change in these folders alone makes no new build.
_NOT_READ = (".git",)

_NOTE, _IMAGE = "build.json", "image"

#: Why builds of this process failed: a race at several workloads tries each build once.
_failed: dict[Path, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What an image is built from.

    Args:
        folder: the build's context. dockerfile: its path in that folder. args: values of the Dockerfile's ``ARG``.
        engine: "auto", "podman" or "docker".
    """

    folder: Path
    dockerfile: str
    args: tuple[tuple[str, str], ...] = ()
    engine: str = "auto"

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.folder} ({self.dockerfile})"


def key(recipe: Recipe) -> str:
    """What a build is kept under: a hash over its folder's files, its Dockerfile's name and its arguments, in hex.

    Raises:
        BadUsage: the folder or the Dockerfile is missing, or the folder is too large.
    """
    try:
        return _hashed(recipe)
    except OSError as error:
        why = f"{str(error.filename)[:200]} can't be read ({error.strerror})"
        raise BadUsage(f"build: {why}; name a folder in which every file can be read") from error


def _hashed(recipe: Recipe) -> str:
    if not recipe.folder.is_dir():
        raise BadUsage(f"build {recipe.folder}: the folder does not exist; name a folder with a Dockerfile")
    if not paths.is_file(recipe.folder / recipe.dockerfile):
        raise BadUsage(
            f"build {recipe.folder}: {recipe.dockerfile} is not a file in it; set container.dockerfile to the path of "
            "its Dockerfile"
        )
    digest = hashlib.sha256(json.dumps([recipe.dockerfile, sorted(recipe.args)]).encode())
    size = 0
    for number, place in enumerate(_files(recipe.folder)):
        state = place.lstat()
        size += state.st_size
        if number >= MAX_FILES or size > MAX_BYTES:
            limits = f"{MAX_FILES:,} files and {MAX_BYTES >> 30} GiB"
            raise BadUsage(f"build {recipe.folder}: it has more than {limits}; build from a smaller folder")
        content = (
            place.readlink().as_posix()
            if stat.S_ISLNK(state.st_mode)
            else _content(place, state.st_size, state.st_mtime_ns)
            if stat.S_ISREG(state.st_mode)
            else ""
        )
        digest.update(f"{place.relative_to(recipe.folder)}\0{state.st_mode:o}\0{content}\0".encode(errors="replace"))
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    """All files and links below a folder, in the order of their paths."""
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _NOT_READ)
        links = [name for name in folders if (Path(at) / name).is_symlink()]
        yield from (Path(at) / name for name in sorted([*names, *links]))


@functools.lru_cache(maxsize=MAX_FILES)
def _content(file: Path, _size: int, _changed_ns: int) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def built(recipe: Recipe, cache: Path) -> FoundImage | None:
    """The image of an earlier build of the same content, if the image is unpacked or its engine still has it."""
    note = _place(recipe, cache) / _NOTE
    if not note.is_file():
        return None
    program, image = stored(note)
    found = FoundImage(recipe.name, image, engines.Engine(program, image))
    if not is_unpacked(found, cache) and not engines.has(program, image):
        return None
    os.utime(note)
    return found


def stored(note: Path) -> tuple[str, str]:
    """The engine's program and the image of an earlier build."""
    content = json.loads(note.read_text(encoding="utf-8"))
    return content["engine"], content["image"]


def build(recipe: Recipe, cache: Path, *, at_most_s: float) -> FoundImage:
    """The image of a recipe, built now unless it was built before.

    Raises:
        NotReady: no engine works. StageError: the build fails; with its last lines and the path of its log.
        BadUsage: as ``key``.
    """
    place = _place(recipe, cache)
    if (found := built(recipe, cache)) is not None:
        return found
    if place in _failed:
        raise StageError(_failed[place])
    with locked(place) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (found := built(recipe, cache)) is not None:  # another process may just have done it
            return found
        program = engines.working(recipe.engine)
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        began = time.monotonic()
        try:
            image = _run(recipe, program, place, log_of(place), at_most_s)
        except BaseException as error:
            shutil.rmtree(place, ignore_errors=True)
            if isinstance(error, StageError):
                _failed[place] = str(error)
            raise
        kept = {"engine": program, "image": image, "folder": str(recipe.folder), "seconds": time.monotonic() - began}
        paths.write(place / _NOTE, json.dumps(kept))
    remove_old(place.parent, _NOTE, MAX_BUILDS, lambda old: log_of(old).unlink(missing_ok=True))
    return FoundImage(recipe.name, image, engines.Engine(program, image))


def agree(recipe: Recipe, cache: Path) -> None:
    """Notes that the user has agreed to a build of a folder from elsewhere, as long as its content stays the same."""
    place = _place(recipe, cache)
    place.parent.mkdir(parents=True, exist_ok=True)
    _agreement(place).write_text(f"{recipe.folder}\n", encoding="utf-8")


def agreed(recipe: Recipe, cache: Path) -> bool:
    """Whether the user has agreed to a build."""
    return _agreement(_place(recipe, cache)).is_file()


def _agreement(place: Path) -> Path:
    return place.with_name(f"{place.name}.agreed")


def forget(cache: Path) -> int:
    """Forgets all builds, and removes their logs; returns how many. The engines keep their images."""
    parent = cache / "image-builds"
    _failed.clear()
    forgotten = remove_old(parent, _NOTE, 0)
    for file in (*parent.glob("*.log"), *parent.glob("*.agreed")):
        file.unlink(missing_ok=True)
    return forgotten


def log_of(place: Path) -> Path:
    """The log of a build, which stays when the build fails."""
    return place.with_name(f"{place.name}.log")


def _place(recipe: Recipe, cache: Path) -> Path:
    return cache / "image-builds" / key(recipe)[:24]


def _run(recipe: Recipe, program: str, place: Path, log: Path, at_most_s: float) -> str:
    """Builds an image in each way that its engine has, until a way succeeds; returns the image's id."""
    log.write_bytes(b"")
    tried = []
    for way in engines.ways(program):
        note = place / _IMAGE
        command = way.command(program, recipe.folder, recipe.dockerfile, recipe.args, note)
        with log.open("a", encoding="utf-8") as file:
            file.write(f"$ {' '.join(command)}\n")
        ended = engines.asked(command, at_most_s, log=log, more=way.environment)
        if ended.status == 0 and note.is_file():
            return note.read_text(encoding="ascii").strip().removeprefix("sha256:")
        if ended.late:
            raise StageError(
                f"{recipe.name}: its build did not end within {at_most_s:g} s and was stopped; its output is in {log}"
            )
        tried.append(f"`{' '.join((Path(program).name, 'build', *way.options))}`")
    raise StageError(
        f"{recipe.name}: its build failed ({', then '.join(tried)}); its output is in {log}, and ends:\n"
        f"{tail_of(ended.output)}"
    )


def refuse_without_engine(recipe: Recipe) -> None:
    """Refuses a recipe that no engine can build here.

    Raises:
        NotReady: no engine works; with what each printed. BadUsage: as ``key``.
    """
    key(recipe)
    try:
        engines.working(recipe.engine)
    except NotReady as error:
        raise NotReady(f"build {recipe.folder}: {error}") from error
