"""Responses over HTTP/2 that can't be read: the reader says what the server sent, whatever it was."""

from __future__ import annotations

import socket
import threading

import pytest
from hpack import Encoder

from dragstrip.scrutiny.http2 import Http2Session
from dragstrip.scrutiny.reader import Deadline, ResponseError

HEADERS, SETTINGS, PING, END = 1, 4, 6, 5


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def read(*headers: tuple[str, str], more: bytes = b"") -> int:
    """The status of a response with these fields."""
    ours, theirs = socket.socketpair()
    block = Encoder().encode(list(headers), huffman=False)
    answer = frame(SETTINGS, 0, 0, b"") + frame(HEADERS, END, 1, block) + more
    with ours, theirs:
        threading.Thread(target=theirs.sendall, args=(answer,), daemon=True).start()
        session = Http2Session(ours, "http")
        request = b"GET / HTTP/1.1\r\nHost: test\r\n\r\n"
        return session.ask(request, body_bytes=10, deadline=Deadline(20)).status


def test_a_status_of_three_digits_is_read() -> None:
    assert read((":status", "200")) == 200
    assert read((":status", "599")) == 599


@pytest.mark.parametrize("status", ["abc", "", "20", "2000", "+20", " 20", "2_0", "0200", "\xb2\xb2\xb2", "-10", "099"])
def test_another_status_is_refused_with_what_came(status: str) -> None:
    with pytest.raises(ResponseError):
        read((":status", status))


@pytest.mark.parametrize("headers", [[], [("a", "b")], [(":status", "200"), (":status", "200")], [(":path", "/")]])
def test_heads_without_one_status_are_refused(headers: list[tuple[str, str]]) -> None:
    with pytest.raises(ResponseError):
        read(*headers)
