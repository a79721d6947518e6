"""What became of the connections of a run to an exact count, in words; worked out from what was kept of it."""

from __future__ import annotations

from dragstrip.claim.finding import CountedRun
from dragstrip.report.figures import two_digits

_WORDS = {
    "timeout": "waited {limit:g} s in vain for an answer",
    "connect": "never connected",
    "closed_early": "were closed without an answer",
    "reset": "were reset",
    "refused": "were refused",
}


def describe_ends(run: CountedRun) -> str:
    """Who was asked what, over which connections, and how many of these came to which end."""
    own = "kept alive" if run.keepalive else "at a time, one for each request"
    asked = f"{run.sent:,} requests over {run.connections:,} connections {own}, in {run.duration_s:.1f} s"
    if run.sent < run.requests:
        asked = f"only {asked}, of {run.requests:,} that were to be sent"
    answered, errors = run.answered, {kind: count for kind, count in run.errors.items() if count}
    slowest = f"the slowest after {two_digits(run.longest_s)} s" if answered else ""
    if not errors:
        fate = f"all were answered right, {slowest}; no connection was refused, reset, closed early or left waiting"
    else:
        some = f"{answered:,} were answered right, {slowest}" if answered else "none was answered"
        limit_s = run.timeout_s
        told = {kind: _WORDS.get(kind, kind.replace("_", " ")).format(limit=limit_s) for kind in errors}
        lost = ", ".join(f"{count:,} {told[kind]}" for kind, count in errors.items())
        when = f", {run.late:,} of all these in the run's last twentieth" if run.late else ""
        fate = f"{some}; of the connections {lost}{when}"
    ended = "" if run.finished == "count" else f"; it ended early: {run.finished}"
    return f"{run.contender}: {asked}: {fate}{ended}"
