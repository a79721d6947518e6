"""The documentation: its commands exist, its links lead somewhere, its pages build."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from dragstrip.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands() -> list[tuple[str, str]]:
    """Every line of a code block that runs dragstrip, with the page it stands on."""
    found = []
    for page in PAGES:
        for block in re.findall(r"```(?:sh|yaml)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                match = re.match(r"\s*(?:\$ )?(?:\.venv/bin/)?dragstrip (\S.*)", line)
                if match:
                    found.append((page.name, re.sub(r"\s(#|\|\|).*", "", match[1])))
    return found


@pytest.mark.parametrize(("page", "line"), commands())
def test_each_command_that_a_page_tells_exists_with_its_options(page: str, line: str) -> None:
    """The command and every option are known to the command line; nothing is run."""
    name, *words = shlex.split(line)
    command = cli.get_command(click.Context(cli), name)
    assert command is not None, f"{page}: dragstrip {name}"
    while isinstance(command, click.Group) and words and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for word in words:
        if re.match(r"--?[a-z]", word):
            assert word.split("=")[0] in known | {"--help", "-h"}, f"{page}: dragstrip {name} {word}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_to_files(page: Path) -> None:
    """Each relative link's file is there."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not re.match(r"[a-z]+:|#", target):
            assert (page.parent / target.split("#")[0]).exists(), f"{page.name}: {target}"


def test_the_pages_build(tmp_path: Path) -> None:
    """By MkDocs; none of them asks anything of another host for its look."""
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install 'dragstrip[docs]' (make docs)")
    pytest.importorskip("material", reason="mkdocs-material is not installed: pip install 'dragstrip[docs]'")
    words = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in ("index", "tutorial", "verdicts", "METHOD"):
        text = (tmp_path / "site" / f"{name}.html").read_text(encoding="utf-8")
        assert not re.search(r"<(?:script|link|img)[^>]*(?:src|href)=.?https?://", text), name
