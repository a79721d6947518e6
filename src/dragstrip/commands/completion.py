"""Completions for the shell: contenders, races, workloads, claims, line-ups. Reads folders and the store, runs nothing.

docs/commands.md shows how to switch it on. A completion that fails is silent: a message would garble the shell's line.
"""

# House: reads sentences: a list of paths.
from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

DATA = Path(__file__).parents[1] / "data"

#: Maximum number of races to choose from, and of loads; the commands that accept loads.
MAX_RACES, OF_LOADS = 50, ("show", "export")


def contenders(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Shipped contenders, contenders in the user's folders, and files."""
    from_environment = [Path(part) for part in os.environ.get("DRAGSTRIP_CONTENDERS", "").split(":") if part]
    from_options = [Path(part) for part in ctx.params.get("folders") or ()]
    folders = [DATA / "contenders", *from_environment, *from_options]
    names = {file.parent.name for folder in folders for file in _glob(folder, "*/contender.toml")}
    taken = set(ctx.params.get("contenders") or ctx.params.get("names") or ())
    return _items(names - taken, incomplete)


def workloads(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Shipped workloads, and files; after a comma, workloads that are not named yet."""
    before, comma, _ = incomplete.rpartition(",")
    names = {file.stem for file in _glob(DATA / "workloads", "*.toml")} - set(before.split(","))
    return _items((f"{before}{comma}{name}" for name in names), incomplete)


def of_files(incomplete: str, *folders: Path) -> list[CompletionItem]:
    """Names of the TOML files in some folders, and files."""
    return _items((file.stem for folder in folders for file in _glob(folder, "*.toml")), incomplete)


def line_ups(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Named lists of contenders."""
    return of_files(incomplete, DATA / "lineups")


def races(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Ids of the newest races, with their contenders, and of loads; ``last``; and files."""
    from click.shell_completion import CompletionItem

    from dragstrip.errors import DragstripError
    from dragstrip.store.database import Store, default_path

    items = [CompletionItem("last", help="the newest")] if "last".startswith(incomplete) else []
    with suppress(DragstripError, OSError), Store(ctx.params.get("store_path") or default_path(), write=False) as store:
        lines = [line for line in store.runs() if line.race.startswith(incomplete)]
        items += [CompletionItem(line.race, help=", ".join(line.contenders)) for line in lines[:MAX_RACES]]
        loads = store.load_lines() if ctx.info_name in OF_LOADS else []
        items += [
            CompletionItem(one.load, help=one.url) for one in loads[:MAX_RACES] if one.load.startswith(incomplete)
        ]
    return items or _files(incomplete)


def _glob(folder: Path, pattern: str) -> list[Path]:
    with suppress(OSError):
        return sorted(folder.glob(pattern))
    return []


def _items(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in sorted(set(names)) if name.startswith(incomplete)] or _files(incomplete)


def _files(incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]
