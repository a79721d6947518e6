"""``load --style`` beside the tool itself, each against one nginx: line by line the same but for their numbers."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("dragstrip._engine", reason="the engine is not built: make build")
from loads import Nginx, free_port, live, load, needs_nginx, starting

from dragstrip.extras.compat import outputs

pytestmark = pytest.mark.live

pytestmark = [live]

FAULTY = Path(__file__).parents[2] / "servers" / "faulty.py"

COUNT = ["-n", "2000", "-c", "10"]

#: By tool: its words, ours beside --style, and its lines that docs/other-tools.md says are left out.
RUNS = {
    "wrk": (["-d", "1", "-c", "10", "-t", "1", "--latency"], ["-d", "1s", "-c", "10", "-t", "1", "--latency"], ""),
    "ab": (
        ["-q", "-k", *COUNT],
        [*COUNT, "-t", "1"],
        r"This is Apache|Copyright|Licensed|Benchmarking|Connect:|Processing:|Waiting:"
        # What ab says of figures that lie far apart, in two lines; on a busy machine they do.
        r"|(WARNING|ERROR): The median and mean for|\s+(deviation apart\. )?These results are ",
    ),
    "hey": (COUNT, [*COUNT, "-t", "1"], r"Details|  DNS|  req write|  resp (wait|read)"),
    "h2load": (["--h1", *COUNT], [*COUNT, "-t", "1", "--first-byte"], "progress:"),
    "oha": (["--no-tui", *COUNT], [*COUNT, "-t", "1"], "  DNS-lookup"),
}


@pytest.fixture
def faulty() -> Iterator[Callable[..., str]]:
    """Starts servers that go wrong as told (``servers/faulty.py``); gives their URLs."""
    with starting(FAULTY) as start:
        yield start


_TIME = re.compile(r"# ?(ns|us|ms|secs?|min|hr|[smh])(?![\w/])")
_SIZE = re.compile(r"# ?[KMG]?i?B(?!\w)")


def lines(text: str, left_out: str) -> list[str]:
    """A report with its numbers, the units that go by their size, bars and runs of blanks taken out."""
    kept = [line for line in text.splitlines() if line.strip() and not (left_out and re.match(left_out, line))]
    return [_shape(line) for line in kept]


def _shape(line: str) -> str:
    bare = re.sub(r"[-+]?(\d+(\.\d+)?|nan)(?!\d*xx)", "#", re.sub(r"■+| +(?=\])", "", line))
    bare = re.sub(r"#[kMG](?!\w)", "#", _SIZE.sub("#bytes", _TIME.sub("#time", bare)))
    return re.sub(r" +", " ", bare).rstrip()


def skip_other_columns(tool: str) -> None:
    """Ends the test where the tool's report is of another version than the shape's."""
    if tool == "h2load":
        told = subprocess.run([tool, "--version"], capture_output=True, text=True, timeout=60).stdout
        major, minor = map(int, re.findall(r"\d+", told.rpartition("/")[2])[:2])
        if (major, minor) >= (1, 69):
            pytest.skip(f"h2load {major}.{minor} prints medians and percentiles, too; the shape is 1.52's")


@needs_nginx
@pytest.mark.parametrize("tool", RUNS)
def test_a_report_is_the_tool_s_own_line_by_line(nginx: Nginx, tool: str) -> None:
    """Headings, their order, names, units and signs; numbers are the run's own."""
    if not shutil.which(tool):
        pytest.skip(f"{tool} is not installed")
    skip_other_columns(tool)
    words, ours, left_out = RUNS[tool]
    real = subprocess.run([tool, *words, nginx.url()], capture_output=True, text=True, timeout=60)
    done = load(nginx.url(), "--style", tool, *ours)
    assert (real.returncode, done.returncode) == (0, 0), real.stderr + done.stderr
    assert lines(done.stdout, "") == lines(real.stdout, left_out)


@needs_nginx
def test_h2load_s_report_of_http_2_but_for_the_size_of_heads(tmp_path: Path) -> None:
    """In the clear; the engine does not count what HTTP/2's heads take."""
    if not shutil.which("h2load"):
        pytest.skip("h2load is not installed")
    skip_other_columns("h2load")
    port = free_port()
    server = Nginx(tmp_path, f"listen 127.0.0.1:{port} http2;")
    url = f"http://127.0.0.1:{port}/"
    real = subprocess.run(["h2load", *COUNT, "-m", "10", url], capture_output=True, text=True, timeout=60)
    done = load(url, "--style", "h2load", "--http", "2", *COUNT, "--streams", "10", "-t", "1", "--first-byte")
    assert (real.returncode, done.returncode) == (0, 0), real.stderr + done.stderr
    without = re.sub(r"\S+ \(\d+\) headers \(space savings \S+\), ", "", real.stdout)
    assert lines(done.stdout, "") == lines(without, "progress:")
    server.ended()


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("status", "  [200] 50 responses\n  [500] 50 responses\n"),
        ("close", "  [200] 50 responses\n\nError distribution:\n  [50] connection closed before message completed\n"),
        ("reset", "  [200] 50 responses\n\nError distribution:\n  [50] connection error\n"),
        ("stall", "  [200] 50 responses\n\nError distribution:\n  [50] timeout\n"),
    ],
)
def test_oha_s_shape_tells_of_each_request_once_in_oha_s_words(
    faulty: Callable[..., str], fault: str, told: str
) -> None:
    """Statuses and errors add up to all requests, as a reader of oha's report adds them; beside oha where it is."""
    done = load(faulty(fault, "50"), "-n", "100", "-c", "25", "--timeout", "2s", "--style", "oha")
    ends = [done.stdout]
    if shutil.which("oha"):
        words = ["oha", "-n", "100", "-c", "25", "-t", "2s", "--no-tui", faulty(fault, "50")]
        ends.append(subprocess.run(words, capture_output=True, text=True, timeout=60).stdout)
    for text in ends:
        assert text.partition("Status code distribution:\n")[2] == told, text
        assert outputs.parse(text).failed == 50
