"""Holds a machine of a fleet for one client at a time, because two would disturb each other's measurements.

The agent that holds a machine listens on an abstract unix socket. The name belongs to the machine's network namespace,
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
#: Seconds between two tries, and seconds within which the holder must send its words.
AGAIN_S, ANSWER_S = 0.2, 2.0
#: The longest words of a holder.
_MAX_BYTES = 4096

#: Identifies this process among the clients of a fleet.
SESSION = secrets.token_hex(16)


def this_client() -> str:
    """This client's user, machine and process, in words for the next client that wants the machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.geteuid())
    return f"{user} on {socket.gethostname()} (process {os.getpid()})"


def hold(session: str, holder: str) -> None:
    """Holds this machine for a client, until this process ends; several agents of one client hold it together.

    Raises:
        BadUsage: another client has it; the message has its words, and since when.
    """
    words = {"session": session, "holder": holder, "since": datetime.now(UTC).isoformat(timespec="seconds")}
    taken = _bound()
    current = _holder() if taken is None else words
    if current.get("session") != session:
        client = current.get("holder", "another client")
        since = f" since {current['since']}" if "since" in current else ""
        raise BadUsage(
            f"it is in use by {client}{since}; wait until that run ends, or stop it with `dragstrip fleet down FILE`"
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
    """The words of the current holder; empty if it is gone, or if they are not valid."""
    with contextlib.suppress(OSError, ValueError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(ANSWER_S)
        asking.connect(_NAME)
        words = json.loads(asking.recv(_MAX_BYTES))
        if isinstance(words, dict):
            return {str(key): "".join(filter(str.isprintable, str(value)))[:200] for key, value in words.items()}
    return {}


def _answer(taken: socket.socket | None, words: bytes) -> None:
    """Sends the holder's words to anyone who connects; first waits while another agent of the same client holds it."""
    while taken is None:
        time.sleep(AGAIN_S)
        taken = _bound()
    while True:
        with contextlib.suppress(OSError):
            asking, _ = taken.accept()
            with asking:
                asking.settimeout(ANSWER_S)
                asking.sendall(words)
