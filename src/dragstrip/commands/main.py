"""Where the command line begins: names of commands, each loaded when it is called, and the exit code.

Nothing slow but click is imported here: so ``--help`` and ``--version`` wait for no statistics and no charts.
"""

from __future__ import annotations

import os
import sys
from difflib import get_close_matches
from importlib import import_module

import click

from dragstrip.errors import NeedsUserNamespace

#: Each command's line in the list of ``--help``: the first sentence of its own help, shown without loading the command.
COMMANDS = {
    "bisect": "Find the commit between GOOD and BAD that made the server slower.",
    "claims": "Published claims about these servers and what races here found.",
    "compare": "Compare race NEW with race OLD.",
    "contenders": "List contenders: ready, missing and how to make them ready, or broken and why.",
    "diff": "Race revisions of this git repository: did the change make the server faster or slower?",
    "doctor": "Check whether this machine is fit for races, and measure its load generator's maximum rate.",
    "export": "Write race or load RUN to FILE, as the full record or in another program's format.",
    "fleet": "Manage several machines: install Dragstrip on them, check them, stop leftover agents.",
    "history": "Show how fast NAME was in stored races, and where that changed.",
    "import": "Import an exported race into the store; or, with --beside, add another tool's output to a stored race.",
    "init": "Write a dragstrip.toml for this repository, which `dragstrip diff` needs.",
    "install": "Install what contenders need, using the system's package managers; shows the commands, then asks.",
    "lab": "Race the cells of a matrix.toml on many machines: each cell once, and the same command continues a lab.",
    "load": "Load URL and report; every response is checked against a reference response.",
    "new": "Create a contender: a folder NAME with a definition and a small server to replace with yours.",
    "race": "Race CONTENDERS: which is faster, by what ratio, and with what confidence.",
    "report": "Render a stored race again: HTML page, JSON, or an SVG of the terminal report.",
    "rerun": "Race RUN again on this machine with the same plan, then compare.",
    "runs": "List stored races and loads, newest first.",
    "serve": "Serve stored races to a browser on 127.0.0.1 until Ctrl-C: search, comparison, history, live races.",
    "show": "Show a stored race, judged again from its records, or a stored load.",
    "sweep": "Measure latency at several offered rates and find the capacity of CONTENDERS.",
    "verify": "Run scrutineering only: start each contender and check its responses.",
    "why": "Show what each response costs the contenders of race RUN, and which costs differ.",
}

#: Where a command is, if that is not in the module of this package with its name: the extras' commands.
MODULES = {
    "claims": "dragstrip.extras.claims.command",
    "fleet": "dragstrip.extras.fleet.command",
    "import": "dragstrip.commands.import_",
    "lab": "dragstrip.extras.lab.command",
}

#: Commands whose exit code is a measurement's result: output that can't be written does not change the code.
MEASURING = ("bisect", "claims", "diff", "doctor", "lab", "load", "race", "rerun", "sweep", "verify", "why")


class Commands(click.Group):
    """A group that imports a command when it is called, and that recognises other tools' flags."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command's name."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command, imported now."""
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            module = import_module(MODULES.get(cmd_name, f"dragstrip.commands.{cmd_name}"))
            declared = [value for value in vars(module).values() if isinstance(value, click.Command)]
            self.add_command(next(command for command in declared if command.name == cmd_name))
        return self.commands.get(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word names; for an unknown word, the message suggests the nearest name."""
        word = args[0]
        ctx.meta["dragstrip.words"] = tuple(args)  # ``outputs.WORDS``, which is not imported this early
        if self.get_command(ctx, word) is None and not word.startswith("-") and not ctx.resilient_parsing:
            near = get_close_matches(word, self.list_commands(ctx), n=1)
            hint = f"did you mean {near[0]}?" if near else "dragstrip --help lists all"
            ctx.fail(f"No such command {word!r}; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in the help, from the table above."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> object:
        """Runs the command; if a flag is another tool's, the message names ours."""
        from dragstrip.commands.streams import guarded

        try:
            with guarded():
                return super().invoke(ctx)
        except click.UsageError as error:
            from dragstrip.extensions import extension

            raise extension("other tools' flags").hinted(error) from error


def _show_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from dragstrip import __version__

        click.echo(f"dragstrip, version {__version__}")
        ctx.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_show_version, help="Show the version."
)
def cli() -> None:
    """Race web servers side by side: which is faster, by what ratio, and with what confidence."""


def main() -> None:
    """Runs the command line: one line on stderr for a refusal, and its exit code; never a traceback."""
    from dragstrip.commands import streams
    from dragstrip.commands.signals import undo_unwanted

    undo_unwanted()
    if "DRAGSTRIP_IN_USER_NAMESPACE" in os.environ:  # namespaces.ENTERED
        from dragstrip.image import outside
        from dragstrip.image.namespaces import drop_inherited_rights

        outside.take()
        drop_inherited_rights()
    streams.fill_closed()
    arguments = sys.argv[1:]
    with streams.watched_output() as output:
        code = run(arguments)
        if output is not None:
            code = streams.exit_code(code, output, measured=bool(arguments) and arguments[0] in MEASURING)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Runs one command line and returns its exit code; a failure's reason is printed to stderr."""
    from dragstrip.commands.streams import guarded

    with guarded():
        return _run(arguments)


def _run(arguments: list[str]) -> int:
    try:
        returned = cli.main(arguments, prog_name="dragstrip", standalone_mode=False)
        return returned if isinstance(returned, int) else 0
    except SystemExit as exiting:
        return exiting.code if isinstance(exiting.code, int) else int(exiting.code is not None)
    except (click.Abort, KeyboardInterrupt):
        from dragstrip.commands.options import EXIT_INTERRUPTED

        return EXIT_INTERRUPTED
    except click.ClickException as error:
        error.show()
        return 2
    except NeedsUserNamespace as error:
        from dragstrip.commands.streams import report_failure
        from dragstrip.image import outside
        from dragstrip.image.namespaces import enter_user_namespace

        outside.begin()
        try:
            enter_user_namespace()  # starts this command line again; returns only if it can't
        except OSError as refused:
            return report_failure(NeedsUserNamespace(error.name, str(refused)))
        return report_failure(error)
    except BaseException as error:  # the engine's panics are not subclasses of Exception
        from dragstrip.commands.streams import report_failure

        return report_failure(error)
