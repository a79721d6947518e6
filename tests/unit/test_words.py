"""The words of the program: what the help, the messages and the pages must not say, as far as a program can see it.

CONTRIBUTING's "How we write" has the rules; ``docs/check_prose.py`` counts words and characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from dragstrip.cli.main import COMMANDS, cli


def commands(group: click.Group = cli, path: str = "dragstrip") -> Iterator[tuple[str, click.Command]]:
    """Every command with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_each_ones_first_sentence(name: str) -> None:
    """The list is shown without loading a command; it must say what the command's own help says."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.help is not None
    first = " ".join(command.help.replace("\b", "").split("\n\n")[0].split())
    assert COMMANDS[name][1] == re.split(r"(?<=\.) ", first)[0]


def test_every_command_and_option_has_a_help_text() -> None:
    """An option without a text is a riddle in ``--help``."""
    silent = [
        f"{words} {option.opts[0]}"
        for words, command in commands()
        for option in command.params
        if isinstance(option, click.Option) and not option.help
    ]
    assert not silent
    assert all(command.help for _, command in commands())
