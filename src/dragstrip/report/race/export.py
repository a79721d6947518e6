"""A race as JSON, schema 1: ``data/schema/race.schema.json`` describes each field."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from dragstrip.analysis import Estimate, Interval, Pair, by_column
from dragstrip.record import Entrant, Race, Round
from dragstrip.report import figures
from dragstrip.report.comparison import Ruled
from dragstrip.report.race import causes, database, external, latency, wording
from dragstrip.report.race.badge import KIND, column_badge, race_badge
from dragstrip.report.race.headline import column_headline, headline
from dragstrip.report.race.latency import KindRow, kind_rows
from dragstrip.report.race.summary import JudgedRace, Part, changes, own_paths
from dragstrip.requested import described
from dragstrip.store.json_values import JSON_SCHEMA, Json, JsonObject, picked, plain
from dragstrip.validity import noise
from dragstrip.validity.messages import event_text, void_text


def schema() -> JsonObject:
    """The JSON Schema (draft 2020-12) that ``race_json`` follows."""
    path = Path(__file__).parents[2] / "data" / "schema" / "race.schema.json"
    content: JsonObject = json.loads(path.read_text(encoding="utf-8"))
    return content


def race_json(judged: JudgedRace, rules: Sequence[Ruled] = ()) -> JsonObject:
    """The race, its verdict and its validity; a number that does not exist is null, never NaN.

    Args:
        rules: the outcome of ``--fail-if``; no record has it, so only ``dragstrip race`` writes it.
    """
    race, verdict, parts = judged.record, judged.verdict, judged.parts
    ruled: list[Json] = [asdict(rule.ruling) | ({"column": rule.column} if rule.column else {}) for rule in rules]
    return {
        **({"rules": ruled} if ruled else {}),
        "schema": JSON_SCHEMA,
        "race": race.id,
        **picked(race, "seed", "started", "software", "workload"),
        "finished": judged.ended,
        "outcome": judged.standing,
        "load": _load(race),
        "machine": plain(race.machine),
        "method": {"version": race.method, "margin": verdict.margin, "alpha": verdict.alpha},
        "plan": picked(race.plan, *_PLAN),
        "contenders": [picked(entrant, *_ENTRANT) for entrant in race.entrants],
        "columns": [_column(part) for part in parts],
        "changes": [plain(change) for change in changes(parts)],
        "pairs": [
            {"column": part.name} | _pair(pair)
            for part in parts
            for pairs in (part.verdict.pairs, *part.verdict.beside.values())
            for pair in pairs
        ],
        "validity": [
            {"column": part.name, "check": check.label, "status": check.status, "detail": check.detail}
            for part in parts
            for check in part.checks
        ],
        "void": judged.void,
        "more_s": verdict.more_s,
        "noise": _noise(race),
        "badge": race_badge(judged).line,
        "headline": headline(judged),
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

#: A contender as it entered the race; its numbers are in the columns.
_ENTRANT = (
    *("name", "title", "kind", "version", "language", "parameters", "definition_hash"),
    *("out", "out_round"),
)


def _column(part: Part) -> JsonObject:
    """One column: what was raced, its contenders' numbers, and what it came to."""
    race, verdict = part.race, part.verdict
    latencies, kinds = latency.merged(race), kind_rows(race)
    return {
        "name": part.name,
        "workload": race.workload,
        "requests": [plain(one) for one in described(race.columns[0].definition)],
        "own_paths": {name: path for path, names in own_paths(race).items() for name in names},
        "rate_per_s": race.load.rate_per_s,
        "pipelining": race.load.pipelining,
        "absent": list(part.absent),
        "finished": race.finished,
        "outcome": part.standing,
        "plan": picked(race.plan, *_COLUMN_PLAN),
        "metric": verdict.metric,
        "metric_reason": wording.metric_reason_text(verdict.metric_reason),
        "contenders": [
            _contender(entrant, verdict.estimates.get(entrant.name), latencies.get(entrant.name, {}))
            | ({} if entrant.out else database.as_json(race, entrant.name))
            | ({"requests_by_kind": [_kind(row) for row in kinds if row.contender == entrant.name]} if kinds else {})
            for entrant in race.entrants
        ],
        "ranking": list(part.names),
        "groups": [list(group) for group in verdict.groups],
        "pauses": [wording.pauses_text(pauses, verdict) for pauses in verdict.pauses],
        "contradictions": list(map(wording.contradiction_text, verdict.contradictions)),
        "void": part.void,
        "more_s": verdict.more_s,
        "noise": _noise(race),
        "badge": column_badge(part).line,
        "headline": column_headline(part),
        "rounds": [round_.index for round_ in race.rounds],
        **causes.as_json(race),
    }


def _noise(race: Race) -> JsonObject:
    # The most disturbed column decides: scatter between workloads is not noise.
    worst = max(map(noise, by_column(race)), key=lambda disturbed: disturbed.lost or 0.0)
    return {"level": worst.level, "lost": worst.lost, "factor": figures.finite(worst.factor)}


def order(round_: Round) -> list[list[str]]:
    """Order in which contenders were loaded: a list of names per pass."""
    passes: dict[int, list[str]] = {}
    for block in sorted(round_.blocks, key=lambda block: block.position):
        passes.setdefault(block.pass_index, []).append(block.contender)
    return [passes[index] for index in sorted(passes)]


def _contender(entrant: Entrant, estimate: Estimate | None, quantiles: Mapping[str, float]) -> JsonObject:
    # A contender that is out yields no number, whatever it did before.
    used = None if entrant.out else estimate
    return picked(entrant, "name", "out", "out_round", "parity") | {
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
    quantiles: JsonObject = {"latency_us": {label: row.latency_us.get(label) for label in latency.QUANTILES}}
    return {"name": row.kind} | picked(row, "share", "requests", "failed") | quantiles


def _interval(interval: Interval | None) -> JsonObject:
    """Always the same keys: null bounds without an interval, null estimate without a number."""
    names = ("estimate", "low", "high")
    return picked(interval, *names) if interval else dict.fromkeys(names)


#: Of a pair, in this order.
_PAIR = (
    *("a", "b", "metric", "typical", "ratio", "low", "high", "verdict", "within_margin", "median_ratio"),
    *("rounds", "spent_s", "more_rounds"),
)


def _pair(pair: Pair) -> JsonObject:
    return picked(pair, *_PAIR) | {
        "disturbed": pair.disturbed.text if pair.disturbed else "",
        "widened": pair.widened,
        "sentence": wording.ended(wording.sentence(pair)),
    }
