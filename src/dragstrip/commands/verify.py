"""``dragstrip verify``: checks contenders without a race."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

import click

from dragstrip import contender
from dragstrip.commands import options as opts
from dragstrip.commands import own_servers
from dragstrip.commands.options import EXIT_FAILURE, EXIT_USAGE, gathered, of_race, switch
from dragstrip.commands.request_options import RequestOptions, asked_for, say_unless, workload_option
from dragstrip.errors import BadUsage
from dragstrip.racing.request import workloads_from
from dragstrip.racing.verify import Proof, ProofStatus
from dragstrip.racing.verify import verify as proofs_of
from dragstrip.workload.typed import is_path


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(RequestOptions):
    """Options of ``dragstrip verify``."""

    names: tuple[str, ...] = opts.contenders_argument()
    line_up: str | None = opts.line_up_option()
    serve: tuple[str, ...] = opts.serve_option(help="Verify a command of your own.")
    image: tuple[str, ...] = opts.image_option(help="Verify a container image, or a file of `docker save`.")
    started_in: tuple[str, ...] = own_servers.in_option()
    variables: tuple[str, ...] = own_servers.env_option()
    wake: float | None = opts.wake_option()
    workload: tuple[str, ...] = workload_option(
        help="Check only this workload, named as in race. [default: every one of the contender; of your own, GET /]"
    )
    as_json: bool = switch("--json", help="Print the results as JSON.")
    parity: bool = switch(
        "--parity", help="Also print each contender's parity sheet (differences that can't be removed)."
    )
    server_cores: str | None = of_race("server_cores")
    engine_cores: str | None = of_race("engine_cores")
    folders: tuple[Path, ...] = opts.folders_option()
    settings: tuple[str, ...] = opts.settings_option()
    cacert: str | None = opts.cacert_option()
    insecure: bool = opts.insecure_option()


@click.command(cls=opts.GroupedCommand)
@gathered(VerifyOptions)
def verify(options: VerifyOptions) -> None:
    """Run scrutineering only: start each contender and check its responses.

    Exit code 1 if a ready contender fails, 2 if a contender you named is missing.
    """
    proofs = list[Proof]()
    everybody = not (options.names or options.serve or options.image or options.line_up)
    broken = contender.broken_definitions(options.folders) if everybody else {}
    failed = (Proof(contender=name, status=ProofStatus.FAILED, reason=reason) for name, reason in broken.items())
    cores = {"server_cores": options.server_cores, "engine_cores": options.engine_cores}
    entries = _entries(options)
    usual = contender.usual_workload(entries)
    path = contender.workload_word_of(entries) or None
    asked = asked_for(options, (usual,) if is_path(usual) else (), default_path=path)
    workloads = workloads_from(asked, entries, say=say_unless(options.as_json))
    for proof in chain(failed, proofs_of(entries, workloads, **cores)):
        proofs.append(proof)
        if not options.as_json:
            _show(proof, options.parity)
    if options.as_json:
        click.echo(json.dumps([asdict(proof) for proof in proofs], indent=2))
    if any(proof.status is ProofStatus.FAILED for proof in proofs):
        sys.exit(EXIT_FAILURE)
    tried = {proof.contender for proof in proofs if proof.status is not ProofStatus.MISSING}
    named = options.names or options.serve or options.image  # a line-up, or the list of all, usually has missing ones
    sys.exit(EXIT_USAGE if named and {proof.contender for proof in proofs} - tried else 0)


def _entries(options: VerifyOptions) -> tuple[contender.Entry, ...]:
    """The contenders to verify: a line-up's or the named ones, and the user's commands; all if none is given."""
    served = own_servers.entries_of(options, say=say_unless(quiet=False))
    everybody = () if served else tuple(contender.names(options.folders))
    names = contender.line_up(options.line_up).names if options.line_up else options.names or everybody
    trust = contender.Trust.given(options.cacert, insecure=options.insecure)
    named = contender.entrants(names, extra_dirs=options.folders, settings=options.settings, trust=trust)
    entries = (*named, *served)
    counts = Counter(entry.name for entry in entries)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise BadUsage(f"{twice[0]} is given {counts[twice[0]]} times; give each contender a name of its own")
    return entries


def _show(proof: Proof, parity: bool) -> None:
    status = proof.status.upper() if proof.status is ProofStatus.FAILED else proof.status
    place = f" at {proof.workload}" if proof.workload else ""
    click.echo(f"{status:<8} {proof.contender}{place}{': ' if proof.reason else ''}{proof.reason}")
    if not parity and "doubled headers" in proof.facts:
        click.echo(f"         warning: doubled headers: {proof.facts['doubled headers']}; send each once")
    for name, fact in proof.facts.items() if parity else ():
        click.echo(f"         {name}: {fact}")
