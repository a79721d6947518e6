"""Orders that a launcher sends to its supervisor, and the supervisor's reports; JSON on the pipe.

Only type checkers import these: ``typing`` would add a tenth to a supervisor's start-up, ``dataclasses`` a third.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, TypedDict


class StartOrder(TypedDict):
    """Starts a server; ``StartedReport`` or ``FailedReport`` follows, and in the end an ``EndReport``.

    ``user`` has the ids of a user and a group; None for the supervisor's own. ``signal`` (a name without SIG) is
    sent if the parent is gone; ``scratch`` and ``log`` are then removed.

    ``box`` has bubblewrap's options; None: the command is not bubblewrap's. Its own two processes are not the server.
    ``ids`` has the base, user and group of the user namespace to make for it. Descriptors of that namespace, and of a
    file with the options, replace a word in the options and in the command. ``network`` is the file of a network
    namespace to enter; ``own``: a new one with loopback alone; "": none. ``stop_all_after_s``: seconds after which the
    stop signal also goes to all processes that the server started; None: never.
    """

    do: Literal["start"]
    launch: int
    command: list[str]
    env: dict[str, str]
    cwd: str
    cores: list[int]
    user: list[int] | None
    box: list[str] | None
    ids: list[int] | None
    network: str
    log: str
    log_limit_bytes: int
    scratch: str
    cgroup: str | None
    signal: str
    stop_all_after_s: float | None


class StopOrder(TypedDict):
    """Stops the running server, with SIGKILL after ``grace_s`` seconds; ignored if it has ended."""

    do: Literal["stop"]
    signal: str
    grace_s: float


class EndOrder(TypedDict):
    """Ends the supervisor, and the running server first."""

    do: Literal["end"]


class StartedReport(TypedDict):
    """The server's main process runs; ``cgroup`` is None if it could not join one."""

    kind: Literal["started"]
    launch: int
    pid: int
    cgroup: str | None
    note: str


class FailedReport(TypedDict):
    """The server could not be started."""

    kind: Literal["failed"]
    launch: int
    why: str


class EndReport(TypedDict):
    """No process of the launch is left: the supervisor "ended" it, or its main process "died" before that."""

    kind: Literal["ended", "died"]
    launch: int
    exit_status: int | None
    how: str
    left_over: list[str]
    hidden_ns: int
    log_tail: str
    counts: dict[str, int]


Order: TypeAlias = StartOrder | StopOrder | EndOrder
SupervisorReport: TypeAlias = StartedReport | FailedReport | EndReport
