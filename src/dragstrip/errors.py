"""Refusals, in words for the person who must act.

Every message names the contender or file, the field, the given value and a valid one. The exit code belongs to the kind
of refusal: 1 the result is a failure, 2 wrong usage or definition, 3 the measurement is void.
"""

from importlib.util import find_spec
from typing import Literal


class DragstripError(Exception):
    """Base of all refusals; ``exit_code`` is what the command line ends with."""

    exit_code = 1


class BadUsage(DragstripError):
    """The command line, or an argument of a public call, is not valid."""

    exit_code = 2


class DiskFull(DragstripError):
    """A file can't be written because no space is left on its disk; the message names the file and what is kept."""

    exit_code = 3


class BadDefinition(DragstripError):
    """A definition file is refused.

    Args:
        file: the definition's path, as the user would open it.
        line: 1-based line in that file, or None if the fault has no line (a missing key).
        field: dotted name of the field, for example ``start.wake_s``.
        problem: the given value, and why it is refused.
        remedy: what would be valid.
    """

    exit_code = 2

    def __init__(self, *, file: str, field: str, problem: str, remedy: str, line: int | None = None) -> None:
        where = f"{file}:{line}" if line is not None else file
        super().__init__(f"{where}: {field}: {problem}; {remedy}")
        self.file, self.line, self.field, self.problem, self.remedy = file, line, field, problem, remedy


class NotReady(DragstripError):
    """A contender cannot be started here: something it needs is missing (the message says what and the remedy)."""

    exit_code = 2


#: What a program may tell an ``EngineError`` by.
#: ``address``: can't be resolved; ``address_in_use``; ``busy``: with a run in another thread; ``connect``: a connection
#: can't be opened, for another reason than those below; ``cores``: none given, or one that can't be used;
#: ``defect``: of the engine; ``descriptors``: too few; ``histogram``: unreadable; ``namespace``: a network namespace
#: can't be entered; ``plan``: a field is out of bounds; ``ports``: all in use; ``profile``: the sampler can't start, or
#: has stopped; ``protocol``: HTTP/2 or WebSocket, not spoken there; ``refused``: no listener; ``session``: not open;
#: ``shut_down``; ``system``: no thread, ring or epoll instance; ``timeout``: no connection in time; ``tls``: no
#: handshake, or a wrong certificate; ``uring``: does not work here; ``watch``: a file of the server's CPU time can't be
#: opened.
ErrorKind = Literal[
    "address",
    "address_in_use",
    "busy",
    "connect",
    "cores",
    "defect",
    "descriptors",
    "histogram",
    "namespace",
    "plan",
    "ports",
    "profile",
    "protocol",
    "refused",
    "session",
    "shut_down",
    "system",
    "timeout",
    "tls",
    "uring",
    "watch",
]


class EngineError(Exception):
    """The compiled engine can't do this; the message names the field, the given value and a valid one.

    A run that Ctrl-C ends raises ``KeyboardInterrupt``, not this.
    """

    kind: ErrorKind


class ScriptError(Exception):
    """A script of wrk's can't be used, or its ``done`` failed; the message begins with file and line."""


#: What only some commands need: by module, the extra that brings it, and what it is for.
EXTRAS = {
    "altair": ("page", "pages and pictures"),
    "vl_convert": ("page", "pages and pictures"),
    "psycopg": ("database", "workloads that query the database"),
    "cryptography": ("tls", "races over TLS"),
}


class LacksExtra(DragstripError):
    """Packages of an extra are not installed, which a plain installation leaves out.

    Args:
        module: one of ``EXTRAS``.
    """

    exit_code = 2

    def __init__(self, module: str) -> None:
        extra, purpose = EXTRAS[module]
        super().__init__(f"{purpose} need packages that are not installed: pip install 'dragstrip[{extra}]'")


def need_extra(module: str) -> None:
    """Refuses before anything is measured.

    Raises:
        LacksExtra: the module is not installed.
    """
    if find_spec(module) is None:
        raise LacksExtra(module)


class NeedsUserNamespace(DragstripError):
    """A contender's own network can't be entered by this user; the command line starts again in a user namespace.

    Args:
        name: the contender's.
        why: why this system does not let the user make a user namespace; "" if that was not tried.
    """

    exit_code = 2

    def __init__(self, name: str, why: str = "") -> None:
        tried = f", and this user can't make one ({why})" if why else ""
        super().__init__(
            f"{name} has a network of its own, as a container or because its port is taken, which only root may enter, "
            f"or a user in a user namespace{tried}; run it as root, or by the command line `dragstrip`"
        )
        self.name, self.why = name, why


class StageError(DragstripError):
    """A contender was started but sent no correct response, or could not be stopped as configured."""


class PortTaken(StageError):
    """A contender could not serve because another program uses its port; on another port it may."""


class MachineLost(DragstripError):
    """A machine of a fleet no longer responds, or sends an invalid reply.

    Args:
        machine: its name in the fleet.
        why: what happened, in words.
    """

    exit_code = 3

    def __init__(self, machine: str, why: str) -> None:
        super().__init__(f"{machine}: {why}")
        self.machine, self.why = machine, why


class EngineFailure(DragstripError):
    """The load engine could not run (no descriptors, no ports, an invalid address)."""

    exit_code = 3


class MeasurementVoid(DragstripError):
    """A measurement is invalid; it is kept in the store and shown as void."""

    exit_code = 3


class StoreError(DragstripError):
    """The store cannot be opened, is of a newer schema, or has no such race."""

    exit_code = 2


class StoreFull(DiskFull, StoreError):
    """The store can't be written because no space is left; the races and rounds that it holds are kept."""

    exit_code = 3


class Unreadable(StoreError):
    """A stored race holds invalid data; other races of the store can still be read.

    Args:
        race: its id.
        problem: which column, and what it holds.
    """

    def __init__(self, race: str, problem: str) -> None:
        super().__init__(f"race {race} can't be read: {problem}; the store's other races are not affected")
        self.race, self.problem = race, problem
