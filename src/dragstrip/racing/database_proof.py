"""Checks that contenders query the race's database: by its counts, and by rows that change while none is under load."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import mean, pstdev

from dragstrip.racing.launching import LaunchedServer
from dragstrip.racing.setup import RaceSetup
from dragstrip.record import Block
from dragstrip.scrutiny import TROUBLE, Server, describe_error, fault, fetch
from dragstrip.scrutiny.caching import LATE_S
from dragstrip.workload import Asking

#: A response without its statement has its rows from elsewhere. Fewer than this share of the expected statements is too
#: few; the requests at a block's end, which may need more or fewer than the pool's mean, change far less.
MIN_SHARE = 0.95

#: By chance, a mean is off by more than this many of its standard errors in one of 30,000 cases.
ERRORS = 4.0

#: Number of rows to request before and after they change.
ASKED = 4


def served_from_elsewhere(statements: float, wanted: float) -> str | None:
    """Why a contender's responses can't have come from the database, in words for the record; None if they can."""
    if statements >= MIN_SHARE * wanted:
        return None
    return (
        f"did not query the database for its responses: they need {wanted:,.0f} statements there, and the database "
        f"executed {statements:,} for it"
    )


def stale_answers(setup: RaceSetup, some: Iterable[LaunchedServer]) -> dict[str, str]:
    """Gives every row a new value and requests from each contender rows that it has sent before.

    No contender may be under load. Returns, for each contender that still sends the old rows, the reason in words.

    Raises:
        DatabaseGoneError: the database can't be queried any more.
    """
    instance = setup.instance
    if instance is None or not setup.workload.queries:
        return {}
    asked = {launched.name: (setup.asking(launched), launched.server) for launched in some if launched.running.alive()}
    return stale_after(instance.change_rows, asked)


def stale_after(change_rows: Callable[[], None], asked: Mapping[str, tuple[Asking, Server]]) -> dict[str, str]:
    """Which of some servers send old rows after all have changed, and the reason in words.

    Rows that a server may keep for some time are requested after that time.
    """
    for asking, server in asked.values():
        _ask(asking, server)
    change_rows()
    wrong = {name: _ask(asking, server, cached=False) for name, (asking, server) in asked.items()}
    kept_s = max((asking.workload.cached_ms / 1e3 for asking, _ in asked.values()), default=0.0)
    if kept_s:
        time.sleep(kept_s + LATE_S)
        for name, (asking, server) in asked.items():
            wrong[name] = wrong[name] or _ask(asking, server, cached=True)
    return {
        name: f"responds from a copy of the database's rows: after all had changed, {reason}"
        for name, reason in wrong.items()
        if reason is not None
    }


def _ask(asking: Asking, server: Server, *, cached: bool | None = None) -> str | None:
    """Why a response does not have the rows as they are now; None if all requested responses do.

    Args:
        cached: only requests whose rows the server may keep, or only the others; None: all.
    """
    for probe in asking.probes(keepalive=False, count=ASKED):
        if cached is not None and cached != bool(probe.cached_ms):
            continue
        try:
            with server.connect() as sock:
                reason = fault(probe, fetch(sock, probe))
        except TROUBLE as error:
            reason = describe_error(error)
        if reason is not None:
            return reason if probe.path in reason else f"{probe.path}: {reason}"
    return None


def wanted_by(launched: LaunchedServer, blocks: Sequence[Block], executed: float) -> float:
    """Statements that a contender's responses in these blocks needed in the database.

    Queries of a request without a response are unknown. If a workload's requests need different numbers of statements,
    the sum is known within ``ERRORS`` standard errors of their mean. How many responses came from the server's cache
    is not known. The number executed is taken for the number needed if it lies within that.
    """
    needs, most = launched.statements, launched.most_statements
    loaded = [block for block in blocks if block.contender == launched.name]
    if not needs:
        return 0.0
    answered, sent = sum(block.answered for block in loaded), sum(block.sent for block in loaded)
    least = mean(needs) * answered - ERRORS * pstdev(needs) * math.sqrt(sent)
    return min(max(executed, least), mean(most) * sent + ERRORS * pstdev(most) * math.sqrt(sent))
