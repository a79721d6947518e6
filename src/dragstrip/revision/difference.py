"""Revisions as contenders of one race, in which all of them meet at every moment of the machine's state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import MappingProxyType

from dragstrip.contender import Entry, serve_entry
from dragstrip.errors import BadUsage
from dragstrip.record import COMMIT
from dragstrip.revision.builds import build
from dragstrip.revision.project import Project
from dragstrip.revision.repository import Repository, Revision

#: The key of an entrant's parameters that has the first line of its commit's message.
SUBJECT = "subject"

#: How the second launch of the same revision is called, so that its ratio shows the noise.
AGAIN = " again"


@dataclass(frozen=True, slots=True)
class ComparedRevisions:
    """Revisions that are raced against the first one.

    Args:
        revisions: in the user's order. entries: the contenders, in the same order; with ``--a-a`` the
        first revision's second contender comes last.
    """

    revisions: tuple[Revision, ...]
    entries: tuple[Entry, ...]


def wanted(repository: Repository, words: Sequence[str]) -> tuple[Revision, ...]:
    """The revisions to compare: those that were named, or the merge base with the default branch and the working tree.

    Raises:
        BadUsage: one does not exist.
    """
    if not words:
        return repository.merge_base(), repository.working_tree()
    named = [repository.revision(word) for word in words]
    return (*named, repository.working_tree()) if len(named) == 1 else tuple(named)


def same_files(repository: Repository, project: Project, revisions: Sequence[Revision]) -> bool:
    """Whether revisions of different commits have the same files, as far as those matter for the server."""
    keys = {repository.files_key(revision.commit, project.fields.files) for revision in revisions}
    return len(keys) == 1 and len({revision.commit for revision in revisions}) > 1


def compare(
    project: Project,
    repository: Repository,
    revisions: Sequence[Revision],
    resources: ExitStack,
    *,
    twice: bool = False,
    say: Callable[[str], None],
) -> ComparedRevisions:
    """Builds revisions where that is still to do, and makes contenders of them.

    Args:
        resources: holds the builds until it is closed.
        twice: the first revision enters a second time.
        say: shows a line about what takes time.

    Raises:
        StageError: a build fails. BadDefinition: the command of the server is refused.
    """
    entries: list[Entry] = []
    for revision in revisions:
        entries.append(entry_of(project, repository, revision, resources, {entry.name for entry in entries}, say))
    if twice:
        name = _free(entries[0].name, {entry.name for entry in entries})
        entries.append(replace(entries[0], name=name, title=name))
    return ComparedRevisions(tuple(revisions), tuple(entries))


def entry_of(
    project: Project,
    repository: Repository,
    revision: Revision,
    resources: ExitStack,
    taken: set[str],
    say: Callable[[str], None],
) -> Entry:
    """A revision as a contender.

    Args:
        taken: names of contenders that it can't have.

    Raises:
        StageError: its build fails. BadDefinition: the command of the server is refused.
    """
    made = build(project, repository, revision, resources, say)
    serve = project.fields.serve
    folder = made.folder / serve.folder
    if not folder.is_dir():
        problem = f"given {serve.folder!r}, which {revision.name} does not have"
        raise project.source.bad(("serve", "folder"), problem, "name a folder that all revisions have")
    name = _free(revision.name, taken)
    try:
        wake_s = serve.wake_s if "wake_s" in serve.model_fields_set else None
        entry = serve_entry(f"{name}={serve.command}", folder, wake_s=wake_s)
    except BadUsage as error:
        problem, _, remedy = str(error).removeprefix(f"--serve {name}: ").partition("; ")
        raise project.source.bad(("serve", "command"), f"given {serve.command!r}", f"{problem}; {remedy}") from error
    more = {COMMIT: revision.commit, SUBJECT: revision.subject}
    return replace(
        entry,
        parameters=MappingProxyType(dict(entry.parameters) | more),
        parity=dict(entry.parity) | {"commit": revision.commit[:12], "subject": revision.subject},
    )


def _free(name: str, taken: set[str]) -> str:
    """The name, or one like it that no other contender has."""
    while name in taken:
        name = f"{name}{AGAIN}"
    return name
