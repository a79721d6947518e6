"""What was requested is shown wherever a race is: terminal, page, Markdown, JSON, charts; never a secret."""

from __future__ import annotations

import html
import json
from dataclasses import replace

import jsonschema
import pytest
import samples
from reports import judged_of, rendered, shown, told

from dragstrip.errors import BadUsage
from dragstrip.racing.request import out_and_unknown, refuse_missing_secrets
from dragstrip.record import Ending, Race
from dragstrip.report.race import charts, export, markdown, notes
from dragstrip.report.race.summary import JudgedRace
from dragstrip.report.race.tables import block_rows, round_rows
from dragstrip.requested import MASK, SHOWN_CHARACTERS, described, title_of, typed_as
from dragstrip.workload.learned import SeenResponse, answered
from dragstrip.workload.recorded import recorded
from dragstrip.workload.typed import TypedRequest

SECRET = "Bearer of-the-secret"


def orders(**changes: object) -> str:
    """The recorded definition of a typed request with two fields that change."""
    typed = TypedRequest(
        path="/orders",
        method="POST",
        headers=(("Authorization", SECRET), ("Accept", "application/json")),
        body=b'{"item": "{{tea}}"}',
        **changes,  # type: ignore[arg-type]
    )
    bodies = (b'{"id": 42, "at": 1.5, "rid": "a"}', b'{"id": 42, "at": 2.5, "rid": "b"}')
    return recorded(answered(typed, [SeenResponse(status=201, body=body) for body in bodies], "a"))


@pytest.fixture(scope="module")
def typed_race() -> Race:
    return samples.race(definition=orders(status=201), workload="orders-123456", name="POST /orders")


COMPARED = "the status and the JSON: 1 of 3 fields by value, 2 by type because they change (/at, /rid)"


def test_each_report_says_the_request_and_what_was_compared(typed_race: Race) -> None:
    wide = shown(typed_race, width=200)
    assert f"\nPOST /orders → 201; compared: {COMPARED}\n" in wide
    assert "\nPOST /orders → 201, 32 connections" in wide
    text = markdown.race(JudgedRace.of(typed_race))
    assert "POST /orders → 201; compared: the status and the JSON" in text
    page = rendered(typed_race)
    assert "<title>POST /orders → 201: quick, steady – Dragstrip</title>" in page
    assert f'<p class="requested">POST /orders → 201; compared: {COMPARED}</p>' in page
    (request,) = told(typed_race)["columns"][0]["requests"]
    assert request["request"] == "POST /orders → 201"
    assert request["compared"] == COMPARED
    for every in (wide, text, page):
        assert "orders-123456" not in every.partition('id="race"')[0]
    again = "--path /orders -m POST -H 'Authorization: …' -H 'Accept: application/json' -b '{\"item\": \"{{tea}}\"}'"
    assert f"{again} --status 201 --ignore /at --ignore /rid --threads 1" in html.unescape(page)
    assert {row["workload"] for make in (block_rows, round_rows) for row in make(typed_race)} == {"POST /orders"}
    (part,) = JudgedRace.of(typed_race).parts
    assert "POST /orders → 201" in json.dumps(charts.draw("ranking", part)["title"], ensure_ascii=False)


def test_each_running_server_is_said_with_its_own_path(typed_race: Race) -> None:
    """A URL's path replaces the request's; the command that races the same again has the URLs."""
    quick, steady = (
        replace(entrant, kind="url", parameters={"url": f"http://127.0.0.1:3000{path}"})
        for entrant, path in zip(typed_race.entrants, ("/orders", "/api/orders?v=2"), strict=True)
    )
    race = samples.changed(typed_race, entrants=(quick, steady))
    said = "POST /orders → 201 (steady: /api/orders?v=2)"
    assert f"\n{said}; compared: {COMPARED}\n" in shown(race, width=200)
    assert f"\n{said}, 32 connections" in shown(race, width=200)
    text, page = markdown.race(JudgedRace.of(race)), rendered(race)
    assert f"{said}; compared: the status and the JSON" in text
    assert f"{said}, ended: decided" in text
    assert f'<p class="requested">{said}; compared: {COMPARED}</p>' in page
    assert f"<h3>{said}</h3>" in page
    again = "race quick=http://127.0.0.1:3000/orders 'steady=http://127.0.0.1:3000/api/orders?v=2' -m POST"
    assert again in html.unescape(page)
    assert told(race)["columns"][0]["own_paths"] == {"steady": "/api/orders?v=2"}
    jsonschema.validate(told(race), export.schema())
    (part,) = JudgedRace.of(race).parts
    assert said in json.dumps(charts.draw("ranking", part)["title"], ensure_ascii=False)
    same = samples.changed(race, entrants=(quick, replace(steady, parameters=quick.parameters)))
    assert "POST /orders → 201; compared" in markdown.race(JudgedRace.of(same))


def test_a_hint_names_what_a_resumed_race_needs_again(typed_race: Race) -> None:
    """Header and variables, which its record masks; not those of contenders that are out."""
    race = samples.race({"new": 40_200.0, "old": 40_000.0}, noise=0.05, out={"steady": "died"}, finished=Ending.BUDGET)
    secret = {"command": "./x", "secret API_KEY": "0:0"}
    entrants = tuple(replace(one, kind="serve", parameters=secret) for one in race.entrants if one.name != "old")
    race = samples.changed(race, entrants=(*entrants, race.entrants[1]), definition=typed_race.columns[0].definition)
    hint = notes.undecided_hint(judged_of(race, more_s=97.0), "last")
    assert hint.endswith("race --resume last --budget +2m -H 'Authorization: …' --env new.API_KEY"), hint
    with pytest.raises(BadUsage, match="because they are secret") as refused:
        refuse_missing_secrets(race, ())
    assert "-H 'Authorization: …' --env new.API_KEY=VALUE" in str(refused.value)
    assert "steady" not in str(refused.value)
    with pytest.raises(BadUsage, match=r"no value of new\.API_KEY, because it is secret"):
        refuse_missing_secrets(race, (("authorization", SECRET),))
    assert out_and_unknown(race) == ("steady",)


def test_the_page_shows_headers_and_bodies_and_no_secret(typed_race: Race) -> None:
    page = rendered(typed_race)
    assert f"Authorization: {MASK}" in page
    assert "Accept: application/json" in page
    assert "{&#34;item&#34;: &#34;{{tea}}&#34;}" in page
    assert "{&#34;id&#34;: 42" in page
    assert "of-the-secret" not in page
    jsonschema.validate(told(typed_race), export.schema())


def test_a_named_workload_is_named_before_its_requests() -> None:
    definition = json.dumps({"name": "hello", "title": "greets", "request": {"path": "/"}, "answer": {"body": "Hi"}})
    assert title_of("hello", definition) == "hello: GET / → 200"
    assert title_of("hello", "") == "hello"
    assert title_of("hello", "{") == "hello"
    several = {
        "title": "several",
        "request": [{"name": name, "path": f"/{name}", "answer": {"body": name}} for name in "abc"],
    }
    assert title_of("mix", json.dumps(several)) == "mix: GET /a → 200, GET /b → 200 and 1 more"
    assert not typed_as(definition)
    assert typed_as(orders(status=201)) == "POST /orders"


def test_a_long_body_is_shown_from_its_beginning() -> None:
    definition = {"title": "t", "request": {"path": "/", "body": "x" * 9000}, "answer": {"body_base64": "//79"}}
    (one,) = described(json.dumps(definition | {"answer": {"body_base64": "//79", "compare": "bytes"}}))
    assert one.body == f"{'x' * SHOWN_CHARACTERS} … (9,000 characters)"
    assert one.expected == "3 bytes, which are not text: ff fe fd"


def test_an_older_race_says_its_workloads_name() -> None:
    race = samples.race()
    assert "compared:" not in shown(race)
    assert told(race)["columns"][0]["requests"] == []
    assert '<p class="requested">hello</p>' in rendered(race)
