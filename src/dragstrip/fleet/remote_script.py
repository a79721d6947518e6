"""A script of wrk's over a fleet: each generator runs it in threads of its own; ``done`` is called once, on this side.

``setup`` is called on each machine for the threads of all, numbered through. Of other machines' threads it finds states
that stand in for them; the variables that each thread had at the end are sent back, for ``done`` to ask for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dragstrip.compat.wrk_script import WrkScript
from dragstrip.errors import DragstripError
from dragstrip.fleet.machines import Connected
from dragstrip.fleet.messages import LoadRan, LoadReady, LoadScript
from dragstrip.loading.request import LoadRequest, Target
from dragstrip.loading.request_pool import Asked
from dragstrip.loading.result import LoadResult, ScriptReport


class RemoteScript:
    """The state of a load's script that calls ``done``.

    Raises:
        BadUsage: it fails (the message has file and line), or this build has no Lua.
    """

    def __init__(self, request: LoadRequest, to: Target) -> None:
        assert request.script is not None
        self._asked, self._request, self._to = request.script, request, to
        self._script = WrkScript(request, to, threads=0)
        self._before = self._script.printed()

    def number(self, threads: int) -> None:
        """Calls ``setup``, if the script has it, for the threads of all generators.

        Raises:
            BadUsage: it fails; the message has file and line.
        """
        if self._script.state.sets_up:
            self._script = WrkScript(self._request, self._to, threads=0, numbers=(0, threads))
            self._before = self._script.printed()

    def settled(self, request: LoadRequest, generators: Sequence[Connected], ready: Sequence[LoadReady]) -> LoadRequest:
        """The request as the script has it: a pool of what it always sends, or nothing learned beforehand.

        Raises:
            DragstripError: it always sends the same on one generator, and not on another.
        """
        first = self._of(ready[0])
        for one, other in zip(generators, map(self._of, ready), strict=True):
            if (other.fixed is None, len(other.fixed or ())) != (first.fixed is None, len(first.fixed or ())):
                raise DragstripError(
                    f"-s {self._asked.name}: {generators[0].name} and {one.name} were given different numbers of "
                    "requests by it; use one that asks for nothing of its machine while it is loaded"
                )
        if first.fixed is None:
            return replace(request, check="status")
        return replace(request, pool=tuple(Asked(raw=raw) for raw in first.fixed), pipeline=len(first.fixed))

    def told(self, result: LoadResult, ready: Sequence[LoadReady], ran: Sequence[LoadRan]) -> LoadResult:
        """The result with what the script said to it, each generator in its turn; ``done`` gets all numbers."""
        own = [self._of(one) for one in ready]
        self._script.state.take_globals([variables for part in ran for variables in part.globals])
        fault = self._script.done(result)
        report = ScriptReport(
            name=self._asked.name,
            hooks=tuple(dict.fromkeys(hook for one in own for hook in one.hooks)),
            fixed=own[0].fixed is not None,
            before=self._before + "".join(one.printed for one in own),
            during="".join(part.printed for part in ran),
            after=self._script.printed(),
            fault=fault,
        )
        return replace(result, script=report)

    def _of(self, ready: LoadReady) -> LoadScript:
        if ready.script is None:
            raise DragstripError(f"-s {self._asked.name}: a generator did not load it")
        return ready.script
