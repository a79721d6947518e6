"""``dragstrip claims``: what has been published about these servers; its commands are in files of their own."""

from __future__ import annotations

from pathlib import Path

import click

from dragstrip.cli.claims_add import add_command
from dragstrip.cli.claims_check import check_command
from dragstrip.cli.claims_list import list_command
from dragstrip.cli.claims_table import TableOptions, claims_named, remarks_option, show_table, table_options
from dragstrip.cli.options import read_store, store_options


@click.group(invoke_without_command=True)
@remarks_option
@table_options
@store_options
@click.pass_context
def claims(
    context: click.Context,
    /,
    remarks: bool,
    markdown_path: Path | None,
    svg_path: Path | None,
    json_path: Path | None,
    store_path: Path | None,
) -> None:
    """Published claims about these servers and what races here found. Without a command: results from the store."""
    if context.invoked_subcommand is None:
        options = TableOptions(remarks=remarks, markdown_path=markdown_path, svg_path=svg_path, json_path=json_path)
        with read_store(store_path) as store:
            show_table(claims_named(()), store, options)


for command in (list_command, check_command, add_command):
    claims.add_command(command)
