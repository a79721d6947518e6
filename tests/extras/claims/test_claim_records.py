"""Claims: their files, and the judgement on stored records."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import samples
from claims import EVEN, FAST, SLOW, all_blocks, changed, claims_command, planted, purpose_event

from dragstrip import contender
from dragstrip.errors import BadDefinition, BadUsage
from dragstrip.extras.claims import definition as definitions
from dragstrip.extras.claims import run as claim_run
from dragstrip.extras.claims.assess import assess
from dragstrip.extras.claims.contenders import contenders_of
from dragstrip.extras.claims.definition import FAIR, PUBLISHED
from dragstrip.extras.claims.finding import Outcome
from dragstrip.extras.claims.grouping import groups
from dragstrip.record import Ending, Event, EventKind, Race
from dragstrip.store.database import Store


def test_every_write_up_has_its_claims_and_every_file_its_figures() -> None:
    """Each shipped file is read; a ratio has one; the five write-ups and the qualitative claims are there."""
    claims = definitions.every()
    assert len({claim.fields.source for claim in claims}) == 5
    assert {claim.fields.kind for claim in claims} == {"ratio", "direction", "same", "peak", "ends"}
    for claim in claims:
        assert (claim.fields.ratio is not None) == (claim.fields.kind == "ratio"), claim.id
        assert claim.fields.statement.strip('"') == claim.fields.statement, (
            "statements are in our own words, not quoted"
        )
        for setting in (PUBLISHED, FAIR):
            assert claim.contenders(setting)


def test_claims_of_one_source_and_load_share_a_race() -> None:
    """All that can be raced anywhere needs at most two races for each published load and write-up."""
    planned = groups(definitions.every())
    assert len(planned) <= 12
    for group in planned:
        assert len({entry.name for entry in group.entries}) == len(group.entries) >= 2
        assert group.purpose.subject == group.setting
    assert sum(group.need_s + group.before_s for group in planned) < 30 * 60


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('kind = "ratio"', "per_s"),
        ("published.per_s = [1, 2, 3]", "2 rates"),
        ('kind = "ends"\npublished.ratio = 2.0', "load.requests"),
        ("published.ratio = 2.0\nload.conections = 3", "did you mean connections"),
    ],
)
def test_a_claim_that_can_not_be_judged_is_refused_with_what_would_do(tmp_path: Path, text: str, message: str) -> None:
    """File and remedy are in the message."""
    file = tmp_path / "bad.toml"
    file.write_text(f'statement = "x"\nsource = "y"\nyear = 2020\ncontenders = ["a", "b"]\n{text}\n')
    with pytest.raises(BadDefinition, match=message) as refused:
        definitions.load(file)
    assert "bad.toml" in str(refused.value)
    with pytest.raises(BadUsage, match="known: "):
        definitions.load("no-such-claim")


@pytest.mark.parametrize(
    ("rates", "published", "outcome"),
    [
        (FAST, "ratio = 2.0", Outcome.HOLDS),
        (FAST, "ratio = 1.9", Outcome.HOLDS),
        (FAST, "ratio = 3.0", Outcome.DIRECTION),
        (FAST, "ratio = 0.5", Outcome.OVERTURNED),
        (SLOW, "ratio = 2.0", Outcome.OVERTURNED),
        (SLOW, "ratio = 0.5", Outcome.HOLDS),
        ({"quick": 30_000.0, "steady": 30_000.0}, "ratio = 2.0", Outcome.SAME),
        # Who is listed first in the race must not matter.
        ({"steady": 20_000.0, "quick": 40_000.0}, "per_s = [4000, 2000]", Outcome.HOLDS),
    ],
)
def test_true_claims_hold_reversed_ones_are_overturned_and_a_tie_is_neither(
    tmp_path: Path, rates: dict[str, float], published: str, outcome: str
) -> None:
    """From records of known speeds alone; the size counts within the tolerance of 10 %."""
    race = samples.race(rates, rounds=40, noise=0.004)
    finding = assess(planted(tmp_path, published=published), PUBLISHED, race)
    assert finding.outcome == outcome, finding
    assert finding.race == race.id
    assert finding.low < rates["quick"] / rates["steady"] < finding.high


def test_too_short_a_race_leaves_a_claim_undecided_and_one_without_a_figure_needs_no_size(tmp_path: Path) -> None:
    """Three rounds have no interval; a direction holds whatever the size."""
    assert assess(planted(tmp_path), PUBLISHED, samples.race(FAST, rounds=3)).outcome == Outcome.UNDECIDED
    claim = planted(tmp_path, "way", published="", more='kind = "direction"')
    assert assess(claim, PUBLISHED, samples.race(FAST)).outcome == Outcome.HOLDS
    assert assess(claim, PUBLISHED, samples.race(SLOW)).outcome == Outcome.OVERTURNED


def test_no_difference_and_a_peak_are_judged_by_their_own_tolerance(tmp_path: Path) -> None:
    """ "Makes no difference" is the whole interval within it; "peaks at" is the rate's interval near the figure."""
    same = planted(tmp_path, "alike", published="", more='kind = "same"\ntolerance = 0.05')
    level = samples.race({"quick": 30_000.0, "steady": 30_300.0}, rounds=40, noise=0.004)
    assert assess(same, PUBLISHED, level).outcome == Outcome.HOLDS
    assert assess(same, PUBLISHED, samples.race(FAST)).outcome == Outcome.OVERTURNED
    assert assess(same, PUBLISHED, samples.race(FAST, rounds=3)).outcome == Outcome.UNDECIDED
    peak = planted(tmp_path, "peak", published="per_s = [8000]", more='kind = "peak"\ntolerance = 0.25')
    assert assess(peak, PUBLISHED, samples.race({"quick": 8_500.0, "steady": 9_000.0})).outcome == Outcome.HOLDS
    assert assess(peak, PUBLISHED, samples.race(FAST)).outcome == Outcome.OVERTURNED


def test_a_void_race_and_a_contender_that_fell_out_give_no_verdict(tmp_path: Path) -> None:
    """The cause is reported; the figures of a void race decide nothing."""
    claim = planted(tmp_path)
    disturbed = all_blocks(samples.race(FAST), engine_wait_ns=20_000_000)
    finding = assess(claim, PUBLISHED, disturbed)
    assert (finding.outcome, finding.void, finding.again is not None) == (Outcome.HOLDS, None, False)
    wrong = all_blocks(samples.race(FAST), errors={"wrong_body": 3}, failed=3, sent=1403, answered=1400)
    finding = assess(claim, PUBLISHED, wrong)
    assert (finding.outcome, finding.void, finding.again is not None) == (Outcome.UNDECIDED, "lasting", False)
    assert "wrong_body" in finding.text
    finding = assess(claim, PUBLISHED, _out(disturbed, "quick"))
    assert (finding.outcome, finding.again is not None) == (Outcome.CANNOT, False)
    assert "died under load" in finding.text


def _out(race: Race, name: str) -> Race:
    """A race that one contender is out of."""
    entrants = (
        changed(entrant, out="died under load") if entrant.name == name else entrant for entrant in race.entrants
    )
    return changed(race, entrants=tuple(entrants))


def _limited(race: Race, *names: str) -> Race:
    """A race in which the client was the limit against these; quick spends half of steady's CPU time."""

    def limited(block: Any) -> Any:
        cpu_ns = 12_000_000 if block.contender == "quick" else 24_000_000
        return (
            changed(block, engine_cpu_ns=block.counted_ns, server_cpu_ns=cpu_ns) if block.contender in names else block
        )

    return changed(
        race, rounds=tuple(changed(round_, blocks=tuple(map(limited, round_.blocks))) for round_ in race.rounds)
    )


def test_where_the_client_is_the_limit_the_cpu_time_per_request_decides(tmp_path: Path) -> None:
    """In a race planned for it; equal rates then say nothing, and the row says so. Otherwise nothing is decided."""
    claim = planted(tmp_path)
    race = samples.race({"quick": 20_000.0, "steady": 20_000.0}, rounds=12)
    race = _limited(race, "quick", "steady")
    finding = assess(claim, PUBLISHED, race)
    assert (finding.outcome, finding.metric, finding.void, finding.again is not None) == (
        Outcome.UNDECIDED,
        "throughput",
        "lasting",
        False,
    )
    assert finding.text.startswith("void: limited by the load generator: ")
    assert {"quick", "steady"} <= set(finding.text.replace(",", " ").split())
    finding = assess(claim, PUBLISHED, changed(race, plan=changed(race.plan, metric="cpu")))
    assert (finding.outcome, finding.metric, finding.void) == (Outcome.HOLDS, "cpu", None)
    assert finding.low < 2 < finding.high
    assert any("the client, not quick or steady, was the limit" in remark for remark in finding.remarks)


def test_a_client_that_is_the_limit_against_one_contender_takes_the_verdicts_that_it_is_in(tmp_path: Path) -> None:
    """Of every kind of claim about it, however far apart the rates; a peak of the other's stands."""
    ratio = planted(tmp_path)
    same = planted(tmp_path, "alike", published="", more='kind = "same"\ntolerance = 0.05')
    peak = planted(tmp_path, "peak", published="per_s = [40_000]", more='kind = "peak"\ntolerance = 0.25')
    for claim, name, outcome in (
        (ratio, "steady", Outcome.UNDECIDED),
        (ratio, "quick", Outcome.UNDECIDED),
        (same, "steady", Outcome.UNDECIDED),
        (peak, "quick", Outcome.UNDECIDED),
        (peak, "steady", Outcome.HOLDS),
    ):
        finding = assess(claim, PUBLISHED, _limited(samples.race(FAST), name))
        assert finding.outcome == outcome, (claim.id, name, finding)
        assert (finding.void, finding.again is not None) == ("lasting" if outcome == Outcome.UNDECIDED else None, False)
        assert outcome == Outcome.HOLDS or finding.text == f"void: limited by the load generator: {name}"


@pytest.mark.parametrize(("reason", "void"), [("generator the limit", "lasting"), ("clock", "passing")])
@pytest.mark.parametrize(("count", "left"), [(12, 0), (12, 4), (6, 0)])
def test_a_contender_whose_own_blocks_are_void_has_no_verdict_and_what_voided_them_is_told(
    tmp_path: Path, reason: str, void: str, count: int, left: int
) -> None:
    """The other's blocks stand, and the rounds do; too few of both are left to decide anything."""
    race = samples.race(FAST, rounds=count)
    rounds = tuple(
        round_
        if round_.index < left
        else changed(
            round_,
            blocks=tuple(changed(b, void=samples.voided(reason) * (b.contender == "quick")) for b in round_.blocks),
        )
        for round_ in race.rounds
    )
    finding = assess(planted(tmp_path), PUBLISHED, changed(race, rounds=rounds))
    assert (finding.outcome, finding.void, finding.again is not None) == (Outcome.UNDECIDED, void, void == "passing")
    assert finding.text.startswith(f"void: {left} of {count} rounds count for quick and steady (")
    assert reason.partition(":")[0] in finding.text


def test_on_a_very_disturbed_machine_the_decided_stays_and_the_undecided_may_be_raced_again(tmp_path: Path) -> None:
    """The row names the cause and the more disturbed contender. On a quiet machine it stays undecided."""
    claim = planted(tmp_path)
    level = samples.race(EVEN, noise=0.1)
    finding = assess(claim, PUBLISHED, level)
    assert (finding.outcome, finding.void, finding.again is not None) == (Outcome.UNDECIDED, None, False)
    assert "--resume" not in finding.text
    finding = assess(claim, PUBLISHED, all_blocks(level, steal_ns=16_000_000))
    assert (finding.outcome, finding.void, finding.again is not None) == (Outcome.UNDECIDED, None, True)
    assert "the machine was very disturbed, others took 23 % of the race's time" in finding.text
    assert finding.text.endswith("`dragstrip claims check mine --resume` races it again")
    short = changed(level, rounds=level.rounds[:6], finished=Ending.INTERRUPTED)
    assert assess(claim, PUBLISHED, short).text.endswith("--resume` continues the race")

    def hit(block: Any) -> Any:
        return changed(block, engine_wait_ns=9_000_000 if block.contender == "quick" else 0)

    race = samples.race(FAST)
    tilted = tuple(changed(round_, blocks=tuple(map(hit, round_.blocks))) for round_ in race.rounds)
    finding, before = (assess(claim, PUBLISHED, raced) for raced in (changed(race, rounds=tilted), race))
    assert (finding.outcome, finding.again is not None) == (Outcome.HOLDS, False)
    assert finding.high > 1.1 * before.high
    assert any("quick was disturbed more than steady" in remark for remark in finding.remarks)


def test_what_was_not_equal_and_who_stood_in_is_in_the_row(tmp_path: Path) -> None:
    """The parity sheet and a stand-in are never silent."""
    claim = planted(tmp_path, more='stand_ins = { quick = "other" }', published="ratio = 2.0")
    file = claim.source.file
    file.write_text(file.read_text() + 'other = "/bin/true {port}"\n')
    claim = definitions.load(file)
    race = samples.race({"other": 40_000.0, "steady": 20_000.0})
    heavy = tuple(
        changed(entrant, parity={"header bytes": "99" if entrant.name == "other" else "246"})
        for entrant in race.entrants
    )
    finding = assess(claim, PUBLISHED, changed(race, entrants=heavy))
    assert finding.outcome == Outcome.HOLDS
    assert list(finding.stand_ins) == ["other raced for quick, which is missing here"]
    assert "header bytes not equal: other 99, steady 246" in finding.remarks


def test_verdicts_are_worked_out_again_from_the_store_and_the_newest_sound_race_decides(tmp_path: Path) -> None:
    """Nothing but the claims' files and the store is needed; a void race after a sound one changes nothing."""
    claim = planted(tmp_path)

    def stored(
        seed: int, rates: dict[str, float], *, setting: str = PUBLISHED, finished: Ending = Ending.DECIDED
    ) -> Race:
        event = Event(at_ns=1, kind=EventKind.CLAIMS, subject=setting, names=(claim.id,))
        return samples.race(rates, seed=seed, events=[event], finished=finished)

    with Store(tmp_path / "races.sqlite") as store:
        (row,) = claim_run.rows([claim], store)
        assert (row.published.outcome, row.fair and row.fair.outcome) == (Outcome.UNTRIED, Outcome.UNTRIED)
        store.begin(stored(1, SLOW))
        store.begin(stored(2, FAST))
        store.begin(stored(3, SLOW, finished=Ending.VOID))
        store.begin(stored(4, FAST, setting=FAIR))
        # Left open by a very disturbed machine, or by too few rounds: what was decided before still says more.
        level = changed(stored(5, SLOW), rounds=samples.race(EVEN, noise=0.1).rounds)
        store.begin(all_blocks(level, steal_ns=16_000_000))
        store.begin(changed(stored(6, SLOW), rounds=stored(6, SLOW).rounds[:6]))
        (row,) = claim_run.rows([claim], store)
        assert (row.published.outcome, row.published.race) == (Outcome.HOLDS, f"{2:012x}")
        assert row.fair is not None
        assert row.fair.race == f"{4:012x}"


def test_a_run_that_got_stuck_is_judged_by_what_became_of_its_connections(tmp_path: Path) -> None:
    """If every request is answered, the claim fails; if some waited in vain, it holds, and the counts are shown."""
    claim = planted(tmp_path, published="", more='kind = "ends"\nload.requests = 1000\nload.connections = 100')
    race = samples.race(FAST)
    assert assess(claim, PUBLISHED, race).outcome == Outcome.UNTRIED

    def with_runs(*stuck: bool) -> Race:
        runs = [
            {
                "contender": name,
                "requests": 1000,
                "connections": 100,
                "keepalive": False,
                "http": "1.1",
                "sent": 1000,
                "answered": 995 if hung else 1000,
                "errors": {"timeout": 2, "connect": 3} if hung else {},
                "late": 4 if hung else 0,
                "longest_s": 0.5,
                "duration_s": 11.0,
                "finished": "count",
                "stuck": hung,
                "timeout_s": 10.0,
            }
            for name, hung in zip(("quick", "steady"), stuck, strict=True)
        ]
        events = tuple(Event(at_ns=1, kind=EventKind.COUNTED_RUN, text=json.dumps(run)) for run in runs)
        return samples.race(FAST, events=events)

    assert assess(claim, PUBLISHED, with_runs(False, False)).outcome == Outcome.OVERTURNED
    finding = assess(claim, PUBLISHED, with_runs(True, True))
    assert finding.outcome == Outcome.HOLDS
    lost = "of the connections 2 waited 10 s in vain for a response, 3 never connected"
    text = f"995 correct responses, the slowest after 0.5 s; {lost}, 4 of all these in the run's last twentieth"
    assert text in finding.text
    text = assess(claim, PUBLISHED, with_runs(False, False)).text
    assert (
        "steady: 1,000 requests over 100 connections at a time, one for each request, in 11.0 s: all responses" in text
    )


AB = """This is ApacheBench, Version 2.3
Concurrency Level:      30
Complete requests:      20000
Requests per second:    {rate} [#/sec] (mean)
"""


def test_a_claim_of_one_s_own_from_two_outputs_is_listed_and_one_that_can_t_be_is_refused(tmp_path: Path) -> None:
    """Figures and load come from what the tool printed; unknown names are refused before anything is written."""
    for name, rate in (("a", "20000.5"), ("b", "10000.25")):
        (tmp_path / name).write_text(AB.format(rate=rate))
    outputs = ("--outputs", str(tmp_path / "a"), str(tmp_path / "b"))
    serve = ("--serve", "one=/bin/true {port}", "--serve", "two=/bin/true --quote='x y' {port}")
    done = claims_command(tmp_path, "add", "mine", "one", "two", *outputs, *serve)
    assert done.returncode == 0, done.stderr
    made = definitions.load(tmp_path / "claims" / "mine.toml")
    assert made.fields.ratio == 2.0
    assert (made.fields.load.http, made.fields.load.keepalive, made.fields.load.connections) == ("1.0", False, 30)
    listed = {row["claim"]: row for row in json.loads(claims_command(tmp_path, "list", "--json").stdout)}
    assert listed["mine"]["status"] == "ready"
    assert len(listed) == len(definitions.every()) + 1
    framed = tmp_path / "h2load"
    framed.write_text("Application protocol: h2c\nfinished in 1.00s, 17162.82 req/s, 1.30MB/s\n")
    for words, told in (
        (("mine", "one", "two", *outputs, *serve), "already exists"),
        (("other", "one", "two", "--ratio", "2"), "unknown contender 'one'"),
        (("Other", "one", "two", "--ratio", "2", *serve), "small letters"),
        (("other", "one", "two", *serve), "--rates"),
        (("other", "one", "two", "--outputs", str(framed), str(framed), *serve), "is from HTTP/2"),
    ):
        done = claims_command(tmp_path, "add", *words)
        assert done.returncode == 2
        assert told in done.stderr
    assert [file.name for file in (tmp_path / "claims").iterdir()] == ["mine.toml"]


def test_the_page_and_its_chart_have_every_claim_and_load_nothing(tmp_path: Path) -> None:
    """From a store with races of known speeds: a row and a verdict each, the machine, and a picture of lines."""
    (tmp_path / "docs" / "pictures").mkdir(parents=True)
    claims = definitions.every()
    with Store(tmp_path / "races.sqlite") as store:
        for number, group in enumerate(groups(claims)):
            rates = {entry.name: 9_000.0 + 1_000 * place for place, entry in enumerate(group.entries)}
            event = purpose_event(group)
            store.begin(samples.race(rates, seed=number, rounds=11, passes=3, events=[event]))
    page, chart = tmp_path / "docs" / "CLAIMS.md", tmp_path / "docs" / "pictures" / "claims.svg"
    done = claims_command(tmp_path, "--markdown", str(page), "--svg", str(chart))
    assert done.returncode == 0, done.stderr
    text, drawn = page.read_text(), chart.read_text()
    for claim in claims:
        assert claim.id in done.stdout
        assert f"`{claim.id}`" in text
        assert claim.fields.kind in ("peak", "ends") or claim.id in drawn
    assert samples.MACHINE.cpu in text
    if not shutil.which("openresty") and isinstance(contender.check(contender.entry("uwsgi-luajit")), contender.Ready):
        row = next(line for line in text.splitlines() if line.startswith("| uWSGI with LuaJIT"))
        assert "raced for openresty, which is missing here" in row
    assert "](pictures/claims.svg)" in text
    assert "http" not in drawn.replace("http://www.w3.org/", "")


def test_a_program_that_comes_on_path_makes_its_claims_ready_and_its_stand_in_steps_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No further setting: what no registry holds is looked for on PATH each time."""
    stood_in = {word: definitions.load(name) for word, name in STOOD_IN.items()}
    lacking = {word: contenders_of(claim, PUBLISHED) for word, claim in stood_in.items() if not shutil.which(word)}
    if not lacking:
        pytest.skip("all of these are really installed here")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for word, before in lacking.items():
        program = tmp_path / word
        # As each of them tells its version: openresty on stderr, redbean's Lua on stdout.
        program.write_text(f"#!/bin/sh\necho 'nginx version: {word}/9.9.9' >&2\necho '{word} 9.9.9'\n")
        program.chmod(0o755)
        after = contenders_of(stood_in[word], PUBLISHED)
        assert word in before.missing or word in before.stand_ins.values()
        assert word not in after.missing
        assert word not in after.stand_ins.values()
        assert word in [entry.name for entry in after.entries]


#: A program that no registry holds, and a claim about it.
STOOD_IN = {"openresty": "2023-uwsgi-lua54-openresty", "redbean": "2023-redbean-openresty"}


def test_rows_say_which_claims_another_check_would_race(tmp_path: Path) -> None:
    """None is raced yet: all that can run go on; ``benchmarks/claims_page.py`` writes no page from them."""
    import claims_page

    rows_file = tmp_path / "rows.json"
    done = claims_command(tmp_path, "--json", str(rows_file))
    assert done.returncode == 0, done.stderr
    told = json.loads(rows_file.read_text())
    ready = {row["claim"] for row in told if not row["published"]["detail"].startswith("missing")}
    assert set(claims_page.unchecked(told, again=False)) & ready
    raced = [row | {side: row[side] and row[side] | {"race": "a"} for side in ("published", "fair")} for row in told]
    assert not claims_page.unchecked(raced, again=False)
    assert claims_page.unchecked(raced, again=True)
