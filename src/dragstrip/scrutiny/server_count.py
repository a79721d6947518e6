"""What a server says itself of how many requests it had, from one moment to a later one."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

from dragstrip.contender import OwnCount
from dragstrip.scrutiny.answers import TROUBLE
from dragstrip.scrutiny.reader import Deadline, read_answer
from dragstrip.scrutiny.server import Server

#: Seconds within which a reading must be there, and the longest page that a server tells it on.
READING_S, PAGE_BYTES = 2.0, 1 << 20

#: Maximum readings until two in a row agree, and seconds between them: together, how long a late count may take.
READINGS, BETWEEN_S = 6, 0.01


def count_from_now(asked: OwnCount | None, server: Server) -> Callable[[], int | None]:
    """Begins to count; what comes back says, once, how many requests the server has had since, by its own count.

    A reading may be among the requests that the server counts, before it answers or after. It is read again until two
    readings in a row add as much as each other: so much is taken off for each reading, whichever way the server counts.
    Apache counts a moment after it has answered, so one reading alone may lack requests that were answered before it.

    Args:
        asked: where it shows its count. server: where it serves.

    Returns:
        A call that gives None where nothing is asked, or the server does not say.
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
            answer = read_answer(sock, request, body_bytes=PAGE_BYTES, deadline=deadline)
        numbers = re.findall(asked.pattern, answer.body.decode("utf-8", "replace"), re.MULTILINE)
        return sum(map(int, numbers)) if answer.status == 200 and numbers else None
    except (*TROUBLE, ValueError):
        return None
