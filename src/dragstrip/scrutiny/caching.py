"""Checks a server that may keep items in a cache: MISS, then HIT, MISS after an update; and items that do not exist."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from dragstrip.scrutiny import items
from dragstrip.scrutiny.reader import ResponseError
from dragstrip.scrutiny.responses import TROUBLE, Findings, correct, describe_error, fetch
from dragstrip.scrutiny.server import Server
from dragstrip.workload import ITEMS, OWN_CHANGING, Exchange

#: An item that a server may keep for a time may come from its cache for this many seconds longer: clocks are coarse.
LATE_S = 0.3

#: So often the steps are tried if they take longer than an item may be kept, which proves nothing.
TRIES = 4

#: Ids of items that only this check creates.
_CREATED = range(ITEMS + 500_001, ITEMS + 900_000)

_STATUS_MISSING = 404


def check_caching(server: Server, exchanges: Sequence[Exchange]) -> Findings:
    """Reads, updates and creates items that were not requested before.

    Args:
        exchanges: a proof's, over keep-alive.
    """
    kinds = {exchange.compare: exchange for exchange in exchanges}
    read = kinds.get("item")
    if read is None or not read.cached_ms:
        return Findings()
    used = {items.number_of(exchange) for exchange in exchanges if exchange.compare in ("item", "updated", "created")}
    returned: dict[int, int] = {}
    statements = 0
    try:
        for _ in range(TRIES):
            check = _Steps(server, read, kinds.get("updated"), kinds.get("created"), used)
            in_time = check.run()
            returned |= check.returned
            statements += check.statements
            if in_time:
                break
    except TROUBLE as error:
        return Findings(problems=(f"with an item of its own: {describe_error(error)}",))
    return Findings(returned=returned, statements=statements)


class _Steps:
    """One item that is read twice, updated and read, and one that is created and read."""

    def __init__(
        self, server: Server, read: Exchange, update: Exchange | None, create: Exchange | None, used: set[int]
    ) -> None:
        self._server, self._read, self._update, self._create = server, read, update, create
        self._sock: socket.socket | None = None
        rng = random.SystemRandom()
        self._number = rng.choice([number for number in OWN_CHANGING if number not in used])
        self._new = rng.choice(_CREATED)
        used.add(self._number)
        self.returned: dict[int, int] = {}
        self.statements = 0

    def run(self) -> bool:
        """Whether the steps were quick enough to show that items are kept.

        Raises:
            OSError, ResponseError: a response is not correct, in words.
        """
        try:
            return self._steps()
        finally:
            if self._sock is not None:
                self._sock.close()

    def _steps(self) -> bool:
        read = _for_item(self._read, self._number)
        began_s = time.monotonic()
        self._expect(read, items.MISS, "which no request had read before")
        in_time = self._expect_kept(read, began_s)
        if self._update is not None:
            update = _for_item(self._update, self._number)
            self._ask(update)
            self.returned[self._number] = int(items.values_of(update)["price"])
            self._expect(read, items.MISS, "which was updated just before")
            self._ask(_missing(self._update))
        self._ask(_missing(self._read))
        if self._create is not None:
            create = _with_id(self._create, self._new)
            self._ask(create)
            self.returned[self._new] = int(items.values_of(create)["price"])
            self._expect(_for_item(self._read, self._new), items.MISS, "which was created just before")
        return in_time

    def _expect_kept(self, read: Exchange, began_s: float) -> bool:
        """Reads an item until its server may not keep it any longer; returns whether no pause was too long for that."""
        kept_s = read.cached_ms / 1e3
        asked_s = began_s
        for number in count():
            before_s, asked_s = asked_s, time.monotonic()
            _, given = self._ask(read)
            now_s = time.monotonic()
            if now_s - before_s >= kept_s:
                return False
            if number == 0 and given != items.HIT:
                raise ResponseError(
                    f"{read.shown} sent {items.CACHE} {given} for an item that it had sent less than "
                    f"{read.cached_ms:g} ms before; expected {items.HIT}"
                )
            if given == items.MISS:
                return True
            if asked_s - began_s > kept_s + LATE_S:
                raise ResponseError(
                    f"{read.shown} sent {items.CACHE} {given} for an item that it had read {asked_s - began_s:.1f} s "
                    f"before; expected {items.MISS} after {read.cached_ms:g} ms"
                )
            time.sleep(kept_s / 5)
        raise AssertionError

    def _expect(self, read: Exchange, value: str, why: str) -> None:
        _, given = self._ask(read)
        if given != value:
            raise ResponseError(f"{read.shown} sent {items.CACHE} {given} for an item {why}; expected {value}")

    def _ask(self, exchange: Exchange) -> tuple[int, str]:
        """The status of a correct response, and what it says of the cache."""
        if self._sock is None:
            self._sock = self._server.connect()
        response = correct(exchange, fetch(self._sock, exchange))
        if exchange.compare != "status":  # no row is written, or read from a cache
            self.statements += exchange.statements + items.needs_statement(exchange, response)
        if response.closes:
            self._sock.close()
            self._sock = None
        return response.status, items.cached(response)


def _missing(exchange: Exchange) -> Exchange:
    """The same request for an item that does not exist."""
    other = _for_item(exchange, _CREATED[-1] + 1)
    return replace(other, compare="status", status=_STATUS_MISSING, content_type="", headers=())


def _for_item(exchange: Exchange, number: int) -> Exchange:
    """The same request for another item."""
    path = f"{exchange.path.rpartition('/')[0]}/{number}"
    request = exchange.request.replace(f" {exchange.path} ".encode(), f" {path} ".encode(), 1)
    return replace(exchange, path=path, request=request)


def _with_id(exchange: Exchange, number: int) -> Exchange:
    """The same request with another id in its body."""
    before = str(items.number_of(exchange)).encode()
    sends = exchange.sends.replace(before, str(number).encode())
    head = exchange.head.replace(b"Content-Length: %d" % len(exchange.sends), b"Content-Length: %d" % len(sends))
    return replace(exchange, sends=sends, request=head + sends)
