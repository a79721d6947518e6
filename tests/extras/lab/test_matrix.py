"""matrix.toml: its cells, and what is refused with file, line and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragstrip.errors import BadDefinition
from dragstrip.extras.lab import matrix

WHOLE = """
[lab]
name = "nightly"
budget = "8h"
[[line_ups]]
name = "loops"
contenders = ["node", "bun"]
[[line_ups]]
name = "mine"
contenders = ["new={revision}", "old=./server {port}"]
[axes]
workloads = ["hello", "json"]
loads = [{connections = 32}, {rate = "auto", metric = "latency-p99"}]
revisions = ["v1", "HEAD"]
[[leave_out]]
workloads = ["json"]
loads = [{connections = 32}]
[[priority]]
revisions = ["HEAD"]
weight = 4
[[strips]]
name = "e1"
class = "epyc"
ssh = "bench@10.0.0.2"
[[strips]]
name = "e2"
class = "epyc"
"""


def read(folder: Path, text: str) -> matrix.Matrix:
    (folder / "matrix.toml").write_text(text)
    return matrix.load(folder / "matrix.toml")


def test_cells_are_all_combinations_but_those_left_out(tmp_path: Path) -> None:
    """A line-up without a revision has no cells for each revision; weights multiply."""
    made = read(tmp_path, WHOLE)
    cells = made.cells()
    assert len(cells) == 3 + 3 * 2
    assert {cell.machine for cell in cells} == {"epyc"}
    assert {cell.revision for cell in cells if cell.line_up == "loops"} == {""}
    assert [cell.weight for cell in cells if cell.revision == "HEAD"] == [4.0] * 3
    assert made.budget_s == 8 * 3600
    assert cells[1].label == "loops · hello · rate auto, latency-p99 · epyc"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('budget = "8h"', 'budget = "8 hours"', "lab.budget: given '8 hours'; give a duration, like 8h"),
        ('class = "epyc"\nssh', 'klass = "epyc"\nssh', "strips.0.klass: unknown key; did you mean class?"),
        ('name = "e2"', 'name = "e1"', "strips.1.name: 'e1' is given twice"),
        ('ssh = "bench@10.0.0.2"', 'ssh = "-oProxyCommand=x"', "strips.0.ssh: given '-oProxyCommand=x'"),
        ('ssh = "bench@10.0.0.2"', 'ssh = "a"\nfleet = "f"', "strips.0.fleet: given in addition to ssh"),
        ('workloads = ["json"]', 'workloads = ["jsn"]', "leave_out.0.workloads: given 'jsn'; give one of hello, json"),
        ("weight = 4", "weight = 0", "priority.0.weight: given 0"),
        ('revisions = ["v1", "HEAD"]', "", "line_ups.1.contenders: {revision} is given; list revisions"),
        ("[axes]", '[axes]\nmachines = ["arm"]', "axes.machines.0: no strip has class 'arm'"),
        ('name = "nightly"', 'name = "../x"', "lab.name: given '../x'"),
    ],
)
def test_what_is_not_valid_is_refused_by_its_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(BadDefinition) as error:
        read(tmp_path, WHOLE.replace(old, new, 1))
    assert message in str(error.value)
    assert "matrix.toml:" in str(error.value)


def test_too_many_cells_are_refused(tmp_path: Path) -> None:
    loads = ", ".join(f"{{connections = {at + 1}}}" for at in range(10_001))
    text = WHOLE.replace('loads = [{connections = 32}, {rate = "auto", metric = "latency-p99"}]', f"loads = [{loads}]")
    with pytest.raises(BadDefinition, match=r"they make 60,0\d\d cells; make 1 to 20,000"):
        read(tmp_path, text)
