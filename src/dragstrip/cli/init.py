"""``dragstrip init``: a first dragstrip.toml from what the repository's files tell, and a few questions."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import click

from dragstrip import paths
from dragstrip.cli import options as opts
from dragstrip.cli.options import gathered, option
from dragstrip.errors import BadUsage
from dragstrip.revision import draft as drafts
from dragstrip.revision import project
from dragstrip.revision.repository import Repository


@dataclass(frozen=True, kw_only=True)
class InitOptions:
    """Options of ``dragstrip init``; None: asked for."""

    build: str | None = option("--build", metavar="COMMAND", help="Shell command that builds the server.")
    serve: str | None = option("--serve", metavar="COMMAND", help="Command that starts the server, with {port} in it.")
    workload: tuple[str, ...] = option(
        "--workload",
        multiple=True,
        metavar="NAME",
        help='A workload, a workload file, or a path like "/users/1". [default: /]',
    )
    threshold: str = option(
        "--fail-if", default="slower:3%", help="Threshold for the exit code of `dragstrip diff`; empty for none."
    )
    yes: bool = opts.yes_option(help="Don't ask; take what the repository's files suggest.")


@click.command()
@gathered(InitOptions)
def init(options: InitOptions) -> None:
    """Write a dragstrip.toml for this repository, which `dragstrip diff` needs.

    The repository's own files (Cargo.toml, go.mod, package.json, pyproject.toml, Makefile, Dockerfile) suggest the
    commands; init asks whether they are right.
    """
    repository = Repository(Path.cwd())
    file = repository.top / project.FILE_NAME
    if file.exists() or file.is_symlink():
        raise BadUsage(f"{file} already exists; edit it, or remove it first")
    asks = not options.yes and sys.stdin.isatty()
    found = drafts.draft(repository.top)
    if found.found and asks:
        click.echo(f"{found.found} suggests these commands; press Enter to accept one, or type another.")
    build = _answer(options.build, found.build, "build command", asks)
    serve = _answer(options.serve, found.serve, "start command, with {port} in it", asks)
    if not serve:
        raise BadUsage(
            "init: no file of the repository says how the server is started; give the command: "
            '--serve "./server --port {port}"'
        )
    paths.write(
        file,
        drafts.text(found, build=build, serve=serve, workloads=options.workload or ("/",), threshold=options.threshold),
        new=True,
    )
    try:
        project.load(file, repository.top)
    except BaseException:
        file.unlink()
        raise
    click.echo(f"{file} is written. Check its commands, then compare your changes with the default branch:\n")
    click.echo("  dragstrip diff")


def _answer(given: str | None, suggested: str, question: str, asks: bool) -> str:
    if given is not None:
        return given
    return str(click.prompt(question, default=suggested, show_default=bool(suggested))) if asks else suggested
