"""Builds of revisions in the cache: each is checked out and built once, kept, listed, and removed when others came.

A build stays in the folder in which it was made, because many builds hold absolute paths. Its lock is held shared
while its server may run, and exclusively while it is made or removed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from dragstrip import paths
from dragstrip.errors import StageError
from dragstrip.image.kept import content_of, locked
from dragstrip.image.kept import remove_old as remove
from dragstrip.machine.bounded_command import bounded
from dragstrip.revision.project import BuildFields, Project
from dragstrip.revision.repository import Repository, Revision

#: Builds of one repository that are kept; the one that was used longest ago goes first.
MAX_BUILDS = 30

_NOTE = "build.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionBuild:
    """A finished build.

    Args:
        folder: the checkout that it was made in.
        commit: the revision that it was first made for; others with the same files share it.
        seconds: how long it took. bytes: of all its files. used: when it was last raced, in seconds since 1970.
    """

    folder: Path
    commit: str
    subject: str
    seconds: float
    bytes: int
    used: float


def build(
    project: Project, repository: Repository, revision: Revision, resources: ExitStack, say: Callable[[str], None]
) -> RevisionBuild:
    """A revision's build, made now unless it is kept.

    Args:
        resources: holds the build until it is closed, so that nothing removes it.
        say: shows a line about what takes time.

    Raises:
        StageError: it fails, or does not end in time; with its last lines.
    """
    key = _key(project, repository, revision)
    place = repository.cache / "builds" / key
    lock = resources.enter_context(locked(place))
    note = place / _NOTE
    if not note.is_file():
        fcntl.flock(lock, fcntl.LOCK_EX)  # another diff may be building the same one
    if not note.is_file():
        begun = time.monotonic()
        tree = place / "tree"
        repository.remove(tree)
        place.mkdir(parents=True, exist_ok=True)
        repository.check_out(revision.commit, tree)
        if project.fields.build is not None:
            say(f"builds {revision.name}: {project.fields.build.command}")
            _run(project.fields.build, revision, tree)
        made = RevisionBuild(
            folder=tree, commit=revision.commit, subject=revision.subject, seconds=time.monotonic() - begun,
            bytes=content_of(tree)[1], used=time.time(),
        )  # fmt: skip
        paths.write(note, json.dumps(asdict(made) | {"folder": str(tree)}))
    fcntl.flock(lock, fcntl.LOCK_SH)
    os.utime(note)
    return _read(note)


def kept(repository: Repository) -> list[RevisionBuild]:
    """All finished builds of a repository, the one that was used last first."""
    notes = (repository.cache / "builds").glob(f"*/{_NOTE}")
    return sorted(map(_read, notes), key=lambda made: -made.used)


def remove_old(repository: Repository, most: int = MAX_BUILDS) -> int:
    """Removes the builds beyond ``most`` that no race uses, and what interrupted builds left; returns how many."""
    return remove(repository.cache / "builds", _NOTE, most, lambda place: repository.remove(place / "tree"))


def _read(note: Path) -> RevisionBuild:
    stored = json.loads(note.read_text(encoding="utf-8"))
    return RevisionBuild(**stored | {"folder": Path(stored["folder"]), "used": note.stat().st_mtime})


def _key(project: Project, repository: Repository, revision: Revision) -> str:
    """What a build is found by: the files that matter, the command, what the tools say, and the machine's kind."""
    fields = project.fields.build
    parts = [repository.files_key(revision.commit, project.fields.files), os.uname().machine]
    if fields is not None:
        parts += [fields.command, *(_said_by(command, repository.top) for command in fields.cache_by)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


def _said_by(command: str, folder: Path) -> str:
    """The output of a ``cache_by`` command.

    Raises:
        StageError: it fails or does not end within 30 s.
    """
    try:
        done = subprocess.run(
            ["sh", "-c", command], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise StageError(f"build.cache_by: `{command}` did not end within 30 s") from error
    if done.returncode != 0:
        raise StageError(f"build.cache_by: `{command}` failed with status {done.returncode}")
    return done.stdout.decode(errors="replace")


def _run(fields: BuildFields, revision: Revision, folder: Path) -> None:
    """Runs a build in its checkout; what it started ends with it."""
    env = {**os.environ, "DRAGSTRIP_COMMIT": revision.commit}
    ended = bounded(["sh", "-c", fields.command], fields.timeout_s, folder=folder, env=env)
    if ended.status == 0 and not ended.late:
        return
    how = f"did not end within {fields.timeout_s:g} s" if ended.late else f"failed with status {ended.status}"
    shown = f"; its last lines:\n{ended.tail}" if ended.tail else " without any output"
    raise StageError(f"{revision.name}: its build `{fields.command}` {how}{shown}")
