"""What a plain installation leaves out, and how a command that needs it says so."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dragstrip.errors import EXTRAS

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]

#: What everybody installs: 285 MB with all that it brings and pip. More goes into an extra, unless every race needs it.
BASE = {
    "brotli", "click", "h11", "h2", "hdrhistogram", "jinja2", "numpy", "psutil", "pydantic", "rich", "ruptures",
    "scipy", "starlette", "uvicorn", "wsproto",
}  # fmt: skip

#: The command line without the modules of the extras.
WITHOUT = f"""
import sys
for name in {list(EXTRAS)!r}:
    sys.modules[name] = None
from dragstrip.commands.main import main
sys.argv[0] = "dragstrip"
main()
"""


def packages(lines: list[str]) -> set[str]:
    return {re.split(r"[^a-z0-9-]", line)[0] for line in lines}


def without_extras(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, *words], capture_output=True, text=True, cwd=folder, check=False
    )


def test_what_everybody_installs_is_this() -> None:
    """And each module of the extras has its package in the extra that the message names."""
    assert packages(PROJECT["dependencies"]) == BASE
    extras = PROJECT["optional-dependencies"]
    named = {
        "altair": "altair",
        "vl_convert": "vl-convert-python",
        "psycopg": "psycopg",
        "cryptography": "cryptography",
    }
    assert {module: named[module] in packages(extras[extra]) for module, (extra, _) in EXTRAS.items()} == dict.fromkeys(
        EXTRAS, True
    )
    assert extras["all"] == [f"dragstrip[{','.join(dict.fromkeys(extra for extra, _ in EXTRAS.values()))}]"]


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["race", "nginx-return", "node", "--html", "page.html"], "page"),
        (["race", "nginx-return", "node", "--tls"], "tls"),
        (["race", "node", "tornado", "--workload", "db"], "database"),
        (["serve", "--port", "0"], "page"),
    ],
)
def test_a_command_without_its_extra_says_in_one_line_what_brings_it(
    tmp_path: Path, words: list[str], extra: str
) -> None:
    """Before anything is measured."""
    done = without_extras(tmp_path, *words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.endswith(f"need packages that are not installed: pip install 'dragstrip[{extra}]'\n")


@pytest.mark.parametrize("words", [["--help"], ["contenders"], ["race", "--help"], ["verify", "--help"], ["runs"]])
def test_other_commands_do_not_miss_them(tmp_path: Path, words: list[str]) -> None:
    """What lists, races and judges imports none of them."""
    done = without_extras(tmp_path, *words)
    assert (done.returncode, done.stderr) == (0, "")
