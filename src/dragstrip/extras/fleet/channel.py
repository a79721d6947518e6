"""The client's end of one agent: a process (ssh, or a child of ours) with JSON lines on its stdin and stdout.

``{"id": 3, "do": "launch", "with": {…}}`` → ``{"id": 3, "gives": {…}}`` or
``{"id": 3, "refused": {"kind": "StageError", "text": "…"}}``. Several calls may run at once. Some show their progress
before they end: ``{"id": 3, "shows": {…}}``. An agent that ends sends the reason: ``{"lost": "…"}``.

An agent is lost if its pipe closes, if it stays silent, or if it sends an invalid message. Every waiting call then
fails with the reason, and later messages from the agent are ignored.
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
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from pydantic import BaseModel, ValidationError

from dragstrip import errors
from dragstrip.errors import DragstripError, MachineLost
from dragstrip.extras.fleet.definition import Fleet, Machine
from dragstrip.extras.fleet.duties import Duties
from dragstrip.extras.fleet.wire import MAX_LINE_BYTES, bind, encode_call, shapes

_Arguments = ParamSpec("_Arguments")
_Reply = TypeVar("_Reply")

#: Seconds that a reply may take by default: an agent that waits for nothing else takes tens of milliseconds.
USUAL_S = 20.0
#: Seconds that the process gets to end once its stdin is closed.
END_S = 8.0
#: Exit statuses of a shell that does not find a command, or may not run it.
NO_COMMAND = (126, 127)
#: Seconds to wait for the last words of a process that is gone: its child may hold its stderr for longer.
LAST_WORDS_S = 5.0
#: Lines of ssh's own output that are kept for a message.
_WORDS = 6

#: Errors that an agent may pass on, by their name; any other is a fault of the agent's machine.
_PASSED_ON: Mapping[str, type[DragstripError]] = {
    name: getattr(errors, name)
    for name in ("BadUsage", "NotReady", "StageError", "PortTaken", "EngineFailure", "DragstripError")
}


class EngineRefusal(DragstripError):
    """An engine on another machine refused a call.

    Args:
        kind: as ``EngineError.kind``.
    """

    exit_code = 3

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def words_to_reach(machine: Machine, fleet: Fleet, arguments: Sequence[str]) -> list[str]:
    """The command that runs Dragstrip with these arguments on a machine: by ssh, by ``via``, or as a child process."""
    if not machine.ssh:
        return [*machine.via, *machine.command, *arguments]
    return _over_ssh(machine, fleet, " ".join(_quoted(word) for word in (*machine.command, *arguments)))


def words_for_shell(machine: Machine, fleet: Fleet, script: str) -> list[str]:
    """The command that runs a script in that machine's ``sh``."""
    if not machine.ssh:
        return [*machine.via, "sh", "-c", script]
    return _over_ssh(machine, fleet, f"sh -c {shlex.quote(script)}")


def _over_ssh(machine: Machine, fleet: Fleet, remote: str) -> list[str]:
    """Runs ssh without a terminal, a password prompt or a shared connection, so it does not depend on other sessions.

    Its own keep-alive is off, because it would send in the middle of a block. The client's beats take its place.
    """
    settings = ("BatchMode=yes", "ControlMaster=no", "ControlPath=none", "ConnectTimeout=10", "ServerAliveInterval=0")
    options = [part for setting in settings for part in ("-o", setting)]
    return ["ssh", "-T", *fleet.ssh_options, *options, "--", machine.ssh, remote]


def _quoted(word: str) -> str:
    """A word quoted for the remote shell; ``~/`` at its beginning still means the user's home there."""
    return f"~/{shlex.quote(word[2:])}" if word.startswith("~/") else shlex.quote(word)


class Channel:
    """One agent; safe from several threads. ``exit_status`` is set once its process has ended by itself."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        self.lost: MachineLost | None = None
        self.exit_status: int | None = None
        self._numbers = itertools.count(1)
        self._calls: dict[int, _Call] = {}
        self._lock = threading.Lock()
        self._words: deque[str] = deque(maxlen=_WORDS)
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            raise MachineLost(name, f"{command[0]} can't be run ({error.strerror})") from error
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._read, self._listen)]
        for thread in reversed(self._threads):  # the thread that reads replies joins the thread that listens
            thread.start()

    def ask(
        self,
        duty: Callable[Concatenate[Any, _Arguments], _Reply],
        *values: _Arguments.args,
        **named: _Arguments.kwargs,
    ) -> _Reply:
        """Has the agent do one of its duties, like ``Duties.clock``, and waits the usual time for its result.

        Raises:
            MachineLost: no reply, or no valid reply. Any refusal that the agent passed on.
        """
        return self.begin(duty, *values, **named)(USUAL_S)

    def begin(
        self,
        duty: Callable[Concatenate[Any, _Arguments], _Reply],
        *values: _Arguments.args,
        **named: _Arguments.kwargs,
    ) -> Callable[[float], _Reply]:
        """Does the same in two steps: the returned function waits this many seconds for the reply.

        An argument named ``show`` is not sent: it is called, in another thread, with each value that the agent shows.
        """
        arguments, number = bind(duty, *values, **named), next(self._numbers)
        call = _Call(duty, arguments.get("show"))
        line = encode_call(number, duty, arguments)
        with self._lock:
            if self.lost is not None:
                raise self.lost
            self._calls[number] = call
            try:
                assert self._process.stdin is not None
                self._process.stdin.write(line)
                self._process.stdin.flush()
            except (OSError, ValueError):
                pass  # the thread that reads replies notices that the agent is gone

        def reply(within_s: float) -> _Reply:
            # After an interruption (Ctrl-C) the caller may wait again.
            try:
                result: _Reply = call.reply.result(within_s)
            except TimeoutError:
                self.lose(f"its agent did not answer ({duty.__name__}) within {within_s:.0f} s")
                result = call.reply.result()
            return result

        return reply

    def lose(self, why: str) -> None:
        """Gives the agent up: waiting calls fail with the reason, and its process is ended."""
        with self._lock:
            if self.lost is None:
                self.lost = MachineLost(self.name, why)
            for call in self._calls.values():
                call.reply.set_exception(self.lost)
            self._calls.clear()
        with contextlib.suppress(OSError):
            self._process.kill()

    def close(self) -> None:
        """Closes the agent's stdin, whereupon it ends everything that it has started, and waits for its end."""
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

    def _read(self) -> None:
        """Handles the agent's messages until the pipe ends, or until a message is not valid."""
        pipe = self._process.stdout
        assert pipe is not None
        while (line := pipe.readline(MAX_LINE_BYTES + 1)).endswith(b"\n"):
            if why := self._deliver(line):
                self.lose(why)
                return
        if len(line) > MAX_LINE_BYTES:
            self.lose(f"its agent sent a line of over {MAX_LINE_BYTES:,} bytes")
            return
        self.exit_status = self._process.wait()
        self._threads[1].join(LAST_WORDS_S)
        words = f": {'; '.join(self._words)}" if self._words else ""
        self.lose(f"its agent is gone (exit status {self.exit_status}){words}")

    def _deliver(self, line: bytes) -> str:
        """Passes a message on to the call that waits for it; returns what is wrong with the message, else ""."""
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
        number = message.get("id")
        with self._lock:
            call = self._calls.get(number) if isinstance(number, int) else None
        if call is None:
            return ""  # no call waits for it any more
        name, expected = call.duty.__name__, shapes(call.duty)
        try:
            if "shows" in message:
                if expected.shown is not None and call.show is not None:
                    call.show(expected.shown.model_validate_json(line).shows)
                return ""
            if message.get("refused") is not None:
                refusal = self._refusal(name, _Refusal.model_validate(message["refused"]))
                settle = partial(call.reply.set_exception, refusal)
            else:
                settle = partial(call.reply.set_result, expected.reply.model_validate_json(line).gives)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"][1:]) or "the whole"
            return f"its agent sent an invalid message ({name}): {place}: {first['msg']}"
        with self._lock:
            if self._calls.pop(message["id"], None) is not None:
                settle()
        return ""

    def _refusal(self, duty: str, refusal: _Refusal) -> DragstripError:
        kind, text = refusal.kind, refusal.text[:20_000]
        if kind.startswith("engine:"):
            return EngineRefusal(kind.removeprefix("engine:"), f"{self.name}: {text}")
        if kind in _PASSED_ON:
            return _PASSED_ON[kind](text)
        return MachineLost(self.name, f"its agent failed ({duty}): {kind}: {text}")

    def _listen(self) -> None:
        """Keeps the last words of ssh, or of an agent that could not start."""
        pipe = self._process.stderr
        assert pipe is not None
        while line := pipe.readline(4096):
            if text := line.decode("utf-8", "replace").strip():
                self._words.append(text[:300])


class _Refusal(BaseModel):
    """Why an agent did not do a duty: an error's kind and text."""

    kind: str
    text: str


@dataclass
class _Call:
    """A call that waits for an agent's reply, and for its progress before that."""

    duty: Callable[..., Any]
    show: Callable[[Any], None] | None
    reply: Future[Any] = field(default_factory=Future)


class ControlClock:
    """How far a machine's CLOCK_MONOTONIC is ahead of the client's, by exchanges over its channel."""

    EXCHANGES = 8

    def __init__(self, channel: Channel) -> None:
        best: tuple[int, int] | None = None
        for _ in range(self.EXCHANGES):
            sent = time.monotonic_ns()
            agent_ns = channel.ask(Duties.clock).now_ns
            received = time.monotonic_ns()
            if best is None or received - sent < best[0]:
                best = received - sent, agent_ns - (sent + received) // 2
        assert best is not None
        self.round_trip_ns, self.offset_ns = best
