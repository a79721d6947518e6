"""This side's end of one agent: a process (ssh, or a child of ours) that talks JSON lines over its stdin and stdout.

``{"id": 3, "do": "launch", "with": {…}}`` → ``{"id": 3, "gives": {…}}`` or
``{"id": 3, "refused": {"kind": "StageError", "text": "…"}}``. Several calls may run at once. Some show how far they
are before they end: ``{"id": 3, "shows": {…}}``. An agent that ends says why, unasked: ``{"lost": "…"}``.

An agent is lost if its pipe closes, if it stays silent, or if it sends an invalid reply. Every waiting call then fails
with the reason, and later messages from the agent are ignored.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shlex
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec, TypeVar

from pydantic import BaseModel, ValidationError

from dragstrip import errors
from dragstrip.errors import DragstripError, MachineLost
from dragstrip.fleet.definition import Fleet, Machine
from dragstrip.fleet.duties import Duties
from dragstrip.fleet.wire import MAX_LINE_BYTES, bind, encode_call, shapes

_Arguments = ParamSpec("_Arguments")
_Reply = TypeVar("_Reply")

#: Seconds that an answer may take where nothing is said: what an agent does by itself takes tens of milliseconds.
USUAL_S = 20.0
#: Seconds that the process gets to end once its stdin is closed.
END_S = 8.0
#: How a shell ends that finds no such command, or may not run it.
NO_COMMAND = (126, 127)
#: Seconds in which the last words of a process that is gone come: a child of its own may hold its stderr for longer.
LAST_WORDS_S = 5.0
#: Lines of ssh's own words that are kept for a message.
_WORDS = 6

#: Refusals that an agent may pass on, by their name; any other is a fault of the agent's machine.
_PASSED_ON: Mapping[str, type[DragstripError]] = {
    name: getattr(errors, name)
    for name in ("BadUsage", "NotReady", "StageError", "PortTaken", "EngineFailure", "DragstripError")
}


class EngineRefusal(DragstripError):
    """An engine elsewhere refused what was asked.

    Args:
        kind: as ``EngineError.kind``.
    """

    exit_code = 3

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def words_to_reach(machine: Machine, fleet: Fleet, arguments: Sequence[str]) -> list[str]:
    """The command that runs Dragstrip with these arguments on a machine: over ssh, by what its file says, or here."""
    if not machine.ssh:
        return [*machine.via, *machine.command, *arguments]
    return _over_ssh(machine, fleet, " ".join(_quoted(word) for word in (*machine.command, *arguments)))


def words_for_shell(machine: Machine, fleet: Fleet, script: str) -> list[str]:
    """The same for a script of that machine's ``sh``."""
    if not machine.ssh:
        return [*machine.via, "sh", "-c", script]
    return _over_ssh(machine, fleet, f"sh -c {shlex.quote(script)}")


def _over_ssh(machine: Machine, fleet: Fleet, remote: str) -> list[str]:
    """ssh is asked for no terminal, no password and no shared connection: it must not depend on other sessions.

    Its own keep-alive is off: it would send in the middle of a block. The agent's beats take its place.
    """
    settings = ("BatchMode=yes", "ControlMaster=no", "ControlPath=none", "ConnectTimeout=10", "ServerAliveInterval=0")
    options = [part for setting in settings for part in ("-o", setting)]
    return ["ssh", "-T", *fleet.ssh_options, *options, "--", machine.ssh, remote]


def _quoted(word: str) -> str:
    """A word as the remote shell leaves it; ``~/`` at its begin is still the user's home there."""
    return f"~/{shlex.quote(word[2:])}" if word.startswith("~/") else shlex.quote(word)


class Channel:
    """One agent; safe from several threads. Leaving the ``with`` ends it.

    ``exit_status`` is that of the process, once it is gone by itself.
    """

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        self.lost: MachineLost | None = None
        self.exit_status: int | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[int, _Waiting] = {}
        self._lock = threading.Lock()
        self._words: deque[str] = deque(maxlen=_WORDS)
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            raise MachineLost(name, f"{command[0]} can't be run ({error.strerror})") from error
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._read, self._listen)]
        for thread in reversed(self._threads):  # who reads the answers waits for who listens to the last words
            thread.start()

    def ask(
        self,
        duty: Callable[Concatenate[Any, _Arguments], _Reply],
        *values: _Arguments.args,
        **named: _Arguments.kwargs,
    ) -> _Reply:
        """Has the agent do one of its duties, like ``Duties.clock``, and waits the usual time for what it returns.

        Raises:
            MachineLost: no reply, or none that fits. Any refusal that the agent passed on.
        """
        return self.begin(duty, *values, **named)(USUAL_S)

    def begin(
        self,
        duty: Callable[Concatenate[Any, _Arguments], _Reply],
        *values: _Arguments.args,
        **named: _Arguments.kwargs,
    ) -> Callable[[float], _Reply]:
        """The same in two steps: what comes back waits this many seconds for the reply.

        An argument named ``show`` stays here: it is called, in another thread, with each thing that the agent shows.
        """
        arguments, number = bind(duty, *values, **named), next(self._numbers)
        waiting = _Waiting(shapes(duty).shown, arguments.get("show"))
        line = encode_call(number, duty, arguments)
        with self._lock:
            if self.lost is not None:
                raise self.lost
            self._waiting[number] = waiting
            try:
                assert self._process.stdin is not None
                self._process.stdin.write(line)
                self._process.stdin.flush()
            except (OSError, ValueError):
                pass  # its end is seen by whoever reads

        def answer(within_s: float) -> _Reply:
            # Who is interrupted here (Ctrl-C) may wait again.
            if not waiting.there.wait(within_s):
                self.lose(f"its agent did not answer ({duty.__name__}) within {within_s:.0f} s")
            with self._lock:
                self._waiting.pop(number, None)
            if waiting.line is None:
                raise self.lost or MachineLost(self.name, "its agent is gone")
            reply: _Reply = self._reply(duty, waiting)
            return reply

        return answer

    def lose(self, why: str) -> None:
        """Gives the agent up: waiting calls fail with the reason, and its process is ended."""
        with self._lock:
            if self.lost is None:
                self.lost = MachineLost(self.name, why)
            for waiting in self._waiting.values():
                waiting.there.set()
        with contextlib.suppress(OSError):
            self._process.kill()

    def close(self) -> None:
        """Closes its stdin, upon which the agent ends whatever it has started, and waits for it."""
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for thread in self._threads:
            thread.join(1.0)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError, ValueError):
                    pipe.close()

    def _reply(self, duty: Callable[..., Any], waiting: _Waiting) -> Any:
        if waiting.refused is not None:
            raise self._refusal(duty.__name__, waiting.refused)
        try:
            return shapes(duty).reply.model_validate_json(waiting.line or b"").gives  # type: ignore[attr-defined]
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            at = ".".join(str(part) for part in first["loc"][1:]) or "the whole"
            why = f"its agent's answer ({duty.__name__}) is none of ours: {at}: {first['msg']}"
            self.lose(why)
            raise MachineLost(self.name, why) from error

    def _refusal(self, what: str, refused: object) -> DragstripError:
        if isinstance(refused, dict) and all(isinstance(refused.get(key), str) for key in ("kind", "text")):
            kind, text = refused["kind"], f"{refused['text'][:20_000]}"
            if kind.startswith("engine:"):
                return EngineRefusal(kind.removeprefix("engine:"), f"{self.name}: {text}")
            if kind in _PASSED_ON:
                return _PASSED_ON[kind](text)
            return MachineLost(self.name, f"its agent failed ({what}): {kind}: {text}")
        why = f"its agent's refusal ({what}) is none of ours"
        self.lose(why)
        return MachineLost(self.name, why)

    def _read(self) -> None:
        """Takes in answers until the pipe ends."""
        pipe = self._process.stdout
        assert pipe is not None
        why = ""
        while not why:
            line = pipe.readline(MAX_LINE_BYTES + 1)
            if not line.endswith(b"\n"):
                why = f"its agent sent a line of over {MAX_LINE_BYTES:,} bytes" if len(line) > MAX_LINE_BYTES else "-"
                break
            why = self._deliver(line)
        if why == "-":
            code = self.exit_status = self._process.wait()
            self._threads[1].join(LAST_WORDS_S)
            said = "; ".join(self._words)
            why = f"its agent is gone (exit status {code}){f': {said}' if said else ''}"
        self.lose(why)

    def _deliver(self, line: bytes) -> str:
        """Gives an answer to who waits for it; what is wrong with it, "" for nothing."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return (
                f"its agent sent invalid JSON: {line[:60]!r}; if the login shell prints this, let it do so on "
                "terminals only"
            )
        if not isinstance(message, dict) or not ({"gives", "refused", "lost", "shows"} & message.keys()):
            return f"its agent sent an unknown message: {line[:60]!r}"
        if isinstance(message.get("lost"), str):
            return f"its agent ended: {message['lost'][:2000]}"
        with self._lock:
            number = message.get("id")
            waiting = self._waiting.get(number) if isinstance(number, int) else None
            if waiting is not None and "shows" not in message:
                waiting.line, waiting.refused = line, message.get("refused")
                waiting.there.set()
        if waiting is not None and waiting.shown is not None and waiting.show is not None and "shows" in message:
            try:
                waiting.show(waiting.shown.model_validate_json(line).shows)  # type: ignore[attr-defined]
            except ValidationError as error:
                return f"what its agent shows is none of ours: {error.errors(include_url=False)[0]['msg']}"
        return ""  # or no call waits for it any more

    def _listen(self) -> None:
        """Keeps the last words of ssh, or of an agent that could not begin."""
        pipe = self._process.stderr
        assert pipe is not None
        while line := pipe.readline(4096):
            if text := line.decode("utf-8", "replace").strip():
                self._words.append(text[:300])


@dataclass
class _Waiting:
    """A call that waits for an agent's reply, and for its progress before that."""

    shown: type[BaseModel] | None
    show: Callable[[Any], None] | None
    there: threading.Event = field(default_factory=threading.Event)
    line: bytes | None = None
    refused: object = None


class ControlClock:
    """How far a machine's CLOCK_MONOTONIC is ahead of ours, by exchanges over its channel."""

    EXCHANGES = 8

    def __init__(self, channel: Channel) -> None:
        best: tuple[int, int] | None = None
        for _ in range(self.EXCHANGES):
            sent = time.monotonic_ns()
            there = channel.ask(Duties.clock).now_ns
            came = time.monotonic_ns()
            if best is None or came - sent < best[0]:
                best = came - sent, there - (sent + came) // 2
        assert best is not None
        self.round_trip_ns, self.offset_ns = best
