"""Words that mean nothing: refused by name, before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragstrip.cli.main import run


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["race", "nginx-retrun", "node"], "nginx-return"),
        (["race", "nginx-return"], "at least two"),
        (["race", "nginx-return", "nginx-return"], "twice"),
        (["race", "nginx-return", "nginx-static", "--workload", "multiply"], "multiply"),
        (["race", "nginx-return:wrokers=2", "node"], "workers"),
        (["race", "--serve", "mine=./server", "node"], "{port}"),
        (["race", "nginx-return", "http://192.0.2.1/"], "127.0.0"),
        (["race", "nginx-return", "node", "--budget", "soon"], "duration"),
        (["show", "feedfeed"], "feedfeed"),
    ],
)
def test_wrong_words_are_refused_with_what_would_do_and_exit_2(
    words: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names the word, says what would do; nothing is started."""
    monkeypatch.setenv("DRAGSTRIP_STORE", str(tmp_path / "races.sqlite"))
    assert run(words) == 2
    refused = capsys.readouterr().err
    assert told in refused
    assert "Traceback" not in refused
