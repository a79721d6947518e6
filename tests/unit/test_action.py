"""The GitHub action and the GitLab template: their script run for each event, and the comment of a pull request."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from repositories import Made

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "packaging" / "ci" / "diff.sh"
COMMENT = ROOT / "packaging" / "ci" / "comment.py"

#: Takes the place of `dragstrip`: it notes its options, writes the reports, and ends with a code.
PROGRAM = """#!/bin/sh
echo "$@" > "$NOTED"
while [ $# -gt 0 ]; do
    case $1 in
        --export-markdown) echo '## report' > "$2" ;;
        --json) echo '{}' > "$2" ;;
    esac
    shift
done
exit ${CODE:-0}
"""


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """Three commits, the first one tagged."""
    made = Made(tmp_path / "repository")
    made.commit("first", a_txt="1")
    made.git("tag", "v1.0")
    made.commit("second", a_txt="2")
    made.commit("third", a_txt="3")
    program = tmp_path / "dragstrip"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    return made


def _run(
    made: Made, tmp_path: Path, event: dict[str, Any] | None = None, **variables: str
) -> tuple[int, list[str], dict[str, str]]:
    """The script's exit code, the words that dragstrip got, and the outputs of the step."""
    noted, output = tmp_path / "noted", tmp_path / "output"
    output.write_text("")
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("GITHUB_", "CI_", "DRAGSTRIP"))
    }
    environment |= {
        "DRAGSTRIP": str(tmp_path / "dragstrip"),
        "NOTED": str(noted),
        "RUNNER_TEMP": str(tmp_path / "runner"),
        "GITHUB_OUTPUT": str(output),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
    }
    if event is not None:
        (tmp_path / "event.json").write_text(json.dumps(event))
        environment["GITHUB_EVENT_PATH"] = str(tmp_path / "event.json")
    done = subprocess.run([SCRIPT], cwd=made.folder, env=environment | variables, capture_output=True, text=True)
    words = noted.read_text().split() if noted.exists() else []
    return done.returncode, words, dict(line.split("=", 1) for line in output.read_text().splitlines())


def test_a_pull_request_is_compared_with_where_it_left_its_base(made: Made, tmp_path: Path) -> None:
    left = made.git("rev-parse", "HEAD~1")
    made.git("checkout", "--quiet", "-b", "base", left)
    tip = made.commit("the base moved on", b_txt="1")
    made.git("checkout", "--quiet", "main")
    event = {"pull_request": {"base": {"sha": tip}}}
    code, words, outputs = _run(
        made, tmp_path, event, GITHUB_EVENT_NAME="pull_request", DRAGSTRIP_OPTIONS="--fail-if slower:3%"
    )
    assert (code, words[0], words[-3:]) == (0, "diff", ["--", left, "HEAD"])
    assert words[-5:-3] == ["--fail-if", "slower:3%"]
    assert outputs["outcome"] == "passed"
    assert (Path(outputs["folder"]) / "diff.json").is_file()
    assert (tmp_path / "summary").read_text() == "## report\n"


def test_a_fork_s_pull_request_needs_no_secret(made: Made, tmp_path: Path) -> None:
    event = {"pull_request": {"base": {"sha": made.git("rev-parse", "HEAD~1")}, "head": {"repo": {"fork": True}}}}
    code, words, _ = _run(made, tmp_path, event, GITHUB_EVENT_NAME="pull_request")
    assert (code, words[-2]) == (0, made.git("rev-parse", "HEAD~1"))
    assert "TOKEN" not in SCRIPT.read_text()
    assert "secrets" not in (ROOT / "action.yml").read_text()
    assert "token" not in (ROOT / "action.yml").read_text()


def test_a_push_is_compared_with_the_commit_before_it(made: Made, tmp_path: Path) -> None:
    before = made.git("rev-parse", "HEAD~2")
    code, words, _ = _run(made, tmp_path, {"before": before}, GITHUB_EVENT_NAME="push")
    assert (code, words[-2]) == (0, before)
    # The first push of a branch has no commit before it.
    code, words, _ = _run(made, tmp_path, {"before": "0" * 40}, GITHUB_EVENT_NAME="push")
    assert (code, words[-2]) == (0, "v1.0")


def test_a_schedule_is_compared_with_the_latest_tag_or_the_input(made: Made, tmp_path: Path) -> None:
    assert _run(made, tmp_path, {}, GITHUB_EVENT_NAME="schedule")[1][-2] == "v1.0"
    assert _run(made, tmp_path, {}, GITHUB_EVENT_NAME="schedule", DRAGSTRIP_BASE="main~2")[1][-2] == "main~2"


def test_a_merge_request_of_gitlab(made: Made, tmp_path: Path) -> None:
    base = made.git("rev-parse", "HEAD~2")
    variables = {"CI_PIPELINE_SOURCE": "merge_request_event", "CI_MERGE_REQUEST_DIFF_BASE_SHA": base}
    assert _run(made, tmp_path, None, **variables)[1][-2] == base


@pytest.mark.parametrize(
    ("given", "code", "outcome"), [(0, 0, "passed"), (1, 1, "failed"), (3, 3, "unclear"), (2, 2, "error")]
)
def test_the_exit_code_becomes_an_outcome(made: Made, tmp_path: Path, given: int, code: int, outcome: str) -> None:
    ended, _, outputs = _run(made, tmp_path, {}, CODE=str(given))
    assert (ended, outputs["outcome"]) == (code, outcome)


def test_a_clone_of_one_commit_says_what_to_do(made: Made, tmp_path: Path) -> None:
    clone = tmp_path / "shallow"
    made.git("clone", "--quiet", "--depth", "1", made.folder.as_uri(), str(clone))
    shallow = object.__new__(Made)
    shallow.folder = clone
    code, words, outputs = _run(shallow, tmp_path, {}, GITHUB_EVENT_NAME="schedule")
    assert (code, words, outputs["outcome"]) == (2, [], "error")


def _pair(metric: str, a: str, b: str, ratio: float, low: object, high: object, verdict: str) -> dict[str, object]:
    numbers = {"ratio": ratio, "low": low, "high": high}
    return {"column": "users", "metric": metric, "a": a, "b": b, "verdict": verdict} | numbers


REPORT = {
    "contenders": [{"name": "main (1111111)"}, {"name": "@team [x](http://evil) `|` <img src=x>"}],
    "columns": [
        {
            "name": "users",
            "metric": "cpu",
            "why": {
                "explained": [
                    {
                        "name": "head",
                        "difference": {"estimate": 0.78, "significant": True},
                        "found": [
                            {"name": "@all <b> [app]", "difference": {"estimate": 0.7, "low": 0.6, "high": 0.8}},
                            "not a function",
                        ],
                        "unexplained_us": 0.08,
                    },
                    {"name": "other", "difference": "<b>", "found": {}},
                ]
            },
        },
        {"name": "more", "why": []},
    ],
    "pairs": [
        _pair("cpu", "head", "main", 0.95, 0.94, 0.96, "slower"),
        _pair("throughput", "head", "main", 2.0, 1.0, 3.0, "faster"),
        _pair("cpu", "x", "y", float("nan"), "<b>", None, "same"),
        _pair("cpu", "x", "z", 1.0, 0.99, None, "too close to call"),
        "not a pair",
    ],
    "rules": [{"rule": "slower:3%", "name": "head", "outcome": "fails", "text": "@everybody"}],
}


class _Api(BaseHTTPRequestHandler):
    """GitHub's comments, kept in a list."""

    def do_GET(self) -> None:
        if self.path.startswith("/repos/o/r/commits/"):
            self._answer([{"number": 7}])
        else:
            self._answer(self.server.comments if "page=1" in self.path.split("&") else [])  # type: ignore[attr-defined]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        comments = self.server.comments  # type: ignore[attr-defined]
        comments.append({"id": len(comments) + 1, "user": {"type": "Bot"}, "path": self.path, **body})
        self._answer({})

    def do_PATCH(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        number = int(self.path.rsplit("/", 1)[1])
        self.server.comments[number - 1] |= body  # type: ignore[attr-defined]
        self._answer({})

    def _answer(self, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


@pytest.fixture
def api() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Api)
    server.comments = [{"id": 1, "user": {"type": "User"}, "body": "<!-- dragstrip diff --> forged"}]  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_the_comment_is_written_once_and_then_replaced(api: ThreadingHTTPServer, tmp_path: Path) -> None:
    (tmp_path / "diff.json").write_text(json.dumps(REPORT))
    (tmp_path / "event.json").write_text(json.dumps({"workflow_run": {"pull_requests": [], "head_sha": "a" * 40}}))
    environment = {
        **os.environ, "GITHUB_EVENT_PATH": str(tmp_path / "event.json"), "GITHUB_REPOSITORY": "o/r",
        "GITHUB_TOKEN": "secret", "GITHUB_API_URL": f"http://127.0.0.1:{api.server_port}",
    }  # fmt: skip
    for _ in range(2):
        subprocess.run([sys.executable, COMMENT, tmp_path], env=environment, check=True)
    forged, ours = api.comments  # type: ignore[attr-defined]
    assert forged["body"].endswith("forged")
    assert ours["path"] == "/repos/o/r/issues/7/comments"


def test_nothing_of_the_reports_becomes_markup(tmp_path: Path) -> None:
    """What a fork's code wrote is shown as code: no mention, link, image or tag."""
    (tmp_path / "diff.json").write_text(json.dumps(REPORT))
    done = subprocess.run([sys.executable, COMMENT, tmp_path, "--print"], capture_output=True, text=True, check=True)
    outside = "".join(done.stdout.split("`")[::2]).replace("<!-- dragstrip diff -->", "")
    assert not set("@[]<>") & set(outside), outside
    assert "0.940–0.960" in done.stdout
    assert "2.000" not in done.stdout
    assert "| – | not bounded |" in done.stdout
    assert "| 1.000 | at least 0.990 |" in done.stdout
    assert "| `users` | `head` | `@all <b> [app]` | +0.700 µs | 0.600–0.800 |" in done.stdout
    assert "- `users`, `head`: +0.080 of +0.780 µs CPU time per response stay unexplained" in done.stdout


def test_a_wheel_is_kept_by_the_sources_that_it_is_built_from(tmp_path: Path) -> None:
    """Another file, or another byte, is another wheel."""
    script = tmp_path / "packaging" / "ci" / "diff.sh"
    script.parent.mkdir(parents=True)
    shutil.copy(SCRIPT, script)
    for name in ("Cargo.lock", "Cargo.toml", "pyproject.toml", "crates/lib.rs", "src/main.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")

    def named() -> str:
        done = subprocess.run(["bash", script, "sources"], capture_output=True, text=True, check=True)
        assert re.fullmatch(r"hash=[0-9a-f]{20}\n", done.stdout)
        return done.stdout

    first = named()
    assert named() == first
    (tmp_path / "src" / "main.py").write_text("2")
    assert named() != first


def test_options_of_several_lines_all_count(made: Made, tmp_path: Path) -> None:
    """A threshold on the second line was lost, and the job was green."""
    text = "--rounds 2\n  --fail-if slower:3%\n\n--a-a\n"
    _, words, _ = _run(made, tmp_path, DRAGSTRIP_BASE="HEAD~1", DRAGSTRIP_OPTIONS=text)
    assert words[words.index("--rounds") :][:5] == ["--rounds", "2", "--fail-if", "slower:3%", "--a-a"]


def test_a_revision_is_never_an_option(made: Made, tmp_path: Path) -> None:
    _, words, _ = _run(made, tmp_path, DRAGSTRIP_BASE="--html=/tmp/x", DRAGSTRIP_HEAD="-q")
    assert words[-3:] == ["--", "--html=/tmp/x", "-q"]


@pytest.mark.parametrize(
    "content",
    [
        "", "[]", "3", "{", "[" * 100_000, '{"contenders": 3}', '{"rules": {}}', '{"columns": [{"name": []}]}',
        '{"pairs": 7}', "\udc80",
    ],
)  # fmt: skip
def test_a_report_of_another_form_makes_no_traceback(tmp_path: Path, content: str) -> None:
    (tmp_path / "diff.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    done = subprocess.run(
        [sys.executable, str(COMMENT), str(tmp_path), "--print"], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    assert (done.returncode == 0) == bool(done.stdout)


def test_a_comment_has_a_length_that_github_accepts_and_odd_numbers_are_none(tmp_path: Path) -> None:
    pair = _pair("throughput", "a" * 500, "b" * 500, 1.5, 1e300, 10**400, "faster" * 100)
    names = [{"name": "n" * 500}] * 5_000
    columns = [{"name": "hello", "metric": "throughput"}]
    rules = [{"outcome": "o" * 500, "rule": "r" * 500, "name": "n" * 500}] * 5_000
    report = {"contenders": names, "columns": columns, "pairs": [pair] * 5_000, "rules": rules}
    (tmp_path / "diff.json").write_text(json.dumps(report))
    done = subprocess.run(
        [sys.executable, str(COMMENT), str(tmp_path), "--print"], capture_output=True, text=True, check=True
    )
    assert len(done.stdout) < 65_536


def test_branches_of_gitlab_share_no_cache() -> None:
    """What one has left there is code that another would run."""
    text = (ROOT / "packaging" / "ci" / "gitlab.yml").read_text()
    assert re.findall(r"key: (.*)", text) == ['"dragstrip-$CI_MERGE_REQUEST_IID"']
    assert re.findall(r"- if: (.*)", text) == [
        '$CI_PIPELINE_SOURCE == "merge_request_event"', "$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH"
    ]  # fmt: skip
