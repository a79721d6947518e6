"""A contender that is up on the servers' machine, as ``racing`` asks for it (``process.running.Running``)."""

from __future__ import annotations

import contextlib

from dragstrip.errors import MachineLost
from dragstrip.fleet.channel import Channel
from dragstrip.fleet.messages import Look, Nothing, Over, ThreadTimes, Up
from dragstrip.process.launcher import GRACE_S, LOST_S, Ended


class RemoteServer:
    """One launch on another machine. Once its machine is lost it is taken for ended: an agent stops what it started."""

    def __init__(self, channel: Channel, up: Up) -> None:
        self._channel = channel
        self.number, self.host, self.port, self.ready_ns = up.number, up.host, up.port, up.ready_ns
        self.cpu_source, self.note, self.cacert = up.cpu_source, up.note, up.cacert
        self._ended: Ended | None = None

    def schedstats(self) -> tuple[str, ...]:
        """None of this machine's."""
        return ()

    def cpu_stat(self) -> str | None:
        """As above."""
        return None

    def thread_cpu_ns(self) -> dict[str, int]:
        """CPU time of each of its threads so far."""
        return self._channel.ask("thread_times", ThreadTimes, number=self.number).cpu_ns

    def users(self) -> tuple[str, ...]:
        """As whom it runs."""
        return tuple(self._look().users)

    def alive(self) -> bool:
        """Whether its main process is there."""
        return self._ended is None and self._look().alive

    def counts(self) -> tuple[int, int]:
        """Processes and threads of it now."""
        look = self._look()
        return look.processes, look.threads

    def log_tail(self, lines: int = 20) -> str:
        """Its last lines of output."""
        with contextlib.suppress(MachineLost):
            text = self._ended.log_tail if self._ended else self._look().log_tail
            return "\n".join(text.splitlines()[-lines:])
        return ""

    def resident_bytes(self) -> int:
        """Its memory now."""
        return self._look().resident_bytes

    def freeze(self) -> None:
        """It stands still."""
        self._channel.ask("freeze", Nothing, number=self.number)

    def thaw(self) -> None:
        """It goes on."""
        self._channel.ask("thaw", Nothing, number=self.number)

    def watch(self) -> None:
        """Has the observer read its CPU time."""
        self._channel.ask("watch", Nothing, number=self.number)

    def begin_stop(self, *, grace_s: float = GRACE_S) -> None:
        """Gives it its stop signal."""
        if self._ended is None:
            with contextlib.suppress(MachineLost):
                self._channel.ask("begin_stop", Nothing, number=self.number, grace_s=grace_s)

    def stop(self, *, grace_s: float = GRACE_S) -> Ended:
        """Ends every process of it; again: the same answer."""
        if self._ended is None:
            try:
                over = self._channel.ask("stop", Over, grace_s + LOST_S, number=self.number, grace_s=grace_s)
                self._ended = Ended(**over.model_dump())
            except MachineLost as lost:
                how, unknown = f"its machine was lost ({lost.why})", None
                self._ended = Ended(
                    exit_status=unknown, died=False, cpu_ns=unknown, peak_memory_bytes=unknown, how=how, log_tail=""
                )
        return self._ended

    def _look(self) -> Look:
        return self._channel.ask("look", Look, number=self.number)
