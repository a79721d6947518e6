"""A load's page in a real browser, and its other formats: all are made of its JSON alone."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

pytest.importorskip("dragstrip._engine", reason="the engine is not built: make build")
from browser import Watched, browser, contrast_and_names
from load_samples import SECOND_NS, part, result
from loads import SCHEMA

from dragstrip.loading.arrivals import Offer
from dragstrip.loading.request import LoadRequest
from dragstrip.record import LoadVerdict
from dragstrip.report.load import charts, export, formats, page
from dragstrip.report.load.limits import limits
from dragstrip.report.load.report import LoadReport
from dragstrip.store.json_values import JsonObject

HOSTILE = "<script>alert(1)</script>"
SECRETS = ("Bearer hidden", "hidden2", "hidden3", "sid=hidden4")


def ugly(**known: Any) -> JsonObject:
    """Some seconds of a load with failures, a missed limit, secrets, and a server that sends markup."""
    bad = part(
        sent=1005,
        failed=5,
        errors={"wrong_status": 5},
        statuses={200: 995, 500: 5},
        samples={"wrong_status": f"HTTP/1.1 500 {HOSTILE}\r\nSet-Cookie: sid=hidden4\r\n\r\n"},
    )
    request = LoadRequest(
        url=f"http://127.0.0.1/?q={HOSTILE}&token=hidden2",
        method="POST",
        headers=(("Authorization", "Bearer hidden"), ("X-Mark", HOSTILE)),
        body=b'{"password": "hidden3", "name": "shown"}',
    )
    run = result(part(), bad, part(max_ns=SECOND_NS), request=request, **known)
    content = export.load_json(run, limits(run, max_p99_s=0.001, max_errors=0.5))
    jsonschema.validate(content, json.loads(SCHEMA.read_text()))
    return content


@pytest.fixture(scope="module")
def running() -> Iterator[Any]:
    with browser() as one:
        yield one


@pytest.mark.thorough
@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
@pytest.mark.parametrize("open_loop", [False, True])
def test_every_chart_is_drawn_without_an_error_or_a_request(
    running: Any, tmp_path: Path, width: int, theme: str, open_loop: bool
) -> None:
    """Each chart has a text for those who don't see it and its numbers in a table; axe finds nothing; nothing is wider
    than the screen; no text from outside runs, and no secret is in the file."""
    known: dict[str, Any] = {}
    content = ugly(**known)
    if open_loop:
        run = result(part(offered=1000, departed=1000, unsent=0), part(offered=1000, departed=900, unsent=0))
        late = run.latency_hdr
        request = replace(run.request, offer=Offer(rate_per_s=1000.0))
        content = export.load_json(replace(run, request=request, latency_sent_hdr=late, lag_hdr=late))
    file = tmp_path / "load.html"
    file.write_text(page.render(content, LoadVerdict.MISSED, "0a0000000001"))
    assert not any(secret in file.read_text() for secret in SECRETS)
    watched = Watched(running, file.as_uri(), width=width, theme=theme)
    shown = watched.page
    shown.goto(file.as_uri())
    while shown.locator("details:not([open]) > summary").count():
        shown.locator("details:not([open]) > summary").first.click()
    for name in ("latency", "rate", "times"):
        shown.wait_for_selector(f"#chart-{name}[data-drawn] svg", timeout=20_000)
        assert len(str(shown.locator(f"#chart-{name}").get_attribute("aria-label"))) > 30
    assert shown.title().endswith("per second – Dragstrip")
    assert shown.locator(".badge b").inner_text() == "LIMIT MISSED"
    assert shown.locator("#latency tbody tr").count() == (10 if open_loop else 11)
    assert shown.locator("#time tbody tr").count() == len(content["slices"])  # type: ignore[arg-type]
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    assert contrast_and_names(shown) == []
    if not open_loop:
        assert HOSTILE in shown.locator("main").inner_text()
        assert "wrong status" in shown.locator("#failures").inner_text()
        assert "shown" in shown.locator("#request pre").inner_text()
    assert watched.said == []
    watched.close()


@pytest.mark.thorough
def test_a_load_that_measured_nothing_has_a_page(running: Any, tmp_path: Path) -> None:
    """It has no chart and no script but the page's own."""
    nothing = part(requests=0, answered=0, failed=1000, errors={"reset": 1000}, latency_sum_ns=0)
    file = tmp_path / "load.html"
    file.write_text(page.render(export.load_json(result(nothing)), LoadVerdict.FAILED))
    watched = Watched(running, file.as_uri())
    watched.page.goto(file.as_uri())
    assert watched.page.locator(".badge b").inner_text() == "FAILED"
    assert watched.page.locator(".chart").count() == 0
    assert contrast_and_names(watched.page) == []
    assert watched.said == []
    assert file.stat().st_size < 100_000
    watched.close()


def test_of_a_long_run_the_worst_of_several_seconds_is_drawn() -> None:
    """A spike of one second in hours is still in the chart, which has a bounded number of points."""
    parts = [part() for _ in range(3 * charts.MAX_POINTS)]
    parts[1234] = part(max_ns=SECOND_NS, requests=1)
    drawn = charts.charts(LoadReport.of(export.load_json(result(*parts))))
    for name, worst in (("times", 1e6), ("rate", 1.0)):
        (values,) = drawn[name]["datasets"].values() if "datasets" in drawn[name] else [drawn[name]["data"]["values"]]  # type: ignore[union-attr, index, call-overload]
        assert len(values) <= 3 * charts.MAX_POINTS
        assert worst in [one["at"] for one in values]


def test_csv_and_markdown_have_the_numbers_and_no_secret_or_markup() -> None:
    content = ugly()
    report = LoadReport.of(content)
    rows = list(csv.DictReader(io.StringIO(formats.csv_text(report))))
    assert [(row["at_s"], row["requests"], row["failures"]) for row in rows] == [
        ("0.0", "1000", "0"), ("1.0", "1000", "5"), ("2.0", "1000", "0"),
    ]  # fmt: skip
    text = formats.markdown(report, "0a0000000001")
    assert "- **missed**: p99 10.00 ms, at most 1.00 ms" in text
    assert "  - 5 wrong status: " in text
    assert "| p99 | 10.00 ms | 30 |" in text
    assert "<script>" not in text
    for secret in SECRETS:
        assert secret not in text + formats.csv_text(report) + json.dumps(content)


def test_a_long_or_binary_body_is_kept_by_length_and_digest_alone() -> None:
    for body in (b"x" * (export.MAX_BODY_BYTES + 1), b"\xff\xfe"):
        run = result(part(), request=LoadRequest(url="http://127.0.0.1/", body=body))
        request = LoadReport.of(export.load_json(run)).request
        assert (request.body, request.body_bytes, len(request.body_sha256)) == (None, len(body), 64)
    run = result(part(), request=LoadRequest(url="http://127.0.0.1/", body=b"x" * export.MAX_BODY_BYTES))
    assert LoadReport.of(export.load_json(run)).request.body_sha256 == ""
