"""Entrants whose program is an image: whether it is there, unpacking it, and the box of a launch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dragstrip import image
from dragstrip.contender.discovery import Missing, Ready, cache_dir
from dragstrip.contender.entries import Entry
from dragstrip.contender.fields import ContainerFields
from dragstrip.errors import BadUsage, NeedsUserNamespace, NotReady
from dragstrip.image import Box, Found, Image, Wish


def look(entry: Entry) -> Ready | Missing:
    """Whether an image and bubblewrap are here; the version is the image's id. Unpacks nothing.

    Raises:
        NeedsUserNamespace: this process may not enter the networks of containers that it starts.
    """
    if not image.may_enter():
        raise NeedsUserNamespace(entry.name)
    try:
        program = Path(image.bubblewrap())
        found = _found(_of(entry))
        return Ready(f"image {found.id[:12]}", {image.PROGRAM: program})
    except (NotReady, BadUsage) as error:
        return Missing(str(error), "docs/containers.md lists what a container needs")


def pending(entry: Entry) -> tuple[str, ...] | None:
    """What ``unpacked`` would do, in words like a command's; None if the image is unpacked already."""
    found = _found(_of(entry))
    return None if image.is_unpacked(found, cache_dir()) else ("unpack", found.name)


def unpacked(entry: Entry) -> Image:
    """The entrant's image, unpacked now unless it is kept.

    Raises:
        NotReady, BadUsage, StageError: it is missing, or can't be unpacked.
    """
    return image.unpacked(_found(_of(entry)), cache_dir())


def port(entry: Entry) -> int:
    """The port that the entrant listens on, in its own network."""
    return _of(entry).port or image.port_of(unpacked(entry))


def facts(entry: Entry) -> dict[str, str]:
    """What the parity sheet shows of the entrant's image and box; empty if it is a program of this machine."""
    return image.facts(unpacked(entry)) if entry.container is not None else {}


def box(
    entry: Entry, command: tuple[str, ...], env: Mapping[str, str], mounts: Mapping[str, str], scratch: Path
) -> Box:
    """The box of one launch, whose scratch folder is complete.

    Args:
        command: in place of the image's; empty: the image's own.
    """
    container = _of(entry)
    wish = Wish(command=command, environment=env, mounts=mounts, writable=container.writable)
    return image.boxed(unpacked(entry), wish, scratch)


def _of(entry: Entry) -> ContainerFields:
    assert entry.container is not None
    return entry.container


def _found(container: ContainerFields) -> Found:
    return image.find(container.image, container.engine)
