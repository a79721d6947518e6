"""``dragstrip contenders``: lists every contender, and what a missing one needs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console

from dragstrip import contender, image
from dragstrip.cli import options as opts
from dragstrip.cli.options import gathered, switch
from dragstrip.report import listing


@dataclass(frozen=True, kw_only=True)
class ContendersOptions:
    """Options of ``dragstrip contenders``."""

    as_json: bool = switch("--json", help="Print the list as JSON.")
    list_images: bool = switch("--images", help="List the unpacked container images, and end.")
    clean_images: bool = switch("--clean-images", help="Remove the unpacked container images, forget builds, and end.")
    folders: tuple[Path, ...] = opts.folders_option()
    settings: tuple[str, ...] = opts.settings_option()


@click.command()
@gathered(ContendersOptions)
def contenders(options: ContendersOptions) -> None:
    """List every contender: ready, missing and how to make it ready, or broken and why."""
    if options.list_images or options.clean_images:
        _show_images(clean=options.clean_images)
        return
    entries = contender.entrants(
        contender.names(options.folders), extra_dirs=options.folders, settings=options.settings
    )
    rows = [contender.status(entry) for entry in entries]
    for folder, reason in contender.broken_definitions(options.folders).items():
        rows.append({"name": folder, "title": "", "status": "broken", "version": "", "reason": reason, "remedy": ""})
    click.echo(json.dumps(rows, indent=2)) if options.as_json else listing.contenders(Console(), rows)


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
