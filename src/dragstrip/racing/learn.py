"""Learns the correct responses to typed requests from the first contender that is ready.

Each request is sent three times over connections of their own, by an independent client: twice at once, which shows
what differs from response to response, and once more after a second, which shows times of whole seconds.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from dragstrip import machine
from dragstrip.contender import Entry, Missing, check
from dragstrip.errors import NotReady, StageError
from dragstrip.process.scratch import scratch_root
from dragstrip.racing.launching import LaunchedServer, Launching
from dragstrip.requested import described
from dragstrip.scrutiny.responses import AGAIN_S, TROUBLE, coding_of, decoded, describe_error, fetch, own_words
from dragstrip.scrutiny.session import session_over
from dragstrip.workload import IDENTITY, Asking, Exchange, Workload
from dragstrip.workload.learned import MAX_BODY_BYTES, SeenResponse, answered, unanswered
from dragstrip.workload.typed import TypedRequest


def learned(
    requests: Sequence[TypedRequest],
    entries: Sequence[Entry],
    *,
    http: str = "1.1",
    of_all: bool = False,
    say: Callable[[str], None],
) -> tuple[Workload, ...]:
    """The workloads of typed requests; the first contender that is ready is started for them, and stopped.

    Args:
        http: version of HTTP for contenders whose definition does not set one.
        of_all: what differs between contenders counts as what changes, and is not compared; they are all started.
        say: shows for each request what its correct response is, and what of it is compared.

    Raises:
        NotReady: no contender is ready. StageError: the first one did not serve, or sent no complete response.
        BadUsage: as ``workload.learned.answered``.
    """
    asking = list(entries) if of_all else [_first_ready(entries)]
    asked = [unanswered(typed) for typed in requests]
    seen: list[list[SeenResponse]] = [[] for _ in requests]
    with ExitStack() as resources:
        supervisors = resources.enter_context(ExitStack())
        scratch = resources.enter_context(scratch_root())
        cores = machine.lanes(None, None).server
        launching = Launching(cores=cores, scratch=scratch, supervisors=supervisors, seed=secrets.randbits(32))
        for entry in asking:
            launched = launching.launch(entry, asked[0], http)
            try:
                for found, more in zip(seen, _seen(launched, asked, http), strict=True):
                    found += more
            finally:
                launched.running.stop()
    names = " and ".join(entry.name for entry in asking)
    made = tuple(answered(typed, found, names) for typed, found in zip(requests, seen, strict=True))
    for workload in made:
        for one in described(workload.source.text):
            say(f"{one.request}, learned from {names}; compared: {one.compared}")
    return made


def _first_ready(entries: Sequence[Entry]) -> Entry:
    states = {entry.name: check(entry) for entry in entries}
    ready = next((entry for entry in entries if not isinstance(states[entry.name], Missing)), None)
    if ready is None:
        missing = {name: state for name, state in states.items() if isinstance(state, Missing)}
        raise NotReady("; ".join(f"{name}: {state.reason}; {state.remedy}" for name, state in missing.items()))
    return ready


def _seen(launched: LaunchedServer, asked: Sequence[Workload], http: str) -> list[list[SeenResponse]]:
    """Each request's three responses."""
    exchanges = [
        Asking.of(workload, 0, launched.entry, launched.data).exchanges(http=launched.entry.http(http))[0]
        for workload in asked
    ]
    begun_s = time.monotonic()
    seen = [[_ask(launched, exchange), _ask(launched, exchange)] for exchange in exchanges]
    time.sleep(max(begun_s + AGAIN_S - time.monotonic(), 0))
    for exchange, found in zip(exchanges, seen, strict=True):
        found.append(_ask(launched, exchange))
    return seen


def _ask(launched: LaunchedServer, exchange: Exchange) -> SeenResponse:
    try:
        with launched.server.connect() as sock:
            response = fetch(session_over(sock, exchange), exchange)
    except TROUBLE as error:
        reason = f"{exchange.shown} {describe_error(error)}; its last words: {launched.last_words()}"
        died = launched.death("while its response was learned")
        raise StageError(f"{launched.name}: {died or reason}") from error
    coding, body = coding_of(response), response.body
    plain = decoded(body, coding, at_most=MAX_BODY_BYTES) if coding in ("gzip", "br") else None
    plain = body if coding == IDENTITY else plain
    return SeenResponse(
        status=response.status,
        body=body if plain is None else plain,
        whole=plain is not None and not response.cut,
        coding=coding,
        cut=response.cut,
        telling=own_words(response),
    )
