"""``dragstrip new``: creates a contender's folder that works at once, with a comment next to every key."""

from __future__ import annotations

import shutil
from pathlib import Path
from string import Template

import click

from dragstrip import contender, paths
from dragstrip.errors import BadUsage, DragstripError

SKELETON = Path(__file__).parents[1] / "data" / "skeleton"


@click.command()
@click.argument("name")
@click.option(
    "--into",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    show_default=False,
    help="Folder to create it in; created if missing. [default: current folder]",
)
def new(name: str, into: Path) -> None:
    """Create a contender: a folder NAME with a definition and a small server to replace with yours."""
    folder = into / name
    if not contender.NAME.fullmatch(name):
        raise BadUsage(
            f"new: {name!r} is not a valid contender name; use lower-case letters, digits and . + -, like my-server"
        )
    if name in contender.shipped():
        raise BadUsage(f"new: {name} is the name of a shipped contender; use another name")
    if folder.exists() or folder.is_symlink():
        raise BadUsage(f"new: {folder} already exists; use another name, or another folder (--into)")
    mark = "".join(letter for letter in name.upper() if letter.isalnum())[:4].ljust(4, "X")
    with paths.failing(f"new: {folder} can't be written", "use another folder (--into)", folder):
        folder.mkdir(parents=True)  # refuses one that another program has just made, so that what follows is ours
    try:
        for file in sorted(SKELETON.iterdir()):
            if file.is_file():
                text = Template(file.read_text(encoding="utf-8")).substitute(name=name, mark=mark)
                paths.write(folder / file.name, text, new=True)
    except DragstripError:
        shutil.rmtree(folder, ignore_errors=True)  # an incomplete folder would block the next attempt
        raise
    shown = str(folder) if "/" in str(folder) else f"./{folder}"
    click.echo(f"{shown}/contender.toml is yours: see its comments, then\n")
    click.echo(f"  dragstrip verify {shown}\n  dragstrip race {shown} nginx-return")
