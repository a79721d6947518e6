"""What a race says of an incorrect response that the engine saw: the first difference, if the sample shows it."""

from __future__ import annotations

from dragstrip.process.ports import free_port
from dragstrip.scrutiny import Server, difference
from dragstrip.workload import Exchange

EXCHANGE = Exchange(
    path="/users/1",
    request=b"GET /users/1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    status=200,
    content_type="",
    body=b'{"id": 1, "at": 5}',
    compare="values",
    changing=("/at",),
)


def sample(body: str, length: int | None = None) -> str:
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(body) if length is None else length}\r\n\r\n{body}"


def test_a_whole_sample_is_compared_as_before_the_load() -> None:
    """By field, without another request: nothing listens here."""
    nowhere = Server("127.0.0.1", free_port())
    found = difference(nowhere, EXCHANGE, sample('{"id": 2, "at": 6}'))
    assert found == "/users/1 the field /id is 2 (number); expected 1 (number)"
    for unknown in (
        sample('{"id": 1, "at": 6}'),  # correct
        sample('{"id": 2, "at"', 18),  # its beginning
        sample('{"id": "\ufffd", "at": 6}'),  # not as it came
        "HTTP/1.1 200 OK\r\nContent-",
        "no complete response within 100 ms",
        "",
    ):
        assert difference(nowhere, EXCHANGE, unknown) == ""
