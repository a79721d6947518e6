"""``dragstrip init``: a first dragstrip.toml from what the repository's files tell, and a few questions."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import click

from dragstrip import paths
from dragstrip.commands import options as opts
from dragstrip.commands.options import gathered, option
from dragstrip.errors import BadUsage
from dragstrip.revision import draft as drafts
from dragstrip.revision import project
from dragstrip.revision.repository import Repository
from dragstrip.workload.typed import TypedRequest


@dataclass(frozen=True, kw_only=True)
class InitOptions:
    """Options of ``dragstrip init``; None: asked for."""

    build: str | None = option("--build", metavar="COMMAND", help="Shell command that builds the server.")
    serve: str | None = option("--serve", metavar="COMMAND", help="Command that starts the server, at PORT or {port}.")
    paths: tuple[str, ...] = option(
        "--path", multiple=True, metavar="PATH", help="Path to request, e.g. /users/1; may be repeated. [default: /]"
    )
    workload: tuple[str, ...] = option(
        "--workload", multiple=True, metavar="NAME", help="A workload or a workload file to race; may be repeated."
    )
    threshold: str = option(
        "--fail-if", default="slower:3%", help="Threshold for the exit code of `dragstrip diff`; empty for none."
    )
    yes: bool = opts.yes_option(help="Don't ask; take what the repository's files suggest.")


@click.command()
@gathered(InitOptions)
def init(options: InitOptions) -> None:
    """Write a dragstrip.toml for this repository, which `dragstrip diff` needs.

    The repository's own files (Cargo.toml, go.mod, package.json, pyproject.toml, requirements.txt, Makefile, Procfile,
    Dockerfile) suggest the commands; init asks whether they are right, and which path to request.
    """
    repository = Repository(Path.cwd())
    file = repository.top / project.FILE_NAME
    if file.exists() or file.is_symlink():
        raise BadUsage(f"{file} already exists; edit it, or remove it first")
    asks = not options.yes and sys.stdin.isatty()
    for path in options.paths:
        TypedRequest(path=path)
    found = drafts.draft(repository.top)
    if found.found and asks:
        click.echo(f"Suggested by {found.found}; press Enter to accept a suggestion, or type another.")
    if found.reads_port and asks:
        click.echo(f"{found.reads_port} reads PORT, so the start command needs no {{port}}.")
    build = _answer(options.build, found.build, "build command", asks)
    serve = _answer(options.serve, found.serve, "start command, which listens at PORT or {port}", asks)
    if not serve:
        raise BadUsage(
            "init: no file of the repository says how the server is started; give the command: "
            '--serve "./server --port {port}", or --serve "npm start" if it reads PORT'
        )
    workloads = (*options.workload, *options.paths)
    if not workloads:
        workloads = (click.prompt("path to request", default="/", value_proc=_path) if asks else "/",)
    written = drafts.text(found, build=build, serve=serve, workloads=workloads, threshold=options.threshold)
    paths.write(file, written, new=True)
    try:
        project.load(file, repository.top)
    except BaseException:
        file.unlink()
        raise
    click.echo(f"{file} is written. Check its commands, then compare your changes with the default branch:\n")
    click.echo("  dragstrip diff")


def _path(text: str) -> str:
    """A path that was typed; what no request can have is asked for again."""
    try:
        return TypedRequest(path=text).path
    except BadUsage as error:
        raise click.UsageError(str(error).removeprefix("--path ")) from error


def _answer(given: str | None, suggested: str, question: str, asks: bool) -> str:
    if given is not None:
        return given
    return str(click.prompt(question, default=suggested, show_default=bool(suggested))) if asks else suggested
