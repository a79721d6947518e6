"""`dragstrip fleet install`: what was copied runs on its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dragstrip.extras.fleet import packing
from dragstrip.extras.fleet.definition import load

pytestmark = pytest.mark.live

TEXT = """
[[machines]]
name = "server"
role = "server"
ssh = "bench@10.0.0.2"
address = "192.168.7.2"
dragstrip = "~/dragstrip/bin/dragstrip"

[[machines]]
name = "pod"
role = "load"
via = ["env"]
dragstrip = "FOLDER/dragstrip/bin/dragstrip"
"""


@pytest.mark.soak
def test_the_copy_runs_where_it_was_put(tmp_path: Path) -> None:
    """Unpacked as a machine would: it says its version, from its own files."""
    file = tmp_path / "fleet.toml"
    file.write_text(TEXT.replace("FOLDER", str(tmp_path)))
    fleet = load(file)
    steps = [step for step in packing.plan(fleet, ()) if step.machine.name == "pod"]
    said: list[str] = []
    packing.carry_out(fleet, steps, said.append)
    assert [line.partition(":")[0] for line in said] == ["pod"] * 3
    probe = "import dragstrip; print(dragstrip.__file__)"
    told = subprocess.run(
        [tmp_path / "dragstrip" / "bin" / "python", "-c", probe], capture_output=True, text=True, env={}, check=True
    )
    assert told.stdout.startswith(f"{tmp_path}/dragstrip/lib/")
    done = subprocess.run(
        [tmp_path / "dragstrip" / "bin" / "dragstrip", "--version"], capture_output=True, text=True, env={}
    )
    assert done.returncode == 0, done.stderr
