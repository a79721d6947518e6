"""Commands that Dragstrip prints as advice: every one that a test prints is read as if it were pasted.

``commands`` and ``races`` hand over what each command printed. A hint with an option, a command or a value that does
not exist fails the test that printed it. What only reads is run as well, once per form.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from functools import cache

import click

#: Words that stand for a user's own: FILE, NAME, FOLDER, "..."; their values can't be read.
PLACEHOLDER = re.compile(r"(?<![\w-])[A-Z][A-Z0-9_]*(?![\w=])|\.\.\.|…")

#: Commands that change nothing and measure nothing.
READING = ("contenders", "history", "report", "runs", "show")

#: Options of other programs, in commands that are printed for those.
OF_OTHERS = frozenset({"--h1"})

#: Commands of other programs: in backticks, or for root to paste if the user is somebody else.
OTHERS_COMMAND = re.compile(r"`(?!dragstrip |-)[^`\s]+ [^`]*`|sudo (?:apt-get|sysctl|sh) [^\n`]*")

#: Forms of hints that this process has run.
_ran: set[str] = set()


def hints_in(text: str) -> list[str]:
    """Commands in backticks or parentheses, without the terminal's line breaks."""
    flat = " ".join(text.split())
    return [*re.findall(r"`(dragstrip [^`]+)`", flat), *re.findall(r"\((dragstrip [a-z]+(?: [^()`]*)?)\)", flat)]


def refused(hint: str) -> str:
    """Why the command line does not understand a hint; "": it does."""
    from dragstrip.commands.main import cli

    try:
        words = shlex.split(hint)[1:]
    except ValueError as error:
        return str(error)
    command: click.Command = cli
    context = click.Context(cli, info_name="dragstrip")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        if found is None:
            return f"no command {words[0]}"
        command, context = found, click.Context(found, info_name=words.pop(0), parent=context)
    if isinstance(command, click.Group):
        return "" if words in ([], ["--version"], ["--help"]) else f"it names no command of {command.name}"
    try:
        command.make_context(command.name, words, parent=context.parent)
    except click.exceptions.Exit:
        return ""
    except click.BadParameter as error:
        # A bare name refers to a command, for a reader to look up.
        named = isinstance(error, click.MissingParameter) and not words
        placed = PLACEHOLDER.search(hint) and not isinstance(error, click.MissingParameter)
        return "" if named or placed else error.format_message()
    except click.ClickException as error:
        return error.format_message()
    return ""


@cache
def _options() -> frozenset[str]:
    """Every option of every command."""
    from dragstrip.commands.main import cli

    def of(command: click.Command) -> Iterator[str]:
        for parameter in command.params:
            yield from (*parameter.opts, *parameter.secondary_opts)
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                if found := command.get_command(context, name):
                    yield from of(found)

    return frozenset(of(cli)) | {"--help"}


def unknown_options(text: str, typed: str = "") -> list[str]:
    """Options in a text that no command has, apart from those that were ``typed``."""
    found = re.findall(r"(?<![\w/.=:-])--[a-z][a-z0-9-]+", OTHERS_COMMAND.sub("", text))
    return sorted({one for one in found if one not in _options() | OF_OTHERS and one not in typed})


def check(text: str, typed: str, env: Mapping[str, str] | None, dragstrip: Callable[..., object]) -> None:
    """Fails if a printed hint can't be pasted, or names an option that does not exist.

    Args:
        typed: the command line that printed it.
        dragstrip: runs a command with this environment; its result has a ``returncode``.
    """
    assert not (unknown := unknown_options(text, typed)), f"printed, and no command has it: {unknown}: {text}"
    for hint in hints_in(text):
        assert not (why := refused(hint)), f"printed as a hint: {hint!r}: {why}"
        words = shlex.split(hint)[1:]
        form = re.sub(r"\b[0-9a-f]{8,}\b", "ID", hint)
        if words[0] not in READING or PLACEHOLDER.search(hint) or form in _ran:
            continue
        _ran.add(form)
        done = dragstrip(*words, env=env)
        assert getattr(done, "returncode", 0) == 0, f"printed as a hint: {hint!r} ended with {done}"
