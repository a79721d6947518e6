"""Other tools' outputs: what they say is read, what they don't say stays unknown."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from dragstrip.errors import BadUsage
from dragstrip.extras.compat import outputs

HERE = Path(__file__).parents[2]
PYTHON = "/usr/bin/python3"

OHA = """
Summary:
  Success rate:\t100.00%
  Total:\t500.3000 ms
  Slowest:\t3.1000 ms
  Requests/sec:\t19876.5000

Response time distribution:
  50.00% in 0.4000 ms
  99.00% in 1.9000 ms

Status code distribution:
  [200] 9940 responses
  [503] 4 responses
"""

#: In the shape of nghttp2 1.52's, over two threads and before a server that stalled; lines of progress left out.
H2LOAD = """starting benchmark...
spawning thread #0: 5 total client(s). 1000 total requests
spawning thread #1: 5 total client(s). 1000 total requests
TLS Protocol: TLSv1.3
Cipher: TLS_AES_128_GCM_SHA256
Server Temp Key: X25519 253 bits
Application protocol: h2

finished in 1.01s, 1930.69 req/s, 2.08KB/s
requests: 2000 total, 1954 started, 1950 done, 1950 succeeded, 50 failed, 50 errored, 4 timeout
status codes: 1950 2xx, 0 3xx, 0 4xx, 0 5xx
"""

#: In the shape of ab 2.3's -w.
AB_HTML = """<p>
 This is ApacheBench, Version 2.3 <i>&lt;$Revision$&gt;</i><br>
</p>
<table >
<tr ><th colspan=2 bgcolor=white>Concurrency Level:</th><td colspan=2 bgcolor=white>10</td></tr>
<tr ><th colspan=2 bgcolor=white>Time taken for tests:</th><td colspan=2 bgcolor=white>0.021 seconds</td></tr>
<tr ><th colspan=2 bgcolor=white>Complete requests:</th><td colspan=2 bgcolor=white>200</td></tr>
<tr ><th colspan=2 bgcolor=white>Failed requests:</th><td colspan=2 bgcolor=white>3</td></tr>
<tr ><th colspan=2 bgcolor=white>Keep-Alive requests:</th><td colspan=2 bgcolor=white>190</td></tr>
<tr ><th colspan=2 bgcolor=white>Total transferred:</th><td colspan=2 bgcolor=white>31200 bytes</td></tr>
<tr ><th colspan=2 bgcolor=white>Requests per second:</th><td colspan=2 bgcolor=white>9639.02</td></tr>
</table>
"""

#: In the shape of oha 1.16's and hey 0.1's, of runs in which the server did not answer all.
ERRORS = """
Error distribution:
  [10] aborted due to deadline
  [7] connection error
  [2]\tGet "http://127.0.0.1:8080/": EOF
"""

K6 = """
     http_req_duration..............: avg=1.2ms min=300µs med=900µs max=40ms p(90)=2.1ms p(95)=3ms
     http_reqs......................: 12000  3987.25/s
"""


def test_each_tool_s_shape_is_told_from_the_others() -> None:
    """From texts: rate, count, time, failures and percentiles, each in our units."""
    oha = outputs.parse(OHA)
    assert (oha.tool, oha.rate_per_s, oha.requests, oha.failed) == ("oha", 19876.5, 9944, 4)
    assert oha.duration_s == pytest.approx(0.5003)
    assert oha.latency_us == pytest.approx({"p50": 400.0, "p99": 1900.0})
    assert oha.keepalive is None
    h2load = outputs.parse(H2LOAD)
    assert (h2load.tool, h2load.rate_per_s, h2load.requests, h2load.failed) == ("h2load", 1930.69, 1950, 50)
    assert (h2load.connections, h2load.http) == (10, "2")
    assert outputs.parse(H2LOAD.replace(": h2\n", ": h2c\n")).http == "2"
    assert outputs.parse(H2LOAD.replace(": h2\n", ": http/1.1\n")).http == "1.1"
    report = {"summary": {"requestsPerSec": 5.5, "total": 2.0}, "statusCodeDistribution": {"200": 11}}
    as_json = outputs.parse(json.dumps(report | {"latencyPercentiles": {"p50": 0.001, "p99.99": None}}))
    assert (as_json.tool, as_json.rate_per_s, as_json.requests) == ("oha", 5.5, 11)
    assert as_json.latency_us == pytest.approx({"p50": 1000.0})
    k6 = outputs.parse(K6)
    assert (k6.tool, k6.rate_per_s, k6.requests) == ("k6", 3987.25, 12000)
    assert k6.latency_us == pytest.approx({"p50": 900.0, "p90": 2100.0, "p95": 3000.0})
    metrics = {"http_reqs": {"values": {"count": 10, "rate": 2.5}}, "http_req_duration": {"values": {"med": 1.5}}}
    assert outputs.parse(json.dumps({"metrics": metrics})).latency_us == {"p50": 1500.0}


def test_requests_without_an_answer_are_among_the_failed() -> None:
    """Of oha's text and JSON, but for those that its deadline cut off. hey, oha and k6 do not say HTTP's version."""
    run = outputs.parse(OHA + ERRORS)
    assert (run.requests, run.failed, run.http) == (9944, 4 + 7 + 2, None)
    report = {"summary": {"requestsPerSec": 5.5, "total": 2.0}, "statusCodeDistribution": {"200": 11, "500": 1}}
    errors = {"errorDistribution": {"aborted due to deadline": 10, "connection error": 7}}
    assert outputs.parse(json.dumps(report | errors)).failed == 1 + 7
    hey = OHA.replace("  Success rate:\t100.00%\n", "").replace("500.3000 ms", "0.5003 secs")
    run = outputs.parse(hey + ERRORS)
    assert (run.tool, run.failed, run.http) == ("hey", 4 + 7 + 2, None)
    assert outputs.parse(K6).http is None


def test_h2load_s_percentiles_and_json_are_read() -> None:
    """As 1.69 and later write them; in JSON, seconds."""
    rows = "".join(
        f"{name:<12}: {least:>10}  {most:>10}  {'840us':>10}  {'3.10ms':>10}  {'1.20s':>10}  {'1.01ms':>10}"
        f"  {'9us':>10}    75.00%\n"
        for name, least, most in (("request", "30us", "2.00s"), ("connect", "1us", "2us"), ("TTFB", "1us", "2us"))
    )
    newer = outputs.parse(H2LOAD + rows)
    assert newer.latency_us == pytest.approx({"p50": 840.0, "p95": 3100.0, "p99": 1_200_000.0})
    assert outputs.parse(H2LOAD).latency_us == {}
    counts = {"total": 2000, "started": 2000, "done": 1950, "succeeded": 1940, "failed": 60, "errored": 50}
    times = {"min": 3e-5, "max": 2.0, "median": 8.4e-4, "p95": 3.1e-3, "p99": 1.2, "samples": [3e-5, 2.0]}
    measured = {"duration": 1.01, "request_per_second": 1930.69, "requests": counts, "performance": {"request": times}}
    generator = {"generator": "h2load nghttp2/1.70.0"}
    written = json.dumps({"version": "v1", "metadata": generator, "measurements": measured})
    run = outputs.parse(written)
    assert (run.tool, run.rate_per_s, run.requests, run.failed) == ("h2load", 1930.69, 1950, 60)
    assert (run.connections, run.http, run.duration_s) == (None, None, 1.01)
    assert run.latency_us == pytest.approx(newer.latency_us)


def test_ab_s_tables_in_html_and_colours_are_read() -> None:
    """ab's -w; and what `script` keeps of a terminal."""
    ab = outputs.parse(AB_HTML)
    fields = (ab.tool, ab.rate_per_s, ab.requests, ab.connections, ab.failed, ab.keepalive)
    assert fields == ("ab", 9639.02, 200, 10, 3, True)
    assert ab.duration_s == pytest.approx(0.021)
    coloured = "".join(f"\x1b[1;32m{line}\x1b[0m\n" for line in OHA.splitlines())
    assert outputs.parse(coloured) == outputs.parse(OHA)


def test_times_are_read_in_every_unit_and_left_out_where_the_digits_say_0() -> None:
    """oha's -u; 0.0000 in hours, or ab's 0 ms, is not a time."""
    in_ns = OHA.replace("500.3000 ms", "500300000.0000 ns").replace("0.4000 ms", "400000.0000 ns")
    assert outputs.parse(in_ns) == outputs.parse(OHA)
    in_hours = outputs.parse(OHA.replace("500.3000 ms", "0.0001 hr").replace("0.4000 ms", "0.0000 hr"))
    assert in_hours.duration_s == pytest.approx(0.36)
    assert in_hours.latency_us == pytest.approx({"p99": 1900.0})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (AB_HTML.replace("31200 bytes", "0 bytes"), "no request got a response"),
        (OHA.partition("Status code")[0] + ERRORS, "no request got a response"),
        (
            "response-time,DNS+dialup,DNS,Request-write,Response-delay,Response-read,status-code,offset\n",
            "hey's per-request CSV",
        ),
        ("request-start,DNS,DNS+dialup,Response-delay,request-duration,bytes,status\n", "oha's per-request CSV"),
        (
            json.dumps({"summary": {"requestsPerSec": 5.5, "total": 2.0}, "errorDistribution": {"timeout": 11}}),
            "no request got a response",
        ),
    ],
)
def test_a_rate_of_failed_requests_alone_is_refused(text: str, message: str) -> None:
    """ab, hey and oha count these in their rates; a table of single requests has none."""
    with pytest.raises(BadUsage, match=message):
        outputs.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"summary": {"requestsPerSec": 5.5, "total": 2.0}, "latencyPercent',
        '{"summary": {"requestsPerSec": null, "total": 2.0}}',
        '{"summary": "requestsPerSec", "requestsPerSec": 1}',
        '{"http_reqs": {"count": 10, "rate": 2.5}}',
        '{"metadata": {"generator": "h2load nghttp2/1.70.0"}, "measurements": {"duration": 1.0}}',
        "  2 threads and 10 connections\nRequests/sec:   1.2.3\n",
    ],
)
def test_what_was_cut_off_or_changed_is_refused(text: str) -> None:
    """By the tool's name; this program is not at fault."""
    with pytest.raises(BadUsage, match=r"^(oha|k6|h2load|wrk)'s output is incomplete or was changed"):
        outputs.parse(text)


@pytest.mark.parametrize("text", ["", "hello", "Requests/sec:      0.00\n"])
def test_what_is_no_tool_s_output_or_has_no_rate_is_refused(text: str, tmp_path: Path) -> None:
    """The message names the file and what would do."""
    file = tmp_path / "out.txt"
    file.write_text(text)
    with pytest.raises(BadUsage, match=r"out\.txt"):
        outputs.load(file)


@pytest.mark.live
def test_what_installed_tools_print_is_read(tmp_path: Path) -> None:
    """wrk, ab, hey and h2load against one server: count, connections and keep-alive are what was asked for."""
    with socket.create_server(("127.0.0.1", 0)) as spare:
        port = spare.getsockname()[1]
    url = f"http://127.0.0.1:{port}/"
    words = ["-n", "200", "-c", "4"]
    asked = {
        "wrk": ["wrk", "-d", "1", "-t", "1", "-c", "4", "--latency"],
        "ab": ["ab", "-q", *words, "-H", "Connection: close"],
        "ab -w": ["ab", "-q", "-w", *words],
        "hey": ["hey", *words],
        "h2load": ["h2load", "--h1", *words],
        "oha": ["oha", "--no-tui", *words],
        "oha --output-format json": ["oha", "--no-tui", "--output-format", "json", *words],
    }
    installed = {name: words for name, words in asked.items() if shutil.which(words[0])}
    if not installed:
        pytest.skip("none of wrk, ab, hey, h2load, oha is installed")
    server = subprocess.Popen([PYTHON, str(HERE / "servers" / "misbehaving.py"), str(port), "none"])
    try:
        _until_up(port)
        for name, words in installed.items():
            done = subprocess.run([*words, url], capture_output=True, text=True, timeout=60)
            file = tmp_path / "out.txt"
            file.write_text(done.stdout)
            run = outputs.load(file)
            assert run.tool == words[0], done.stdout + done.stderr
            assert run.rate_per_s > 0
            assert run.failed == 0
            if run.tool != "wrk":
                assert run.requests == 200
            assert run.connections in (4, None)
            assert run.keepalive is {"wrk": True, "ab": False, "h2load": True}.get(run.tool), name
    finally:
        server.terminate()
        server.wait()
    # The listener is gone. wrk and, without -r, ab then print no report at all.
    for words in installed.values():
        done = subprocess.run([*words, url], capture_output=True, text=True, timeout=60)
        with pytest.raises(BadUsage, match=r"no request got a response|not recognised as output of"):
            outputs.parse(done.stdout)


def _until_up(port: int) -> None:
    end = time.monotonic() + 30  # bounds a failing test only
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            return
        except OSError:
            assert time.monotonic() < end, "the server never came up"
            time.sleep(0.02)
