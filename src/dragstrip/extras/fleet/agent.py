"""The agent on each machine of a fleet: reads calls from its stdin, does them, and replies on its stdout.

Ssh starts it for the length of a race, as the user who logs in. It listens on no port; only the servers' machine has an
observer, at its data address. If its stdin ends, or after some seconds of silence, it takes the client for gone, ends
everything that it has started, and itself. The client sends something every few seconds, except while blocks of a race
run; then the generators' marks arrive. If the agent is killed, its supervisors end the rest (``process.supervisor``).
"""

# House: an edge: JSON of wires.
from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dragstrip.extras.fleet.definition import SERVER
from dragstrip.extras.fleet.duties import Duties
from dragstrip.extras.fleet.generator_duties import GeneratorDuties
from dragstrip.extras.fleet.server_duties import ServerDuties
from dragstrip.extras.fleet.wire import MAX_LINE_BYTES, decode_arguments, shapes

#: The words on the command line that identify an agent's process.
WORDS = ("fleet", "agent")

#: Seconds of silence after which the agent takes the client for gone.
SILENCE_S = 9.0
#: Seconds that the agent may take to end before it is forced to; supervisors then do the rest.
FORCED_S = 4.0
#: Calls at a time: as many as contenders that are checked side by side, and some more.
AT_ONCE = 40


class Agent:
    """One agent of a machine in this role: reads its stdin in the main thread, works in others."""

    def __init__(self, role: str) -> None:
        self._out = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)  # other output must not be taken for a reply
        self._writing = threading.Lock()
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="agent")
        self._duties: Duties[Any] = ServerDuties() if role == SERVER else GeneratorDuties()
        self._heard = time.monotonic()
        self._ending = ""

    def run(self) -> None:
        """Serves the client until it is gone, then ends everything that was started for it."""
        woken, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.set_wakeup_fd(wakes)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._end_by_signal)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self._serve(woken)
        finally:
            forced = threading.Timer(FORCED_S, os._exit, (1,))
            forced.daemon = True
            forced.start()
            if self._ending:
                self._write(json.dumps({"lost": self._ending}))
            self._duties.close()
            os._exit(0)  # threads may still wait for something that ended with the servers

    def _end_by_signal(self, number: int, _frame: object) -> None:
        self._ending = f"a signal ended it ({signal.Signals(number).name})"

    def _serve(self, woken: int) -> None:
        """Reads calls until there is a reason to end.

        Args:
            woken: a pipe into which each signal writes, so that the wait for calls ends.
        """
        poll = select.poll()
        poll.register(0, select.POLLIN)
        poll.register(woken, select.POLLIN)
        text = bytearray()
        while not self._ending:
            # The last sign of the client is a line, a mark, or a run that the client waits for.
            quiet_s = time.monotonic() - max(self._heard, self._duties.last_sign_s())
            if quiet_s > SILENCE_S:
                self._ending = f"it heard nothing for {quiet_s:.0f} s"
                return
            if 0 not in dict(poll.poll((SILENCE_S - quiet_s) * 1000 + 10)):
                continue
            piece = os.read(0, 1 << 16)
            if not piece or len(text) > MAX_LINE_BYTES:
                return
            self._heard = time.monotonic()
            text += piece
            while (end := text.find(b"\n")) >= 0:
                call = json.loads(text[:end])
                del text[: end + 1]
                self._pool.submit(self._do, call["id"], call["do"], call["shown"], call["with"])

    def _do(self, number: int, name: str, shown: bool, values: Mapping[str, Any]) -> None:
        try:
            duty = getattr(self._duties, name)
            arguments, message = decode_arguments(duty, values), shapes(duty).shown
            if message is not None:
                show = lambda value: self._write(message(id=number, shows=value).model_dump_json())  # noqa: E731
                arguments["show"] = show if shown else None
            line = shapes(duty).reply(id=number, gives=duty(**arguments)).model_dump_json()
        except BaseException as error:  # the client must see any fault of the agent
            kind = getattr(error, "kind", None)
            name = f"engine:{kind}" if isinstance(kind, str) else type(error).__name__
            line = json.dumps({"id": number, "refused": {"kind": name, "text": str(error)}})
        self._write(line)

    def _write(self, line: str) -> None:
        with self._writing, contextlib.suppress(OSError):
            view = memoryview(line.encode() + b"\n")
            while view:
                view = view[self._out.write(view) :]


def main(role: str) -> None:
    """Runs an agent until its stdin ends."""
    if sys.stdin is None:
        sys.exit("dragstrip fleet agent: is started by commands with --fleet, which talk to it")
    Agent(role).run()
