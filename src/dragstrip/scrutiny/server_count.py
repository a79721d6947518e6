"""Reads a server's own count of its requests during a period."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

from dragstrip.contender import OwnCount
from dragstrip.scrutiny.reader import Deadline, read_response
from dragstrip.scrutiny.responses import TROUBLE
from dragstrip.scrutiny.server import Server

#: Seconds for one reading, and the maximum size of the page with the count.
READING_S, PAGE_BYTES = 2.0, 1 << 20

#: Maximum readings until two in a row agree, and seconds between them: together, the time that a late count may take.
READINGS, BETWEEN_S = 6, 0.01


def count_from_now(asked: OwnCount | None, server: Server) -> Callable[[], int | None]:
    """Begins to count; the returned call gives, once, how many requests the server has had since, by its own count.

    The server may count a reading itself, before or after its response. Dragstrip reads again until two readings in a
    row add the same number; this number is subtracted for each reading, whichever way the server counts. Apache counts
    a moment after its response, so a single reading may lack earlier requests.

    Args:
        asked: the page with the count; None if the server has none. server: where it serves.

    Returns:
        A call that gives None if ``asked`` is None, or if the server does not report a count.
    """

    def readings() -> Iterator[int | None]:
        for number in range(READINGS if asked else 0):
            if number:
                time.sleep(BETWEEN_S)
            yield _read(asked, server)

    before: int | None = None
    step: int | None = None
    for read in readings():
        added = None if read is None or before is None else read - before
        before = read
        if read is None or (added is not None and added == step):
            break
        step = added

    def since() -> int | None:
        last, count = before, None
        for number, read in enumerate(readings(), 1):
            if read is None or last is None or before is None or step is None:
                return None
            count = read - before - number * step
            if number > 1 and read - last == step:
                break
            last = read
        return count

    return since


def _read(asked: OwnCount | None, server: Server) -> int | None:
    if asked is None:
        return None
    request = f"GET {asked.path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    deadline = Deadline(READING_S)
    try:
        with (Server(asked.host, 0) if asked.host else server).connect(deadline) as sock:
            response = read_response(sock, request, body_bytes=PAGE_BYTES, deadline=deadline)
        numbers = re.findall(asked.pattern, response.body.decode("utf-8", "replace"), re.MULTILINE)
        return sum(map(int, numbers)) if response.status == 200 and numbers else None
    except (*TROUBLE, ValueError):
        return None
