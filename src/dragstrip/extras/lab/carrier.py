"""What carries slices to strips: child processes of the client by default, or something that has workers of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from dragstrip.errors import DragstripError, MachineLost
from dragstrip.extras.lab import slurm
from dragstrip.extras.lab.strips import StripLink
from dragstrip.extras.lab.task import Inquiry, Taken, Task, TaskReply


class CarrierLost(DragstripError):
    """What carries a lab is gone; attempts stay open until the same command continues."""

    exit_code = 3


class Carrier(Protocol):
    """Reaches strips for a client. Any call may be repeated: an attempt that was carried twice leaves one record."""

    #: Seconds between two looks for strips that join; None: only the matrix changes them.
    look_s: float | None

    def join(self, links: Sequence[StripLink]) -> None:
        """Is called with the matrix's strips whenever they were read; prepares those that it can prepare.

        Raises:
            BadUsage: it may not carry one of them.
        """

    def missing(self, link: StripLink) -> str:
        """Why a strip can't be reached now; "" if it may be tried."""

    def inquire(self, link: StripLink, inquiry: Inquiry) -> TaskReply:
        """What a strip has.

        Raises:
            MachineLost: it can't be reached. BadUsage: it refuses the inquiry.
        """

    def race(self, link: StripLink, task: Task, limit_s: float) -> tuple[bytes, bytes]:
        """Runs a slice, and returns what it left: outcome and record.

        Raises:
            MachineLost: it left nothing, or the strip can't be reached.
        """

    def collect(self, link: StripLink, cell: str, attempt: int) -> tuple[bytes, bytes]:
        """What an attempt of an earlier client left; waits while the attempt lives.

        Raises:
            MachineLost: the strip can't be reached.
        """

    def clear(self, link: StripLink, taken: Sequence[Taken]) -> None:
        """Removes what the client has settled from the strip's outbox; a strip that is away keeps it."""

    def interrupt(self) -> None:
        """Ends the races that are running."""

    def close(self) -> None:
        """Ends what the carrier has started."""


class Children:
    """Child processes of the client: no server, no port. The client sleeps until they end."""

    look_s: float | None = None

    def __init__(self) -> None:
        #: What interrupts the race of each strip.
        self._races: dict[str, Callable[[], None]] = {}

    def join(self, links: Sequence[StripLink]) -> None:
        """Nothing to prepare."""

    def missing(self, link: StripLink) -> str:
        """Never: a strip that is away is found when it is tried."""
        return ""

    def inquire(self, link: StripLink, inquiry: Inquiry) -> TaskReply:
        """By the strip's own process."""
        return link.inquire(inquiry)

    def race(self, link: StripLink, task: Task, limit_s: float) -> tuple[bytes, bytes]:
        """By the strip's own process, which is waited for."""

        def started(end: Callable[[], None]) -> None:
            self._races[link.fields.name] = end

        try:
            return link.race(task, limit_s, started)
        except OSError as error:
            raise MachineLost(link.fields.name, str(error)) from error
        finally:
            self._races.pop(link.fields.name, None)

    def collect(self, link: StripLink, cell: str, attempt: int) -> tuple[bytes, bytes]:
        """By a look into the outbox, here or through the strip's own process."""
        return link.collect(cell, attempt)

    def clear(self, link: StripLink, taken: Sequence[Taken]) -> None:
        """As ``collect``."""
        link.clear(taken)

    def interrupt(self) -> None:
        """Their servers end with them."""
        for end in list(self._races.values()):
            end()
        slurm.interrupt()

    def close(self) -> None:
        """Nothing is left: they end with their slices."""
