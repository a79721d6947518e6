"""A generator's part of ``dragstrip load --fleet``: the steps of one machine, begun together with the others."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from dragstrip.loading import run as loading
from dragstrip.loading.request import LoadRequest
from dragstrip.loading.result import Slice
from dragstrip.racing.fleet.messages import LoadRan, LoadReady, LoadSlice, Right

if TYPE_CHECKING:
    from dragstrip._engine import Engine, Marker

#: No server of this number is watched: its marks tell when to begin, and nothing else.
UNWATCHED = 0


class LoadThere:
    """One load on this generator.

    Args:
        request: with this generator's share of the connections.
        turns: of an open loop's schedule, which all generators share (``_engine.SessionPlan``).

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
    ) -> None:
        self._engine = engine
        self._prepared = replace(loading.prepare(request), cores=cores)
        self._session = engine.open(loading.session_plan(self._prepared, turns))
        if marker is not None:
            marker.begin(1)
            engine.observe(self._session, marker, UNWATCHED)

    def ready(self) -> LoadReady:
        """What was learned."""
        prepared = self._prepared
        learned = asdict(prepared.learned)
        right = Right(body_bytes=len(learned.pop("body")), **learned)
        io, backend, stamps = loading.worked(prepared, self._engine)
        return LoadReady(
            right=right,
            connections=prepared.connections,
            cores=list(prepared.cores),
            by_length=prepared.by_length,
            any_body=prepared.any_body,
            plain_statuses={str(status): count for status, count in loading.plain_statuses(prepared).items()},
            notes=list(prepared.notes),
            io=io,
            backend=backend,
            stamps=stamps,
        )

    def run(self) -> LoadRan:
        """Loads until the time is up, or somebody stops the engine."""
        slices = list[Slice]()
        finished = loading.drive(self._engine, self._session, self._prepared, slices, _Unseen())
        return LoadRan.model_validate({"finished": finished, "slices": [_sent(part) for part in slices]})


class _Unseen:
    """Nobody looks: nothing is sent while a load runs."""

    def begun(self, *_: Any) -> None: ...
    def slice_done(self, *_: Any) -> None: ...


def _sent(part: Slice) -> LoadSlice:
    values = asdict(part)
    values["statuses"] = {str(status): count for status, count in part.statuses.items()}
    return LoadSlice.model_construct(**values)
