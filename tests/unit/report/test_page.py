"""The page in a real browser: every section, both themes, on a phone and on paper; nothing leaves it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import samples
from browser import Watched, browser, contrast_and_names

from dragstrip.record import Ending, Race
from dragstrip.report.race import charts
from dragstrip.report.race import page as race_page
from dragstrip.report.race.summary import JudgedRace

HOSTILE = "<script>alert(1)</script>"
NAMES = ("return", "static", "twin", "lua", "node", "go", HOSTILE, "slow")


def race_of_eight() -> Race:
    """Eight contenders, two tied, one named as an attack, one out; a void block; a server with hostile headers."""
    rates = dict(zip(NAMES, (118e3, 96e3, 96e3, 90e3, 62e3, 74e3, 50e3, 4e3), strict=True))
    race = samples.race(rates, rounds=14, passes=12, out={"dud": "it said \x1b[2J<img src=x onerror=alert(2)>"})
    nasty = {"server header": f"{HOSTILE}\x1b]0;owned\x07<svg onload=alert(3)>", "HTTP version": "1.1"}
    entrants = tuple(replace(e, parity=nasty) if e.name == HOSTILE else e for e in race.entrants)
    first = race.rounds[0]
    first = replace(
        first, blocks=(replace(first.blocks[0], void=samples.voided("errors", **{HOSTILE: 1})), *first.blocks[1:])
    )
    sampled = samples.profile("return", **samples.stacks({HOSTILE: 60, "parse": 70}))
    sampled = replace(sampled, counts={**sampled.counts, "cpu_ns": 6e8})
    return samples.changed(race, entrants=entrants, rounds=(first, *race.rounds[1:]), profiles=(sampled,))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "race.html"
    race = race_of_eight()
    race_page.write(JudgedRace.of(race), path)
    assert path.stat().st_size < 3 * 2**20
    return path


@pytest.fixture(scope="module")
def running() -> Iterator[Any]:
    with browser() as one:
        yield one


@pytest.mark.parametrize(
    ("width", "theme"),
    [
        (1280, "light"),
        pytest.param(1280, "dark", marks=pytest.mark.thorough),
        pytest.param(390, "light", marks=pytest.mark.thorough),
        (390, "dark"),
    ],
)
@pytest.mark.thorough
def test_every_section_opens_without_an_error_or_a_request(
    running: Any, file: Path, width: int, theme: str, tmp_path: Path
) -> None:
    """Each link of the page's own list leads to its section and unfolds it, every detail unfolds, every chart is drawn,
    and axe finds nothing; neither the page nor, on a phone, any table is wider than the screen; no text from outside
    runs; no link to skip comes before the first chart.
    """
    watched = Watched(running, file.as_uri(), width=width, theme=theme)
    shown = watched.page
    shown.goto(file.as_uri())
    for name in ("ranking", "pairs"):
        shown.wait_for_selector(f"#chart-{name}[data-drawn] svg", timeout=20_000)
    assert shown.locator("header a").count() == 0
    assert shown.locator(".badge").inner_text().split()[0] == "FASTEST"
    assert contrast_and_names(shown) == []
    links = shown.locator("nav a")
    assert links.count() >= 12
    for number in range(links.count()):
        place = links.nth(number).get_attribute("href")
        links.nth(number).click()
        assert shown.locator(f"{place} h2").first.is_visible()
        assert shown.url.endswith(place)
        shown.wait_for_function(f"!document.querySelector('{place} > details:not([open])')")
    while shown.locator("details:not([open]) > summary").count():
        shown.locator("details:not([open]) > summary").first.click()
    for name in charts.CHARTS:
        shown.wait_for_selector(f"#chart-{name}[data-drawn] svg", timeout=20_000)
    assert shown.locator("details[open]").count() == shown.locator("details").count() > 0
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    cut = "[...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth).length"
    assert shown.evaluate(cut) == 0 or width > 400
    assert "0k" not in shown.locator("#chart-ranking svg text").all_inner_texts()
    assert contrast_and_names(shown) == []
    assert HOSTILE in shown.locator("main").inner_text()
    assert shown.locator("#chart-ranking svg text", has_text="<script>").count() >= 1
    assert watched.said == []
    watched.close()


@pytest.mark.thorough
def test_an_icicle_graph_zooms_by_keys_and_mouse_and_finds_functions(running: Any, tmp_path: Path) -> None:
    """Two revisions: the function that one of them added is not hatched; axe finds nothing."""
    file = tmp_path / "planted.html"
    file.write_text(race_page.render(JudgedRace.of(samples.planted())))
    watched = Watched(running, file.as_uri())
    shown = watched.page
    shown.goto(f"{file.as_uri()}#why")
    nodes = shown.locator(".icicle > svg")
    names = nodes.locator("text").all_text_contents()
    assert names == ["all", "main [app]", "render [app]", "parse [app]", "planted [app]"]
    assert nodes.nth(4).get_attribute("class") == "more"
    assert nodes.nth(2).get_attribute("class") == "even"
    wide = shown.locator(".icicle").bounding_box()["width"]
    nodes.first.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
        shown.keyboard.press(key)
    assert "planted [app]; 0.000 → 0.6" in str(shown.locator(".icicle-said").text_content())
    assert nodes.nth(4).bounding_box()["width"] == pytest.approx(wide, rel=0.01)
    assert not nodes.nth(2).is_visible()
    shown.keyboard.press("Escape")
    assert nodes.nth(2).is_visible()
    nodes.nth(3).click()
    assert nodes.nth(3).bounding_box()["width"] == pytest.approx(wide, rel=0.01)
    shown.get_by_role("button", name="zoom out").click()
    shown.locator(".icicle-tools input").fill("planted")
    assert str(shown.locator(".icicle-tools output").text_content()).startswith("1 found, 5.")
    assert contrast_and_names(shown) == []
    assert watched.said == []
    watched.close()


def test_on_a_phone_a_figure_stands_apart_from_its_interval(running: Any, file: Path) -> None:
    """In the table of figures both stand in one line there: 35,192 28,391–43,622."""
    watched = Watched(running, file.as_uri(), width=390)
    shown = watched.page
    shown.goto(f"{file.as_uri()}#figures")
    cells = shown.locator("#figures td[data-label='requests/s']").all_inner_texts()
    assert len(cells) == len(NAMES)
    assert all(re.fullmatch(r"[\d,.]+\s+[\d,.]+–[\d,.]+", cell.strip()) for cell in cells), cells
    watched.close()


def test_options_are_not_broken_and_settings_are_in_words(running: Any, tmp_path: Path) -> None:
    """A browser breaks lines after an option's dashes; `{cores}` is a definition's own notation."""
    race = samples.race(rounds=3, finished=Ending.BUDGET)
    race = samples.changed(
        race, entrants=tuple(replace(one, parameters={"workers": "{cores}"}) for one in race.entrants)
    )
    path = tmp_path / "race.html"
    race_page.write(JudgedRace.of(race), path)
    watched = Watched(running, path.as_uri())
    watched.page.goto(f"{path.as_uri()}#contenders")
    cells = watched.page.locator("#contenders td[data-label='settings']").all_inner_texts()
    assert cells == ["workers = one per core"] * 2
    option = watched.page.locator("#notes .option", has_text="--budget").first
    assert option.evaluate("(one) => getComputedStyle(one).whiteSpace") == "nowrap"
    watched.close()


def test_the_theme_button_turns_page_and_charts(running: Any, file: Path) -> None:
    """Light, dark, and back to what the system says; the charts' own text follows."""
    watched = Watched(running, file.as_uri(), theme="light")
    shown = watched.page
    shown.goto(file.as_uri())
    shown.wait_for_selector("#chart-ranking[data-drawn] svg")
    colour = "getComputedStyle(document.querySelector('#chart-ranking svg text')).fill"
    ground = "getComputedStyle(document.body).backgroundColor"
    light = shown.evaluate(f"[{colour}, {ground}]")
    shown.get_by_role("button", name="dark").click()
    dark = shown.evaluate(f"[{colour}, {ground}]")
    assert light[0] != dark[0]
    assert light[1] != dark[1]
    assert shown.get_by_role("button", name="dark").get_attribute("aria-pressed") == "true"
    shown.emulate_media(media="print")
    assert shown.evaluate(f"[{colour}, {ground}]") == light, "paper is always light"
    shown.emulate_media(media="screen")
    shown.get_by_role("button", name="auto").click()
    assert shown.evaluate(f"[{colour}, {ground}]") == light
    assert watched.said == []
    watched.close()


def test_the_data_can_be_downloaded(running: Any, file: Path, tmp_path: Path) -> None:
    """JSON and every block, from the file itself, without a network."""
    watched = Watched(running, file.as_uri())
    watched.page.goto(file.as_uri())
    watched.page.locator("#data summary").first.click()
    for number, suffix in enumerate((".json", ".csv.gz")):
        with watched.page.expect_download() as waiting:
            watched.page.locator("#data a[download]").nth(number).click()
        assert waiting.value.suggested_filename.endswith(suffix)
        assert Path(waiting.value.path()).stat().st_size > 1000
    assert watched.said == []
    watched.close()
