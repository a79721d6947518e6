"""``dragstrip load`` as a user types it, against nginx and against servers that go wrong as told."""

from __future__ import annotations

import itertools
import json
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path

import commands
import pytest

pytest.importorskip("dragstrip._engine", reason="the engine is not built: make build")
from loads import DRAGSTRIP, Nginx, live, load, load_json, needs_nginx, starting

from dragstrip.extras.compat import outputs

FAULTY = Path(__file__).parents[1] / "servers" / "faulty.py"


@pytest.fixture
def faulty() -> Iterator[Callable[..., str]]:
    """Starts servers that go wrong as told (``servers/faulty.py``); gives their URLs."""
    with starting(FAULTY) as start:
        yield start


@live
@needs_nginx
@pytest.mark.parametrize(
    ("count", "connections", "more"), [(20_000, 50, []), (5000, 100, ["--no-keepalive"]), (7, 100, [])]
)
def test_a_counted_run_answers_exactly_as_many_as_nginx_logs(
    nginx: Nginx, count: int, connections: int, more: list[str]
) -> None:
    """The count includes the two reference requests, so that nothing has to be subtracted."""
    found = load_json(nginx.url(), "-n", str(count), "-c", str(connections), *more)
    assert len(nginx.ended()) == count
    assert (found["requests"], found["failed"], found["late"]) == (count, 0, 0)
    assert (found["errors"], found["finished"]) == ({}, "count")
    if more:  # the engine may open one for which no request is left, at the end of a slice
        surplus = found["connections_opened"] - (count - 2)
        assert 0 <= surplus <= connections * len(found["slices"])
    else:
        assert found["connections_opened"] == min(connections, count - 2)


@live
@needs_nginx
def test_a_timed_run_counts_what_nginx_logs_and_lasts_as_long_as_told(nginx: Nginx) -> None:
    """Answers that come after the time are requests, and told apart."""
    found = load_json(nginx.url(), "-d", "1500ms", "-c", "8")
    assert len(nginx.ended()) == found["requests"]
    assert found["duration_s"] == pytest.approx(1.5)
    assert found["late"] <= 8
    in_time = found["requests"] - found["late"] - found["plain_requests"]
    assert found["rate_per_s"] == pytest.approx(in_time / found["duration_s"])
    assert found["finished"] == "duration"
    assert len(found["slices"]) >= 2


@live
@needs_nginx
def test_what_ends_first_ends_the_run(nginx: Nginx) -> None:
    """-n and -d together, as ab takes them."""
    assert load_json(nginx.url(), "-n", "100", "-d", "60s")["finished"] == "count"
    assert load_json(nginx.url(), "-n", "100M", "-d", "100ms")["finished"] == "duration"


@live
@needs_nginx
def test_method_headers_and_body_arrive_as_given(nginx: Nginx) -> None:
    """With every request; the user's Host stands in for ours."""
    words = ["-m", "PUT", "-H", "X-Mark: a b", "-H", "Host: example", "-b", "12345", "-n", "50", "-c", "3"]
    assert load_json(nginx.url("/x?y=1"), *words)["requests"] == 50
    assert nginx.ended() == ["/x 200 PUT a b example 5"] * 50


@live
@needs_nginx
def test_cookies_and_credentials_arrive_as_headers(tmp_path: Path) -> None:
    """The server refuses any other; --basic-auth is base64, several cookies are one header."""
    place = """location = /mine {
        if ($http_cookie != "a=b; c=d=e") { return 403; } if ($http_authorization != "Basic bWU6cDp3") { return 401; }
        return 200 "in\n"; }"""
    server = Nginx(tmp_path, place)
    words = ["--cookie", "a=b", "-C", "c=d=e", "--basic-auth", "me:p:w", "-n", "1e1", "-d", "1m30s", "-c", "2"]
    found = load_json(server.url("/mine"), *words)
    assert (found["requests"], found["status_codes"], found["load"]["duration_s"]) == (10, {"200": 10}, 90.0)
    server.ended()


@live
@needs_nginx
@pytest.mark.parametrize("count", [1, 2])
def test_a_run_of_one_request_is_one_request(nginx: Nginx, count: int) -> None:
    """None is left to learn the right response from: its status is checked, and the report says so."""
    found = load_json(nginx.url(), "-n", str(count))
    assert (found["requests"], found["sent"], found["plain_requests"]) == (count, count, 0)
    assert any("only statuses were checked" in line for line in found["warnings"])
    assert len(nginx.ended()) == count


@live
@needs_nginx
@pytest.mark.parametrize(("path", "method"), [("/empty", "GET"), ("/", "HEAD")])
def test_answers_without_a_body_are_right_answers(nginx: Nginx, path: str, method: str) -> None:
    """204, and whatever HEAD says of a length."""
    found = load_json(nginx.url(path), "-m", method, "-n", "200")
    assert (found["requests"], found["errors"], found["right_answer"]["body_bytes"]) == (200, {}, 0)


@live
@pytest.mark.parametrize(("word", "checked"), [("auto", "length"), ("full", "full")])
def test_large_bodies_are_checked_by_length_unless_told_otherwise(word: str, checked: str) -> None:
    """From 64 KiB on; the bytes are counted all the same, and the result says how they were checked."""

    class Large(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "100000")
            self.end_headers()
            self.wfile.write(bytes(100_000))

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Large) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        found = load_json(f"http://127.0.0.1:{server.server_port}/", "-n", "300", "-c", "3", "--check", word)
        server.shutdown()
    assert (found["requests"], found["right_answer"]["checked"]) == (300, checked)
    assert found["bytes_in"] > 298 * 100_000


@live
@needs_nginx
def test_the_report_says_what_the_json_says(nginx: Nginx, tmp_path: Path) -> None:
    """A sentence, percentiles with their loop and clock, a picture, the checks, what the generator cost; five nines."""
    out = tmp_path / "out.json"
    done = commands.process("load", nginx.url(), "-n", "3000", "-c", "20", "--json", str(out))
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    assert "sent 3,000 correct responses" in " ".join(done.stdout.split())
    for word in (
        "closed loop, responses stamped by the kernel",
        "p99.999",
        "every response was checked and correct",
        "CPU per request",
    ):
        assert word in done.stdout
    rows = re.findall(r"up to +[\d.,]+ (?:µs|ms|s) +([\d,]+)", done.stdout)
    assert sum(int(row.replace(",", "")) for row in rows) == 2998
    assert found["connections_opened"] == 20
    assert "connections opened 20" in done.stdout


@live
@needs_nginx
def test_the_hgrm_file_is_hdrhistograms_percentile_text(nginx: Nginx, tmp_path: Path) -> None:
    """Milliseconds; its total is what was measured, and mean and deviation share a unit."""
    out = tmp_path / "out.hgrm"
    found = load_json(nginx.url(), "-n", "1002", "-c", "4", "--hgrm", str(out))
    text = out.read_text()
    assert re.search(r"Value +Percentile +TotalCount +1/\(1-Percentile\)", text)
    assert re.search(r"TotalCount +=\s+1000\.000", text)
    moments = re.search(r"#\[Mean +=\s+([\d.]+), StdDeviation +=\s+([\d.]+)\]", text)
    assert moments
    assert float(moments[1]) == pytest.approx(found["latency_us"]["mean"] / 1000, abs=0.01)
    assert float(moments[2]) == pytest.approx(found["latency_us"]["sd"] / 1000, abs=0.01)


STYLES = {
    "wrk": [
        r"Running \S+ test @ http://127\.0\.0\.1:\d+/",
        r"(\d+) threads and (20) connections",
        r"Latency\s+([\d.]+)(us|ms|s)\s+([\d.]+)(us|ms|s)\s+([\d.]+)(us|ms|s)\s+([\d.]+)%",
        r"Req/Sec\s+([\d.]+)([kM]?)\s+([\d.]+)([kM]?)\s+([\d.]+)([kM]?)\s+([\d.]+)%",
        r"99%\s+([\d.]+)(us|ms|s)",
        r"(2000) requests in ([\d.]+)(ms|s), ([\d.]+)([KMG]?B) read",
        r"Requests/sec:\s+([\d.]+)",
        r"Transfer/sec:\s+([\d.]+)([KMG]?B)",
    ],
    "ab": [
        r"Server Software:\s+nginx/\S+",
        r"Document Length:\s+12 bytes",
        r"Concurrency Level:\s+20\n",
        r"Time taken for tests:\s+([\d.]+) seconds",
        r"Complete requests:\s+2000\n",
        r"Failed requests:\s+0\n",
        r"Keep-Alive requests:\s+2000\n",
        r"Requests per second:\s+([\d.]+) \[#/sec\] \(mean\)",
        r"Time per request:\s+([\d.]+) \[ms\] \(mean\)",
        r"Time per request:\s+([\d.]+) \[ms\] \(mean, across all concurrent requests\)",
        r"Transfer rate:\s+([\d.]+) \[Kbytes/sec\] received",
        r"Total:\s+(\d+)\s+(\d+)\s+([\d.]+)\s+(\d+)\s+(\d+)",
        r" 50%\s+\d+\n[\s\S]* 99%\s+\d+\n 100%\s+\d+ \(longest request\)",
    ],
    "hey": [
        r"Summary:\n  Total:\t([\d.]+) secs",
        r"Slowest:\t([\d.]+) secs",
        r"Fastest:\t([\d.]+) secs",
        r"Average:\t([\d.]+) secs",
        r"Requests/sec:\t([\d.]+)",
        r"Total data:\t24000 bytes",
        r"(  [\d.]+ \[\d+\]\t\|■*\n){11}",
        r"99% in ([\d.]+) secs",
        r"\[200\]\t2000 responses",
    ],
    "h2load": [
        r"spawning thread #0: 20 total client\(s\)\. 2000 total requests",
        r"Application protocol: http/1\.1\n",
        r"finished in ([\d.]+)(us|ms|s), ([\d.]+) req/s, ([\d.]+)([KMG]?B)/s",
        r"requests: 2000 total, 2000 started, 2000 done, 2000 succeeded, 0 failed, 0 errored, 0 timeout",
        r"status codes: 2000 2xx, 0 3xx, 0 4xx, 0 5xx",
        r"traffic: \S+ \(\d+\) total, \S+ \(\d+\) headers \(space savings 0\.00%\), \S+ \(23976\) data",
        r"                     min         max         mean         sd        \+/- sd",
        r"time for request:( +[\d.]+(us|ms|s)){4} +[\d.]+%",
        r"time for connect:( +[\d.]+(us|ms|s)){4} +[\d.]+%",
        r"req/s           :( +[\d.]+){4} +[\d.]+%",
    ],
    "oha": [
        r"Summary:\n  Success rate:\t100\.00%\n  Total:\t([\d.]+) (sec|ms|us)",
        r"Slowest:\t([\d.]+) (sec|ms|us)\n  Fastest:\t([\d.]+) (sec|ms|us)\n  Average:\t([\d.]+) (sec|ms|us)",
        r"Requests/sec:\t([\d.]+)\n\n  Total data:\t23\.44 KiB\n  Size/request:\t12 B\n  Size/sec:\t[\d.]+ [KM]?i?B",
        r"Response time histogram:\n(  +[\d.]+ (sec|ms|us) \[\d+\] +\|■*\n){11}",
        r"Response time distribution:\n  10\.00% in ([\d.]+) (sec|ms|us)\n[\s\S]*99\.99% in ",
        r"Details \(average, fastest, slowest\):\n  DNS\+dialup:\t",
        r"Status code distribution:\n  \[200\] 2000 responses",
    ],
}


@live
@needs_nginx
@pytest.mark.parametrize("style", STYLES)
def test_the_other_tools_readers_find_their_lines(nginx: Nginx, style: str) -> None:
    """Regular expressions as scripts around those tools use them; and what reads the tools' own reads ours."""
    done = load(nginx.url(), "-n", "2000", "-c", "20", "-t", "1", "--latency", "--style", style)
    assert done.returncode == 0, done.stderr
    for line in STYLES[style]:
        assert re.search(line, done.stdout), f"{line}\n{done.stdout}"
    read = outputs.parse(done.stdout)
    assert (read.tool, read.requests, read.failed or 0) == (style, 2000, 0)


@live
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("status", "100 total, 100 started, 100 done, 50 succeeded, 50 failed, 0 errored, 0 timeout"),
        ("close", "100 total, 100 started, 50 done, 50 succeeded, 50 failed, 50 errored, 0 timeout"),
        ("stall", "100 total, 100 started, 50 done, 50 succeeded, 50 failed, 50 errored, 50 timeout"),
    ],
)
def test_h2loads_shape_counts_the_late_among_the_errored_and_these_among_the_failed(
    faulty: Callable[..., str], fault: str, told: str
) -> None:
    """As h2load's manual has them, and as h2load 1.52 counts."""
    done = load(faulty(fault, "50"), "-n", "100", "-c", "25", "--timeout", "2s", "--style", "h2load")
    assert f"\nrequests: {told}\n" in done.stdout, done.stdout
    assert outputs.parse(done.stdout).failed == 50


@live
@needs_nginx
def test_the_exit_code_tells_whether_the_limits_hold(nginx: Nginx) -> None:
    """0 where all are met, 1 where one is missed; both are said."""
    held = load(nginx.url(), "-n", "100", "--max-p99", "60s", "--max-errors", "0%")
    assert held.returncode == 0, held.stdout
    missed = load(nginx.url(), "-n", "100", "--max-p99", "1us", "--max-errors", "0")
    assert missed.returncode == 1
    assert re.search(r"missed p99 .* at most 1.00 µs", missed.stdout)
    assert "met errors 0 %" in missed.stdout
    quiet = load(nginx.url(), "-n", "100", "--max-p99", "1us", "-q")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (1, "", "")


@live
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("status", "wrong_status"),
        ("body", "wrong_body"),
        ("length", "wrong_length"),
        ("garbage", "bad_response"),
        ("close", "closed_early"),
        ("reset", "reset"),
    ],
)
def test_each_fault_is_counted_as_its_kind_and_explained(faulty: Callable[..., str], fault: str, kind: str) -> None:
    """From the hundredth request on: 1 by the limit on errors, 0 without one, for something was answered right."""
    url = faulty(fault, "100")
    found = load_json(url, "-n", "150", "-c", "2", "--max-errors", "10%")
    assert (found["requests"], found["failed"], found["errors"]) == (100, 50, {kind: 50})
    (limit,) = found["limits"]
    assert limit == {
        "name": "max-errors",
        "text": "errors 33.8 %, at most 10 %",
        "limit": 0.1,
        "value": 50 / 148,
        "met": False,
    }
    assert list(found["error_samples"]) == [kind]
    assert found["error_sample"] == found["error_samples"][kind] != ""
    readable = {"wrong_status": {"200": 100, "500": 50}, "wrong_body": {"200": 150}, "wrong_length": {"200": 150}}
    assert found["status_codes"] == readable.get(kind, {"200": 100})


@live
def test_exit_1_where_nothing_under_load_was_answered_right(faulty: Callable[..., str]) -> None:
    """The plain answers were right, then came none: a table of errors, their meaning and a sample."""
    done = load(faulty("status", "2"), "-n", "22", "-c", "2")
    assert done.returncode == 1
    assert "sent no correct response" in done.stdout
    assert re.search(r"20 +wrong status +status differs from the reference response's", done.stdout)
    assert "the first: 'HTTP/1.1 500 Internal Server Error" in " ".join(done.stdout.split())
    listed = r"responses by status\n *200 +OK +2 +9.09 %\n *500 +Internal Server Error +20 +90.9 %"
    assert re.search(listed, done.stdout)


@live
def test_a_server_that_dies_ends_the_run_and_what_was_answered_stays(faulty: Callable[..., str]) -> None:
    """No connection is left: it says so, long before the time is up."""
    found = load_json(faulty("die", "500"), "-d", "60s", "-c", "4")
    assert found["finished"] == "gave up"
    assert found["requests"] == 500
    assert set(found["errors"]) >= {"refused"}
    assert any("the server refused or dropped every connection" in line for line in found["warnings"])


@live
@pytest.mark.parametrize(
    ("fault", "after", "begins"),
    [
        ("die", "500", r"ended early, after [\d.]+ s: no connection was left: http://"),
        ("status", "40", r"mostly failed: 110 of 148 attempts got no correct response: http://"),
        ("body", "90", r"http://\S+ sent 90 correct responses"),
    ],
)
def test_a_run_that_ended_early_or_mostly_failed_is_no_success(
    faulty: Callable[..., str], fault: str, after: str, begins: str
) -> None:
    """Exit code 1, and the first sentence says why; where most were right, only a limit on errors makes it fail."""
    words = ["-d", "60s"] if fault == "die" else ["-n", "150"]
    done = load(faulty(fault, after), *words, "-c", "2")
    assert re.match(begins, " ".join(done.stdout.split())), done.stdout
    assert done.returncode == int(fault != "body")


@live
def test_a_request_unanswered_within_the_time_limit_is_a_timeout(faulty: Callable[..., str]) -> None:
    """And the run ends: each connection waits for its own."""
    found = load_json(faulty("stall", "10"), "-n", "12", "-c", "2", "--timeout", "1s")
    assert (found["requests"], found["errors"]) == (10, {"timeout": 2})


@live
@needs_nginx
@pytest.mark.parametrize("words", [["-d", "60s"], ["-n", "100M"]])
def test_ctrl_c_reports_what_was_measured_and_exits_130(nginx: Nginx, words: list[str]) -> None:
    """All that was answered until then, in a run bounded by time or count."""
    process = subprocess.Popen(
        [*DRAGSTRIP, nginx.url(), "-c", "4", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while len(nginx.log.read_bytes()) < 100_000:  # about 3000 answers
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, out + err
    assert out.startswith("interrupted: ")
    answered = int(re.search(r"sent ([\d,]+) correct responses", out)[1].replace(",", ""))  # type: ignore[index]
    assert answered > 2000  # what the log had long before, including the current block
    assert "p99.999" in out
    assert "Traceback" not in err


@live
@needs_nginx
def test_a_failing_answer_must_be_told_to_be_right(nginx: Nginx) -> None:
    """500 is refused with what would do, and taken with --status 500; so is a redirect."""
    refused = load(nginx.url("/500"))
    assert refused.returncode == 2
    assert "status 500" in refused.stderr
    assert "--status 500" in refused.stderr
    assert load(nginx.url("/moved")).returncode == 2
    assert load_json(nginx.url("/500"), "--status", "500", "-n", "100")["requests"] == 100
    other = load(nginx.url(), "--status", "500")
    assert other.returncode == 1
    assert "status 200" in other.stderr


class Own(HTTPServer):
    """A server in this process whose answers a test makes, from the number of requests seen."""

    def __init__(self, answer: Callable[[int], bytes]) -> None:
        seen = itertools.count(1)
        self.seen = 0

        class Handler(BaseHTTPRequestHandler):
            def do_GET(handler) -> None:
                self.seen = next(seen)
                body = answer(self.seen)
                handler.send_response(200)
                handler.send_header("Content-Length", str(len(body)))
                handler.end_headers()
                handler.wfile.write(body)

            def log_message(handler, format: str, *args: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *raised: object) -> None:
        self.shutdown()
        self.server_close()


def test_an_answer_that_changes_is_refused_with_the_place() -> None:
    """If every byte shall be checked, nothing could be right."""
    with Own(lambda seen: f"visitor number {seen}".encode()) as server:
        done = load(f"http://127.0.0.1:{server.server_port}/", "--check", "full")
    assert done.returncode == 2
    assert "byte 15" in done.stderr
    assert server.seen == 2


@live
def test_a_stall_is_in_the_histogram_and_a_server_that_closes_is_told() -> None:
    """One answer of all takes 0.7 s, and those behind it wait with it: none of these latencies is lost."""

    def answer(seen: int) -> bytes:
        if seen == 100:
            time.sleep(0.7)  # the stall itself, not a wait for something
        return b"hello"

    with Own(answer) as server:  # HTTP/1.0, one connection after the other
        found = load_json(f"http://127.0.0.1:{server.server_port}/", "-n", "200", "-c", "3")
    assert (found["requests"], found["late"]) == (200, 0)
    assert found["latency_us"]["max"] >= 700_000
    assert any("ends each connection after one response" in line for line in found["warnings"])


@live
@needs_nginx
def test_too_few_descriptors_are_told_before_the_start(nginx: Nginx) -> None:
    """3: the engine can't run that; nginx sees the plain requests alone."""
    words = ["sh", "-c", 'ulimit -n 200; exec "$@"', "sh", *DRAGSTRIP, nginx.url(), "-c", "1000"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 3, done.stderr
    assert "descriptors" in done.stderr
    assert len(nginx.ended()) == 2
