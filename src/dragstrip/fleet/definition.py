"""``fleet.toml``: which machines there are, what each is for, how each is reached."""

from __future__ import annotations

import ipaddress
import re
import shlex
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from dragstrip.contender.definition import Source, Strict, read
from dragstrip.errors import BadUsage
from dragstrip.machine import parse_cores

SERVER, LOAD = "server", "load"

#: The engine counts generators in one byte, and a race of more has never been seen to need them.
MAX_GENERATORS = 16

#: Where a machine says nothing of how Dragstrip is called there; and on the one that this runs on, as it runs.
USUAL_COMMAND = "dragstrip"
OWN_COMMAND = (sys.executable, "-P", "-m", "dragstrip")


class Machine(Strict):
    """One machine."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,39}$", description="small letters, digits, . -; results show it")
    role: Literal["server", "load"] = Field(description="`server`: contenders run here; `load`: generates load")
    ssh: str = Field(
        default="", description="as ssh takes it, like `bench@10.0.0.2` or `ssh://bench@10.0.0.2:2222`; none: this one"
    )
    via: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(),
        description='instead of ssh: words that run a command there, like `["kubectl", "exec", "-i", "pod", "--"]`',
    )
    address: str = Field(default="", description="its data address; of a server: where contenders listen, nowhere else")
    cores: str = Field(default="", description="those that race, like `2-7`; none: as Dragstrip chooses")
    dragstrip: str = Field(default=USUAL_COMMAND, min_length=1, description="how Dragstrip is called there")

    @property
    def command(self) -> tuple[str, ...]:
        """How Dragstrip is called there, as words."""
        if not self.ssh and not self.via and self.dragstrip == USUAL_COMMAND:
            return OWN_COMMAND
        return tuple(shlex.split(self.dragstrip))


class SshFields(Strict):
    """How every machine is reached."""

    options: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(), description='options of ssh, like `["-F", "ssh_config"]`; paths count from this file\'s folder'
    )


class FleetFile(Strict):
    """The whole file."""

    machines: Annotated[tuple[Machine, ...], Field(strict=False)] = Field(description="one table for each")
    ssh: SshFields = Field(default=SshFields(), description="how all are reached")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """One server machine and at least one generator machine.

    Args:
        file: where it was read. ssh_options: of all machines.
    """

    file: Path
    server: Machine
    generators: tuple[Machine, ...]
    ssh_options: tuple[str, ...]

    @property
    def machines(self) -> tuple[Machine, ...]:
        """All of them, the server's first."""
        return (self.server, *self.generators)


def load(file: Path) -> Fleet:
    """Reads a fleet's file.

    Raises:
        BadDefinition: file, line, field, what was given and what would do.
    """
    fields, source = read(file, FleetFile)
    _check_names(fields, source)
    for number, machine in enumerate(fields.machines):
        _check_machine(source, ("machines", number), machine)
    servers = [machine for machine in fields.machines if machine.role == SERVER]
    generators = [machine for machine in fields.machines if machine.role == LOAD]
    if len(servers) != 1:
        problem = f"{len(servers)} machines have the role `server`"
        raise source.bad(("machines",), problem, "a race has one machine for its servers: give it to exactly one")
    if not 1 <= len(generators) <= MAX_GENERATORS:
        problem = f"{len(generators)} machines have the role `load`"
        raise source.bad(("machines",), problem, f"give it to 1 to {MAX_GENERATORS}")
    folder = file.resolve().parent
    return Fleet(
        file=file,
        server=servers[0],
        generators=tuple(generators),
        ssh_options=_from_folder(folder, fields.ssh.options),
    )


def _check_names(fields: FleetFile, source: Source) -> None:
    seen: set[str] = set()
    for number, machine in enumerate(fields.machines):
        if machine.name in seen:
            raise source.bad(("machines", number, "name"), f"{machine.name!r} is given twice", "give each its own name")
        seen.add(machine.name)


def _check_machine(source: Source, at: tuple[str | int, ...], machine: Machine) -> None:
    if re.match(r"-|.*[\s\x00-\x1f]", machine.ssh):
        raise source.bad((*at, "ssh"), f"given {machine.ssh!r}", "give a host as ssh takes it, like bench@10.0.0.2")
    if machine.via and (machine.ssh or not machine.via[0].strip()):
        given = f"given {list(machine.via)!r}" + (f" in addition to ssh = {machine.ssh!r}" if machine.ssh else "")
        raise source.bad((*at, "via"), given, "say how the machine is reached by one of the two, ssh or via")
    if machine.role == SERVER and not machine.address:
        raise source.bad(
            (*at, "address"),
            "a server's machine needs one",
            'say where its contenders listen, like address = "10.0.0.2"',
        )
    if machine.address:
        _check_address(source, (*at, "address"), machine.address)
    if machine.cores:
        try:
            parse_cores(machine.cores)
        except BadUsage as error:
            raise source.bad((*at, "cores"), f"given {machine.cores!r}", "give a list like 2-7 or 0,2") from error
    try:
        words = machine.command
    except ValueError as error:
        given = f"given {machine.dragstrip!r}: {error}"
        raise source.bad((*at, "dragstrip"), given, "give words as in a shell") from error
    if not words:
        raise source.bad((*at, "dragstrip"), "given no word", "give the command's path")


def _check_address(source: Source, at: tuple[str | int, ...], text: str) -> None:
    remedy = "give one IPv4 address of that machine, like 10.0.0.2"
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError as error:
        raise source.bad(at, f"{text!r} is not an IPv4 address", remedy) from error
    if address.is_unspecified or address.is_multicast or text == "255.255.255.255":
        raise source.bad(at, f"{text} is not the address of a single machine", remedy)


def _from_folder(folder: Path, options: tuple[str, ...]) -> tuple[str, ...]:
    """Options of ssh, the files of ``-F`` and ``-i`` as paths from the fleet's folder."""
    resolved = list(options)
    for at, (option, value) in enumerate(pairwise(options)):
        if option in ("-F", "-i"):
            resolved[at + 1] = str(folder / Path(value).expanduser())
    return tuple(resolved)
