"""Random files of strangers, read in a jail; and that the jail sees what it is for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[2] / "soak" / "fuzz_files.py"


def fuzz(*words: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, str(PROGRAM), *words], capture_output=True, text=True, check=False)
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip("no mount namespaces here")
    report: dict[str, Any] = json.loads(done.stdout)
    if any("unshare" in fault or "mount" in fault for fault in report["faults"]):
        pytest.skip("no mount namespaces here")
    return report


@pytest.mark.thorough
def test_three_hundred_files_start_nothing_write_nothing_elsewhere_and_end() -> None:
    """Of each kind; 10,000 are a part of `make soak`."""
    report = fuzz("--cases", "300", "--seed", "3")
    assert report["faults"] == []
    assert report["cases"] == 300


@pytest.mark.thorough
def test_a_process_and_a_file_elsewhere_are_seen() -> None:
    """Else the test above would prove nothing."""
    (first, second) = fuzz("--cases", "2", "--prove", "process")["faults"]
    assert "ended with -31" in first  # SIGSYS
    assert "ended with -31" in second
    assert all("outside" in fault for fault in fuzz("--cases", "2", "--prove", "file")["faults"])
