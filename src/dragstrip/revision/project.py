"""``dragstrip.toml``: how a revision of a repository becomes a running server, and how two of them are raced."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from dragstrip.contender.definition import Source, Strict, read
from dragstrip.contender.entries import MAX_WAKE_S, USUAL_WAKE_S
from dragstrip.errors import BadUsage
from dragstrip.paths import is_file

FILE_NAME = "dragstrip.toml"

#: Lists of texts.
Words = Annotated[tuple[str, ...], Field(strict=False)]

#: A threshold, as ``--fail-if`` has it.
Threshold = Annotated[str, Field(pattern=r"^(slower|faster):[0-9]+(\.[0-9]+)?%$")]


class BuildFields(Strict):
    """How a revision is built; it runs in the top folder of a fresh checkout, once for each commit."""

    command: str = Field(min_length=1, description="shell command that builds the server")
    cache_by: Words = Field(
        default=(),
        description='commands whose output belongs to what a kept build is found by, like `["go version"]`',
    )
    timeout_s: float = Field(default=900.0, gt=0, le=86_400, description="seconds after which a build is ended")


class ServeFields(Strict):
    """How the built server is started."""

    command: str = Field(
        min_length=1,
        description="command of the server, as typed into a terminal. The variable `PORT` says where to listen, as "
        "do `{port}` and `{socket}`; it may also contain `{address}`, `{cores}`, `{scratch}` and `{data}`",
    )
    folder: str = Field(
        default=".",
        min_length=1,
        description="folder of the repository that the server is started in",
    )
    wake_s: float = Field(
        default=USUAL_WAKE_S,
        gt=0,
        le=MAX_WAKE_S,
        description="seconds from its start to its first correct response; that response shows that it is ready",
    )


class RaceFields(Strict):
    """How revisions are raced; options of `dragstrip diff` replace these values."""

    workloads: Words = Field(
        default=("/",),
        min_length=1,
        description='names of workloads, workload files, or paths like `"/users/1"`, whose response by the first '
        "revision is the correct one",
    )
    connections: int | None = Field(default=None, ge=1, le=100_000, description="open connections")
    budget_s: float | None = Field(default=None, gt=0, le=86_400, description="seconds for all rounds; 120 without it")
    rounds: int | None = Field(default=None, ge=2, le=10_000, description="exactly this many rounds")
    metric: Literal["auto", "throughput", "cpu"] = Field(default="auto", description="the metric that decides")
    fail_if: tuple[Threshold, ...] = Field(
        default=(), strict=False, description='thresholds for the exit code, like `["slower:3%"]`'
    )


class ProjectFile(Strict):
    """One dragstrip.toml."""

    files: Words = Field(
        default=(),
        description='the files that matter for the server, as patterns of git, like `["src", "*.go"]`; revisions that '
        "differ only in others are not raced. Without it all files matter",
    )
    build: BuildFields | None = Field(default=None, description="how a revision is built; left out: it needs no build")
    serve: ServeFields = Field(description="how the server is started")
    race: RaceFields = Field(default=RaceFields(), description="how revisions are raced")


@dataclass(frozen=True, slots=True)
class Project:
    """A repository's dragstrip.toml. The same file counts for all revisions: most were made before it.

    Args:
        fields: the file's keys, checked. source: the file itself.
    """

    fields: ProjectFile
    source: Source

    @property
    def folder(self) -> Path:
        """The file's folder, to which paths of workload files are relative."""
        return self.source.file.parent


def load(file: Path | None, top: Path) -> Project:
    """The project file that was named, or the one at the top of the repository.

    Args:
        top: the repository's top folder.

    Raises:
        BadUsage: there is none. BadDefinition: a key is refused.
    """
    place = (file or top / FILE_NAME).absolute()
    if not is_file(place):
        raise BadUsage(f"{place} does not exist; `dragstrip init` writes one, or name another with --project FILE")
    fields, source = read(place, ProjectFile)
    folder = Path(fields.serve.folder)
    if folder.is_absolute() or ".." in folder.parts:
        raise source.bad(("serve", "folder"), f"given {fields.serve.folder!r}", "name a folder of the repository")
    return Project(fields, source)


def toml_text(text: str) -> str:
    """A text as a basic string of TOML, whose escapes are JSON's (toml.io, v1.0.0); DEL is one more."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
