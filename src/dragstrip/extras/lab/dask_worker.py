"""What a Dask worker does for a lab: it starts a strip's processes, as the client does without Dask.

A worker is on a controller, never on a racing machine. It returns values; the record stays in the strip's outbox until
the client has stored it, so a task that Dask repeats finds it there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from dragstrip import __version__
from dragstrip.errors import DragstripError, MachineLost
from dragstrip.extras.lab.carrier import Children
from dragstrip.extras.lab.strips import StripLink
from dragstrip.extras.lab.task import Inquiry, Taken, Task, TaskReply

Result = TypeVar("Result")

#: The processes that this worker has started.
_CHILDREN = Children()


@dataclass(frozen=True, slots=True)
class Refused:
    """An error of a call, as a value: exceptions with own arguments can't be pickled. lost: the strip is."""

    why: str
    lost: bool


def raced(version: str, link: StripLink, task: Task, limit_s: float) -> tuple[bytes, bytes] | Refused:
    """Runs a slice."""
    return _tried(version, lambda: _CHILDREN.race(_here(link), task, limit_s))


def inquired(version: str, link: StripLink, inquiry: Inquiry) -> TaskReply | Refused:
    """What a strip has."""
    return _tried(version, lambda: _CHILDREN.inquire(_here(link), inquiry))


def collected(version: str, link: StripLink, cell: str, attempt: int) -> tuple[bytes, bytes] | Refused:
    """What an attempt left."""
    return _tried(version, lambda: _CHILDREN.collect(_here(link), cell, attempt))


def cleared(version: str, link: StripLink, taken: Sequence[Taken]) -> Refused | None:
    """Removes attempts that the client has settled."""
    return _tried(version, lambda: _CHILDREN.clear(_here(link), taken))


def interrupted() -> None:
    """Ends this worker's races."""
    _CHILDREN.interrupt()


def _tried(version: str, call: Callable[[], Result]) -> Result | Refused:
    if version != __version__:
        return Refused(f"its Dask worker has Dragstrip {__version__}, and the client has {version}", lost=True)
    try:
        return call()
    except MachineLost as error:
        return Refused(error.why, lost=True)
    except DragstripError as error:
        return Refused(str(error), lost=False)


def _here(link: StripLink) -> StripLink:
    """The strip, with a folder that this machine has: commands start in the matrix's folder, or in the home."""
    return link if link.folder.is_dir() else replace(link, folder=Path.home())
