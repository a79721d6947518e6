"""Texts of others on their way to a terminal: what a terminal would obey is shown, whichever command prints it."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from commands import dragstrip
from rich.table import Table
from rich.text import Text

from dragstrip.commands.main import cli
from dragstrip.commands.streams import guarded
from dragstrip.report.console import Console, harmless

#: Renames a window, clears the screen, hides text, types a command, turns the direction; ESC, C1, BEL, backspace.
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x1b[8m\x9b31m\x08\x08\rover\u202etxt.exe\x1bP$q\x1b\\"

OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

PACKAGE = Path(__file__).resolve().parents[3] / "src" / "dragstrip"


def test_what_a_terminal_obeys_is_shown() -> None:
    """Line ends and tabs stay, also those of CSV; other letters do, too."""
    assert not OBEYED.search(harmless(HOSTILE))
    assert harmless("a\x1bb\rc") == "a\\x1bb\\rc"
    assert harmless("a\tb\r\nc\n\u00a0ü漢") == "a\tb\r\nc\n\u00a0ü漢"


@pytest.mark.parametrize("terminal", [False, True])
def test_the_console_passes_on_its_own_sequences_alone(terminal: bool) -> None:
    """In plain text, in styled text and in a table."""
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=200, color_system="standard" if terminal else None)
    console.print(HOSTILE, markup=False)
    console.print(Text(HOSTILE, style="bold red"))
    table = Table()
    table.add_column(HOSTILE)
    table.add_row(Text(HOSTILE))
    console.print(table)
    text = file.getvalue()
    assert "owned" in text
    assert bool(re.search(r"\x1b\[1;31m", text)) == terminal
    assert not OBEYED.search(re.sub(r"\x1b\[[\d;]*m", "", text))
    assert "\x1b[8m" not in text


def test_printing_without_a_console_is_guarded_and_a_console_within_is_not_guarded_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both streams; afterwards they are the former ones."""
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with guarded(), guarded():
        click.echo(HOSTILE)
        click.echo(HOSTILE, err=True)
        print(HOSTILE)  # noqa: T201
        Console(force_terminal=True, color_system="standard").print(Text("own", style="red"))
    assert sys.stdout is out
    assert not OBEYED.search(err.getvalue())
    assert "\x1b[31mown\x1b[0m" in out.getvalue()
    assert not OBEYED.search(out.getvalue().replace("\x1b[31m", "").replace("\x1b[0m", ""))


def test_no_module_makes_another_console() -> None:
    """Rich's own would pass on what others wrote."""
    makes = re.compile(r"^\s*(?:from rich\.console import .*\bConsole\b|import rich\b)", re.MULTILINE)
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        if path.name != "console.py" and re.search(r"(?<![\w.])Console\(", text):
            assert not makes.search(text), path
        assert "rich.print" not in text, path


@pytest.mark.parametrize("words", [["contenders"], ["contenders", "--json"], ["install", "mine"], ["verify", "mine"]])
def test_a_definition_and_its_programs_control_no_terminal(tmp_path: Path, words: list[str]) -> None:
    """Its title, and what its trial command prints."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "contender.toml").write_text(
        'name = "mine"\ntitle = "\\u001b]0;owned\\u0007\\u009b31m"\nhost = "h"\nlanguage = "C"\nworkloads = ["hello"]\n'
        '[needs]\nrun = [["/bin/sh", "-c", "printf \'\\\\033]0;owned\\\\007\\\\033[2J\'; exit 1"]]\n'
        '[start]\ncommand = ["sh", "-c", "exit 1"]\n'
    )
    done = CliRunner().invoke(cli, [*words, "--contenders", str(tmp_path)])
    assert not OBEYED.search(done.output), done.output


def test_a_servers_log_controls_no_terminal(tmp_path: Path) -> None:
    """The end of the log of a server that died."""
    script = tmp_path / "server.sh"
    script.write_text("printf '\\033]0;owned\\007\\033[2J\\n'\nexit 1\n")
    done = dragstrip("verify", "--serve", f"mine=sh {script} {{port}}", env={"XDG_DATA_HOME": str(tmp_path)})
    text = done.stdout + done.stderr
    assert "owned" in text
    assert not OBEYED.search(text), text
