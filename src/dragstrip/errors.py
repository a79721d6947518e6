"""What we refuse, in words for the person who must act.

Every message says whose, which field, what was given and what would do. The exit code belongs to
the kind of refusal: 1 the answer is a failure, 2 wrong usage or definition, 3 the measurement is
void.
"""


class DragstripError(Exception):
    """Base of all refusals; ``exit_code`` is what the command line ends with."""

    exit_code = 1


class BadUsage(DragstripError):
    """The words on the command line, or an argument of a public call, cannot be acted on."""

    exit_code = 2


class DiskFull(DragstripError):
    """A file can't be written because no space is left on its disk; the message names the file and what is kept."""

    exit_code = 3


class BadDefinition(DragstripError):
    """A definition file is refused.

    Args:
        file: the definition's path, as the user would open it.
        line: 1-based line in that file, or None where the fault has no line (a missing key).
        field: dotted name of the field, for example ``start.wake_s``.
        problem: what was given and why it is refused.
        remedy: what would do.
    """

    exit_code = 2

    def __init__(self, *, file: str, field: str, problem: str, remedy: str, line: int | None = None) -> None:
        where = f"{file}:{line}" if line is not None else file
        super().__init__(f"{where}: {field}: {problem}; {remedy}")
        self.file, self.line, self.field, self.problem, self.remedy = file, line, field, problem, remedy


class NotReady(DragstripError):
    """A contender cannot be started here: something it needs is missing (the message says what and the remedy)."""

    exit_code = 2


class StageError(DragstripError):
    """A contender was started but sent no correct response, or could not be stopped as configured."""


class PortTaken(StageError):
    """It could not serve: another program holds the port that it was given; on another one it may."""


class MachineLost(DragstripError):
    """A machine of a race over several of them no longer answers, or answers what no agent of ours would.

    Args:
        machine: its name in the fleet.
        why: what was seen, in words.
    """

    exit_code = 3

    def __init__(self, machine: str, why: str) -> None:
        super().__init__(f"{machine}: {why}")
        self.machine, self.why = machine, why


class EngineFailure(DragstripError):
    """The load engine could not run (no descriptors, no ports, an address that is not an address)."""

    exit_code = 3


class MeasurementVoid(DragstripError):
    """What was measured can't be stood behind; it is kept in the store and shown as void."""

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
