"""Docker and Podman, by their command lines: they only give an image, and no program of theirs runs during a race."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from dragstrip.errors import NotReady, StageError
from dragstrip.machine.bounded_command import Ended, bounded, tail_of

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
        ended = _asked([program, "image", "inspect", "--format", "{{.Id}}", image], ASK_S)
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
    ended = _asked(command, SAVE_S)
    if ended.status != 0:
        last = tail_of(_said(ended, SAVE_S))
        raise StageError(f"`{' '.join(command)}` failed with status {ended.status}; its last lines:\n{last}")


def _asked(command: list[str], at_most_s: float) -> Ended:
    """Runs an engine's command; a program that can't be started has status 127, as in a shell."""
    try:
        return bounded(command, at_most_s, env={**os.environ, "LC_ALL": "C.UTF-8"})
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
