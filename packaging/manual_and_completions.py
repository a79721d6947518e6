"""Writes the man pages and the shells' completions into a folder, as an installation holds them below its ``share``.

    python packaging/manual_and_completions.py dragstrip._engine.data/data/share

``make dist`` calls this: maturin puts what lies in ``dragstrip._engine.data`` into the wheel (its documentation,
"Package data"), and pip copies ``data/share`` into the environment's ``share``. Both come from the command line's own
declarations, by click-man and by click itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import click
from click.shell_completion import get_completion_class
from click_man.core import write_man_pages

from dragstrip import __version__
from dragstrip.commands.main import COMMANDS, cli

ROOT = Path(__file__).resolve().parents[1]

#: Where each shell looks for a completion, below ``share``.
PLACES = {
    "bash": "bash-completion/completions/dragstrip",
    "zsh": "zsh/site-functions/_dragstrip",
    "fish": "fish/vendor_completions.d/dragstrip.fish",
}


def release_date() -> str:
    """The date of the last commit, or ``SOURCE_DATE_EPOCH``: the same sources give the same pages.

    https://reproducible-builds.org/specs/source-date-epoch/
    """
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    if not seconds:
        command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = told.stdout.strip() or str(int(time.time()))
    return time.strftime("%Y-%m-%d", time.gmtime(int(seconds)))


def write_manual(folder: Path) -> None:
    """One page for the program and one for each command."""
    folder.mkdir(parents=True, exist_ok=True)
    context = click.Context(cli, info_name="dragstrip")
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)  # loads it: click-man looks at loaded commands only
        if command is not None and name in COMMANDS:
            command.short_help = COMMANDS[name][1]  # click-man's own would be cut after 45 characters
    cli.short_help = "races web servers side by side"
    write_man_pages("dragstrip", cli, version=__version__, target_dir=str(folder), date=release_date())


def write_completions(share: Path) -> None:
    """A script for each shell, which asks the program itself."""
    for shell, place in PLACES.items():
        found = get_completion_class(shell)
        assert found is not None, shell
        path = share / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(found(cli, {}, "dragstrip", "_DRAGSTRIP_COMPLETE").source(), encoding="utf-8")


def main() -> None:
    """The command line."""
    if len(sys.argv) != 2:
        sys.exit("usage: manual_and_completions.py FOLDER")
    share = Path(sys.argv[1])
    write_manual(share / "man" / "man1")
    write_completions(share)


if __name__ == "__main__":
    main()
