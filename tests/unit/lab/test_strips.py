"""A strip that is reached by a command, as over ssh: inquiry, slice, record and clearing go through its pipe."""

from __future__ import annotations

from pathlib import Path

import labs
import pytest
from commands import dragstrip

from dragstrip.errors import MachineLost
from dragstrip.lab import matrix
from dragstrip.lab.matrix import Strip
from dragstrip.lab.strips import Link
from dragstrip.lab.task import Inquiry


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
    link = Link(fields=strip, folder=tmp_path, work="lab/gone")
    with pytest.raises(MachineLost, match=r"gone: no reason given \(exit code 1\)"):
        link.inquire(Inquiry(contestants=(), workloads=()))
    absent = Link(fields=Strip.model_validate({"name": "a", "via": ("/no/such",)}), folder=tmp_path, work="lab/a")
    with pytest.raises(MachineLost, match="can't be run"):
        absent.collect("0" * 16, 1)
    file = tmp_path / "matrix.toml"
    file.write_text(labs.MATRIX + '[[strips]]\nname = "gone"\nvia = ["false"]\n')
    assert matrix.load(file).cells()[0].machine == "here"
    done = dragstrip("lab", "plan", str(file), "--folder", str(tmp_path / "lab"), env={"COLUMNS": "200"})
    assert "1 cell can't run: gone: no reason given" in done.stdout
    assert "0 of 1 cells can run" in done.stdout


@pytest.mark.parametrize("stem", ["../x.1", "0123456789abcdef", "0123456789abcdef.-1"])
def test_names_that_lead_out_of_the_folder_are_refused(stem: str) -> None:
    """On the strip itself; sent by whatever reaches it."""
    done = dragstrip("lab", "collect", "--work", "lab/s", stem)
    assert done.returncode == 2
    assert "use the 16 hexadecimal digits" in done.stderr
    for work in ("../x", "", "a"):
        assert dragstrip("lab", "collect", "--work", work, "0123456789abcdef.1").returncode == 2
