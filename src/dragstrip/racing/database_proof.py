"""Whether contenders query the race's database: its counts, and rows that change while no contender is under load."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import mean, pstdev

from dragstrip.process.database import Instance, Usage
from dragstrip.racing.launching import LaunchedServer
from dragstrip.racing.setup import RaceSetup
from dragstrip.record import Block
from dragstrip.scrutiny import is_right

#: An answer that came without its statement came from elsewhere: fewer than this share of those wanted are too few.
#: What a block's last answers lack or have too much of the pool's mean lies far below.
MIN_SHARE = 0.95

#: By chance, a mean is off by more than this many of its standard errors in one of 30,000 cases.
ERRORS = 4.0

#: Rows that are asked for before and after they change.
ASKED = 4


def served_from_elsewhere(statements: int, wanted: float) -> str | None:
    """Why a contender's answers can't have come from the database, in words for the record; None if they can."""
    if statements >= MIN_SHARE * wanted:
        return None
    return (
        f"did not ask the database for its answers: they take {wanted:,.0f} statements there, and the database "
        f"executed {statements:,} for it"
    )


def stale_answers(setup: RaceSetup, some: Iterable[LaunchedServer]) -> dict[str, str]:
    """Gives every row a new value and asks each contender again for rows that it has answered before.

    No contender may be under load. Returns, by contender that still sends the old rows, the reason in words.

    Raises:
        DatabaseGoneError: it can't be asked any more.
    """
    instance = setup.instance
    if instance is None:
        return {}
    asked = [launched for launched in some if launched.running.alive()]
    for launched in asked:
        _ask(setup, launched)
    instance.change_rows()
    wrong = {launched.name: _ask(setup, launched) for launched in asked}
    return {
        name: f"answers from a copy of the database's rows: after all had changed, {reason}"
        for name, reason in wrong.items()
        if reason is not None
    }


def _ask(setup: RaceSetup, launched: LaunchedServer) -> str | None:
    """Why one of a few answers is not right by the rows as they are now; None if all are."""
    probes = setup.asking(launched).probes(keepalive=False, count=ASKED)
    for probe in probes:
        try:
            reason = is_right(probe, tls=launched.tls)(launched.running.host, launched.running.port)
        except OSError as error:
            reason = error.strerror or str(error)
        if reason is not None:
            return f"{probe.path}: {reason}"
    return None


def usage_of(instance: Instance | None) -> Mapping[str, Usage]:
    """What each contender made of the database so far; nothing without one."""
    return instance.usage() if instance else {}


def wanted_by(launched: LaunchedServer, blocks: Sequence[Block], executed: int) -> float:
    """Statements that a contender's answers of these blocks took in the database.

    Queries of a request without a response are unknown. If a workload's requests need different numbers, how many
    there were of each is known within ``ERRORS`` standard errors of their mean. What was executed is taken for wanted
    as far as it lies within that.
    """
    each, own = launched.statements, [block for block in blocks if block.contender == launched.name]
    if not each:
        return 0.0
    answered, sent = sum(block.answered for block in own), sum(block.sent for block in own)
    error = ERRORS * pstdev(each) * math.sqrt(sent)
    return min(max(executed, mean(each) * answered - error), mean(each) * sent + error)
