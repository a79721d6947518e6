"""``--allow-host NAME``, for the commands that may load a host elsewhere."""

from __future__ import annotations

import click

from dragstrip.contender import AllowedHost, allowed_host


class Host(click.ParamType[AllowedHost]):
    """A host's name, with bounds behind it where they are to be others than the usual."""

    name = "host"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> AllowedHost:
        """What is allowed there."""
        return value if isinstance(value, AllowedHost) else allowed_host(str(value))


allow_host_option = click.option(
    "--allow-host",
    "allowed",
    type=Host(),
    multiple=True,
    metavar="NAME",
    help=(
        "Allow load on this remote host, which must be yours; NAME:connections=500,rate=20000,time=5m raises the"
        " limits."
    ),
)
