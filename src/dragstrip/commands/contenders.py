"""``dragstrip contenders``: lists contenders, imported entries included, and what a missing one needs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import click

from dragstrip import contender, image
from dragstrip.commands import options as opts
from dragstrip.commands.options import gathered, option, switch
from dragstrip.contender import Entry, imported
from dragstrip.errors import BadDefinition, BadUsage
from dragstrip.report import listing
from dragstrip.report.console import Console
from dragstrip.workload import load as load_workload


@dataclass(frozen=True, kw_only=True)
class ContendersOptions:
    """Options of ``dragstrip contenders``."""

    names: tuple[str, ...] = opts.contenders_argument()
    workload: str | None = option("--workload", help="List only contenders that serve this workload.")
    as_json: bool = switch("--json", help="Print the list as JSON.")
    list_images: bool = switch("--images", help="List the unpacked container images, and end.")
    clean_images: bool = switch("--clean-images", help="Remove the unpacked container images, forget builds, and end.")
    folders: tuple[Path, ...] = opts.folders_option()
    settings: tuple[str, ...] = opts.settings_option()


@click.command()
@gathered(ContendersOptions)
def contenders(options: ContendersOptions) -> None:
    """List contenders: ready, missing and how to make them ready, or broken and why.

    NAMES are names, or patterns of names with * and ?, like 'tfb:*'. Without them, every contender is listed.
    """
    if options.list_images or options.clean_images:
        _show_images(clean=options.clean_images)
        return
    served_as = load_workload(options.workload).served_as if options.workload else ""
    entries, broken = _known(options)
    named = [entry for entry in entries if _matches(entry.name, options.names)]
    rows = [contender.status(entry) for entry in named if not served_as or entry.serves(served_as)]
    for name, reason in broken.items():
        if _matches(name, options.names) or _matches(Path(name).name, options.names):
            rows.append({"name": name, "title": "", "status": "broken", "version": "", "reason": reason, "remedy": ""})
    if options.names and not named and not rows:
        raise BadUsage(f"no contender matches {' '.join(options.names)}; `dragstrip contenders` lists all")
    click.echo(json.dumps(rows, indent=2)) if options.as_json else listing.contenders(Console(), rows)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def _known(options: ContendersOptions) -> tuple[list[Entry], dict[str, str]]:
    """Every contender with a valid definition; and why others are refused, by folder or by an imported entry's name."""
    words: Iterable[str] = contender.names(options.folders)
    entries = list(contender.entrants(words, extra_dirs=options.folders, settings=options.settings))
    broken = contender.broken_definitions(options.folders)
    for name in imported.names():
        try:
            entries += contender.entrants([name])
        except BadDefinition as error:
            broken[name] = str(error)
    return entries, broken


def _show_images(*, clean: bool) -> None:
    cache = contender.cache_dir()
    if clean:
        removed = image.remove(cache)
        image.forget(cache)
        click.echo(f"{removed} {'image was' if removed == 1 else 'images were'} removed from {cache / 'images'}")
        return
    kept = image.kept(cache)
    for one in kept:
        size = f"{one.bytes / 2**20:8.1f} MiB in {one.files:,} files"
        click.echo(f"{one.id[:12]}  {size}  unpacked in {one.seconds:.1f} s  {one.name}")
    click.echo(f"{len(kept)} of at most {image.MAX_IMAGES} images are kept in {cache / 'images'}")
