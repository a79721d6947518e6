"""Images of containers, made by the tests: layers, saved archives of both formats, and a small static server in one."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

SERVER = Path(__file__).parent / "servers" / "boxed.c"

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)

Change = Callable[[tarfile.TarInfo], object]


def entry(name: str, content: bytes = b"", *, mode: int = 0o644, **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    """A member of a layer; ``fields`` are those of ``tarfile.TarInfo``."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    for key, value in fields.items():
        setattr(info, key, value)
    return info, content


def folder(name: str, mode: int = 0o755, **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, mode=mode, type=tarfile.DIRTYPE, **fields)


def link(name: str, target: str, *, hard: bool = False) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type=tarfile.LNKTYPE if hard else tarfile.SYMTYPE, linkname=target)


def layer(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """A layer as a plain tar file."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def config(layers: Sequence[bytes], *, architecture: str = ARCHITECTURE, **start: Any) -> bytes:
    """An image's configuration; ``start`` has keys like ``Entrypoint``."""
    digests = [f"sha256:{hashlib.sha256(one).hexdigest()}" for one in layers]
    rootfs = {"type": "layers", "diff_ids": digests}
    return json.dumps({"architecture": architecture, "os": "linux", "config": start, "rootfs": rootfs}).encode()


def save(
    file: Path, layers: Sequence[bytes], *, described: bytes | None = None, compressed: bool = False,
    name: str = "localhost/made:1", **start: Any
) -> str:  # fmt: skip
    """Writes a docker-archive, as `docker save` does; returns the image's id.

    Args:
        described: the configuration, in place of one that fits the layers. name: that an engine gives it.
    """
    described = described or config(layers, **start)
    image = hashlib.sha256(described).hexdigest()
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    manifest = [{"Config": f"{image}.json", "RepoTags": [name], "Layers": names}]
    stored = [gzip.compress(one) for one in layers] if compressed else layers
    parts = [*zip(names, stored, strict=True), (f"{image}.json", described), ("manifest.json", _json(manifest))]
    _write(file, parts)
    return image


def save_oci(file: Path, layers: Sequence[bytes], *, platforms: bool = False, **start: Any) -> str:
    """Writes an OCI archive with compressed layers, as `podman save --format oci-archive` does; returns the image's id.

    Args:
        platforms: with an index of two platforms, as a registry has it.
    """
    blobs: dict[str, bytes] = {}

    def blob(content: bytes, **more: object) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"digest": f"sha256:{digest}", "size": len(content), **more}

    described = config(layers, **start)
    manifest = blob(_json({"config": blob(described), "layers": [blob(gzip.compress(one)) for one in layers]}))
    index = {"manifests": [manifest]}
    if platforms:
        here = {"platform": {"architecture": ARCHITECTURE, "os": "linux"}}
        other = blob(b"{}", platform={"architecture": "mips", "os": "linux"})
        index = {"manifests": [blob(_json({"manifests": [manifest | here, other]}))]}
    _write(file, [("oci-layout", b"{}"), ("index.json", _json(index)), *blobs.items()])
    return hashlib.sha256(described).hexdigest()


def compiled_server(place: Path) -> bytes | None:
    """The static server of ``SERVER``; None without a C compiler that links statically."""
    if shutil.which("cc") is None:
        return None
    done = subprocess.run(["cc", "-O2", "-static", "-o", place, SERVER], capture_output=True, check=False)
    return place.read_bytes() if done.returncode == 0 else None


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _write(file: Path, parts: Sequence[tuple[str, bytes]]) -> None:
    with tarfile.open(file, "w") as tar:
        for name, content in parts:
            info, _ = entry(name, content)
            tar.addfile(info, io.BytesIO(content))
