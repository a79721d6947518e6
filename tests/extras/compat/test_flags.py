"""Tables of other tools' flags: against the commands here, and against each tool's --help if it is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from dragstrip.commands import main as cli_main
from dragstrip.extras.compat import flags

PAGE = Path(__file__).resolve().parents[3] / "docs" / "other-tools.md"

#: Debian's package of each tool; oha is in none.
PACKAGES = {"wrk": "apt-get install wrk", "h2load": "apt-get install nghttp2-client", "oha": "cargo install oha"}

#: Options stand after four or eight blanks in wrk, two in h2load, two or six in oha; what they mean, after more.
OPTION = re.compile(r"^ {2,8}(-[\w-]+(?:, --[\w-]+)*)(?![\w-])", re.MULTILINE)


def rows(tool: str) -> dict[str, tuple[str, str, bool]]:
    """Of the page: each flag of a tool, its first and its last version or "", and whether every build has it."""
    section = re.search(
        rf"^### {tool}\n(.*?)(?=^### |^<!-- )", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert section, f"{PAGE} has no table of {tool}"
    by_name: dict[str, tuple[str, str, bool]] = {}
    for cell in re.findall(r"^\| (`-.*?) \|", section[1], re.MULTILINE):
        bounds = [match[1] if (match := re.search(rf"\({word} (\S+)\)", cell)) else "" for word in ("from", "to")]
        for name in re.findall(r"`([^`]+)`", cell):
            assert name not in by_name, f"{tool}'s {name} is listed twice"
            by_name[name] = (bounds[0], bounds[1], "(where built in)" not in cell)
    return by_name


def version(text: str) -> tuple[int, int]:
    """The first two numbers of a version that is written anywhere in a text."""
    match = re.search(r"(\d+)\.(\d+)", text)
    assert match, f"no version in {text!r}"
    return int(match[1]), int(match[2])


@pytest.mark.parametrize("tool", PACKAGES)
def test_every_flag_that_a_tool_s_help_names_has_its_row_and_no_other(tool: str) -> None:
    """Of the tool's own version: both lists are the same."""
    if not shutil.which(tool):
        pytest.skip(f"{tool} is not installed: {PACKAGES[tool]}")
    # wrk ends with 1 after its help, and writes it to the standard error.
    helped, versioned = (
        subprocess.run([tool, word], capture_output=True, text=True, timeout=60) for word in ("--help", "--version")
    )
    named = {name for names in OPTION.findall(helped.stdout + helped.stderr) for name in names.split(", ")}
    installed = version(versioned.stdout + versioned.stderr)
    listed = {
        name
        for name, (since, until, always) in rows(tool).items()
        if (always or name in named)
        and (not since or version(since) <= installed)
        and (not until or installed <= version(until))
    }
    what = f"{tool} {installed[0]}.{installed[1]}; mend src/dragstrip/extras/compat/flags.py and run `make docs`"
    assert not named - listed, f"no row for these flags of {what}"
    assert not listed - named, f"rows of flags that are none of {what}"


@pytest.mark.parametrize("tool", PACKAGES)
def test_a_row_names_flags_as_they_are_typed_and_versions_in_order(tool: str) -> None:
    """What can be told without the tool: spelling, and that no flag went before it came."""
    by_name = rows(tool)
    assert len(by_name) > len(PACKAGES)
    for name, (since, until, _) in by_name.items():
        assert re.fullmatch(r"-[A-Za-z]|--[a-z0-9]+(-[a-z0-9]+)*", name), name
        assert not since or not until or version(since) <= version(until), name


def test_hints_name_only_flags_that_the_command_lacks() -> None:
    """A flag that is in the table and in the command could never be answered from the table."""
    for name, table in flags._BY_COMMAND.items():
        command = cli_main.cli.get_command(click.Context(cli_main.cli), name)
        assert command is not None
        own = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
        assert not own & set(table), name


def test_every_flag_of_wrk_h2load_and_oha_is_here_or_answered(capsys: pytest.CaptureFixture[str]) -> None:
    """Taken, under its own meaning, or refused with the line of the table that docs/other-tools.md shows."""
    load = cli_main.cli.get_command(click.Context(cli_main.cli), "load")
    assert load is not None
    own = {flag for option in load.params for flag in (*option.opts, *option.secondary_opts)} | {"-h", "--help"}
    for tool, known in flags.TOOLS.items():
        for flag in known:
            names = set(flag.names.split())
            for name in names:
                assert name in own or flags.hint("load", name), (tool, name)
            if "the same" in flag.equivalent:
                assert names & own, (tool, flag.names)
            if flag.other:
                assert names & own, (tool, flag.names)
    assert cli_main.run(["load", "http://127.0.0.1:1/", "--rand-regex-url"]) == 2
    assert "oha's random URLs: --url-template" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "hint"),
    [("-X", "-m METHOD"), ("--data-raw", "-b TEXT"), ("--data-binary", "-b TEXT"), ("-l", "--check status")],
)
def test_curls_and_abs_flags_have_the_option_that_does_the_same(flag: str, hint: str) -> None:
    assert hint in str(flags.hint("load", flag))
