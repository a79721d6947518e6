"""Sessions of the load engine with its own reference server."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragstrip._engine import Engine  # old results are shown even if the engine can't be imported

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
CLOSING = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
BODY = b"hello world\n"


def connect(engine: Engine, port: int, connections: int, *, keepalive: bool = True) -> int:
    """Opens connections to a reference server; the session."""
    from dragstrip._engine import Exchange, SessionPlan, Target

    plan = SessionPlan(
        Target("127.0.0.1", port),
        [Exchange(REQUEST if keepalive else CLOSING, 200, BODY)],
        connections=connections,
        keepalive=keepalive,
        timeout_ns=5_000_000_000,
    )
    return engine.open(plan)
