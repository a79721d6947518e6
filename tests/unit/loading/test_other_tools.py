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
from dragstrip.loading import other_tools

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

K6 = """
     http_req_duration..............: avg=1.2ms min=300µs med=900µs max=40ms p(90)=2.1ms p(95)=3ms
     http_reqs......................: 12000  3987.25/s
"""


def test_each_tool_s_shape_is_told_from_the_others() -> None:
    """From texts: rate, count, time, failures and percentiles, each in our units."""
    oha = other_tools.parse(OHA)
    assert (oha.tool, oha.rate_per_s, oha.requests, oha.failed) == ("oha", 19876.5, 9944, 4)
    assert oha.duration_s == pytest.approx(0.5003)
    assert oha.latency_us == pytest.approx({"p50": 400.0, "p99": 1900.0})
    assert oha.keepalive is None
    told = {"summary": {"requestsPerSec": 5.5, "total": 2.0}, "statusCodeDistribution": {"200": 11}}
    as_json = other_tools.parse(json.dumps(told | {"latencyPercentiles": {"p50": 0.001, "p99.99": None}}))
    assert (as_json.tool, as_json.rate_per_s, as_json.requests) == ("oha", 5.5, 11)
    assert as_json.latency_us == pytest.approx({"p50": 1000.0})
    k6 = other_tools.parse(K6)
    assert (k6.tool, k6.rate_per_s, k6.requests) == ("k6", 3987.25, 12000)
    assert k6.latency_us == pytest.approx({"p50": 900.0, "p90": 2100.0, "p95": 3000.0})
    metrics = {"http_reqs": {"values": {"count": 10, "rate": 2.5}}, "http_req_duration": {"values": {"med": 1.5}}}
    assert other_tools.parse(json.dumps({"metrics": metrics})).latency_us == {"p50": 1500.0}


@pytest.mark.parametrize("text", ["", "hello", "Requests/sec:      0.00\n"])
def test_what_is_no_tool_s_output_or_has_no_rate_is_refused(text: str, tmp_path: Path) -> None:
    """The message names the file and what would do."""
    file = tmp_path / "out.txt"
    file.write_text(text)
    with pytest.raises(BadUsage, match=r"out\.txt"):
        other_tools.load(file)


@pytest.mark.live
def test_what_installed_tools_print_is_read(tmp_path: Path) -> None:
    """wrk, ab, hey and h2load against one server: count, connections and keep-alive are what was asked for."""
    with socket.create_server(("127.0.0.1", 0)) as spare:
        port = spare.getsockname()[1]
    url = f"http://127.0.0.1:{port}/"
    asked = {
        "wrk": ["wrk", "-d", "1", "-t", "1", "-c", "4", "--latency", url],
        "ab": ["ab", "-q", "-n", "200", "-c", "4", "-H", "Connection: close", url],
        "hey": ["hey", "-n", "200", "-c", "4", url],
        "h2load": ["h2load", "--h1", "-n", "200", "-c", "4", url],
    }
    here = {tool: words for tool, words in asked.items() if shutil.which(tool)}
    if not here:
        pytest.skip("none of wrk, ab, hey, h2load is installed")
    server = subprocess.Popen([PYTHON, str(HERE / "servers" / "misbehaving.py"), str(port), "none"])
    try:
        _until_up(port)
        for tool, words in here.items():
            done = subprocess.run(words, capture_output=True, text=True, timeout=60)
            file = tmp_path / f"{tool}.txt"
            file.write_text(done.stdout)
            found = other_tools.load(file)
            assert found.tool == tool, done.stdout + done.stderr
            assert found.rate_per_s > 0
            assert found.failed == 0 if found.failed is not None else True
            if tool != "wrk":
                assert found.requests == 200 or tool == "hey"
            assert found.connections in (4, None)
            assert found.keepalive is {"wrk": True, "ab": False, "hey": None, "h2load": True}[tool]
    finally:
        server.terminate()
        server.wait()


def _until_up(port: int) -> None:
    end = time.monotonic() + 30  # bounds a failing test only
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            return
        except OSError:
            assert time.monotonic() < end, "the server never came up"
            time.sleep(0.02)
