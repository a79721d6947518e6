"""What a server says itself of how many requests it had, from one moment to a later one."""

from __future__ import annotations

import re
from collections.abc import Callable

from dragstrip.contender import OwnCount
from dragstrip.scrutiny.answers import TROUBLE, connect
from dragstrip.scrutiny.encryption import Encryption
from dragstrip.scrutiny.reader import Deadline, read_answer

#: Seconds within which a reading must be there, and the longest page that a server tells it on.
READING_S, PAGE_BYTES = 2.0, 1 << 20


def count_from_now(
    asked: OwnCount | None, host: str, port: int, tls: Encryption | None = None
) -> Callable[[], int | None]:
    """Begins to count; what comes back says, once, how many requests the server has had since, by its own count.

    A reading may be among the requests that the server counts, before it answers or after. It is read twice now, and
    what the second reading added is what one reading adds: so much is taken off, whichever way the server counts.

    Args:
        asked: where it says so. host, port, tls: where it serves, and how.

    Returns:
        A call that gives None where nothing is asked, or the server does not say.
    """
    first, before = (_read(asked, host, port, tls) for _ in range(2))

    def since() -> int | None:
        after = _read(asked, host, port, tls)
        if first is None or before is None or after is None:
            return None
        return after - before - (before - first)

    return since


def _read(asked: OwnCount | None, host: str, port: int, tls: Encryption | None) -> int | None:
    if asked is None:
        return None
    request = f"GET {asked.path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    deadline = Deadline(READING_S)
    try:
        with connect(asked.host or host, port, deadline, tls if not asked.host else None) as sock:
            answer = read_answer(sock, request, body_bytes=PAGE_BYTES, deadline=deadline)
        numbers = re.findall(asked.pattern, answer.body.decode("utf-8", "replace"), re.MULTILINE)
        return sum(map(int, numbers)) if answer.status == 200 and numbers else None
    except (*TROUBLE, ValueError):
        return None
