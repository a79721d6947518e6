"""The workflows of docs/maintainers.md: valid by actionlint, and their project files by the reader."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dragstrip.contender.definition import read
from dragstrip.revision.project import ProjectFile

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "maintainers.md").read_text(encoding="utf-8")
WORKFLOWS = dict(re.findall(r"<!-- workflow:(\S+) -->\n```yaml\n(.*?)```", PAGE, re.DOTALL))
PROJECTS = dict(re.findall(r"<!-- example-project:(\S+) -->\n```toml\n(.*?)```", PAGE, re.DOTALL))


def test_the_page_has_two_workflows_and_a_project_file() -> None:
    assert set(WORKFLOWS) == {"speed.yml", "speed-comment.yml"}
    assert set(PROJECTS) == {"python"}
    assert len(WORKFLOWS["speed.yml"].splitlines()) <= 10


@pytest.mark.parametrize("name", sorted(PROJECTS))
def test_a_project_file_of_the_page_is_valid(name: str, tmp_path: Path) -> None:
    file = tmp_path / "dragstrip.toml"
    file.write_text(PROJECTS[name])
    fields, _ = read(file, ProjectFile)
    assert "{port}" in fields.serve.command


def test_actionlint_finds_nothing(tmp_path: Path) -> None:
    """Also in the action itself, as a workflow of its own repository would use it."""
    actionlint = shutil.which("actionlint") or shutil.which("actionlint", path=str(ROOT / ".stamps" / "bin"))
    if actionlint is None:
        pytest.skip("actionlint is not installed; `make check` installs it with Go")
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "action.yml", tmp_path)
    for name, text in WORKFLOWS.items():
        (folder / name).write_text(re.sub(r"uses: YOUR/dragstrip@\S+", "uses: ./", text))
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    done = subprocess.run([actionlint, "-no-color"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
