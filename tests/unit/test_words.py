"""The words of the program: each command and option has its help, and `make prose` sees what it is for.

CONTRIBUTING's "How we write" has the rules, and ``docs/check_prose.py`` finds habits: no test fails by them.
"""

from __future__ import annotations

import re
from pathlib import Path

import check_prose as prose
import click
import pytest

from dragstrip.commands.main import COMMANDS, cli


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_each_ones_first_sentence(name: str) -> None:
    """The list is shown without loading a command; it must say what the command's own help says."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.help is not None
    first = " ".join(command.help.replace("\b", "").split("\n\n")[0].split())
    assert COMMANDS[name] == re.split(r"(?<=\.) ", first)[0]


def test_every_command_and_option_has_a_help_text() -> None:
    """An option without a text is a riddle in ``--help``."""
    texts = dict(prose.help_texts())
    assert len(texts) > 200
    assert [place for place, text in texts.items() if not text] == []


@pytest.mark.parametrize(
    ("habits", "text"),
    [
        *((prose.HABITS, text) for text in ("There is no X.", "send so many", "whom", "made anew", "is told")),
        *((prose.PACKAGE_HABITS, text) for text in ("who fell out", "20 answers a second", "a planted fault")),
        *((prose.READER_HABITS, text) for text in ("Where it works, it is used", "also this, too", "it goes on")),
    ],
)
def test_a_habit_is_seen(habits: dict[str, str], text: str) -> None:
    assert prose.habits_in(text, habits)


@pytest.mark.parametrize("text", ["is no longer there", "as long as it runs", "«is no X»", "`nobody`", "a stand-in"])
def test_what_is_near_a_habit_is_let_through(text: str) -> None:
    assert not prose.habits_in(text, prose.READER_HABITS)


def test_docstrings_comments_and_tables_are_read(tmp_path: Path) -> None:
    """A docstring's middle, a comment behind code, a table; a generated block and code are left out."""
    planted = tmp_path / "planted.py"
    planted.write_text('"""Sound.\n\nThere is no such thing.\n"""\nNUMBER = 1  # so many\n', encoding="utf-8")
    assert [line for line, text in prose.notes(planted) if prose.habits_in(text)] == [3, 5]
    page = "Sound.\n\n| a | is told |\n<!-- x: begin -->\nis told\n<!-- x: end -->\n```\nis told\n```\n"
    assert [number for number, line in prose.prose_and_tables(page) if prose.habits_in(line)] == [3]


def test_names_that_are_gone_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file and a function on a page that the sources don't have."""
    (tmp_path / "src" / "dragstrip").mkdir(parents=True)
    (tmp_path / "src" / "dragstrip" / "here.py").write_text("def is_here() -> None: ...\n")
    page = tmp_path / "ENGINE.md"
    page.write_text("`src/dragstrip/here.py`, `src/dragstrip/gone.py`, `is_here`, `is_gone()`\n")
    for name in ("Makefile", "pyproject.toml"):
        (tmp_path / name).touch()
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    monkeypatch.setattr(prose, "pages", lambda: [page])
    assert [one.split()[1] for one in prose.gone()] == ["is_gone()", "src/dragstrip/gone.py"]
