"""Reads a saved image, a tar file that `docker save` or `podman save` wrote, without Docker or Podman.

Both formats are read: docker-archive (`manifest.json`) and OCI (`index.json`). Everything in the file is distrusted:
sizes are bounded, and every part must have the digest by which the file names it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import posixpath
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tarfile import HeaderError, ReadError
from typing import IO, Annotated, Protocol, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from dragstrip.errors import BadUsage

#: The largest JSON file of an image, and the most files in an archive: images have at most 127 layers.
MAX_JSON_BYTES, MAX_MEMBERS = 4 * 2**20, 10_000

#: The most layers of an image. Docker allows 127.
MAX_LAYERS = 500

#: Names of processors: Docker's by the kernel's.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "ppc64le": "ppc64le", "s390x": "s390x"}

#: What to do about a file that isn't a saved image.
REMEDY = "save the image by `docker save IMAGE -o FILE` or `podman save IMAGE -o FILE`"

#: Bytes of the headers that hold for all later members; git writes 52, its commit.
MAX_GLOBAL_BYTES = 16_384

_GZIP, _ZSTD, _XZ = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ"


def printable(text: str) -> str:
    """A text of an image as a line of its own: control characters could change what a terminal shows."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:100])


class Readable(Protocol):
    """What a layer is read from: only forward."""

    def read(self, count: int, /) -> bytes: ...


class _Json(BaseModel):
    """Base of the tables in an image's JSON files, whose other keys are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


def _without_nul(text: str) -> str:
    """No argument, variable or path may contain it."""
    if "\0" in text:
        raise ValueError(f"{text[:40]!r} contains a NUL character")
    return text


#: A text in an image's JSON files. Docker writes null for an empty text, list or table.
Word = Annotated[str, AfterValidator(_without_nul)]
Text = Annotated[Word, BeforeValidator(lambda given: given or "")]
Words = Annotated[tuple[Word, ...], BeforeValidator(lambda given: given or ())]
Names = Annotated[dict[Word, object], BeforeValidator(lambda given: given or {})]


class ImageStart(_Json):
    """How the image says that its program is started (`config` in the image specification)."""

    entrypoint: Words = Field(default=(), alias="Entrypoint")
    command: Words = Field(default=(), alias="Cmd")
    environment: Words = Field(default=(), alias="Env")
    folder: Text = Field(default="", alias="WorkingDir")
    user: Text = Field(default="", alias="User")
    stop_signal: Text = Field(default="", alias="StopSignal")
    ports: Names = Field(default_factory=dict, alias="ExposedPorts")
    volumes: Names = Field(default_factory=dict, alias="Volumes")


class _Layers(_Json):
    diff_ids: Words = ()


class ImageConfig(_Json):
    """An image's configuration: its processor, how it starts, and the digests of its layers as plain tar files."""

    architecture: str = ""
    os: str = ""
    config: Annotated[ImageStart, BeforeValidator(lambda given: given or {})] = Field(default_factory=ImageStart)
    rootfs: _Layers = Field(default_factory=_Layers)


class _Saved(_Json):
    config: str = Field(alias="Config")
    layers: Words = Field(alias="Layers")
    tags: Words = Field(default=(), alias="RepoTags")


class _Platform(_Json):
    architecture: str = ""
    os: str = ""


class _Descriptor(_Json):
    digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    size: int = Field(ge=0)
    platform: _Platform | None = None
    annotations: dict[str, str] = Field(default_factory=dict)


class _Index(_Json):
    manifests: tuple[_Descriptor, ...]


class _Manifest(_Json):
    config: _Descriptor
    layers: tuple[_Descriptor, ...]


@dataclass(frozen=True)
class Archive:
    """A saved image, open for reading.

    Args:
        id: SHA-256 of its configuration, in hex; Docker and Podman show the same.
        layers: names of its layers' files, the lowest first.
    """

    file: Path
    id: str
    config: ImageConfig
    layers: tuple[str, ...]
    _members: dict[str, tarfile.TarInfo] = field(repr=False)
    _stream: IO[bytes] = field(repr=False)

    @contextmanager
    def layer(self, number: int) -> Iterator[Readable]:
        """A layer as a plain tar file, decompressed while it is read.

        Raises:
            BadUsage: its compression can't be read.
        """
        member = self._members[self.layers[number]]
        part = _ArchivePart(self._stream, member.offset_data, member.size)
        start = part.read(6)
        part.seek(0)
        if start.startswith((_ZSTD, _XZ)):
            kind = "zstd" if start.startswith(_ZSTD) else "xz"
            raise BadUsage(
                f"{self.file}: layer {number + 1} is compressed by {kind}, which Dragstrip does not read; save the "
                "image by `podman save --format docker-archive` or `docker save`, which write plain layers"
            )
        yield gzip.GzipFile(fileobj=part) if start.startswith(_GZIP) else part


class _ArchivePart:
    """A stretch of a file as a file of its own."""

    def __init__(self, stream: IO[bytes], start: int, size: int) -> None:
        self._stream, self._start, self._size, self._at = stream, start, size, 0

    def read(self, count: int = -1, /) -> bytes:
        left = self._size - self._at
        self._stream.seek(self._start + self._at)
        piece = self._stream.read(left if count < 0 else min(count, left))
        self._at += len(piece)
        return piece

    def seek(self, offset: int) -> None:
        self._at = offset


class BoundedReader:
    """A file that is read in pieces of bounded size, so that a header that claims gigabytes can't fill the memory."""

    def __init__(self, stream: IO[bytes], most: int = MAX_JSON_BYTES) -> None:
        self._stream, self._most = stream, most

    def read(self, count: int, /) -> bytes:
        if not 0 <= count <= self._most:
            raise tarfile.ReadError(f"a header claims {count:,} bytes")
        return self._stream.read(count)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()


@contextmanager
def opened(file: Path) -> Iterator[Archive]:
    """Opens a saved image.

    Raises:
        BadUsage: it is not a saved image, holds several, or is damaged.
    """
    try:
        stream = file.open("rb")
    except OSError as error:
        raise BadUsage(f"{file} can't be read ({error.strerror}); {REMEDY}") from error
    with stream:
        try:
            members = _members(file, stream)
            yield _archive(file, members, stream)
        except (tarfile.TarError, ValidationError, ValueError, KeyError, EOFError, RecursionError) as error:
            why = (
                f"{error.errors()[0]['msg']}"
                if isinstance(error, ValidationError)
                else str(error) or "its end is missing"
            )
            raise BadUsage(f"{file} is not a saved image ({why}); {REMEDY}") from error


class StrictHeader(tarfile.TarInfo):
    """A member whose header must be whole: ``tarfile`` takes a later header that is not valid for the archive's end.

    Raises:
        tarfile.ReadError: the header is cut off or not valid, for example by a negative size.
    """

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> Self:  # by the library's name
        try:
            return super().fromtarfile(tarfile)
        except HeaderError as error:
            if type(error).__name__ in ("InvalidHeaderError", "TruncatedHeaderError"):
                raise ReadError(f"a header is not valid ({error})") from error
            raise


def refuse_global_headers(tar: tarfile.TarFile) -> None:
    """Refuses an archive whose headers for all later members grow: ``tarfile`` copies them into each member.

    Raises:
        tarfile.ReadError: they are longer than any program writes them.
    """
    if sum(len(key) + len(value) for key, value in tar.pax_headers.items()) > MAX_GLOBAL_BYTES:
        raise tarfile.ReadError(f"its global headers have more than {MAX_GLOBAL_BYTES:,} bytes")


def _members(file: Path, stream: IO[bytes]) -> dict[str, tarfile.TarInfo]:
    """The regular files of an archive by their names; a link within the archive stands for its target."""
    start = stream.read(6)
    stream.seek(0)
    if start.startswith((_GZIP, _ZSTD, _XZ)):
        raise BadUsage(f"{file} is compressed as a whole; decompress it first, for example by gunzip or unzstd")
    found: dict[str, tarfile.TarInfo] = {}
    links: dict[str, str] = {}
    with tarfile.open(fileobj=BoundedReader(stream), mode="r:", tarinfo=StrictHeader) as tar:  # type: ignore[call-overload]
        while (member := tar.next()) is not None:
            tar.members = []  # it would keep every header
            refuse_global_headers(tar)
            member.pax_headers = {}  # up to a megabyte for each file
            name = posixpath.normpath(member.name)
            if member.isreg():
                found[name] = member
            elif member.issym():  # older versions of Docker write a link for a layer that occurs twice
                links[name] = posixpath.normpath(posixpath.join(posixpath.dirname(name), member.linkname))
            if len(found) + len(links) > MAX_MEMBERS:
                raise ValueError(f"it has more than {MAX_MEMBERS:,} files")
    return found | {name: found[target] for name, target in links.items() if target in found}


def _archive(file: Path, members: dict[str, tarfile.TarInfo], stream: IO[bytes]) -> Archive:
    def content(name: str) -> bytes:
        if (member := members.get(name)) is None:
            raise ValueError(f"it lacks {name}")
        if member.size > MAX_JSON_BYTES:
            raise ValueError(f"{name} has {member.size:,} bytes")
        return _ArchivePart(stream, member.offset_data, member.size).read()

    if "manifest.json" in members:
        given = json.loads(content("manifest.json"))
        saved = [_Saved.model_validate(image) for image in (given if isinstance(given, list) else [given])]
        if len(saved) != 1:
            tags = ", ".join(printable(image.tags[0]) if image.tags else "one without a name" for image in saved)
            raise BadUsage(f"{file} holds {len(saved)} images ({tags}); save one image alone")
        config, layers = content(posixpath.normpath(saved[0].config)), saved[0].layers
    elif "index.json" in members:
        manifest = _Manifest.model_validate_json(_blob(content, _chosen(file, content)))
        config, layers = _blob(content, manifest.config), tuple(map(_place, manifest.layers))
    else:
        raise ValueError("it has neither manifest.json nor index.json")
    names = tuple(map(posixpath.normpath, layers))
    if len(names) > MAX_LAYERS:
        raise ValueError(f"it has {len(names):,} layers, more than {MAX_LAYERS}")
    if absent := [name for name in names if name not in members]:
        raise ValueError(f"it lacks {absent[0]}")
    described = ImageConfig.model_validate_json(config)
    if len(described.rootfs.diff_ids) != len(names):
        raise ValueError(f"its configuration has {len(described.rootfs.diff_ids)} layers, its manifest {len(names)}")
    return Archive(file, hashlib.sha256(config).hexdigest(), described, names, members, stream)


class _Content(Protocol):
    def __call__(self, name: str) -> bytes: ...


def _chosen(file: Path, content: _Content) -> _Descriptor:
    """The manifest for this machine's processor in an OCI archive."""
    index = _Index.model_validate_json(content("index.json"))
    architecture = ARCHITECTURES.get(os.uname().machine, os.uname().machine)
    for _ in range(3):
        fitting = [
            each
            for each in index.manifests
            if each.platform is None or (each.platform.architecture, each.platform.os) == (architecture, "linux")
        ]
        if len(fitting) != 1:
            raise BadUsage(f"{file} holds {len(fitting)} images for linux/{architecture}; save one image alone")
        text = _blob(content, fitting[0])
        if "manifests" not in json.loads(text):
            return fitting[0]
        index = _Index.model_validate_json(text)
    raise ValueError("its lists of images are nested too deeply")


def _place(descriptor: _Descriptor) -> str:
    return f"blobs/{descriptor.digest.replace(':', '/')}"


def _blob(content: _Content, descriptor: _Descriptor) -> bytes:
    data = content(_place(descriptor))
    if f"sha256:{hashlib.sha256(data).hexdigest()}" != descriptor.digest:
        raise ValueError(f"{_place(descriptor)} is damaged: its digest differs")
    return data
