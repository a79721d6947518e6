"""The form that a contender gives its JSON: learned at each launch, for the engine to hold its answers to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dragstrip.scrutiny.answers import connect, fault, fetch
from dragstrip.scrutiny.correctness import changed_form
from dragstrip.scrutiny.encryption import Encryption
from dragstrip.scrutiny.reader import AnswerError
from dragstrip.workload import Exchange


def with_own_form(
    host: str, port: int, exchanges: Sequence[Exchange], tls: Encryption | None = None
) -> tuple[Exchange, ...]:
    """The same exchanges, those that are compared as JSON with the contender's own bytes as the right ones.

    Each is asked twice, over a connection each time; both answers must be right, and the same.

    Raises:
        OSError, AnswerError: one is not, in words.
    """
    return tuple(_learned(host, port, one, tls) if one.compare == "json" else one for one in exchanges)


def _learned(host: str, port: int, exchange: Exchange, tls: Encryption | None) -> Exchange:
    bodies = []
    for _ in range(2):
        with connect(host, port, tls=tls) as sock:
            answer = fetch(sock, exchange)
        if reason := fault(exchange, answer):
            raise AnswerError(reason)
        bodies.append(answer.body)
    if reason := changed_form(exchange, *bodies):
        raise AnswerError(reason)
    return replace(exchange, body=bodies[0], compare="bytes")
