"""``dragstrip load`` in an open loop: offered, left, answered; latency from when requests were meant to leave."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

pytest.importorskip("dragstrip._engine", reason="the engine is not built: make build")
from loads import DRAGSTRIP, Nginx, live, load, load_json, needs_nginx, starting

from dragstrip.commands.main import main

TRUTH = Path(__file__).parents[1] / "servers" / "truth.py"
HALF_SECOND_NS, MINUTE_NS = 500_000_000, 60_000_000_000


@pytest.fixture
def truth() -> Iterator[Callable[..., str]]:
    """Starts a server of planted latencies (``servers/truth.py``); gives its URL."""
    with starting(TRUTH) as start:
        yield start


def above(hdr: str, from_ns: int) -> int:
    """How many of a histogram's values are so high."""
    found = HdrHistogram.decode(hdr)
    values = found.get_recorded_iterator()
    return sum(item.count_added_in_this_iter_step for item in values if item.value_iterated_to >= from_ns)


def total(hdr: str) -> int:
    return int(HdrHistogram.decode(hdr).get_total_count())


@live
@needs_nginx
def test_what_was_offered_is_answered_logged_and_adds_up(nginx: Nginx, tmp_path: Path) -> None:
    """Report, JSON, interval log and nginx's own log agree; the run is one block, seen as it goes."""
    log, page = tmp_path / "run.hlog", tmp_path / "run.hgrm"
    words = ["-R", "2k", "-d", "2500ms", "-c", "20", "--hlog", str(log), "--hgrm", str(page)]
    found = load_json(nginx.url(), *words)
    open_loop: dict[str, Any] = found["open_loop"]
    assert len(nginx.ended()) == found["requests"]
    assert (found["load"]["loop"], open_loop["offered"]) == ("open", 5000)
    assert open_loop["offered"] == found["requests"] - found["plain_requests"] + found["failed"] + open_loop["unsent"]
    assert open_loop["offered_per_s"] == pytest.approx(2000)
    answered = found["requests"] - found["plain_requests"]
    assert total(open_loop["latency_sent_hdr"]) == answered
    assert total(open_loop["lag_hdr"]) == open_loop["offered"] - open_loop["unsent"]
    assert open_loop["latency_sent_us"]["max"] <= found["latency_us"]["max"]
    assert len(found["slices"]) >= 2
    assert sum(part["requests"] for part in found["slices"]) == answered
    reader, logged = HistogramLogReader(str(log), HdrHistogram(1, MINUTE_NS, 3)), 0
    while interval := reader.get_next_interval_histogram():
        logged += interval.get_total_count()
    assert logged == answered
    assert "#[Mean" in page.read_text()


@live
@needs_nginx
def test_exactly_so_many_leave_and_the_report_says_how_late(nginx: Nginx) -> None:
    """-n ends an open loop, too."""
    done = load(nginx.url(), "-n", "502", "-R", "5k", "-c", "4", "--arrivals", "poisson", "--pace", "thrifty")
    assert done.returncode == 0, done.stderr
    assert len(nginx.ended()) == 502
    assert "sent 502 correct responses" in done.stdout
    assert "offered 5,000/s, Poisson arrivals (seed 1), thrifty" in " ".join(done.stdout.split())
    assert "send delay" in done.stdout


@live
def test_a_planted_delay_and_a_planted_stall_are_in_the_histogram(truth: Callable[..., str]) -> None:
    """One answer in a hundred takes 10 ms more; a stall of 1 s is seen by all that were due in it, as it must be."""
    url = truth("--every", "100", "--delay-ms", "10", "--stall-at", "1000", "--stall-ms", "1000")
    found = load_json(url, "-R", "500", "-d", "5s", "-c", "16")
    open_loop = found["open_loop"]
    assert (open_loop["offered"], found["failed"]) == (2500, 0)
    assert above(found["latency_hdr"], 10_000_000) >= 25 - 1  # the two plain requests may have met one of them
    # Those due in its first half waited for its second; only 16 of them were on their way.
    assert above(found["latency_hdr"], HALF_SECOND_NS) >= 249
    assert above(open_loop["lag_hdr"], HALF_SECOND_NS) >= 249 - 16
    assert found["latency_us"]["p95"] >= HALF_SECOND_NS / 1000


@live
def test_a_rate_that_is_not_reached_is_said_and_is_a_failure_only_where_asked(truth: Callable[..., str]) -> None:
    """The offered rate is never lowered: unsent requests are reported."""
    url = truth("--every", "1", "--delay-ms", "20")
    words = [url, "-R", "1000", "-d", "1s", "-c", "2"]  # at most 100 a second can be answered
    found = load_json(*words)
    open_loop = found["open_loop"]
    assert (open_loop["offered"], open_loop["sustained"]) == (1000, False)
    assert open_loop["departed"] <= 102
    assert open_loop["reached_share"] == open_loop["departed"] / 1000
    assert any(line.startswith("not sustained") for line in found["warnings"])
    missed = load(*words, "--min-reached", "99%")
    assert (missed.returncode, load(*words).returncode) == (1, 0)
    assert "not sustained" in missed.stdout


@live
@needs_nginx
def test_ctrl_c_in_an_open_loop_reports_what_was_measured(nginx: Nginx) -> None:
    """The block that was broken off is kept up to there."""
    words = [*DRAGSTRIP, nginx.url(), "-R", "2k", "-d", "60s", "-c", "4"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while len(nginx.log.read_bytes()) < 20_000:  # some hundred answers
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, out + err
    assert out.startswith("interrupted: ")
    assert "offered 2,000/s" in out
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["-R", "0"], "more than 0"),
        (["-R", "fast"], "20k"),
        (["-R", "1k", "--steps", "1k:1s"], "give one of them"),
        (["--ramp", "1k"], "1k:20k"),
        (["--steps", "1k"], "1k:10s"),
        (["--steps", "1k:1s", "-d", "1s"], "leave -d out"),
        (["--ramp", "1:9", "-n", "100"], "leave -n out"),
        (["--pace", "thrifty"], "add -R RATE"),
        (["-R", "1", "-d", "2h"], "3600 s"),
    ],
)
def test_an_offer_that_cannot_be_made_is_refused_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], remedy: str
) -> None:
    """Named, with what would do."""
    monkeypatch.setattr(sys, "argv", ["dragstrip", "load", "http://127.0.0.1:1/", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert remedy in " ".join(capsys.readouterr().err.split())
