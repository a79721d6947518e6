"""A generator's part of ``dragstrip load --fleet``: the steps of one machine, begun together with the others."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from dragstrip.compat.wrk_script import WrkScript
from dragstrip.errors import BadUsage
from dragstrip.fleet.messages import LoadRan, LoadReady, LoadScript, LoadSlice, Right
from dragstrip.loading import run as loading
from dragstrip.loading.request import LoadRequest
from dragstrip.loading.result import Slice

if TYPE_CHECKING:
    from dragstrip._engine import Engine, Marker, Script

#: No server of this number is watched: its marks tell when to begin, and nothing else.
UNWATCHED = 0


class LoadThere:
    """One load on this generator.

    Args:
        request: with this generator's share of the connections.
        turns: of an open loop's schedule, which all generators share (``_engine.SessionPlan``).
        script_threads: how many threads of a script come before this generator's, and how many all generators have.

    Raises:
        BadUsage, DragstripError, EngineError: as ``loading.run.run``.
    """

    def __init__(
        self,
        engine: Engine,
        marker: Marker | None,
        request: LoadRequest,
        cores: tuple[int, ...],
        turns: tuple[int, int],
        script_threads: tuple[int, int],
    ) -> None:
        self._engine = engine
        load_script = partial(WrkScript, done_elsewhere=True, numbers=script_threads)
        self._prepared = loading.prepare(request, load_script, cores)
        self._session = engine.open(loading.session_plan(self._prepared, turns))
        if marker is not None:
            marker.begin(1)
            engine.observe(self._session, marker, UNWATCHED)

    def ready(self) -> LoadReady:
        """What was learned."""
        prepared = self._prepared
        learned = asdict(prepared.learned)
        right = Right(body_bytes=len(learned.pop("body")), **learned)
        io, backend, stamps = loading.worked(self._engine, self._session)
        return LoadReady(
            right=right,
            connections=prepared.connections,
            cores=list(prepared.cores),
            by_length=prepared.by_length,
            any_body=prepared.any_body,
            plain_statuses={str(status): count for status, count in loading.plain_statuses(prepared).items()},
            notes=list(prepared.notes),
            doubts=list(prepared.doubts),
            io=io,
            backend=backend,
            stamps=stamps,
            script=self._script(),
        )

    def _script(self) -> LoadScript | None:
        script = self._prepared.script
        if script is None:
            return None
        # Not validated: the model wants bytes as they come over the wire.
        state, printed = script.state, self._prepared.printed
        return LoadScript.model_construct(hooks=state.hooks, fixed=state.fixed, printed=printed)

    def run(self, show: Callable[[LoadSlice], None] | None) -> LoadRan:
        """Loads until the time is up, or somebody stops the engine.

        Args:
            show: is told each second when it is over; None: nothing is sent while the load runs.

        Raises:
            DragstripError: the script failed; file and line are told.
        """
        slices = list[Slice]()
        finished = loading.drive(self._engine, self._session, self._prepared, slices, _Told(show))
        script = self._prepared.script
        if script is not None:
            script.refuse_failure()
        return LoadRan.model_validate(
            {
                "finished": finished,
                "slices": [_sent(part) for part in slices],
                "printed": script.printed() if script is not None else "",
                "globals": _globals(script.state) if script is not None and script.state.sets_up else [],
            }
        )


def _globals(script: Script) -> list[str]:
    """The variables of this machine's threads, as the message holds them.

    Raises:
        BadUsage: they take too much; the message has the script's file.
    """
    from dragstrip._engine import ScriptError

    try:
        return [base64.b64encode(each).decode() for each in script.globals()]
    except ScriptError as error:
        raise BadUsage(str(error)) from error


class _Told:
    """Hands each second on, where somebody looks."""

    def __init__(self, show: Callable[[LoadSlice], None] | None) -> None:
        self._show, self.shown = show, show is not None

    def begun(self, *_: Any) -> None: ...

    def slice_done(self, _: LoadRequest, done: Sequence[Slice]) -> None:
        if self._show is not None:
            self._show(_sent(done[-1]))


def _sent(part: Slice) -> LoadSlice:
    values = asdict(part)
    values["statuses"] = {str(status): count for status, count in part.statuses.items()}
    return LoadSlice.model_construct(**values)
