"""The verdict at a glance: headline and badge, why there is none, and the exit code that goes with it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
import samples
from reports import (
    SPEEDS,
    VOID,
    Reader,
    judged_of,
    shown,
)
from rich.console import Console

from dragstrip.analysis import judge
from dragstrip.analysis.fitness import GeneratorLimit
from dragstrip.commands import race as cli_race
from dragstrip.commands.conclusion import conclude
from dragstrip.record import Ending, Race
from dragstrip.report.race import (
    badge,
    headline,
)
from dragstrip.report.race import export as race_export
from dragstrip.report.race import page as race_page
from dragstrip.report.race.summary import JudgedRace
from dragstrip.store.database import Store


def test_the_headline_says_who_leads_and_by_how_much(race: Race) -> None:
    """Several contenders: the leader and its lead; two: the pair's own sentence; a tie at the top names all of it."""
    several = headline.headline(JudgedRace(race, judge(race)))
    assert re.match(r"return is the fastest of 4: it served 1\.2\d+ times the requests of (static|twin) \(", several)
    two = samples.race()
    assert headline.headline(JudgedRace(two, judge(two))).startswith("quick served 1.3")
    tied = samples.race({"one": 50_000.0, "two": 50_000.0, "three": 9_000.0})
    assert "are tied at the top" in headline.headline(JudgedRace(tied, judge(tied)))
    early = samples.race({"one": 40_000.0, "two": 39_900.0, "three": 1000.0}, rounds=8, noise=0.05)
    told = headline.headline(JudgedRace(early, judge(early)))
    assert told.endswith("It is too early to call 2 of the 3 pairs.")
    assert "tied" not in told, "nothing is known yet of those that no interval tells apart"


def test_the_headline_never_claims_what_was_not_measured() -> None:
    """No rounds, too few rounds, a single contender left, a void race: each said instead of a verdict."""
    none = samples.race(rounds=0, finished=Ending.NONE)
    assert "No verdict yet: 0 rounds" in headline.headline(JudgedRace(none, judge(none)))
    few = samples.race(rounds=3, finished=Ending.INTERRUPTED)
    assert "too early to call" in headline.headline(JudgedRace(few, judge(few)))
    alone = samples.race({"quick": 1000.0}, out={"dud": "died"}, finished=Ending.TOO_FEW)
    assert headline.headline(JudgedRace(alone, judge(alone))) == (
        "No verdict: fewer than two contenders are left in the race; out: dud."
    )
    whole = samples.race()
    void = samples.said("void passes", "void", "half of the passes are void: steal")
    assert "void" in headline.headline(JudgedRace(whole, judge(whole), [void]))
    assert "void" in headline.headline(JudgedRace(replace(whole, finished=Ending.VOID), judge(whole)))


GLANCES = {
    "faster": (
        samples.race({"new": 41_500.0, "old": 40_000.0}, rounds=14),
        (),
        r"FASTER new: 1\.03\d × old \(1\.03\d–1\.04\d\) new served 1\.03\d times the requests of old",
    ),
    "far faster": (
        samples.race({"new": 90_000.0, "old": 40_000.0}, rounds=14),
        (),
        r"FASTER new: 2\.2\d × old \(.* new served 2\.2\d times",
    ),
    "fastest": (
        samples.race(SPEEDS, rounds=14),
        (),
        r"FASTEST return: 1\.2\d × the next, \w+ \(.* return is the fastest",
    ),
    "same": (
        samples.race({"new": 40_000.0, "old": 40_000.0}, rounds=40, noise=0.004),
        (),
        r"SAME \w+ and \w+ within 1 %, 0\.99\d–1\.00\d × \w+ and \w+: same within 1 % \(0\.99\d–1\.00\d ×",
    ),
    "too close": (
        samples.race({"new": 40_200.0, "old": 40_000.0}, rounds=12, noise=0.05),
        (),
        r"TOO CLOSE TO CALL \w+ against \w+, 0\.9\d+–1\.0\d+ × \w+ against \w+: too close to call, \w+ served between",
    ),
    "too early": (samples.race(rounds=3), (), r"TOO EARLY quick: 1\.3\d × steady after 3 rounds quick against steady"),
    "one left": (
        samples.race({"quick": 1000.0}, rounds=0, out={"dud": "died"}, finished=Ending.TOO_FEW),
        (),
        "NO VERDICT 1 of 2 contenders left No verdict: fewer than two contenders are left in the race; out: dud",
    ),
    "void": (samples.race(), [VOID], r"VOID no result for quick and steady This race is void, .* half of the passes"),
}


@pytest.mark.parametrize("kind", GLANCES)
def test_badge_and_headline_alone_tell_who_is_faster_by_how_much(kind: str) -> None:
    """The five-second test: who, which way, how much, or that nothing can be said and why; terminal and page alike."""
    race, checks, wanted = GLANCES[kind]
    judged = JudgedRace(race, judge(race), checks)
    said = f"{badge.race_badge(judged).line} {headline.headline(judged)}"
    assert re.match(wanted, said), said
    top = re.sub(r"\s+", " ", shown(race, width=80, checks=checks)).strip()
    assert top.startswith(said)
    text = race_page.render(judged)
    before = re.sub(r"\s+", " ", "".join(Reader(text.partition("<header>")[2].partition("</header>")[0]).text))
    for part in (badge.race_badge(judged).text, headline.headline(judged)):
        assert part in before


def test_where_the_race_chose_its_metric_the_headline_says_which_and_why() -> None:
    """CPU decides, the badge says so, and the reason stands behind the verdict."""
    race = samples.race({"lavish": 40_000.0, "thrifty": 30_000.0})
    cpu_ns = {"lavish": 54 * samples.MS, "thrifty": 20 * samples.MS}
    cheap = tuple(
        replace(r, blocks=tuple(replace(block, server_cpu_ns=cpu_ns[block.contender]) for block in r.blocks))
        for r in race.rounds
    )
    race = samples.changed(race, rounds=cheap, plan=replace(race.plan, metric="cpu"))
    judged = judged_of(race, metric_reason=GeneratorLimit(("lavish",)))
    assert headline.headline(judged).endswith(
        " CPU time per request decides: the load generator, not lavish, limited the throughput."
    )
    assert badge.race_badge(judged).line.startswith("LESS CPU thrifty: lavish needs 2.0")
    made = race_export.race_json(judged)
    jsonschema.validate(made, race_export.schema())
    assert (made["columns"][0]["metric"], made["columns"][0]["metric_reason"]) == (
        "cpu",
        "the load generator, not lavish, limited the throughput",
    )


def test_a_race_with_no_result_says_which_check_and_what_to_do_on_this_machine() -> None:
    """Exit code 3's sentence: by the machine's own cores, its host, and whether its cores were kept awake."""
    race = samples.race()
    nothing = samples.race(rounds=0, finished=Ending.BUDGET)
    shared = replace(nothing, machine=replace(nothing.machine, virtual="kvm"))
    why = headline.no_result_reason(JudgedRace(shared, judge(shared)))
    for part in ("no round", "virtual machine (kvm)", "--awake auto", "two cores or fewer"):
        assert part in why
    awake = replace(nothing, machine=replace(nothing.machine, virtual="none", kept_awake=True))
    assert "--awake" not in headline.no_result_reason(JudgedRace(awake, judge(awake)))
    assert "because of the check “passes”" in headline.no_result_reason(JudgedRace(race, judge(race), [VOID]))
    limit = samples.said("Little's law", "void", "the generator is the limit")
    assert "--metric cpu" in headline.no_result_reason(JudgedRace(race, judge(race), [limit]))
    assert headline.no_result_reason(JudgedRace(race, judge(race))) == ""
    spent = samples.race({"new": 40_200.0, "old": 40_000.0}, rounds=12, noise=0.05, finished=Ending.BUDGET)
    assert headline.no_result_reason(JudgedRace(spent, judge(spent))) == "", "an honestly spent budget is an answer"


@pytest.mark.parametrize(
    ("race", "code"),
    [
        (samples.race(rounds=11), 0),
        (samples.race({"new": 40_200.0, "old": 40_000.0}, rounds=12, noise=0.05, finished=Ending.BUDGET), 0),
        (samples.race({"quick": 1000.0}, rounds=1, out={"dud": "died"}, finished=Ending.TOO_FEW), 1),
        (samples.race(rounds=11, finished=Ending.VOID), 3),
        (samples.race(rounds=0, finished=Ending.BUDGET), 3),
    ],
    ids=["told", "open", "alone", "void", "nothing"],
)
def test_a_race_exits_3_only_where_nothing_that_was_measured_can_stand(
    race: Race, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An open pair whose budget was spent is an answer; the message of 3 stands on stderr. The badge is kept."""
    place = tmp_path / "races.sqlite"
    with Store(place) as store:
        store.begin(race)
    options = cli_race.RaceOptions(**cli_race.race.make_context("race", ["--store", str(place)]).params)
    try:
        conclude(Console(width=80), race, options)
        ended = 0
    except SystemExit as leaving:
        ended = int(str(leaving.code))
    assert ended == code
    assert ("no valid result" in capsys.readouterr().err) is (code == 3)
    with Store(place) as store:
        assert badge.kept(store) == {race.id: badge.race_badge(JudgedRace.of(race)).line}
