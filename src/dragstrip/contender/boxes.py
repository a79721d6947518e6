"""Entrants whose program is an image: whether it is there, unpacking it, and the box of a launch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dragstrip import image
from dragstrip.contender.definition import fill
from dragstrip.contender.discovery import Missing, Ready, cache_dir
from dragstrip.contender.entries import Entry
from dragstrip.contender.fields import BUILD_S, ContainerFields
from dragstrip.errors import BadUsage, NeedsUserNamespace, NotReady
from dragstrip.image import Box, FoundImage, Image, Recipe, Wish

#: Where the socket of the race's database is in a box.
DATABASE_FOLDER = "/database"

#: The name of the database's machine in a box, which TechEmpower's entries have built in.
DATABASE_HOST = "tfb-database"


def look(entry: Entry) -> Ready | Missing:
    """Whether an image, or an engine to build it, and bubblewrap are here. Unpacks and builds nothing.

    The version is the image's id, or what the image is built from.

    Raises:
        NeedsUserNamespace: this process may not enter the networks of containers that it starts.
    """
    try:
        program = Path(image.bubblewrap())
        if not image.may_enter():
            raise NeedsUserNamespace(entry.name)
        if (recipe := _recipe(_of(entry))) is not None:
            if asks_for_agreement(entry):
                reason = f"it comes from elsewhere, and its build would run the commands in {recipe.name}"
                return Missing(reason, f"`dragstrip install {_word(entry)}` asks, and builds it")
            if image.built(recipe, cache_dir()) is None:
                image.refuse_without_engine(recipe)
            return Ready(f"build {image.build_key(recipe)[:12]}", {image.PROGRAM: program})
        return Ready(f"image {_found(_of(entry)).id[:12]}", {image.PROGRAM: program})
    except (NotReady, BadUsage) as error:
        return Missing(str(error), "docs/containers.md lists what a container needs")


def _word(entry: Entry) -> str:
    """What names an entrant with a definition on the command line."""
    if entry.contender is None:
        return entry.name
    return entry.contender.name if entry.contender.foreign else str(entry.contender.folder)


def asks_for_agreement(entry: Entry) -> bool:
    """Whether the user must agree to an imported entry's build: it is new, or its files have changed."""
    if entry.contender is None or not entry.contender.foreign or entry.container is None:
        return False
    recipe, cache = _recipe(entry.container), cache_dir()
    return recipe is not None and not image.agreed(recipe, cache) and image.built(recipe, cache) is None


def agree(entry: Entry) -> None:
    """Notes that the user has agreed to an entry's build, as long as its files stay the same."""
    if (recipe := _recipe(_of(entry))) is not None:
        image.agree(recipe, cache_dir())


def pending(entry: Entry) -> tuple[str, ...] | None:
    """What ``unpacked`` would do, in words like a command's; None if the image is unpacked already."""
    container = _of(entry)
    if (recipe := _recipe(container)) is not None and image.built(recipe, cache_dir()) is None:
        return ("build", recipe.name)
    found = _found(container)
    return None if image.is_unpacked(found, cache_dir()) else ("unpack", found.name)


def unpacked(entry: Entry) -> Image:
    """The entrant's image, built and unpacked now unless it is kept.

    Raises:
        NotReady, BadUsage, StageError: it is missing, or can't be unpacked.
    """
    if asks_for_agreement(entry):
        raise NotReady(f"{entry.name} comes from elsewhere; `dragstrip install` asks before its build, which is new")
    return image.unpacked(_found(_of(entry)), cache_dir())


def port(entry: Entry, workload: str) -> int:
    """The port on which the entrant serves a workload, in its own network."""
    own = entry.contender.serving(workload).port if entry.contender is not None else None
    return own or _of(entry).port or image.port_of(unpacked(entry))


def facts(entry: Entry) -> dict[str, str]:
    """What the parity sheet shows of the entrant's image and box."""
    return image.facts(unpacked(entry))


def box(
    entry: Entry,
    command: tuple[str, ...],
    env: Mapping[str, str],
    values: Mapping[str, object],
    scratch: Path,
    *,
    places: Mapping[str, str],
    network: str,
) -> Box:
    """The box of one launch, whose scratch folder is complete.

    Args:
        command: in place of the image's; empty: the image's own.
        values: of names in braces.
        places: files and folders of this machine by their places in the box, in addition to the definition's.
        network: the network that it joins; "": one of its own.
    """
    container = _of(entry)
    mounts = {place: fill(text, values) for place, text in container.mounts.items()} | dict(places)
    arguments = tuple(fill(word, values) for word in container.cmd)
    wish = Wish(
        command=command,
        arguments=arguments,
        environment=env,
        mounts=mounts,
        writable=container.writable,
        network=network,
    )
    return image.boxed(unpacked(entry), wish, scratch)


def _of(entry: Entry) -> ContainerFields:
    assert entry.container is not None
    return entry.container


def _recipe(container: ContainerFields) -> Recipe | None:
    """What the image is built from; None if it is not built here."""
    if not container.build:
        return None
    args = tuple(sorted(container.args.items()))
    folder = Path(container.build)
    return Recipe(folder=folder, dockerfile=container.dockerfile, args=args, engine=container.engine)


def _found(container: ContainerFields) -> FoundImage:
    if (recipe := _recipe(container)) is not None:
        return image.build(recipe, cache_dir(), at_most_s=BUILD_S)
    return image.find(container.image, container.engine)
