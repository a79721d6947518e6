"""``extras.fleet.toml``: the machines of a fleet, what each is for, and how each is reached."""

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

#: The engine counts generators in one byte; no race has needed more than this.
MAX_GENERATORS = 16

#: The command of a machine whose table does not set one; and the command for this machine, which runs this Dragstrip.
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
        """The command that runs Dragstrip there, as words."""
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
        file: the file that was read. ssh_options: for all machines.
    """

    file: Path
    server: Machine
    generators: tuple[Machine, ...]
    ssh_options: tuple[str, ...]

    @property
    def machines(self) -> tuple[Machine, ...]:
        """All machines, the servers' machine first."""
        return (self.server, *self.generators)


def load(file: Path) -> Fleet:
    """Reads a fleet's file.

    Raises:
        BadDefinition: file, line, field, the value and what would be valid.
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
    names: set[str] = set()
    for number, machine in enumerate(fields.machines):
        if machine.name in names:
            raise source.bad(("machines", number, "name"), f"{machine.name!r} is given twice", "give each its own name")
        names.add(machine.name)


def _check_machine(source: Source, place: tuple[str | int, ...], machine: Machine) -> None:
    if re.match(r"-|.*[\s\x00-\x1f]", machine.ssh):
        raise source.bad((*place, "ssh"), f"given {machine.ssh!r}", "give a host as ssh takes it, like bench@10.0.0.2")
    if machine.via and (machine.ssh or not machine.via[0].strip()):
        given = f"given {list(machine.via)!r}" + (f" in addition to ssh = {machine.ssh!r}" if machine.ssh else "")
        raise source.bad((*place, "via"), given, "say how the machine is reached by one of the two, ssh or via")
    if machine.role == SERVER and not machine.address:
        raise source.bad(
            (*place, "address"),
            "a server's machine needs one",
            'say where its contenders listen, like address = "10.0.0.2"',
        )
    if machine.address:
        _check_address(source, (*place, "address"), machine.address)
    if machine.cores:
        try:
            parse_cores(machine.cores)
        except BadUsage as error:
            raise source.bad((*place, "cores"), f"given {machine.cores!r}", "give a list like 2-7 or 0,2") from error
    try:
        words = machine.command
    except ValueError as error:
        given = f"given {machine.dragstrip!r}: {error}"
        raise source.bad((*place, "dragstrip"), given, "give words as in a shell") from error
    if not words:
        raise source.bad((*place, "dragstrip"), "given no word", "give the command's path")


def _check_address(source: Source, place: tuple[str | int, ...], text: str) -> None:
    remedy = "give one IPv4 address of that machine, like 10.0.0.2"
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError as error:
        raise source.bad(place, f"{text!r} is not an IPv4 address", remedy) from error
    if address.is_unspecified or address.is_multicast or text == "255.255.255.255":
        raise source.bad(place, f"{text} is not the address of a single machine", remedy)


def _from_folder(folder: Path, options: tuple[str, ...]) -> tuple[str, ...]:
    """Options of ssh; files of ``-F`` and ``-i`` are resolved from the folder of the fleet's file."""
    resolved = list(options)
    for index, (option, value) in enumerate(pairwise(options), start=1):
        if option in ("-F", "-i"):
            resolved[index] = str(folder / Path(value).expanduser())
    return tuple(resolved)
