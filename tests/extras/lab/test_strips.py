"""A strip that is reached by a command, as over ssh: inquiry, slice, record and clearing go through its pipe."""

from __future__ import annotations

import time
from pathlib import Path

import labs
import pytest
from commands import dragstrip
from races import until

from dragstrip.errors import BadUsage, MachineLost
from dragstrip.extras.lab import matrix, pipes, strip_side
from dragstrip.extras.lab.matrix import Strip
from dragstrip.extras.lab.strips import StripLink
from dragstrip.extras.lab.task import Inquiry


@pytest.mark.thorough
def test_a_lab_runs_over_strips_that_are_elsewhere(tmp_path: Path) -> None:
    """Their outboxes are below their own cache, and empty at the end."""
    file = labs.matrix(tmp_path, cells=3, strips=2, how=labs.VIA)
    with labs.client(file) as client:
        output, _ = client.communicate()
    assert client.returncode == 0, output.decode()
    labs.assert_each_once(file, 3)
    assert not list((tmp_path / "cache").rglob("outbox/*.*"))
    assert len(list((tmp_path / "cache" / "labs" / "lab").iterdir())) == 2
    assert not (tmp_path / "lab" / "strips").exists()


def test_a_strip_that_is_away_is_named_with_the_reason(tmp_path: Path) -> None:
    """Its cells can't run, and the plan says so."""
    strip = Strip.model_validate({"name": "gone", "via": ("false",)})
    link = StripLink(fields=strip, folder=tmp_path, work="lab/gone")
    with pytest.raises(MachineLost, match=r"gone: no reason given \(exit code 1\)"):
        link.inquire(Inquiry(contestants=(), workloads=()))
    absent = StripLink(fields=Strip.model_validate({"name": "a", "via": ("/no/such",)}), folder=tmp_path, work="lab/a")
    with pytest.raises(MachineLost, match="can't be run"):
        absent.collect("0" * 16, 1)
    file = tmp_path / "matrix.toml"
    file.write_text(labs.MATRIX + '[[strips]]\nname = "gone"\nvia = ["false"]\n')
    assert matrix.load(file).cells()[0].machine == "here"
    done = dragstrip("lab", "plan", str(file), "--folder", str(tmp_path / "lab"), env={"COLUMNS": "200"})
    assert "1 cell can't run: gone: no reason given" in done.stdout
    assert "0 of 1 cells can run" in done.stdout


def test_what_a_strip_sends_has_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may not fill the client's memory, nor end the client by values within values."""
    monkeypatch.setattr(pipes, "MOST_BYTES", 1_000_000)
    endless = StripLink(fields=Strip.model_validate({"name": "e", "via": ("yes",)}), folder=tmp_path, work="lab/e")
    with pytest.raises(MachineLost, match="e: it printed more than 1,000,000 bytes, the maximum"):
        endless.inquire(Inquiry(contestants=(), workloads=()))
    deep = "[" * 100_000
    nested = Strip.model_validate({"name": "n", "via": ("sh", "-c", f"printf '{deep}' | head -c 100000")})
    with pytest.raises(BadUsage, match="strip n: its reply: not valid"):
        StripLink(fields=nested, folder=tmp_path, work="lab/n").inquire(Inquiry(contestants=(), workloads=()))
    assert strip_side.received(deep.encode()) == (b"", b"")


@pytest.mark.thorough
def test_the_client_sleeps_while_a_race_runs(tmp_path: Path) -> None:
    """It may be on the racing machine: not one of its threads is woken."""
    file = labs.matrix(tmp_path, cells=1, strips=1)
    with labs.held_race(file) as begun, labs.client(file) as client:
        begun()

        def slept() -> bool:
            before = labs.wakes(client.pid)
            time.sleep(1.0)
            return labs.wakes(client.pid) == before

        until(slept, 120, "the client is woken again and again")
        client.kill()


@pytest.mark.parametrize("stem", ["../x.1", "0123456789abcdef", "0123456789abcdef.-1"])
def test_names_that_lead_out_of_the_folder_are_refused(stem: str) -> None:
    """On the strip itself; sent by whatever reaches it."""
    done = dragstrip("lab", "collect", "--work", "lab/s", stem)
    assert done.returncode == 2
    assert "use the 16 hexadecimal digits" in done.stderr
    for work in ("../x", "", "a"):
        assert dragstrip("lab", "collect", "--work", work, "0123456789abcdef.1").returncode == 2
