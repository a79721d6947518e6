"""A race in a sentence or two: void and why, or which contender is ahead by how much, how sure that is, and by what."""

from __future__ import annotations

from collections.abc import Sequence

from dragstrip.analysis.fitness import unfit_text
from dragstrip.metrics import KNOWN, PairVerdict
from dragstrip.record import METHOD_VERSION, EventKind, Race
from dragstrip.report import figures
from dragstrip.report.race.summary import JudgedRace, Part, Row, Standing, changes, leaders, pair_of
from dragstrip.report.race.wording import ended, metric_reason_text, sentence
from dragstrip.validity import Check, CheckName, Status

#: This many pairs that change places are named, the others are counted.
MAX_CHANGES = 2


def headline(judged: JudgedRace) -> str:
    """The race in a sentence or two; of several columns: the leaders, changed places, and open pairs."""
    return " ".join(filter(None, (_verdict(judged), _older_method(judged.record))))


def _older_method(race: Race) -> str:
    """That another method raced it than judges it here, and what its verdict was then."""
    if race.method == METHOD_VERSION:
        return ""
    then = [event.text for event in race.events if event.kind is EventKind.VERDICT]
    verdict = f"; its verdict then: {then[-1]}" if then else ""
    return f"It was raced by method {race.method}, and is judged here by method {METHOD_VERSION}{verdict}."


def _verdict(judged: JudgedRace) -> str:
    parts, pairs = judged.parts, judged.verdict.pairs
    if len(parts) == 1:
        return column_headline(parts[0])
    void = [part for part in parts if part.void]
    if len(void) == len(parts):
        causes = [check for check in judged.checks if check.status is Status.VOID]
        why = causes[0].detail if causes else "too many of its rounds are void"
        return f"This race is void, so it has no verdict: {why}"
    sentences = [_leads(parts)] if any(map(leaders, parts)) else []
    silent = tuple(part.name for part in parts if not leaders(part) and part not in void)
    if silent:
        sentences.append(f"No verdict yet at {figures.several(silent)}.")
    for part in void:
        cause = part.void_checks[0].detail if part.void_checks else "too many of its rounds are void"
        sentences.append(f"Void at {part.name}: {ended(cause)}")
    sentences += _order(parts)
    sentences += _reasons(parts)
    open_ = sum(pair.verdict is PairVerdict.UNDECIDED for pair in pairs)
    if open_ and sentences:
        sentences.append(f"{open_} of {len(pairs)} pairs {'is' if open_ == 1 else 'are'} still too close to call.")
    return " ".join(sentences)


def column_headline(part: Part) -> str:
    """One column in a sentence or two."""
    causes, verdict = part.void_checks, part.verdict
    if part.void:
        if causes:
            return f"This race is void, so it has no verdict: {causes[0].detail}"
        return "This race is void: the machine disturbed too many rounds; run the race again when the machine is quiet."
    bad, noted = part.void_contenders, part.unjudged
    text = _lead(part, [row for row in part.valid_rows if row.name not in noted])
    if causes:
        text += f" Excluded as void: {figures.several(tuple(sorted(bad)))}, because {ended(causes[0].detail)}"
    if noted:
        why = dict.fromkeys(unfit_text([(why, (name,))]) for name, why in noted.items())
        text += f" Not compared: {figures.several(tuple(noted))}, {ended(', '.join(why))}"
    if verdict.metric_reason:
        text += f" {_capital(KNOWN[verdict.metric].decides)} decides: "
        text += ended(metric_reason_text(verdict.metric_reason))
    return text


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _lead(part: Part, rows: Sequence[Row]) -> str:
    """Which of these contenders is ahead."""
    verdict = part.verdict
    if len(rows) < 2 or not verdict.pairs:
        return _without_verdict(part, rows)
    first = rows[0].name
    pair = pair_of(verdict, first, rows[1].name)
    never = "The two fastest never ran in the same round, so they can't be compared."
    text = ended(sentence(pair)) if pair else never
    if len(rows) > 2 and part.unfit:
        return f"None of the {len(verdict.pairs)} pairs can be compared: {ended(unfit_text(part.unfit.items()))}"
    if len(rows) > 2 and all(figures.finite(pair.low) is None for pair in verdict.pairs):
        return f"It is too early to call any of the {len(verdict.pairs)} pairs. {text}"
    if len(rows) == 2:
        return text
    among = {row.name for row in rows}
    pairs = [pair for pair in verdict.pairs if {pair.a, pair.b} <= among]
    early = [pair for pair in pairs if figures.finite(pair.low) is None]
    undecided = sum(pair.verdict is PairVerdict.UNDECIDED for pair in pairs) - len(early)
    quantile = KNOWN[verdict.metric].quantile
    best = "needs the least CPU per request" if verdict.metric == "cpu" else "is the fastest"
    best = f"has the lowest {quantile} latency" if quantile else best
    at_top = part.top_of([row.name for row in rows])
    if any({pair.a, pair.b} <= set(at_top) for pair in early):
        lead = text  # a pair without an interval is not a tie
    elif len(at_top) > 1:
        lead = f"{figures.several(at_top)} are tied at the top. {text}"
    else:
        # One subject suffices if the sentence continues with the same contender.
        going_on = text.removeprefix(f"{first} ")
        lead = f"{first} {best} of {len(rows)}" + (f": it {going_on}" if going_on != text else f". {text}")
    lead += f" It is too early to call {len(early)} of the {len(pairs)} pairs." if early else ""
    are = "is" if undecided == 1 else "are"
    return lead + (f" {undecided} of {len(pairs)} pairs {are} still too close to call." if undecided else "")


def _without_verdict(part: Part, rows: Sequence[Row]) -> str:
    out = tuple(entrant.name for entrant in part.out)
    if len(part.race.entrants) - len(out) < 2:
        return f"No verdict: fewer than two contenders are left in the race; out: {figures.several(out)}."
    done = len(part.race.rounds)
    return f"No verdict yet: {done} round{'s' if done != 1 else ''} measured; {len(rows)} contenders have numbers."


def _reasons(parts: Sequence[Part]) -> list[str]:
    """The columns in which the machine's evidence chose the metric, and why."""
    by_metric: dict[str, list[str]] = {}
    for part in parts:
        if part.verdict.metric_reason:
            why = metric_reason_text(part.verdict.metric_reason).rstrip(".")
            by_metric.setdefault(KNOWN[part.verdict.metric].decides, []).append(f"at {part.name} {why}")
    return [f"{_capital(what)} decides: {'; '.join(reasons)}." for what, reasons in by_metric.items()]


def _leads(parts: Sequence[Part]) -> str:
    """ "go-native leads at hello, axum at multiply." """
    metrics = {part.verdict.metric for part in parts}
    (metric,) = metrics if len(metrics) == 1 else ("throughput",)
    verb = {"cpu": "needs the least CPU per request"}.get(metric, "leads")
    verb = f"has the lowest {KNOWN[metric].quantile} latency" if KNOWN[metric].quantile else verb
    alone: dict[str, list[str]] = {}
    for part in parts:
        if len(first := leaders(part)) == 1:
            alone.setdefault(first[0], []).append(part.name)
    leads = [
        f"{name} {verb if at == 0 else ''}".strip() + f" at {figures.several(tuple(columns))}"
        for at, (name, columns) in enumerate(alone.items())
    ]
    sentences = [f"{', '.join(leads)}."] if leads else []
    for part in parts:
        if len(first := leaders(part)) > 1:
            sentences.append(f"At {part.name} {figures.several(first)} are tied at the top.")
    return " ".join(sentences)


def _order(parts: Sequence[Part]) -> list[str]:
    """Contenders that change places; or that none is shown to."""
    swaps = changes(parts)
    if swaps:
        named = "; ".join(
            f"{change.first} is ahead of {change.second} at {change.ahead} and behind at {change.behind}"
            for change in swaps[:MAX_CHANGES]
        )
        left = len(swaps) - MAX_CHANGES
        more = f"; {left} other {'pair also changes' if left == 1 else 'pairs also change'} order" if left > 0 else ""
        return [f"The order changes: {named}{more}."]
    if sum(bool(leaders(part)) for part in parts) < 2:
        return []
    whole = all(pair.verdict.separated for part in parts for pair in part.verdict.pairs)
    everywhere = "both" if len(parts) == 2 else "all of them"
    return [f"The order is the same at {everywhere}." if whole else "No pair of contenders is shown to change order."]


def no_result_reason(judged: JudgedRace) -> str:
    """Why a race that is over has no result at all, and what would give one on this machine; "" if it has one."""
    if not judged.standing.fruitless:
        return ""
    if judged.standing is Standing.NOT_COMPARABLE:
        reasons = dict.fromkeys(unfit_text(part.unfit.items()) for part in judged.parts if part.unfit)
        return f"no pair can be compared: {'; '.join(reasons)}"
    cause = next((check for check in judged.checks if check.status is Status.VOID), None)
    why = f"of the check “{figures.check(cause.label)}”" if cause else "no round has two valid contenders"
    return f"no valid result, because {why}: {_advice(judged.record, cause)}"


def _advice(race: Race, check: Check | None) -> str:
    """What to do on this very machine, by its own facts: cores, virtual or not, whether its cores were kept awake."""
    cores = len({*race.server_cores, *race.engine_cores}) or 1
    if check and check.name is CheckName.LITTLES_LAW:
        return "the CPU time per request depends on neither, and can be compared: race again with --metric cpu"
    if check:
        return "`dragstrip verify NAME` shows what that contender does; the check's own line says what was seen"
    steps = ["end other programs on its cores and race again"]
    if race.machine.is_virtual:
        host = race.machine.virtual
        steps = [f"this is a virtual machine ({host}), whose host may be busy: race again at another time"]
    if not race.machine.kept_awake:
        steps.append("keep its cores awake (--awake auto)")
    if cores <= 2:
        steps.append("with two cores or fewer, any other program disturbs the race")
    return "; ".join(steps)
