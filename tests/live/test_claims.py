"""Claims: their files, the judgement on stored records, and whole checks of planted ones through the command line."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import samples
from commands import Done, dragstrip, process
from rich.console import Console

from dragstrip.claim import counted_run
from dragstrip.claim import definition as definitions
from dragstrip.claim import run as claim_run
from dragstrip.claim.assess import assess, is_done
from dragstrip.claim.contenders import contenders_of
from dragstrip.claim.definition import FAIR, PUBLISHED, Claim
from dragstrip.claim.finding import Outcome
from dragstrip.claim.grouping import Group, groups
from dragstrip.contender import serve_entry
from dragstrip.errors import BadDefinition, BadUsage
from dragstrip.record import Ending, Event, EventKind, Race
from dragstrip.report.claims.connection_ends import describe_ends
from dragstrip.report.claims.wording import finding_text, remark_text, stand_in_text
from dragstrip.report.race.live import Progress
from dragstrip.store.database import Store
from dragstrip.workload import load as load_workload

PYTHON = "/usr/bin/python3"  # one that an unprivileged user may execute

FAST, SLOW = {"quick": 40_000.0, "steady": 20_000.0}, {"quick": 20_000.0, "steady": 40_000.0}
EVEN = {"quick": 30_000.0, "steady": 30_000.0}


def planted(folder: Path, name: str = "mine", *, published: str = "ratio = 2.0", more: str = "") -> Claim:
    """A claim that quick serves more than steady; both are ad hoc servers, named in the file."""
    file = folder / f"{name}.toml"
    file.write_text(f"""\
statement = "quick serves more than steady"
source = "a test"
year = 2026
contenders = ["quick", "steady"]
{more}

[published]
{published}

[serve]
quick = "/bin/true {{port}}"
steady = "/bin/true {{port}}"
""")
    return definitions.load(file)


def test_every_write_up_has_its_claims_and_every_file_its_figures() -> None:
    """Each shipped file is read; a ratio has one; the five write-ups and the qualitative claims are there."""
    claims = definitions.every()
    assert len({one.fields.source for one in claims}) == 5
    assert {one.fields.kind for one in claims} == {"ratio", "direction", "same", "peak", "ends"}
    for one in claims:
        assert (one.fields.ratio is not None) == (one.fields.kind == "ratio"), one.id
        assert one.fields.statement.strip('"') == one.fields.statement, "statements are in our own words, not quoted"
        for setting in (PUBLISHED, FAIR):
            assert one.contenders(setting)


def test_claims_of_one_source_and_load_share_a_race() -> None:
    """All that can be raced anywhere needs at most two races for each published load and write-up."""
    planned = groups(definitions.every())
    assert len(planned) <= 12
    for group in planned:
        assert len({entry.name for entry in group.entries}) == len(group.entries) >= 2
        assert group.purpose.subject == group.setting
    assert sum(group.need_s + group.before_s for group in planned) < 30 * 60


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('kind = "ratio"', "per_s"),
        ("published.per_s = [1, 2, 3]", "2 rates"),
        ('kind = "ends"\npublished.ratio = 2.0', "load.requests"),
        ("published.ratio = 2.0\nload.conections = 3", "did you mean connections"),
    ],
)
def test_a_claim_that_can_not_be_judged_is_refused_with_what_would_do(tmp_path: Path, text: str, told: str) -> None:
    """File and remedy are in the message."""
    file = tmp_path / "bad.toml"
    file.write_text(f'statement = "x"\nsource = "y"\nyear = 2020\ncontenders = ["a", "b"]\n{text}\n')
    with pytest.raises(BadDefinition, match=told) as refused:
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
    found = assess(planted(tmp_path, published=published), PUBLISHED, race)
    assert found.outcome == outcome, found
    assert found.race == race.id
    assert found.low < rates["quick"] / rates["steady"] < found.high


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
    disturbed = _all(samples.race(FAST), engine_wait_ns=20_000_000)
    found = assess(claim, PUBLISHED, disturbed)
    assert (found.outcome, found.void, found.again is not None) == (Outcome.HOLDS, None, False)
    wrong = _all(samples.race(FAST), errors={"wrong_body": 3}, failed=3, sent=1403, answered=1400)
    found = assess(claim, PUBLISHED, wrong)
    assert (found.outcome, found.void, found.again is not None) == (Outcome.UNDECIDED, "lasting", False)
    assert "wrong_body" in finding_text(found)
    found = assess(claim, PUBLISHED, _out(disturbed, "quick"))
    assert (found.outcome, found.again is not None) == (Outcome.CANNOT, False)
    assert "died under load" in finding_text(found)


def _out(race: Race, name: str) -> Race:
    """A race that one contender is out of."""
    entrants = (_changed(one, out="died under load") if one.name == name else one for one in race.entrants)
    return _changed(race, entrants=tuple(entrants))


def _limited(race: Race, *names: str) -> Race:
    """A race in which the client was the limit against these; quick spends half of steady's CPU time."""

    def limited(block: Any) -> Any:
        cpu_ns = 12_000_000 if block.contender == "quick" else 24_000_000
        return (
            _changed(block, engine_cpu_ns=block.counted_ns, server_cpu_ns=cpu_ns) if block.contender in names else block
        )

    return _changed(race, rounds=tuple(_changed(one, blocks=tuple(map(limited, one.blocks))) for one in race.rounds))


def test_where_the_client_is_the_limit_the_cpu_time_per_request_decides(tmp_path: Path) -> None:
    """In a race planned for it; equal rates then say nothing, and the row says so. Otherwise nothing is decided."""
    claim = planted(tmp_path)
    race = samples.race({"quick": 20_000.0, "steady": 20_000.0}, rounds=12)
    race = _limited(race, "quick", "steady")
    found = assess(claim, PUBLISHED, race)
    assert (found.outcome, found.metric, found.void, found.again is not None) == (
        Outcome.UNDECIDED,
        "throughput",
        "lasting",
        False,
    )
    assert finding_text(found).startswith("void: limited by the load generator: ")
    assert {"quick", "steady"} <= set(finding_text(found).replace(",", " ").split())
    found = assess(claim, PUBLISHED, _changed(race, plan=_changed(race.plan, metric="cpu")))
    assert (found.outcome, found.metric, found.void) == (Outcome.HOLDS, "cpu", None)
    assert found.low < 2 < found.high
    assert any("the client, not quick or steady, was the limit" in remark for remark in map(remark_text, found.remarks))


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
        found = assess(claim, PUBLISHED, _limited(samples.race(FAST), name))
        assert found.outcome == outcome, (claim.id, name, found)
        assert (found.void, found.again is not None) == ("lasting" if outcome == Outcome.UNDECIDED else None, False)
        assert outcome == Outcome.HOLDS or finding_text(found) == f"void: limited by the load generator: {name}"


@pytest.mark.parametrize(("reason", "void"), [("generator the limit", "lasting"), ("clock", "passing")])
@pytest.mark.parametrize(("count", "left"), [(12, 0), (12, 4), (6, 0)])
def test_a_contender_whose_own_blocks_are_void_has_no_verdict_and_what_voided_them_is_told(
    tmp_path: Path, reason: str, void: str, count: int, left: int
) -> None:
    """The other's blocks stand, and the rounds do; too few of both are left to decide anything."""
    race = samples.race(FAST, rounds=count)
    rounds = tuple(
        one
        if one.index < left
        else _changed(
            one, blocks=tuple(_changed(b, void=samples.voided(reason) * (b.contender == "quick")) for b in one.blocks)
        )
        for one in race.rounds
    )
    found = assess(planted(tmp_path), PUBLISHED, _changed(race, rounds=rounds))
    assert (found.outcome, found.void, found.again is not None) == (Outcome.UNDECIDED, void, void == "passing")
    assert finding_text(found).startswith(f"void: {left} of {count} rounds count for quick and steady (")
    assert reason.partition(":")[0] in finding_text(found)


def test_on_a_very_disturbed_machine_the_decided_stays_and_the_undecided_may_be_raced_again(tmp_path: Path) -> None:
    """The row names the cause and the more disturbed contender. On a quiet machine it stays undecided."""
    claim = planted(tmp_path)
    level = samples.race(EVEN, noise=0.1)
    found = assess(claim, PUBLISHED, level)
    assert (found.outcome, found.void, found.again is not None) == (Outcome.UNDECIDED, None, False)
    assert "--resume" not in finding_text(found)
    found = assess(claim, PUBLISHED, _all(level, steal_ns=16_000_000))
    assert (found.outcome, found.void, found.again is not None) == (Outcome.UNDECIDED, None, True)
    assert "the machine was very disturbed, others took 23 % of the race's time" in finding_text(found)
    assert finding_text(found).endswith("`dragstrip claims check mine --resume` races it again")
    short = _changed(level, rounds=level.rounds[:6], finished=Ending.INTERRUPTED)
    assert finding_text(assess(claim, PUBLISHED, short)).endswith("--resume` goes on with the race")

    def hit(block: Any) -> Any:
        return _changed(block, engine_wait_ns=9_000_000 if block.contender == "quick" else 0)

    race = samples.race(FAST)
    tilted = tuple(_changed(one, blocks=tuple(map(hit, one.blocks))) for one in race.rounds)
    found, before = (assess(claim, PUBLISHED, one) for one in (_changed(race, rounds=tilted), race))
    assert (found.outcome, found.again is not None) == (Outcome.HOLDS, False)
    assert found.high > 1.1 * before.high
    assert any("quick was disturbed more than steady" in remark for remark in map(remark_text, found.remarks))


def _changed(record: Any, **changes: Any) -> Any:
    return samples.changed(record, **changes) if isinstance(record, Race) else replace(record, **changes)


def test_what_was_not_equal_and_who_stood_in_is_in_the_row(tmp_path: Path) -> None:
    """The parity sheet and a stand-in are never silent."""
    claim = planted(tmp_path, more='stand_ins = { quick = "other" }', published="ratio = 2.0")
    file = claim.source.file
    file.write_text(file.read_text() + 'other = "/bin/true {port}"\n')
    claim = definitions.load(file)
    race = samples.race({"other": 40_000.0, "steady": 20_000.0})
    heavy = tuple(
        _changed(one, parity={"header bytes": "99" if one.name == "other" else "246"}) for one in race.entrants
    )
    found = assess(claim, PUBLISHED, _changed(race, entrants=heavy))
    assert found.outcome == Outcome.HOLDS
    assert [stand_in_text(one) for one in found.stand_ins] == ["other raced for quick, which is missing here"]
    assert "header bytes not equal: other 99, steady 246" in map(remark_text, found.remarks)


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
        level = _changed(stored(5, SLOW), rounds=samples.race(EVEN, noise=0.1).rounds)
        store.begin(_all(level, steal_ns=16_000_000))
        store.begin(_changed(stored(6, SLOW), rounds=stored(6, SLOW).rounds[:6]))
        (row,) = claim_run.rows([claim], store)
        assert (row.published.outcome, row.published.race) == (Outcome.HOLDS, f"{2:012x}")
        assert row.fair is not None
        assert row.fair.race == f"{4:012x}"


def purpose_event(group: Group) -> Event:
    """What a race run for the group's claims has in its record."""
    return samples.noted(group.purpose.kind, subject=group.purpose.subject, names=group.purpose.names)


def _all(race: Race, **changes: Any) -> Race:
    """Every block of a race changed alike."""
    rounds = (_changed(one, blocks=tuple(_changed(b, **changes) for b in one.blocks)) for one in race.rounds)
    return _changed(race, rounds=tuple(rounds))


def _given_up(race: Race, reason: str) -> Race:
    """A race whose last rounds were void."""
    rounds = [_changed(one, void=samples.voided(reason)) if one.index > 6 else one for one in race.rounds]
    return _changed(race, rounds=tuple(rounds), finished=Ending.VOID)


def _even(race: Race) -> Race:
    """The race as one of two that can't be told apart, by rounds that scatter."""
    return _changed(race, rounds=samples.race(EVEN, noise=0.1).rounds)


#: What became of a race, and whether a second check leaves it as it is.
KEPT, AGAIN = True, False
ENDS: dict[str, tuple[Callable[[Race], Race], bool]] = {
    "sound": (lambda race: race, KEPT),
    # What is decided is valid, however disturbed the machine was.
    "others had the engine's core": (lambda race: _all(race, engine_wait_ns=20_000_000), KEPT),
    "steal": (lambda race: _all(race, steal_ns=8_000_000), KEPT),
    "undecided": (_even, KEPT),
    "undecided, others had the engine's core": (lambda race: _all(_even(race), engine_wait_ns=20_000_000), AGAIN),
    "undecided, steal": (lambda race: _all(_even(race), steal_ns=16_000_000), AGAIN),
    "passes lost to a clock that was set": (
        lambda race: _all(race, void=samples.voided("clock")),
        AGAIN,
    ),
    "given up for a clock that was set": (lambda race: _given_up(race, "clock"), AGAIN),
    "too few rounds": (lambda race: _changed(race, rounds=race.rounds[:6]), AGAIN),
    "another version": (
        lambda race: _changed(race, entrants=tuple(_changed(one, version="0.9") for one in race.entrants)),
        AGAIN,
    ),
    "the generator is the limit": (
        lambda race: _all(race, engine_cpu_ns=25_000_000, server_cpu_ns=12_000_000),
        KEPT,
    ),
    "wrong answers": (lambda race: _all(race, errors={"wrong_body": 3}, failed=3, sent=1403, answered=1400), KEPT),
    "passes lost to the generator": (lambda race: _all(race, void=samples.voided("generator the limit")), KEPT),
    "given up for the generator": (lambda race: _given_up(race, "generator the limit"), KEPT),
    # The generator is the limit, by CPU time, which no wait of its own adds to.
    "both": (
        lambda race: _all(race, engine_wait_ns=20_000_000, engine_cpu_ns=25_000_000, server_cpu_ns=12_000_000),
        KEPT,
    ),
    "nobody left": (
        lambda race: _changed(
            race, finished=Ending.TOO_FEW, entrants=tuple(_changed(one, out="died") for one in race.entrants)
        ),
        KEPT,
    ),
}


@pytest.mark.live
@pytest.mark.parametrize("how", ENDS)
def test_what_was_void_by_what_may_pass_is_raced_again_and_what_would_be_void_again_is_kept(
    tmp_path: Path, how: str
) -> None:
    """A second check is cheap where all is decided; both contenders end at once, so that a new race is soon over."""
    claim = planted(tmp_path)
    planned = groups([claim], (PUBLISHED,))
    change, kept = ENDS[how]
    event = purpose_event(planned[0])
    race = samples.race(FAST, events=[event])
    hashes = {one.name: one.definition_hash for one in planned[0].entries}
    entrants = (_changed(one, definition_hash=hashes[one.name], version="unknown") for one in race.entrants)
    with Store(tmp_path / "races.sqlite") as store:
        store.begin(change(_changed(race, entrants=tuple(entrants))))

        @contextmanager
        def show(_group: Any) -> Iterator[Progress]:
            with Progress(Console(), quiet=True) as progress:
                yield progress

        claim_run.check(planned, store=store, budget_s=15, resume=True, show=show, say=lambda line: None)
        assert (len(store.runs()) == 1) == kept
        (row,) = claim_run.rows([claim], store)
        assert (row.published.race == race.id) or not kept


def test_a_run_that_got_stuck_is_judged_by_what_became_of_its_connections(tmp_path: Path) -> None:
    """If every request is answered, the claim fails; if some waited in vain, it holds, and the counts are shown."""
    claim = planted(tmp_path, published="", more='kind = "ends"\nload.requests = 1000\nload.connections = 100')
    race = samples.race(FAST)
    assert assess(claim, PUBLISHED, race).outcome == Outcome.UNTRIED

    def with_runs(*stuck: bool) -> Race:
        told = [
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
        events = tuple(Event(at_ns=1, kind=EventKind.COUNTED_RUN, text=json.dumps(one)) for one in told)
        return samples.race(FAST, events=events)

    assert assess(claim, PUBLISHED, with_runs(False, False)).outcome == Outcome.OVERTURNED
    found = assess(claim, PUBLISHED, with_runs(True, True))
    assert found.outcome == Outcome.HOLDS
    told = "of the connections 2 waited 10 s in vain for an answer, 3 never connected, 4 of all these in the run's last"
    assert f"995 were answered right, the slowest after 0.5 s; {told} twentieth" in finding_text(found)
    told = finding_text(assess(claim, PUBLISHED, with_runs(False, False)))
    assert "steady: 1,000 requests over 100 connections at a time, one for each request, in 11.0 s: all were" in told


@pytest.mark.live
def test_a_run_whose_server_forgets_some_connections_ends_and_says_how_many_waited_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What hung the published run: every 500th connection is accepted, asked and never answered."""
    monkeypatch.setattr(counted_run, "TIMEOUT_S", 3.0)
    server = f"{PYTHON} {Path(__file__).parents[1]}/servers/misbehaving.py {{port}} forgets"
    load = definitions.LoadFields(http="1.0", keepalive=False, connections=100, requests=2002)
    made = counted_run.run_to_count(serve_entry(f"mine={server}"), load_workload("hello"), load)
    assert made.finished == "count"
    assert made.stuck
    assert (made.sent, made.errors) == (2002, {"timeout": 4})
    assert "4 waited 3 s in vain for an answer" in describe_ends(made)


def dragstrip_run(
    tmp_path: Path, *words: str, env: Mapping[str, str] | None = None, run: Callable[..., Done] = dragstrip
) -> Done:
    kept = {"DRAGSTRIP_STORE": str(tmp_path / "races.sqlite"), "COLUMNS": "160", **(env or {})}
    return run("claims", *words, env=kept)


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
    done = dragstrip_run(tmp_path, "add", "mine", "one", "two", *outputs, *serve)
    assert done.returncode == 0, done.stderr
    made = definitions.load(tmp_path / "claims" / "mine.toml")
    assert made.fields.ratio == 2.0
    assert (made.fields.load.http, made.fields.load.keepalive, made.fields.load.connections) == ("1.0", False, 30)
    listed = {one["claim"]: one for one in json.loads(dragstrip_run(tmp_path, "list", "--json").stdout)}
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
        done = dragstrip_run(tmp_path, "add", *words)
        assert done.returncode == 2
        assert told in done.stderr
    assert [file.name for file in (tmp_path / "claims").iterdir()] == ["mine.toml"]


LIVE = """\
statement = "planted"
source = "a test"
year = 2026
kind = "{kind}"
contenders = {contenders}
{more}

[load]
http = "{http}"
keepalive = false
connections = 8
requests = 2000
{published}

[serve]
swift = "{server} none"
twin = "{server} none"
slow = "{server} slow"
"""


@pytest.mark.live
@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_planted_claims_are_raced_together_and_judged_again_from_the_store(tmp_path: Path) -> None:
    """A true one, a reversed one, a tie, a run to a count and a missing one: one race, resumed without another.

    A very disturbed machine may leave one open; then its verdict must say so. Nothing else may come out.
    """
    server = f"{PYTHON} {Path(__file__).parents[1]}/servers/misbehaving.py {{port}}"
    wanted = {
        "true": ("direction", '["swift", "slow"]', Outcome.HOLDS),
        "reversed": ("direction", '["slow", "swift"]', Outcome.OVERTURNED),
        "tie": ("direction", '["swift", "twin"]', None),
        "ends": ("ends", '["swift", "slow"]', Outcome.OVERTURNED),
    }
    for name, (kind, contenders, _) in wanted.items():
        text = LIVE.format(kind=kind, contenders=contenders, more="", http="1.1", published="", server=server)
        (tmp_path / f"{name}.toml").write_text(text)
    text = LIVE.format(
        kind="direction", contenders='["gone", "swift"]', more="", http="1.1", published="", server=server
    )
    (tmp_path / "missing.toml").write_text(text + 'gone = "/nowhere/to/be/found {port}"\n')
    files = [str(tmp_path / f"{name}.toml") for name in (*wanted, "missing")]
    words = (*files, "--setting", "published", "--budget", "30s", "--json", str(tmp_path / "out.json"))
    done = dragstrip_run(tmp_path, "check", "--yes", *words, run=process)
    told = {one["claim"]: one["published"] for one in json.loads((tmp_path / "out.json").read_text())}
    with Store(tmp_path / "races.sqlite") as store:
        (line,) = store.runs()
        race = store.load(line.race)
    left_open = {
        name for name in wanted if told[name]["verdict"] == Outcome.UNDECIDED and "--resume" in told[name]["detail"]
    }
    assert done.returncode in (0, 3), done.stderr
    for name, (_, _, outcome) in wanted.items():
        assert told[name]["race"] == race.id
        if name not in left_open:
            assert told[name]["verdict"] == outcome or name == "tie", told[name]
    assert told["tie"]["verdict"] in (Outcome.SAME, Outcome.UNDECIDED, Outcome.HOLDS, Outcome.OVERTURNED)
    assert told["missing"]["verdict"] == Outcome.CANNOT
    assert "missing gone" in told["missing"]["detail"]
    assert "2,000 requests over 8 connections at a time, one for each request" in told["ends"]["detail"]
    assert (race.load.keepalive, race.load.connections) == (False, 8)

    again = dragstrip_run(tmp_path, "check", "--yes", *words, "--budget", "5s", "--resume")
    assert json.loads((tmp_path / "out.json").read_text())[-1]["published"]["verdict"] == Outcome.CANNOT, again.stderr
    with Store(tmp_path / "races.sqlite") as store:
        # What is decided is kept; what others on the machine voided, or cut short, is run again.
        done = all(is_done(definitions.load(file), PUBLISHED, race) for file in files[:-1])
        assert (len(store.runs()) == 1) == done


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
    done = dragstrip_run(tmp_path, "--markdown", str(page), "--svg", str(chart))
    assert done.returncode == 0, done.stderr
    text, drawn = page.read_text(), chart.read_text()
    for claim in claims:
        assert claim.id in done.stdout
        assert f"`{claim.id}`" in text
        assert claim.fields.kind in ("peak", "ends") or claim.id in drawn
    assert samples.MACHINE.cpu in text
    if not shutil.which("openresty"):
        row = next(line for line in text.splitlines() if line.startswith("| uWSGI with LuaJIT"))
        assert "raced for openresty, which is missing here" in row
    assert "](pictures/claims.svg)" in text
    assert "http" not in drawn.replace("http://www.w3.org/", "")


@pytest.mark.live
@pytest.mark.timeout(300)
@pytest.mark.thorough
def test_a_check_that_was_interrupted_goes_on_with_the_same_race(tmp_path: Path) -> None:
    """Ctrl-C after the first round ends with 130 and keeps it; --resume adds rounds to that race and makes no other."""
    server = f"{PYTHON} {Path(__file__).parents[1]}/servers/misbehaving.py {{port}}"
    text = LIVE.format(
        kind="direction", contenders='["swift", "slow"]', more="", http="1.1", published="", server=server
    )
    (tmp_path / "one.toml").write_text(text)
    env = {**os.environ, "DRAGSTRIP_STORE": str(tmp_path / "races.sqlite"), "COLUMNS": "160"}
    words = ["claims", "check", str(tmp_path / "one.toml"), "--setting", "published", "--budget", "25s", "--yes"]
    with subprocess.Popen(
        [sys.executable, "-m", "dragstrip", *words],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as checking:
        assert checking.stdout is not None
        seen = next((line for line in checking.stdout if line.startswith("round 1")), "")
        checking.send_signal(signal.SIGINT)
        rest = checking.stdout.read()
    assert seen, rest
    assert checking.returncode == 130, rest
    with Store(tmp_path / "races.sqlite") as store:
        (before,) = store.runs()
    assert before.finished == "interrupted"
    done = dragstrip_run(tmp_path, "check", *words[2:], "--resume")
    with Store(tmp_path / "races.sqlite") as store:
        (after,) = store.runs()
    assert after.race == before.race, done.stderr
    assert after.rounds > before.rounds
    assert after.finished != "interrupted"


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


@pytest.mark.live
@pytest.mark.timeout(300)
@pytest.mark.skipif(
    bool(shutil.which("openresty")) or not Path("/usr/lib/nginx/modules/ngx_http_lua_module.so").exists(),
    reason="wants Debian's nginx and its Lua module, and no OpenResty of the machine's own",
)
@pytest.mark.thorough
def test_a_program_that_comes_on_path_races_for_its_claim_without_further_settings(tmp_path: Path) -> None:
    """Its place is taken by one that serves as it does: Debian's nginx, its Lua modules loaded for it beforehand."""
    folder = Path(tempfile.mkdtemp(prefix="claims-"))  # user ``nobody`` can't enter pytest's own folders
    folder.chmod(0o755)
    # OpenResty's -V, too, begins with its name and version; its module's own stands among the arguments.
    told = "nginx version: openresty/9.9.9.1\\nconfigure arguments: --add-module=../ngx_lua-0.10.99"
    modules = "".join(
        f"load_module /usr/lib/nginx/modules/{name}.so; " for name in ("ndk_http_module", "ngx_http_lua_module")
    )
    (folder / "openresty").write_text(
        f"""#!/bin/sh
case "$1" in -[vV]) printf '{told}\\n' >&2; exit;; esac
exec /usr/sbin/nginx -g '{modules}' "$@"
"""
    )
    (folder / "openresty").chmod(0o755)
    name = "2023-mod-lua-openresty"
    env = {"PATH": f"{folder}:{os.environ['PATH']}"}
    words = (name, "--setting", "published", "--budget", "20s", "--json", str(tmp_path / "out.json"))
    try:
        done = dragstrip_run(tmp_path, "check", "--yes", *words, env=env)
    finally:
        shutil.rmtree(folder)
    assert done.returncode in (0, 3), done.stderr
    ((found,),) = (json.loads((tmp_path / "out.json").read_text()),)
    with Store(tmp_path / "races.sqlite") as store:
        race = store.load(found["published"]["race"])
    assert {one.name: one.version for one in race.entrants}["openresty"] == "9.9.9.1 (ngx_lua-0.10.99)"
    assert not any(one.out for one in race.entrants)
    assert found["published"]["stand_ins"] == []
    decided = (Outcome.HOLDS, Outcome.DIRECTION, Outcome.OVERTURNED, Outcome.SAME)
    # A disturbed machine may leave it open, and says so.
    assert found["published"]["verdict"] in decided or not is_done(definitions.load(name), PUBLISHED, race)
