"""A race as JSON, schema 1: ``schema/race.schema.json`` beside this package says what each field means."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from dragstrip.record import Entrant, Race, Round
from dragstrip.report import figures
from dragstrip.report.comparison import Ruled
from dragstrip.report.race import columns, database, external, latency, wording
from dragstrip.report.race.badge import KIND, column_badge, race_badge
from dragstrip.report.race.checks import check_text
from dragstrip.report.race.headline import column_headline, headline
from dragstrip.report.race.latency import KindRow, kind_rows
from dragstrip.report.race.messages import event_text, void_text
from dragstrip.report.race.summary import Part, parts
from dragstrip.store.json_values import JSON_SCHEMA, Json, JsonObject, plain

if TYPE_CHECKING:
    from dragstrip.analysis import Estimate, Interval, Pair, Verdict
    from dragstrip.validity import Check


def schema() -> JsonObject:
    """The JSON Schema (draft 2020-12) that ``race_json`` follows."""
    path = Path(__file__).parents[2] / "data" / "schema" / "race.schema.json"
    found: JsonObject = json.loads(path.read_text(encoding="utf-8"))
    return found


def race_json(race: Race, verdict: Verdict, checks: Sequence[Check], rules: Sequence[Ruled] = ()) -> JsonObject:
    """The race, its verdict and its validity; a number that does not exist is null, never NaN.

    Args:
        rules: the outcome of ``--fail-if``; no record has it, so only ``dragstrip race`` writes it.
    """
    found = parts(race, verdict, checks)
    return _rules(rules) | {
        "schema": JSON_SCHEMA,
        "race": race.id,
        "seed": race.seed,
        "started": race.started,
        "finished": race.finished,
        "software": race.software,
        "workload": race.workload,
        "load": _load(race),
        "machine": plain(race.machine),
        "method": {"version": race.method, "margin": verdict.margin, "alpha": verdict.alpha},
        "plan": {name: plain(getattr(race.plan, name)) for name in _PLAN},
        "contenders": [_entrant(entrant) for entrant in race.entrants],
        "columns": [_column(part) for part in found],
        "changes": [plain(change) for change in columns.changes(found)],
        "pairs": [
            {"column": part.name} | _pair(pair)
            for part in found
            for pairs in (part.verdict.pairs, *part.verdict.beside.values())
            for pair in pairs
        ],
        "validity": [
            {"column": part.name, "check": check.label, "status": check.status, "detail": check_text(check)}
            for part in found
            for check in part.checks
        ],
        "void": all(part.is_void for part in found),
        "more_s": verdict.more_s,
        "noise": _noise(race),
        "badge": race_badge(race, verdict, checks).line,
        "headline": headline(race, verdict, checks),
        "rounds": len(race.rounds),
        "void_rounds": [{"round": r.index, "reasons": list(map(void_text, r.void))} for r in race.rounds if r.void],
        "order": [order(round_) for round_ in race.rounds],
        "events": [
            {"at_ns": event.at_ns, "kind": event.kind, "detail": event_text(event)}
            for event in race.events
            if event.kind not in (external.KIND, KIND)
        ],
        "foreign": external.as_json(race),
    }


#: What of the plan is the whole race's; the rest is each column's own.
_PLAN = ("budget_s", "planned_rounds", "metric", "margin", "alpha", "rounds_fixed", "extensions")
_COLUMN_PLAN = ("lead_ns", "counted_ns", "passes", "blocks")


def _column(part: Part) -> JsonObject:
    """One column: what was raced, its contenders' numbers, and what it came to."""
    race, verdict = part.race, part.verdict
    latencies, kinds = latency.merged(race), kind_rows(race)
    return {
        "name": part.name,
        "workload": race.workload,
        "rate_per_s": race.load.rate_per_s,
        "pipelining": race.load.pipelining,
        "absent": list(part.absent),
        "finished": race.finished,
        "plan": {name: plain(getattr(race.plan, name)) for name in _COLUMN_PLAN},
        "metric": verdict.metric,
        "metric_reason": wording.metric_reason_text(verdict.metric_reason),
        "contenders": [
            _contender(entrant, verdict.estimates.get(entrant.name), latencies.get(entrant.name, {}))
            | ({} if entrant.out else database.as_json(race, entrant.name))
            | ({"requests_by_kind": [_kind(row) for row in kinds if row.contender == entrant.name]} if kinds else {})
            for entrant in race.entrants
        ],
        "groups": [list(group) for group in verdict.groups],
        "pauses": [wording.pauses_text(pauses, verdict) for pauses in verdict.pauses],
        "contradictions": list(map(wording.contradiction_text, verdict.contradictions)),
        "void": part.is_void,
        "more_s": verdict.more_s,
        "noise": _noise(race),
        "badge": column_badge(part).line,
        "headline": column_headline(part),
        "rounds": [this.index for this in race.rounds],
    }


def _rules(rules: Sequence[Ruled]) -> JsonObject:
    listed: list[Json] = [asdict(one.ruling) | ({"column": one.column} if one.column else {}) for one in rules]
    return {"rules": listed} if rules else {}


def _noise(race: Race) -> JsonObject:
    from dragstrip.analysis import by_column
    from dragstrip.validity import noise

    # The most disturbed column's: scatter between workloads is not noise.
    seen = max((noise(one) for one in by_column(race)), key=lambda one: one.lost or 0.0)
    return {"level": seen.level, "lost": seen.lost, "factor": figures.finite(seen.factor)}


def order(round_: Round) -> list[list[str]]:
    """Order in which contenders were loaded: a list of names per pass."""
    passes: dict[int, list[str]] = {}
    for block in sorted(round_.blocks, key=lambda block: block.position):
        passes.setdefault(block.pass_index, []).append(block.contender)
    return [passes[index] for index in sorted(passes)]


def _entrant(entrant: Entrant) -> JsonObject:
    """A contender as it entered the race; its numbers are in the columns."""
    return {
        "name": entrant.name,
        "title": entrant.title,
        "kind": entrant.kind,
        "version": entrant.version,
        "language": entrant.language,
        "parameters": plain(entrant.parameters),
        "definition_hash": entrant.definition_hash,
        "out": entrant.out,
        "out_round": entrant.out_round,
    }


def _contender(entrant: Entrant, estimate: Estimate | None, quantiles: Mapping[str, float]) -> JsonObject:
    # A contender that is out yields no number, whatever it did before.
    used = None if entrant.out else estimate
    return {
        "name": entrant.name,
        "out": entrant.out,
        "out_round": entrant.out_round,
        "parity": dict(entrant.parity),
        "rounds": used.rounds if used else 0,
        "blocks": estimate.blocks if estimate else 0,
        "void_blocks": estimate.void_blocks if estimate else 0,
        "requests": used.requests if used else 0,
        "errors": dict(estimate.errors) if estimate else {},
        "throughput_per_s": _interval(used.throughput_per_s if used else None),
        "server_cpu_us_per_request": _interval(used.server_cpu_us_per_request if used else None),
        "peak_memory_bytes": used.peak_memory_bytes if used else None,
        "latency_us": {label: None if entrant.out else quantiles.get(label) for label in latency.QUANTILES},
    }


def _load(race: Race) -> JsonObject:
    load = asdict(race.load)
    del load["rate_per_s"], load["pipelining"]  # each column's own
    return load | {"server_cores": list(race.server_cores), "engine_cores": list(race.engine_cores)}


def _kind(row: KindRow) -> JsonObject:
    return {
        "name": row.kind,
        "share": row.share,
        "requests": row.requests,
        "failed": row.failed,
        "latency_us": {label: row.latency_us.get(label) for label in latency.QUANTILES},
    }


def _interval(interval: Interval | None) -> dict[str, float | None]:
    """Always of one shape: null bounds without an interval, null estimate without a number."""
    names = ("estimate", "low", "high")
    return {name: None if interval is None else figures.finite(getattr(interval, name)) for name in names}


def _pair(pair: Pair) -> JsonObject:
    return {
        "a": pair.a,
        "b": pair.b,
        "metric": pair.metric,
        "typical": pair.typical,
        "ratio": figures.finite(pair.ratio),
        "low": figures.finite(pair.low),
        "high": figures.finite(pair.high),
        "verdict": str(pair.verdict),
        "within_margin": pair.within_margin,
        "median_ratio": figures.finite(pair.median_ratio),
        "rounds": pair.rounds,
        "spent_s": pair.spent_s,
        "more_rounds": pair.more_rounds,
        "disturbed": wording.disturbed_text(pair.disturbed),
        "widened": pair.widened,
        "sentence": wording.ended(wording.sentence(pair)),
    }
