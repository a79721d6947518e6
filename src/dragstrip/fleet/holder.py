"""Who uses a machine of a fleet now: one client at a time, since two would measure each other.

The agent that holds a machine listens on an abstract unix socket: the name belongs to the machine's network namespace,
and is free as soon as the agent is gone, however it ended.
"""

from __future__ import annotations

import contextlib
import errno
import getpass
import json
import os
import secrets
import socket
import threading
import time
from datetime import UTC, datetime

from dragstrip.errors import BadUsage

_NAME = "\0dragstrip-fleet"
#: Seconds between two tries, and within which the holder says who it is.
AGAIN_S, ANSWER_S = 0.2, 2.0
#: No holder says more than this.
_MAX_BYTES = 4096

#: This process among the clients of a fleet.
SESSION = secrets.token_hex(16)


def this_client() -> str:
    """Who asks for a machine, in words for whoever asks after that."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.geteuid())
    return f"{user} on {socket.gethostname()} (process {os.getpid()})"


def hold(session: str, holder: str) -> None:
    """Holds this machine for a client, until this process ends; several agents of one client hold it together.

    Raises:
        BadUsage: another client has it; says who, and since when.
    """
    words = {"session": session, "holder": holder, "since": datetime.now(UTC).isoformat(timespec="seconds")}
    taken = _bound()
    there = _holder() if taken is None else words
    if there.get("session") != session:
        who = there.get("holder", "another client")
        since = f" since {there['since']}" if "since" in there else ""
        raise BadUsage(
            f"it is in use by {who}{since}; wait until that run ends, or stop it with `dragstrip fleet down FILE`"
        )
    threading.Thread(target=_answer, args=(taken, json.dumps(words).encode()), name="holder", daemon=True).start()


def _bound() -> socket.socket | None:
    """The socket that holds the machine; None if another process has it."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.bind(_NAME)
        made.listen()
    except OSError as error:
        made.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise
    return made


def _holder() -> dict[str, str]:
    """What the holder says of itself; empty if it is gone or says something else."""
    with contextlib.suppress(OSError, ValueError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(ANSWER_S)
        asking.connect(_NAME)
        said = json.loads(asking.recv(_MAX_BYTES))
        if isinstance(said, dict):
            return {str(key): "".join(filter(str.isprintable, str(value)))[:200] for key, value in said.items()}
    return {}


def _answer(taken: socket.socket | None, words: bytes) -> None:
    """Tells who asks; waits for the machine first while another agent of the same client has it."""
    while taken is None:
        time.sleep(AGAIN_S)
        taken = _bound()
    while True:
        with contextlib.suppress(OSError):
            asking, _ = taken.accept()
            with asking:
                asking.settimeout(ANSWER_S)
                asking.sendall(words)
