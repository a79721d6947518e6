"""Words that mean nothing: refused by name, before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragstrip.commands.main import run
from dragstrip.commands.streams import report_failure


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["race", "nginx-retrun", "node"], "nginx-return"),
        (["race", "nginx-return"], "at least two"),
        (["race", "nginx-return", "nginx-return"], "twice"),
        (["race", "nginx-return", "nginx-static", "--workload", "multiply"], "multiply"),
        (["race", "nginx-return:wrokers=2", "node"], "workers"),
        (["race", "--serve", "mine=./server {prot}", "node"], "{prot}"),
        (["race", "nginx-return", "http://192.0.2.1/"], "127.0.0"),
        (["race", "nginx-return", "node", "--budget", "soon"], "duration"),
        (["show", "feedfeed"], "feedfeed"),
    ],
)
def test_wrong_words_are_refused_with_what_would_do_and_exit_2(
    words: list[str], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names the word, says what would do; nothing is started."""
    monkeypatch.setenv("DRAGSTRIP_STORE", str(tmp_path / "races.sqlite"))
    assert run(words) == 2
    refused = capsys.readouterr().err
    assert named in refused
    assert "Traceback" not in refused


def test_a_command_that_is_mistyped_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    """And with where all of them are listed, if none is near."""
    assert run(["rase", "node"]) == 2
    assert "No such command 'rase'; did you mean race?" in capsys.readouterr().err
    assert run(["zzz"]) == 2
    assert "No such command 'zzz'; dragstrip --help lists all" in capsys.readouterr().err


def test_a_number_that_is_none_is_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Without the parser's own words for its types."""
    assert run(["race", "a", "b", "--rounds", "ten"]) == 2
    assert "'ten' is not a valid number" in capsys.readouterr().err


def test_a_full_disk_is_no_fault_to_report(capsys: pytest.CaptureFixture[str]) -> None:
    """It is said so, with the place; the code is not that of a contender that is slower."""
    with pytest.raises(OSError, match="No space left") as raised:
        Path("/dev/full").write_text("x")
    assert report_failure(raised.value) == 3
    assert "no disk space left; free some" in capsys.readouterr().err
    raised.value.filename = "/tmp/a"
    report_failure(raised.value)
    assert "no disk space left for /tmp/a; free some" in capsys.readouterr().err
