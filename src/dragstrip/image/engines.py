"""Docker and Podman, by their command lines: they only give an image, and no program of theirs runs during a race."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dragstrip.errors import NotReady, StageError

#: In this order if a definition doesn't name one. Podman needs no daemon.
ENGINES = ("podman", "docker")

#: Seconds for a question, and for saving a large image or building one.
ASK_S, SAVE_S, BUILD_S = 20.0, 600.0, 1800.0

TAIL_LINES, TAIL_BYTES = 15, 65_536


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
        status, output = bounded([program, "image", "inspect", "--format", "{{.Id}}", image], ASK_S)
        words = output.split()
        if status == 0 and words:
            return Engine(program, words[-1].removeprefix("sha256:"))
        said.append(f"`{name} image inspect {image}`: {last_line(output)}")
    remedy = "pull or build the image first, or name a file that `docker save` wrote"
    raise NotReady(f"image {image}: {'; '.join(said)}; {remedy}")


def save(engine: Engine, file: Path) -> None:
    """Writes an image into a file.

    Raises:
        StageError: the engine fails; with its last lines.
    """
    form = ["--format", "docker-archive"] if Path(engine.program).name == "podman" else []
    command = [engine.program, "save", *form, "-o", str(file), engine.image]
    status, output = bounded(command, SAVE_S)
    if status != 0:
        raise StageError(f"`{' '.join(command)}` failed with status {status}; its last lines:\n{tail(output)}")


def bounded(command: list[str], at_most_s: float, folder: Path | None = None) -> tuple[int, str]:
    """Runs a command and ends its processes after this time; returns its status and the end of its output."""
    with tempfile.TemporaryFile() as output:
        try:
            running = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True, env={**os.environ, "LC_ALL": "C.UTF-8"},
            )  # fmt: skip
        except OSError as error:
            return 127, f"{command[0]}: {error.strerror}"
        late = ""
        try:
            running.wait(timeout=at_most_s)
        except subprocess.TimeoutExpired:
            late = f"\nIt did not end within {at_most_s:g} s and was stopped."
        finally:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        size = output.seek(0, os.SEEK_END)
        output.seek(max(size - TAIL_BYTES, 0))
        return running.returncode, output.read().decode(errors="replace") + late


def last_line(output: str) -> str:
    """The last line of an output, for a message."""
    lines = output.strip().splitlines()
    return lines[-1][:300] if lines else "it printed nothing"


def tail(output: str) -> str:
    """The last lines of an output, for a message."""
    return "\n".join(output.strip().splitlines()[-TAIL_LINES:])
