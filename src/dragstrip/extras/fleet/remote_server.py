"""A contender that is up on the servers' machine, as a ``process.running.Running``."""

from __future__ import annotations

import contextlib

from dragstrip.errors import MachineLost
from dragstrip.extras.fleet.channel import Channel
from dragstrip.extras.fleet.messages import ServerStarted, ServerState
from dragstrip.extras.fleet.server_duties import ServerDuties
from dragstrip.process.launcher import LOST_S
from dragstrip.process.running import GRACE_S, Running, ServerEnd


class RemoteServer(Running):
    """One launch on another machine. If the machine is lost, the launch has ended: its agent stops all servers."""

    def __init__(self, channel: Channel, started: ServerStarted) -> None:
        super().__init__(started.host, started.port, started.ready_ns, started.cpu_source, started.note)
        self._channel, self.number, self.cacert = channel, started.number, started.cacert
        self._ended: ServerEnd | None = None

    def thread_cpu_ns(self) -> dict[str, int]:
        return self._channel.ask(ServerDuties.thread_cpu_ns, self.number)

    def users(self) -> tuple[str, ...]:
        return self._look().users

    def outside(self) -> tuple[str, ...]:
        return self._look().outside

    def alive(self) -> bool:
        return self._ended is None and self._look().alive

    def counts(self) -> tuple[int, int]:
        look = self._look()
        return look.processes, look.threads

    def log_tail(self, lines: int = 20) -> str:
        with contextlib.suppress(MachineLost):
            text = self._ended.log_tail if self._ended else self._look().log_tail
            return "\n".join(text.splitlines()[-lines:])
        return ""

    def resident_bytes(self) -> int:
        return self._look().resident_bytes

    def freeze(self) -> None:
        self._channel.ask(ServerDuties.freeze, self.number)

    def thaw(self) -> None:
        self._channel.ask(ServerDuties.thaw, self.number)

    def watch(self) -> None:
        """Has the observer read the server's CPU time."""
        self._channel.ask(ServerDuties.watch, self.number)

    def begin_stop(self, *, grace_s: float = GRACE_S) -> None:
        if self._ended is None:
            with contextlib.suppress(MachineLost):
                self._channel.ask(ServerDuties.begin_stop, self.number, grace_s)

    def stop(self, *, grace_s: float = GRACE_S) -> ServerEnd:
        """Ends all of its processes; a second call returns the same result."""
        if self._ended is None:
            try:
                self._ended = self._channel.begin(ServerDuties.stop, self.number, grace_s)(grace_s + LOST_S)
            except MachineLost as lost:
                how = f"its machine was lost ({lost.why})"
                self._ended = ServerEnd(exit_status=None, died=False, how=how, log_tail="")
        return self._ended

    def _look(self) -> ServerState:
        return self._channel.ask(ServerDuties.look, self.number)
