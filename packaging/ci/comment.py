"""Writes a pull request's comment about a diff, and replaces it when the next diff has ended.

It runs in a workflow of its own, which may write comments, after the workflow that measured, which may not: a fork's
code ran there, so nothing of its reports is trusted. Only numbers and names are read out of diff.json; text from
there is shown as code. Which pull request it is comes from the event, never from the reports. It needs nothing but
the standard library.

    python3 comment.py FOLDER       # with GITHUB_EVENT_PATH, GITHUB_REPOSITORY, GITHUB_API_URL and GITHUB_TOKEN
    python3 comment.py FOLDER --print
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

MARK = "<!-- dragstrip diff -->"

#: Bytes of diff.json that are read, and characters of a name that are shown.
MAX_BYTES, MAX_NAME = 64 * 2**20, 80
MAX_ROWS = 60

#: Characters of a comment; GitHub refuses more than 65,536.
MAX_COMMENT = 60_000

#: What a report of another form raises.
ODD = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RecursionError)


def text(value: object) -> str:
    """A text from the reports as code in Markdown: no mention, link, image or tag can come of it."""
    shown = "".join(letter if letter.isprintable() else " " for letter in str(value))[:MAX_NAME]
    return "`" + shown.replace("`", "'").replace("|", "¦") + "`"


def number(value: object, sign: str = "") -> str:
    """A finite number with three decimals; with "+" as its sign if it is positive and that is given."""
    try:
        value = math.nan if isinstance(value, bool) or not isinstance(value, int | float) else float(value)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value) or abs(value) >= 1e15:
        return "–"
    return f"{value:{sign}.3f}"


def interval(low: object, high: object) -> str:
    """Both ends; a race that ended before it was bounded has an interval without one end or both."""
    match number(low), number(high):
        case "–", "–":
            return "not bounded"
        case "–", end:
            return f"at most {end}"
        case start, "–":
            return f"at least {start}"
        case start, end:
            return f"{start}–{end}"


def comment(report: Mapping[str, Any]) -> str:
    """The comment of a race's JSON."""
    lines = [MARK, "### Dragstrip diff", ""]
    commits = [text(name) for name in _names(report)[:MAX_ROWS]]
    lines += [f"Raced beside each other: {', '.join(commits)}", ""] if commits else []
    lines += ["| workload | revisions | ratio | interval | verdict |", "|-|-|-:|-|-|"]
    lines += [row for row, _ in zip(_rows(report), range(MAX_ROWS), strict=False)]
    lines += _why(report)
    rules = [rule for rule in report.get("rules", []) if isinstance(rule, dict)]
    if rules:
        shown = (" ".join(text(rule.get(key)) for key in ("outcome", "rule", "name")) for rule in rules[:MAX_ROWS])
        lines += ["", *(f"- {line}" for line in shown)]
    lines += ["", "Above 1 the first is faster, or needs less. The workflow's artifact has the page with all numbers."]
    length = 0
    for at, line in enumerate(lines):
        if (length := length + len(line) + 1) > MAX_COMMENT:
            lines[at:] = ["", "The rest is in the workflow's artifact."]
            break
    return "\n".join(lines) + "\n"


def _names(report: Mapping[str, Any]) -> list[str]:
    return [str(entrant.get("name")) for entrant in report.get("contenders", []) if isinstance(entrant, dict)]


def _rows(report: Mapping[str, Any]) -> Iterator[str]:
    metrics = {part.get("name"): part.get("metric") for part in report.get("columns", []) if isinstance(part, dict)}
    for pair in report.get("pairs", []):
        if isinstance(pair, dict) and metrics.get(pair.get("column")) == pair.get("metric"):
            names = f"{text(pair.get('a'))} / {text(pair.get('b'))}"
            span = interval(pair.get("low"), pair.get("high"))
            cells = (text(pair.get("column")), names, number(pair.get("ratio")), span, text(pair.get("verdict")))
            yield f"| {' | '.join(cells)} |"


def _why(report: Mapping[str, Any]) -> list[str]:
    """Which functions `diff --why` found, and which part of the difference is in none of them."""
    rows, left = [], []
    for part in _dicts(report, "columns"):
        for other in _dicts(part.get("why"), "explained"):
            at, name = text(part.get("name")), text(other.get("name"))
            for function in _dicts(other, "found"):
                by = function.get("difference")
                by = by if isinstance(by, dict) else {}
                span = interval(by.get("low"), by.get("high"))
                cells = (at, name, text(function.get("name")), f"{number(by.get('estimate'), '+')} µs", span)
                rows.append(f"| {' | '.join(cells)} |")
            whole = other.get("difference")
            if isinstance(whole, dict) and whole.get("significant") is True:
                unexplained, of_all = number(other.get("unexplained_us"), "+"), number(whole.get("estimate"), "+")
                left.append(f"- {at}, {name}: {unexplained} of {of_all} µs CPU time per response stay unexplained")
    heads = ["| workload | revision | function that differs | CPU per response | interval |", "|-|-|-|-:|-|"]
    return ["", *(heads if rows else []), *rows[:MAX_ROWS], *([""] if rows else []), *left[:MAX_ROWS]]


def _dicts(value: object, key: str) -> list[dict[str, Any]]:
    """The objects of a list in an object; none if it has another shape."""
    listed = value.get(key) if isinstance(value, dict) else None
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []


def pull_request(event: Mapping[str, Any]) -> int | None:
    """The number of the pull request that the measuring workflow ran for; None if it ran for none."""
    run = event.get("workflow_run", event)
    listed = run.get("pull_requests") or ([event["pull_request"]] if "pull_request" in event else [])
    return int(listed[0]["number"]) if listed else None


class GitHub:
    """The part of the API that comments need."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._root = environment.get("GITHUB_API_URL", "").rstrip("/")
        self._repository, self._token = environment["GITHUB_REPOSITORY"], environment["GITHUB_TOKEN"]

    def ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        """The answer's JSON."""
        asked = urllib.request.Request(
            f"{self._root}/repos/{self._repository}/{path}",
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Authorization": f"Bearer {self._token}", "Accept": "application/vnd.github+json"},
        )
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return json.loads(answer.read() or b"null")

    def number_of(self, event: Mapping[str, Any]) -> int | None:
        """A fork's pull request is not in the event: it is looked up by the commit that was measured."""
        if (known := pull_request(event)) is not None:
            return known
        commit = str(event.get("workflow_run", {}).get("head_sha", ""))
        if not (commit.isalnum() and len(commit) >= 40):
            return None
        listed = self.ask("GET", f"commits/{commit}/pulls")
        return int(listed[0]["number"]) if listed else None

    def put(self, number: int, body: str) -> None:
        """Replaces our comment, or writes the first one."""
        page = 1
        while listed := self.ask("GET", f"issues/{number}/comments?per_page=100&page={page}"):
            for old in listed:
                if str(old.get("body", "")).startswith(MARK) and old.get("user", {}).get("type") == "Bot":
                    self.ask("PATCH", f"issues/comments/{int(old['id'])}", {"body": body})
                    return
            page += 1
        self.ask("POST", f"issues/{number}/comments", {"body": body})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--print", action="store_true", help="print the comment instead of writing it")
    options = parser.parse_args()
    file = options.folder / "diff.json"
    if not file.is_file() or file.is_symlink():
        sys.exit(f"{file} is not there: the race left no report")
    with file.open("rb") as opened:
        content = opened.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        sys.exit(f"{file} has more than {MAX_BYTES:,} bytes; no comment is written")
    try:
        body = comment(json.loads(content))
    except ODD as error:
        sys.exit(f"{file} is not a report of a diff ({type(error).__name__}); no comment is written")
    if options.print:
        sys.stdout.write(body)
        return
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    github = GitHub(os.environ)
    if (number_ := github.number_of(event)) is None:
        sys.stdout.write("no pull request belongs to this run, so no comment is written\n")
        return
    github.put(number_, body)


if __name__ == "__main__":
    main()
