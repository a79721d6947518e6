"""The reader of one response (``scrutiny.reader``), over a socket pair."""

from __future__ import annotations

import socket

import h11
import pytest

from dragstrip.scrutiny.reader import Deadline, read_response

HINT = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
FINAL = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


@pytest.mark.parametrize("count", [100, 400])
def test_interim_responses_are_read_in_linear_work(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes copied out of h11's buffer, whatever the number of interim responses in one piece."""
    copied = 0
    original = h11.Connection.trailing_data.fget
    assert original is not None

    def counting(connection: h11.Connection) -> tuple[bytes, bool]:
        nonlocal copied
        rest: tuple[bytes, bool] = original(connection)
        copied += len(rest[0])
        return rest

    monkeypatch.setattr(h11.Connection, "trailing_data", property(counting))
    client, server = socket.socketpair()
    with client, server:
        server.sendall(count * HINT + FINAL)
        answer = read_response(client, b"GET / HTTP/1.1\r\n\r\n", body_bytes=2, deadline=Deadline(5.0))
    assert (answer.status, answer.body, answer.surplus) == (200, b"hi", b"")
    assert answer.head_bytes == count * len(HINT) + len(FINAL) - 2
    assert answer.wire_bytes == answer.head_bytes + 2
    assert answer.headers == (("Content-Length", "2"),)
    assert copied <= 2 * len(FINAL)
