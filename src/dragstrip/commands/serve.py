"""``dragstrip serve``: the history as a local page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from dragstrip.commands import options as opts
from dragstrip.commands.options import gathered, option
from dragstrip.commands.quantities import Count
from dragstrip.errors import BadUsage
from dragstrip.store.database import default_path


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """Options of ``dragstrip serve``."""

    port: int = option("--port", type=Count(0, 65535), default=8321, help="Port to listen on; 0 picks a free one.")
    store_path: Path | None = opts.store_option()


@click.command()
@gathered(ServeOptions)
def serve(options: ServeOptions) -> None:
    """Serve stored races to a browser on 127.0.0.1 until Ctrl-C: search, comparison, history, live races.

    Only reads the store. Refuses requests for any host name other than 127.0.0.1 or localhost.
    """
    run_site(options.store_path or default_path(), options.port)


def run_site(store: Path, port: int, *, lab: Path | None = None, hosts: Sequence[str] = ()) -> None:
    """Serves a store on 127.0.0.1 until Ctrl-C.

    Args:
        lab: the folder of the lab whose races these are. hosts: further host names that requests may name.

    Raises:
        BadUsage: the port can't be had.
    """
    import socket

    import uvicorn

    from dragstrip.site import BACKLOG, Bounded, app

    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
        listening.listen(BACKLOG)  # from now on an early browser waits instead of being refused
    except OSError as error:
        listening.close()
        raise BadUsage(f"--port {port}: can't listen on it ({error.strerror}); --port 0 picks a free one") from error
    with listening:
        page = "lab" if lab else ""
        click.echo(f"http://127.0.0.1:{listening.getsockname()[1]}/{page} shows {lab or store}; Ctrl-C ends it")
        # A live view's stream never ends by itself, so shutdown does not wait for it.
        config = uvicorn.Config(
            app(store, lab=lab, hosts=hosts),
            http=Bounded,
            ws="none",
            backlog=BACKLOG,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=1,
        )
        uvicorn.Server(config).run(sockets=[listening])
