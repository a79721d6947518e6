"""A run of an exact number of requests, as in published tests; it always ends, and counts every failure."""

from __future__ import annotations

from collections.abc import Sequence

from dragstrip import machine
from dragstrip.contender import Entry, build, prepare
from dragstrip.extras.claims.definition import ClaimLoad
from dragstrip.extras.claims.finding import CountedRun
from dragstrip.loading import run as loading
from dragstrip.process.launcher import Launcher, scratch_root
from dragstrip.process.ports import free_port
from dragstrip.record import LoadEnding
from dragstrip.scrutiny import is_right
from dragstrip.workload import Asking, Workload

#: Seconds to wait for a response or a connection; no wait is longer, so the run ends.
TIMEOUT_S = 10.0

#: Failures without any response, for which a run without a time limit would wait forever.
SILENT = ("timeout", "connect")


def run_to_count(entry: Entry, workload: Workload, load: ClaimLoad) -> CountedRun:
    """Launches a contender, sends exactly ``load.requests`` and stops it.

    Raises:
        StageError: the contender sent no correct response. EngineFailure: the engine can't run it.
    """
    build(entry)
    lanes = machine.lanes(None, None)
    data = workload.data("counted run")
    asking = Asking(workload, mark=entry.mark, path=entry.path(workload.served_as), data=data)
    exchange = asking.exchanges(keepalive=False, http=load.http)[0]
    with scratch_root() as root, Launcher(name=entry.name, scratch_root=root) as launcher:
        scratch = root / "counted"
        scratch.mkdir()
        start = prepare(
            entry, scratch=scratch, port=free_port(), cores=lanes.server, workload=workload.served_as, data=data.files
        )
        running = launcher.launch(start, scratch=scratch, cores=lanes.server, is_right=is_right(exchange))
        try:
            request = loading.LoadRequest(
                url=f"http://{running.host}:{running.port}{exchange.path}",
                connections=load.connections,
                requests=load.requests,
                keepalive=load.keepalive,
                http=load.http,
                timeout_s=TIMEOUT_S,
            )
            return _counted_run(entry.name, loading.run(request, _SilentLoad()))
        finally:
            running.stop()


def _counted_run(name: str, result: loading.LoadResult) -> CountedRun:
    asked = result.request
    errors = {kind: count for kind, count in result.errors.items() if count}
    longest_s = max((part.max_ns for part in result.slices), default=0) / 1e9
    wall_s = sum(part.duration_ns for part in result.slices) / 1e9
    return CountedRun(
        contender=name,
        requests=asked.requests or 0,
        connections=asked.connections,
        keepalive=asked.keepalive,
        http=asked.http,
        sent=result.sent,
        answered=result.requests,
        errors=errors,
        late=_late(result.slices),
        longest_s=longest_s,
        duration_s=wall_s,
        finished=result.finished,
        timeout_s=asked.timeout_s,
        stuck=result.finished is not LoadEnding.COUNT or any(errors.get(kind) for kind in SILENT),
    )


def _late(slices: Sequence[loading.Slice]) -> int:
    """Failures in the slices that make up the run's last twentieth, whole slices only."""
    total = sum(part.sent for part in slices)
    left, failures = total / 20, 0
    for part in reversed(slices):
        if left <= 0:
            break
        failures += sum(part.errors.values())
        left -= part.sent
    return failures


class _SilentLoad:
    """Shows no progress (``loading.run.Progress``); one line reports the run after its end."""

    shown = False

    def begun(self, *_: object) -> None: ...

    def slice_done(self, *_: object) -> None: ...
