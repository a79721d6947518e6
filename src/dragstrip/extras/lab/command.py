"""``dragstrip lab``: many races on many machines, from a ``matrix.toml``."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import click

from dragstrip.commands.options import EXIT_FAILURE, EXIT_INTERRUPTED
from dragstrip.commands.outputs import OutputFile, json_text, write_all
from dragstrip.commands.quantities import Count
from dragstrip.commands.serve import run_site
from dragstrip.commands.signals import as_interruptions
from dragstrip.contender import cache_dir
from dragstrip.errors import BadUsage
from dragstrip.extras.lab import matrix as matrices
from dragstrip.extras.lab import planning, runner, strip_side
from dragstrip.extras.lab.carrier import Carrier, Children
from dragstrip.extras.lab.ledger import STORE_NAME, CellRow, Ledger
from dragstrip.extras.lab.report import heat, summary
from dragstrip.extras.lab.report import terminal as lab_terminal
from dragstrip.extras.lab.task import Inquiry, Taken, Task, from_json, to_json
from dragstrip.report.console import Console
from dragstrip.report.figures import visible
from dragstrip.report.race import tables
from dragstrip.store.database import default_path

#: Seconds between two looks of ``status --watch``.
WATCH_S = 2.0

matrix_file = click.argument("matrix", type=click.Path(path_type=Path), default="matrix.toml")
folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="Folder with the lab's ledger and races. [default: labs/NAME next to the store]",
)
work_option = click.option("--work", default="", help="Folder of the strip, or its name below the cache.")


@click.group(invoke_without_command=True)
@click.pass_context
def lab(context: click.Context, /) -> None:
    """Race the cells of a matrix.toml on many machines: each cell once, and the same command continues a lab."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _folder(matrix: Path, folder: Path | None) -> Path:
    """The lab's folder."""
    return folder or default_path().parent / "labs" / matrices.load(matrix).fields.lab.name


def _say(line: str) -> None:
    click.echo(f"dragstrip: {visible(line)}", err=True)


@lab.command()
@matrix_file
@folder_option
def plan(matrix: Path, folder: Path | None) -> None:
    """List the cells of MATRIX, which of them can't run and why, and the estimated hours; starts no race."""
    known = matrices.load(matrix)
    with ExitStack() as resources:
        planner = planning.Planner(folder=_folder(matrix, folder), resources=resources, say=_say)
        planned = planner.plan(known)
    lab_terminal.show_plan(Console(), known, planned, planner.away)


def _only(words: tuple[str, ...]) -> Callable[[CellRow], bool]:
    """A filter for cells from words like ``workload=json``.

    Raises:
        BadUsage: one is not of that form, or names no key.
    """
    keys = ("line_up", "workload", "load", "revision", "machine")
    wanted: dict[str, set[str]] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in keys:
            raise BadUsage(f"--only {word!r}: use KEY=VALUE with one of the keys {', '.join(keys)}")
        wanted.setdefault(key, set()).add(value)
    return lambda cell: all(getattr(cell, key) in values for key, values in wanted.items())


@lab.command()
@matrix_file
@folder_option
@click.option("--only", multiple=True, metavar="KEY=VALUE", help="Run only these cells, like workload=json.")
@click.option(
    "--dask", "address", metavar="ADDRESS", help="Use Dask's workers: tls://HOST:PORT, or local to start them here."
)
@click.option("--tls", type=click.Path(path_type=Path), help="Folder with ca.pem, cert.pem and key.pem for --dask.")
def run(matrix: Path, folder: Path | None, only: tuple[str, ...], address: str | None, tls: Path | None) -> None:
    """Race the cells of MATRIX; the same command continues after any crash.

    Exit code 1 if a cell has failed, 130 if interrupted.
    """
    place = _folder(matrix, folder)
    matrices.load(matrix)
    try:
        with as_interruptions(), closing(_carrier(address, tls, place)) as carrier:
            whole = runner.Runner(
                file=matrix, folder=place, say=_say, only=_only(only), carrier=carrier, digest=heat.digest
            )
            succeeded = whole.run()
    except KeyboardInterrupt:
        _say("interrupted; what was measured is kept, and the same command continues")
        sys.exit(EXIT_INTERRUPTED)
    lab_terminal.show_status(Console(), summary.counted(place))
    if not succeeded:
        sys.exit(EXIT_FAILURE)


def _carrier(address: str | None, tls: Path | None, folder: Path) -> Carrier:
    """What starts the processes of strips.

    Raises:
        BadUsage: the options contradict each other, or the address may not be used.
    """
    if address is None:
        if tls:
            raise BadUsage("--tls: it is for --dask tls://HOST:PORT; give both or neither")
        return Children()
    from dragstrip.extras.lab.dask_carrier import DaskCarrier  # Dask is optional, and loads slowly

    return DaskCarrier(address, tls, folder / "dask")


@lab.command()
@matrix_file
@folder_option
@click.option("--watch", is_flag=True, help="Show it again until every cell is done, or until Ctrl-C.")
@click.option("--cells", is_flag=True, help="List every cell.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(matrix: Path, folder: Path | None, watch: bool, cells: bool, as_json: bool) -> None:
    """Show how far the lab of MATRIX is: cells, strips and machine time."""
    place, console = _folder(matrix, folder), Console()
    while True:
        counted = summary.counted(place)
        if as_json:
            click.echo(summary.status_json(counted))
        else:
            lab_terminal.show_status(console, counted, cells=cells)
        if not watch or not any(counted.progress[cell.name] in summary.UNDONE for cell in counted.cells):
            return
        time.sleep(WATCH_S)


@lab.command()
@matrix_file
@folder_option
@click.option("--html", "html_path", type=OutputFile(), help="Write heat maps and pairs as one self-contained page.")
@click.option("--json", "json_path", type=OutputFile(dash=True), help="Write every cell as JSON; - for stdout.")
@click.option("--parquet", "parquet_path", type=OutputFile(), help="Write a row for each pair of each cell.")
def report(
    matrix: Path, folder: Path | None, html_path: Path | None, json_path: Path | None, parquet_path: Path | None
) -> None:
    """Show the lab's heat maps: contenders by workloads, for each line-up, load and class."""
    from dragstrip.extras.lab.report import export, page  # charts and statistics load slowly

    counted = summary.counted(_folder(matrix, folder))
    cells = heat.judged(counted)
    lab_terminal.show_maps(Console(stderr=str(json_path) == "-"), heat.heat_maps(cells))
    write_all(
        [
            ("--html", html_path, lambda: page.render(counted, cells)),
            ("--json", json_path, lambda: json_text(export.lab_json(counted, cells))),
            ("--parquet", parquet_path, lambda: tables.parquet(export.pair_rows(cells))),
        ]
    )


@lab.command()
@matrix_file
@folder_option
@click.option(
    "--port", type=Count(0, 65535), default=8321, help="Port to listen on; 0 picks a free one. [default: 8321]"
)
@click.option(
    "--host", "hosts", multiple=True, metavar="NAME", help="Also accept requests for this name, from a proxy."
)
def serve(matrix: Path, folder: Path | None, port: int, hosts: tuple[str, ...]) -> None:
    """Serve the lab's page and races to a browser on 127.0.0.1 until Ctrl-C, while the lab runs or afterwards.

    Only reads. A team reaches it through a proxy of its own, which must ask for a password.
    """
    place = _folder(matrix, folder)
    summary.counted(place)  # refuses a lab that does not exist
    run_site(place / STORE_NAME, port, lab=place, hosts=hosts)


@lab.command()
@matrix_file
@folder_option
def pause(matrix: Path, folder: Path | None) -> None:
    """End a running `dragstrip lab run` after the slices that are being raced now."""
    runner.pause(_folder(matrix, folder))
    click.echo("the lab ends after its current slices; `dragstrip lab run` continues it")


@lab.command()
@matrix_file
@click.argument("cells", nargs=-1)
@folder_option
def drop(matrix: Path, cells: tuple[str, ...], folder: Path | None) -> None:
    """Give up CELLS, named by the beginning of their names."""
    _change(_folder(matrix, folder), cells, Ledger.drop, "dropped")


@lab.command()
@matrix_file
@click.argument("cells", nargs=-1)
@folder_option
def retry(matrix: Path, cells: tuple[str, ...], folder: Path | None) -> None:
    """Try CELLS again that failed, can't run or were dropped."""
    _change(_folder(matrix, folder), cells, Ledger.retry, "waiting again")


def _change(folder: Path, cells: tuple[str, ...], change: Callable[[Ledger, str], None], how: str) -> None:
    if not cells:
        raise BadUsage("no cell given; `dragstrip lab status --cells` lists all")
    Ledger(folder, write=False).close()  # refuses a lab that does not exist
    ledger = Ledger(folder)
    try:
        for name in [ledger.resolve(cell) for cell in cells]:
            change(ledger, name)
            click.echo(f"cell {name}: {how}")
    finally:
        ledger.close()


def _work(word: str) -> Path:
    """A strip's folder.

    Raises:
        BadUsage: its name would lead out of the cache.
    """
    if word.startswith("/"):
        return Path(word)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*/[A-Za-z0-9][A-Za-z0-9._+-]*", word):
        raise BadUsage(f"--work {word!r}: use an absolute path, or LAB/STRIP")
    place = cache_dir() / "labs" / word
    place.mkdir(parents=True, exist_ok=True)
    return place


@lab.command(hidden=True)
@work_option
@click.option("--deliver", is_flag=True, help="Print what it left, as JSON.")
def race(work: str, deliver: bool) -> None:
    """Race one slice on this strip; its task is read from stdin."""
    task, place = from_json(Task, sys.stdin.buffer.read(), "the task"), _work(work)
    with as_interruptions():
        strip_side.race_slice(task, place)
    if deliver:
        click.echo(strip_side.sent(strip_side.collected(place, *_parts(task.stem))))


@lab.command(hidden=True)
def inquire() -> None:
    """Print what this strip has; the inquiry is read from stdin."""
    inquiry = from_json(Inquiry, sys.stdin.buffer.read(), "the inquiry")
    click.echo(to_json(strip_side.reply_to(inquiry)))


@lab.command(hidden=True)
@work_option
@click.argument("stem")
def collect(work: str, stem: str) -> None:
    """Print what an attempt left on this strip, as JSON."""
    click.echo(strip_side.sent(strip_side.collected(_work(work), *_parts(stem))))


@lab.command(hidden=True)
@work_option
@click.argument("stems", nargs=-1)
@click.option("--whole", multiple=True, metavar="STEM", help="Remove an attempt and its cell's own race.")
def clear(work: str, stems: tuple[str, ...], whole: tuple[str, ...]) -> None:
    """Remove what attempts left on this strip."""
    parts = [(*_parts(stem), stem in whole) for stem in (*stems, *whole)]
    strip_side.clear(_work(work), [Taken(cell=cell, attempt=n, whole=all_) for cell, n, all_ in parts])


def _parts(stem: str) -> tuple[str, int]:
    """A cell's name and an attempt's number, from ``CELL.NUMBER``.

    Raises:
        BadUsage: it is not of that form, so it could lead out of the folder.
    """
    if not (match := re.fullmatch(rf"({strip_side.CELL})\.([0-9]{{1,9}})", stem)):
        raise BadUsage(f"attempt {stem!r}: use the 16 hexadecimal digits of a cell, a dot, and a number")
    return match[1], int(match[2])
