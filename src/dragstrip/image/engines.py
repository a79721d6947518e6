"""Docker and Podman, by their command lines: they give and build images; no program of theirs runs during a race."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dragstrip.errors import NotReady, StageError
from dragstrip.image import outside
from dragstrip.machine.bounded_command import Ended, tail_of

#: In this order if a definition doesn't name one. Podman needs no daemon.
ENGINES = ("podman", "docker")

#: Seconds for a question, and for saving a large image.
ASK_S, SAVE_S = 20.0, 600.0


@dataclass(frozen=True, slots=True)
class Engine:
    """A container engine that has an image.

    Args:
        program: its path. image: the image's id, in hex.
    """

    program: str
    image: str


@dataclass(frozen=True, slots=True)
class EngineWay:
    """A way to build an image with an engine: further options, and environment variables."""

    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def command(
        self, program: str, folder: Path, dockerfile: str, args: Sequence[tuple[str, str]], note: Path
    ) -> list[str]:
        """The engine's command.

        Args:
            note: the file that gets the image's id.
        """
        words = [program, "build", *self.options, "--iidfile", str(note), "-f", str(folder / dockerfile)]
        words += [word for name, value in args for word in ("--build-arg", f"{name}={value}")]
        return [*words, str(folder)]


#: The usual way comes first. Machines that are containers themselves often allow no further network or no runtime: then
#: the host's network helps, without Docker's BuildKit, and Podman's builds without a runtime.
_WAYS = {
    "podman": (EngineWay(), EngineWay(("--isolation=chroot", "--network=host"))),
    "docker": (EngineWay(), EngineWay(("--network=host",), {"DOCKER_BUILDKIT": "0"})),
}


@dataclass(frozen=True, slots=True)
class Examined:
    """Whether an engine works on this machine.

    Args:
        name: "podman" or "docker". program: its path; None: it is not on PATH.
        refused: the last line that it printed when it failed; "" if it works.
    """

    name: str
    program: str | None
    refused: str = ""


def examined(name: str) -> Examined:
    """Asks an engine, and its daemon if it has one, for their state."""
    program = shutil.which(name)
    if program is None:
        return Examined(name, None)
    # Docker's command line without its daemon also exits with 0 in some versions, and then prints no version.
    form = "{{.ServerVersion}}" if name == "docker" else "{{.Version.Version}}"
    ended = asked([program, "info", "--format", form], ASK_S)
    if ended.status == 0 and ended.output.strip():
        return Examined(name, program)
    return Examined(name, program, last_line(_said(ended, ASK_S)))


def working(engine: str) -> str:
    """The path of an engine that works here.

    Args:
        engine: "podman", "docker", or "auto" for the first that works.

    Raises:
        NotReady: none does; with what each printed.
    """
    return _working(engine, os.environ.get("PATH", ""))


@functools.lru_cache(maxsize=8)
def _working(engine: str, _path: str) -> str:
    states = [examined(name) for name in (ENGINES if engine == "auto" else (engine,))]
    if works := next((state.program for state in states if state.program and not state.refused), None):
        return works
    said = [
        f"`{state.name}` is not on PATH" if state.program is None else f"`{state.name} info`: {state.refused}"
        for state in states
    ]
    raise NotReady(f"{'; '.join(said)}; install or start one of {' and '.join(ENGINES)} to build images")


def ways(program: str) -> tuple[EngineWay, ...]:
    """How an engine may build an image; a way is tried if the one before fails."""
    return _WAYS.get(Path(program).name, (EngineWay(),))


def has(program: str, image: str) -> bool:
    """Whether an engine has an image."""
    return asked([program, "image", "inspect", "--format", "{{.Id}}", image], ASK_S).status == 0


def find(image: str, engine: str) -> Engine:
    """The engine that has an image, and the image's id.

    Args:
        engine: "podman", "docker", or "auto" for the first that has it.

    Raises:
        NotReady: no engine is installed or works, or none has the image; with what each said.
    """
    names = ENGINES if engine == "auto" else (engine,)
    said = []
    for name in names:
        program = shutil.which(name)
        if program is None:
            said.append(f"`{name}` is not on PATH")
            continue
        ended = asked([program, "image", "inspect", "--format", "{{.Id}}", image], ASK_S)
        words = ended.output.split()
        if ended.status == 0 and words:
            return Engine(program, words[-1].removeprefix("sha256:"))
        said.append(f"`{name} image inspect {image}`: {last_line(_said(ended, ASK_S))}")
    remedy = "pull or build the image first, or name a file that `docker save` wrote"
    raise NotReady(f"image {image}: {'; '.join(said)}; {remedy}")


def save(engine: Engine, file: Path) -> None:
    """Writes an image into a file.

    Raises:
        StageError: the engine fails; with its last lines.
    """
    form = ["--format", "docker-archive"] if Path(engine.program).name == "podman" else []
    command = [engine.program, "save", *form, "-o", str(file), engine.image]
    ended = asked(command, SAVE_S)
    if ended.status != 0:
        last = tail_of(_said(ended, SAVE_S))
        raise StageError(f"`{' '.join(command)}` failed with status {ended.status}; its last lines:\n{last}")


def asked(
    command: Sequence[str], at_most_s: float, *, log: Path | None = None, more: Mapping[str, str] | None = None
) -> Ended:
    """Runs an engine's command; a program that can't be started has status 127, as in a shell.

    Args:
        log: a file to which its whole output is added. more: environment variables.
    """
    try:
        return outside.run(command, at_most_s, log=log, more=more)
    except OSError as error:
        return Ended(127, f"{command[0]}: {error.strerror}", late=False)


def _said(ended: Ended, at_most_s: float) -> str:
    """A command's output, and whether it was stopped."""
    late = f"\nIt did not end within {at_most_s:g} s and was stopped." if ended.late else ""
    return ended.output + late


def last_line(output: str) -> str:
    """The last line of an output, for a message."""
    lines = output.strip().splitlines()
    return lines[-1][:300] if lines else "it printed nothing"


def remove(program: str, image: str) -> None:
    """Removes an engine's copy of an image, if no other image is made from it."""
    asked([program, "image", "rm", "--force", image], SAVE_S)
