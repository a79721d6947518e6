"""``dragstrip load`` without a server: what it refuses, and what it reports of a run."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace

import jsonschema
import pytest
from hdrh.histogram import HdrHistogram

pytest.importorskip("dragstrip._engine", reason="the engine is not built: make build")
from load_samples import SECOND_NS, part, result
from loads import SCHEMA

from dragstrip.commands.load import STYLES
from dragstrip.commands.main import main
from dragstrip.extras.compat import styles
from dragstrip.loading import request as loading_request
from dragstrip.loading.request import LoadRequest
from dragstrip.report.load import export
from dragstrip.report.load.bins import MOST, bins
from dragstrip.report.load.limits import limits
from dragstrip.report.load.report import LoadReport
from dragstrip.report.load.warnings import warnings


@pytest.mark.parametrize(
    ("words", "code", "remedy"),
    [
        (["http://192.0.2.1/"], 2, "127.0.0.1"),
        (["http://example.com/"], 2, "loads only the machine"),
        (["unix:/tmp/socket"], 2, "--unix PATH"),
        (["127.0.0.1:8080"], 2, "use http://127.0.0.1:8080/"),
        (["http://127.0.0.1:99999/"], 2, "not a valid URL"),
        (["http://me:secret@127.0.0.1/"], 2, "--basic-auth USER:PASS"),
        (["http://127.0.0.1/ä"], 2, "percent-encode"),
        (["http://127.0.0.1:1/"], 1, "start the server first"),
        (["http://127.0.0.1:1/", "-n", "2", "--check", "full"], 2, "3 or more"),
        (["https://127.0.0.1:1/", "--h2c"], 2, "use --http 2"),
        (["http://127.0.0.1:1/", "--cookie", "a"], 2, "NAME=VALUE"),
        (["http://127.0.0.1:1/", "--basic-auth", "me"], 2, "USER:PASS"),
        (["http://127.0.0.1:1/", "-C", "a=b", "-H", "cookie: c=d"], 2, "set the same header"),
        (["http://127.0.0.1:1/", "-n", "many"], 2, "20000"),
        (["http://127.0.0.1:1/", "-c", "100k"], 2, "fewer connections"),
        (["http://127.0.0.1:1/", "-d", "soon"], 2, "10s"),
        (["http://127.0.0.1:1/", "--timeout", "2m"], 2, "60s"),
        (["http://127.0.0.1:1/", "-H", "nonsense"], 2, "Accept: text/html"),
        (["http://127.0.0.1:1/", "-H", "Content-Length: 3"], 2, "own length"),
        (["http://127.0.0.1:1/", "-H", "X: a\r\nY: b"], 2, "not a valid header"),
        (["http://127.0.0.1:1/", "-m", "G T"], 2, "GET or POST"),
        (["http://127.0.0.1:1/", "-b", "@/no/such"], 2, "-b @/no/such: /no/such can't be read"),
        (["http://127.0.0.1:1/", "-k", "--no-keepalive"], 2, "contradict"),
        (["http://127.0.0.1:1/", "--max-errors", "200%"], 2, "0.1%"),
        (["http://127.0.0.1:1/", "--style", "siege"], 2, "wrk"),
        (["http://127.0.0.1:1/", "--json", "/no/such/out.json"], 2, "folder /no/such does not exist; create it"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], code: int, remedy: str
) -> None:
    """Named, with what would do."""
    monkeypatch.setattr(sys, "argv", ["dragstrip", "load", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert ended.value.code == code, err
    assert remedy in err
    assert out == ""


def test_the_generators_own_limit_is_a_warning() -> None:
    """From 95 % of its core on; below, waiting for the core is one."""
    full = warnings(result(part(engine_cpu_ns=int(0.96 * SECOND_NS))))
    assert any("generator was the limit" in line for line in full)
    assert warnings(result(part())) == []
    waits = warnings(result(part(engine_wait_ns=SECOND_NS // 5)))
    assert any("wait for its core 0" in line for line in waits)


def test_a_server_that_stops_responding_fails_the_run() -> None:
    """It did not stop where responses take that long as a rule, or where an open loop had nothing to send."""
    none = part(answered=0, requests=0, sent=0, max_ns=0)
    assert result(part(), none, none).trouble == (
        "the server stopped responding: nothing correct came in the last 2.00 s"
    )
    assert result(part(max_ns=SECOND_NS), none, none).trouble == ""
    assert result(part(), replace(none, offered=0), replace(none, offered=0)).trouble == ""
    assert result(part(), none, part()).trouble == ""


def test_latencies_that_were_cut_off_by_the_end_are_a_warning_where_they_are_the_slowest() -> None:
    """A stall at the very end stands in no histogram, so words must tell of it."""
    stalled = part(answered=1010, sent=1010, duration_ns=3 * SECOND_NS)
    (line,) = warnings(result(stalled))
    assert "10 responses arrived after the end of the run, the last 2.00 s after it" in line
    assert warnings(result(part(answered=1010, sent=1010, duration_ns=SECOND_NS + 5_000_000))) == []


def test_a_run_in_which_nothing_was_measured_has_null_and_no_number() -> None:
    """In JSON, in the percentile text, in every style."""
    nothing = part(requests=0, answered=0, failed=1000, errors={"reset": 1000}, latency_sum_ns=0)
    empty = result(nothing)
    found = export.load_json(empty, limits(empty, max_p99_s=1.0, max_errors=0.1))
    jsonschema.validate(found, json.loads(SCHEMA.read_text()))
    assert set(found["latency_us"].values()) == {None}
    assert [one["met"] for one in found["limits"]] == [False, False]
    assert "TotalCount     =        0.000" in export.hgrm(LoadReport.of(found))
    for run in (empty, replace(empty, slices=())):
        for style in STYLES:
            assert styles.styled(run, style)


def test_more_new_connections_than_local_ports_are_told_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A warning, no refusal: where the server closes, they come back at once."""
    monkeypatch.setattr(loading_request, "local_ports", lambda: 1000)
    notes = loading_request.notes_before
    many = LoadRequest(url="http://127.0.0.1/", requests=5000, keepalive=False)
    assert "1,000 local ports" in notes(many)[0]
    assert "--sources" in notes(many)[0]
    assert "--sources" not in notes(many, elsewhere=True)[0]
    assert notes(replace(many, keepalive=True)) == notes(replace(many, requests=900)) == []


def test_threads_beyond_cores_or_connections_are_not_started() -> None:
    """And that is said, where they were asked for."""
    cores, connections, notes = loading_request.worker_cores(LoadRequest(url="", threads=256, connections=300))
    assert len(cores) == len(os.sched_getaffinity(0)) == len(set(cores))
    assert connections == 300
    assert "-t 256" in notes[0]
    one, _, _ = loading_request.worker_cores(LoadRequest(url="", connections=1))
    assert len(one) == 1
    running, _, notes = loading_request.worker_cores(LoadRequest(url="", threads=4), (6, 7))
    assert running == (6, 7)
    assert notes == ["-t 4: a generator runs one thread on each of its 2 cores"]


@pytest.mark.parametrize(
    "values", [[1], [5, 5, 5], [100, 101, 102], [10**3, 10**9], [512, 6 * 10**10], list(range(1, 9999))]
)
def test_every_latency_is_in_one_bin_and_no_bin_more_than_a_reader_takes_in(values: list[int]) -> None:
    """Round bounds that rise, the last one not below the largest."""
    latencies = HdrHistogram(1, 60_000_000_000, 3)
    for value in values:
        latencies.record_value(value)
    found = bins(latencies)
    assert sum(one.count for one in found) == len(values)
    assert 1 <= len(found) <= MOST
    assert found == sorted(found, key=lambda one: one.to_ns)
    assert found[-1].to_ns >= max(values)
    assert found[0].count
    assert found[-1].count
    assert sum(count for _, count in styles.linear(latencies, 10)) == len(values)
