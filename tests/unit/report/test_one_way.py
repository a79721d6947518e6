"""One difference is said one way: the better one first, the same ratio and interval, in every format."""

from __future__ import annotations

import html
import lzma
import re
from functools import cache
from pathlib import Path

import pytest
from reports import Reader, rendered, shown, told

from dragstrip.analysis import Pair
from dragstrip.metrics import KNOWN
from dragstrip.record import Race
from dragstrip.report import figures
from dragstrip.report.race import charts, markdown
from dragstrip.report.race.badge import column_badge
from dragstrip.report.race.headline import column_headline
from dragstrip.report.race.summary import JudgedRace, Part, behind, better_first, shown_beside, shown_pairs
from dragstrip.report.race.wording import sentence
from dragstrip.store.database import Store

ROOT = Path(__file__).parents[3]
CLAIMS = sorted((ROOT / "docs" / "claims").glob("*.race.xz"))
#: Of the stores one, which all versions hold; of the claims every second.
STORED = [ROOT / "tests" / "stores" / "schema-6.race.xz", *CLAIMS[::2]]

#: Each metric's sentence, with names and ratio to read.
NAMED = {"best": r"(?P<best>\S+)", "other": r"(?P<other>\S+)", "ratio": r"(?P<ratio>[\d.,]+)"}
SAID = {name: re.compile(metric.sentence.format(**NAMED)) for name, metric in KNOWN.items()}


@pytest.fixture(scope="module", params=STORED, ids=lambda path: path.name.partition(".")[0])
def race(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Race:
    folder = tmp_path_factory.mktemp("stored")
    file = folder / "one.race"
    file.write_bytes(lzma.decompress(request.param.read_bytes()))
    with Store(folder / "races.sqlite") as store:
        return store.load(store.import_race(file))


@cache
def judged_of_id(race_id: str) -> JudgedRace:
    return JudgedRace.of(_races[race_id])


_races: dict[str, Race] = {}


def judged_of(race: Race) -> JudgedRace:
    _races[race.id] = race
    return judged_of_id(race.id)


def parts_of(race: Race) -> list[Part]:
    return [part for part in judged_of(race).parts if part.rows]


def bounded(part: Part) -> list[Pair]:
    """The pairs with an interval, by every metric, that terminal and page show."""
    listed = [*shown_pairs(part.verdict, part.names, every=True), *shown_beside(part.verdict, part.names, every=True)]
    return [pair for pair in listed if figures.finite(pair.low) is not None]


def test_every_shown_pair_has_the_better_one_first_and_the_same_numbers(race: Race) -> None:
    everything = shown(race, width=250, all_pairs=True, verbose=True)
    for part in parts_of(race):
        for pair in bounded(part):
            assert pair.ratio >= 1
            at, span = figures.times(pair.ratio, pair.low, pair.high)
            row = rf"{re.escape(pair.a)}  *(against)? +{re.escape(pair.b)} .*{re.escape(at)} +{re.escape(span)} "
            assert re.search(row, everything), (pair.a, pair.b, pair.metric)


def test_sentences_say_the_same_ratio_and_agree_with_the_verdict(race: Race) -> None:
    sentences = {pair["sentence"].rstrip(".") for pair in told(race)["pairs"]}
    for part in parts_of(race):
        for pair in bounded(part):
            text = sentence(pair)
            assert text in sentences
            at, span = figures.times(pair.ratio, pair.low, pair.high)
            assert not pair.verdict.separated or figures.called(pair) == KNOWN[pair.metric].better
            if pair.verdict.separated and pair.decided and not pair.unfit:
                found = SAID[pair.metric].match(text)
                assert found, text
                assert (found["best"], found["ratio"]) == (pair.a, at)
                assert span in text
            assert "% faster" not in text
            assert "% slower" not in text


def test_badge_headline_markdown_page_and_chart_say_the_same_lead(race: Race) -> None:
    page = html.unescape("".join(Reader(rendered(race)).text))
    text = markdown.race(judged_of(race))
    for part in parts_of(race):
        if part.void or part.unfit or len(part.rows) < 2:
            continue
        first, second = part.names[:2]
        lead = behind(part.verdict, second, first)
        assert lead in page
        if len(judged_of(race).parts) == 1:
            assert lead in text.replace("\\", "")
        pairs = [better_first(pair) for pair in part.verdict.pairs if {pair.a, pair.b} == {first, second}]
        for pair in pairs:
            at, span = figures.times(pair.ratio, pair.low, pair.high)
            alone = column_badge(part)
            if alone.word.lower() in (KNOWN[pair.metric].better, KNOWN[pair.metric].best):
                assert f"{at} ×" in alone.text
                assert f"({span})" in alone.text
                assert alone.text.startswith(pair.a)
                assert at in column_headline(part)
            if span:
                assert f"{at} ×, " in str(charts.pairs(part))


def test_no_report_says_it_another_way(race: Race) -> None:
    """A ratio is never a percentage, never below 1 for a separated pair, and no word means its inverse."""
    top = f"{shown(race, width=200)} {markdown.race(judged_of(race))} {''.join(Reader(rendered(race)).text)}"
    for word in ("efficiency of", "CPU efficiency", "uses less", "uses more", "takes +", "% on the next"):
        assert word not in top


def test_requests_and_cpu_stand_beside_each_other_and_the_deciding_one_is_marked(race: Race) -> None:
    for part in parts_of(race):
        metric = part.verdict.metric
        if KNOWN[metric].quantile:
            continue
        text = markdown.race(judged_of(race))
        if len(judged_of(race).parts) == 1:
            assert f"**{KNOWN[metric].head} (decides)**" in text.replace("\\", "")
        raw = shown(race, width=80)
        lines = [line for line in raw.splitlines() if "requests/s" in line and "CPU µs/request" in line]
        assert lines, raw
        assert sum("decides" in line for line in raw.splitlines()) >= 1
        assert all(len(line) <= 80 for line in raw.splitlines())
