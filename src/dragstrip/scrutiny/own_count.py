"""What a server says itself of how many requests it had, from one moment to a later one."""

from __future__ import annotations

import re
from collections.abc import Callable
from http.client import HTTPException

from dragstrip.contender import OwnCount
from dragstrip.scrutiny.answers import connect, fetch
from dragstrip.workload import Exchange


def count_from_now(asked: OwnCount | None, host: str, port: int) -> Callable[[], int | None]:
    """Begins to count; what comes back says, once, how many requests the server has had since, by its own count.

    A reading may be among the requests that the server counts, before it answers or after. It is read twice now, and
    what the second reading added is what one reading adds: so much is taken off, whichever way the server counts.

    Args:
        asked: where it says so. host, port: where it serves.

    Returns:
        A call that gives None where nothing is asked, or the server does not say.
    """
    first, before = (_read(asked, host, port) for _ in range(2))

    def since() -> int | None:
        after = _read(asked, host, port)
        if first is None or before is None or after is None:
            return None
        return after - before - (before - first)

    return since


def _read(asked: OwnCount | None, host: str, port: int) -> int | None:
    if asked is None:
        return None
    request = f"GET {asked.path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    exchange = Exchange(path=asked.path, request=request, status=200, content_type="", body=b"")
    try:
        with connect(asked.host or host, port) as sock:
            answer = fetch(sock, exchange)
        numbers = re.findall(asked.pattern, answer.body.decode("utf-8", "replace"), re.MULTILINE)
        return sum(map(int, numbers)) if answer.status == exchange.status and numbers else None
    except (OSError, HTTPException, ValueError):
        return None
