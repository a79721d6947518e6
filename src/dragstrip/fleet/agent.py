"""What runs on each machine of a fleet: reads requests from its stdin, does them, answers on its stdout.

Started by ssh for the length of a race, as the user who logs in. It listens nowhere; only the observer beside a server
has a port, of the data address. That its stdin ends means that the other side is gone; so does silence: the other side
says something every few seconds, except while blocks of a race run, and then a generator's marks come. Then it ends all
that it has started, and itself. Should it be killed, its supervisors do that (``process.supervisor``).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pwd
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from dragstrip import machine
from dragstrip.errors import BadUsage, DragstripError
from dragstrip.fleet.generator_duties import GeneratorDuties
from dragstrip.fleet.holder import hold
from dragstrip.fleet.messages import (
    MOST_LINE_BYTES,
    PROTOCOL,
    Clock,
    Divided,
    Hello,
    Lost,
    MachineReply,
    Nothing,
    Reply,
    Usage,
)
from dragstrip.fleet.server_duties import ServerDuties
from dragstrip.store.json_values import encode
from dragstrip.version import __version__

#: The word on the command line by which an agent is known among processes.
WORDS = ("fleet", "agent")

#: Seconds of silence after which the other side is taken for gone.
SILENCE_S = 9.0
#: Seconds that the end may take before it is forced; supervisors then do what is left.
FORCED_S = 4.0
#: Requests at a time: as many contenders as are tried side by side, and some.
AT_ONCE = 40

#: Duties that show what they do while they do it.
SHOWING = ("load_run",)

#: The package's folder.
PACKAGE = Path(__file__).parents[1]


def sources() -> str:
    """A hash of the package's own files: two machines with the same one run the same code."""
    digest = hashlib.sha256()
    for file in sorted(PACKAGE.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts and not file.name.startswith("."):
            digest.update(f"{file.relative_to(PACKAGE)}\0{file.stat().st_size}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def hello() -> Hello:
    """Who this machine is; its numbers are told as hashes."""
    return Hello(
        protocol=PROTOCOL,
        version=__version__,
        sources=sources(),
        machine=_hash("/etc/machine-id") or _hash("/proc/sys/kernel/hostname"),
        boot=_hash("/proc/sys/kernel/random/boot_id"),
        user=_user(),
        cores=sorted(os.sched_getaffinity(0)),
    )


def _hash(file: str) -> str:
    with contextlib.suppress(OSError):
        return hashlib.sha256(Path(file).read_bytes().strip()).hexdigest()[:12]
    return ""


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


class Agent:
    """One agent: reads its stdin in the main thread, works in others."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)  # what else would write there must not be taken for an answer
        self._writing = threading.Lock()
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="agent")
        self._server, self._generator = ServerDuties(), GeneratorDuties()
        self._heard = time.monotonic()
        self._ending = ""
        self._duties: dict[str, Callable[..., Reply]] = {
            "hello": hello,
            "hold": _held,
            "beat": Nothing,
            "clock": lambda: Clock(now_ns=time.monotonic_ns()),
            "facts": lambda: MachineReply(facts=encode(machine.facts())),
            "usage": lambda: Usage(cpu_ns=time.process_time_ns(), now_ns=time.monotonic_ns()),
            "lanes": _lanes,
            **self._server.duties(),
            **self._generator.duties(),
        }

    def run(self) -> None:
        """Until the other side is gone; then nothing of it is left."""
        woken, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.set_wakeup_fd(wakes)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._told_to_end)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self._serve(woken)
        finally:
            forced = threading.Timer(FORCED_S, os._exit, (1,))
            forced.daemon = True
            forced.start()
            if self._ending:
                self._write(Lost(lost=self._ending).model_dump())
            self._generator.end()
            self._server.end()
            os._exit(0)  # whatever a thread still waits for ended with the servers

    def _told_to_end(self, number: int, _frame: object) -> None:
        self._ending = f"a signal ended it ({signal.Signals(number).name})"

    def _serve(self, woken: int) -> None:
        """Reads requests until there is a reason to end.

        Args:
            woken: a pipe into which each signal writes: a wait would go on after it otherwise.
        """
        poll = select.poll()
        poll.register(0, select.POLLIN)
        poll.register(woken, select.POLLIN)
        text = bytearray()
        while not self._ending:
            quiet_s = time.monotonic() - self._last_heard()
            if quiet_s > SILENCE_S:
                self._ending = f"it heard nothing for {quiet_s:.0f} s"
                return
            if 0 not in dict(poll.poll((SILENCE_S - quiet_s) * 1000 + 10)):
                continue
            piece = os.read(0, 1 << 16)
            if not piece or len(text) > MOST_LINE_BYTES:
                return
            self._heard = time.monotonic()
            text += piece
            while (at := text.find(b"\n")) >= 0:
                line = bytes(text[:at])
                del text[: at + 1]
                self._take(line)

    def _last_heard(self) -> float:
        """When the other side showed that it is there: by a line, by a mark, or by a run that it waits for."""
        if self._generator.silent:
            return time.monotonic()
        return max(self._heard, self._server.heard_s, self._generator.ended_s)

    def _take(self, line: bytes) -> None:
        asked = json.loads(line)
        self._pool.submit(self._do, asked["id"], asked["do"], asked["with"])

    def _do(self, number: int, what: str, values: Mapping[str, Any]) -> None:
        answer: dict[str, Any] = {"id": number}
        shows = {"show": lambda seen: self._write({"id": number, "shows": seen.model_dump()})}
        try:
            answer["gives"] = self._duties[what](**values, **(shows if what in SHOWING else {})).model_dump()
        except DragstripError as error:
            answer["refused"] = {"kind": type(error).__name__, "text": str(error)}
        except BaseException as error:  # a fault of ours here must be told there
            kind = getattr(error, "kind", None)
            name = f"engine:{kind}" if isinstance(kind, str) else type(error).__name__
            answer["refused"] = {"kind": name, "text": str(error)}
        self._write(answer)

    def _write(self, message: Mapping[str, Any]) -> None:
        line = json.dumps(message, default=str).encode() + b"\n"
        with self._writing, contextlib.suppress(OSError):
            view = memoryview(line)
            while view:
                view = view[self._out.write(view) :]


def _held(session: str, holder: str) -> Nothing:
    """This machine is held for a client."""
    hold(session, holder)
    return Nothing()


def _lanes(cores: str | None) -> Divided:
    """The machine's cores as a race would divide them; on a fleet's machine all physical ones are for one purpose."""
    usable = tuple(sorted(os.sched_getaffinity(0)))
    if cores is not None:
        given = machine.parse_cores(cores, option="cores")
        if not set(given) <= set(usable):
            raise BadUsage(
                f"cores = {cores!r}: it has the cores {machine.show_cores(usable)} for this user; give of these"
            )
        return Divided(server=list(given), engine=list(given))
    lanes = machine.lanes(None, None)
    alone = lanes.all if len(usable) > 1 else usable
    return Divided(server=list(alone), engine=list(alone[: machine.ENGINE_CORES_AT_MOST]))


def main() -> None:
    """Runs an agent until its stdin ends."""
    if sys.stdin is None:
        sys.exit("dragstrip fleet agent: is started by `dragstrip … --fleet`, which talks to it")
    Agent().run()
