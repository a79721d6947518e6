"""A contender proves its answers: in order, twice in a row, shuffled, over keep-alive and with a connection each."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable, Sequence
from http.client import HTTPException

from dragstrip.scrutiny.answers import Answer, Findings, connect, fault, fetch
from dragstrip.workload import Exchange


def scrutineer(host: str, port: int, *, keepalive: Sequence[Exchange], closing: Sequence[Exchange]) -> Findings:
    """Puts every exchange to a running contender, over keep-alive and with ``Connection: close``.

    Keep-alive exchanges go in order, twice each, and then in an order that no server can know (an answer must not
    depend on what came before); the closing ones take a connection each. The first fault of each way is reported.

    Args:
        keepalive: exchanges whose requests leave the connection open.
        closing: the same exchanges with ``Connection: close``.
    """
    problems: list[str] = []
    answers: list[Answer] = []
    reused = opened = 0
    doubled = [exchange for exchange in keepalive for _ in range(2)]
    shuffled = random.SystemRandom().sample(keepalive, k=len(keepalive))
    for way, sequence in (("in order", doubled), ("in another order", shuffled)):
        try:
            seen, connections = _over_one_connection(host, port, sequence)
        except (OSError, HTTPException, _WrongAnswerError) as error:
            problems.append(f"over keep-alive, {way}: {_words(error)}")
            continue
        answers += seen
        opened += connections
        reused += len(seen) - connections
    try:
        last = _one_connection_each(host, port, closing)
    except (OSError, HTTPException, _WrongAnswerError) as error:
        problems.append(f"with Connection: close: {_words(error)}")
        last = None
    facts = _facts(answers, last, reused, opened) if answers and last else {}
    return Findings(problems=tuple(problems), facts=facts)


class _WrongAnswerError(Exception):
    """Carries a fault's words out of the loops above."""


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, _WrongAnswerError) else f"{type(error).__name__}: {error}"


def _over_one_connection(host: str, port: int, exchanges: Iterable[Exchange]) -> tuple[list[Answer], int]:
    answers: list[Answer] = []
    connections = 0
    sock: socket.socket | None = None
    try:
        for exchange in exchanges:
            if sock is None:
                sock = connect(host, port)
                connections += 1
            answer = _right_answer(sock, exchange)
            answers.append(answer)
            if answer.closes:
                sock.close()
                sock = None
    finally:
        if sock is not None:
            sock.close()
    return answers, connections


def _one_connection_each(host: str, port: int, exchanges: Iterable[Exchange]) -> Answer | None:
    answer = None
    for exchange in exchanges:
        with connect(host, port) as sock:
            answer = _right_answer(sock, exchange)
            if sock.recv(1):  # the server must close, and must send nothing after its answer
                raise _WrongAnswerError(f"{exchange.path}: bytes follow the complete answer")
    return answer


def _right_answer(sock: socket.socket, exchange: Exchange) -> Answer:
    answer = fetch(sock, exchange)
    reason = fault(exchange, answer)
    if reason:
        raise _WrongAnswerError(reason)
    return answer


def _facts(answers: Sequence[Answer], closing: Answer, reused: int, opened: int) -> dict[str, str]:
    first = answers[0]
    heads = sorted({answer.head_bytes for answer in answers})
    bodies = sorted({len(answer.body) for answer in answers})
    names = ", ".join(name for name, _ in first.headers)
    return {
        "HTTP version": first.version,
        "header bytes": _span(heads),
        "body bytes": _span(bodies),
        "body framing": _framing(first),
        "headers": names,
        "Server header": first.header("server") or "none",
        "Date header": "yes" if first.header("date") else "no",
        "content type": first.header("content-type") or "none",
        "keep-alive on the wire": f"{reused} of {len(answers)} answers on a reused connection, {opened} opened",
        "Connection: close": "honoured" if closing.closes else "closes without saying so",
    }


def _span(values: Sequence[int]) -> str:
    return str(values[0]) if values[0] == values[-1] else f"{values[0]}–{values[-1]}"


def _framing(answer: Answer) -> str:
    if (answer.header("transfer-encoding") or "").lower() == "chunked":
        return "chunked"
    return "Content-Length" if answer.header("content-length") is not None else "until close"
