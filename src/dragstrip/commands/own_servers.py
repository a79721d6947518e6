"""``--serve`` with ``--in`` and ``--env``: a user's own commands, where they start, and with which variables."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from dragstrip.commands.options import option
from dragstrip.contender import Entry, image_entry, nearest, serve_entry
from dragstrip.contender.own_command import remember
from dragstrip.errors import BadUsage
from dragstrip.racing.options import RACED
from dragstrip.record import SECRET, Entrant

in_option = partial(
    option,
    "--in",
    group=RACED,
    multiple=True,
    metavar="NAME=FOLDER",
    help="Start the --serve command NAME in this folder.",
)
env_option = partial(
    option,
    "--env",
    group=RACED,
    multiple=True,
    metavar="NAME.KEY=VALUE",
    help="Set a variable for the --serve command NAME; NAME.KEY alone passes on your own value.",
)

#: The help of ``--env`` where the contenders come from a record.
AGAIN = (
    "The value of a secret variable of RUN, which its record does not have; NAME.KEY takes it from your environment."
)

_VARIABLE = re.compile(r"(.+)\.([A-Za-z_]\w*)(?:=(.*))?", re.DOTALL)


class Given(Protocol):
    """The options of a command that races a user's own commands and images."""

    @property
    def serve(self) -> Sequence[str]: ...
    @property
    def image(self) -> Sequence[str]: ...
    @property
    def started_in(self) -> Sequence[str]: ...
    @property
    def variables(self) -> Sequence[str]: ...
    @property
    def wake(self) -> float | None: ...


def entries_of(
    options: Given, commands: Sequence[str] | None = None, *, say: Callable[[str], None]
) -> tuple[Entry, ...]:
    """The contenders of ``--serve`` and ``--image``; a line names each command that a shell runs.

    Args:
        commands: in place of the values of ``--serve``. say: shows a line.

    Raises:
        BadUsage: one of them is not valid, or names no contender of ``--serve``.
    """
    commands = options.serve if commands is None else commands
    names = [text.partition("=")[0].strip() for text in commands]
    places, environments = _folders(options.started_in, names), _environments(options.variables, names)
    served = tuple(
        serve_entry(text, places.get(name), wake_s=options.wake, environment=environments.get(name, {}))
        for text, name in zip(commands, names, strict=True)
    )
    for entry in served:
        if entry.needs_shell:
            say(f"{entry.name}: `sh -c` runs its command, because of {entry.needs_shell}")
    return (*served, *(image_entry(text, wake_s=options.wake) for text in options.image))


def give_again(variables: Sequence[str], entrants: Iterable[Entrant]) -> None:
    """Takes the values of secret variables that a record doesn't have, before its contenders are made again.

    Raises:
        BadUsage: a value of ``--env`` names no secret variable of these contenders.
    """
    secret = {
        entrant.name: [key.removeprefix(SECRET) for key in entrant.parameters if key.startswith(SECRET)]
        for entrant in entrants
    }
    for name, values in _environments(variables, secret).items():
        for key in values:
            if key not in secret[name]:
                raise BadUsage(
                    f"--env {name}.{key}: the race's record has the variables of {name}, apart from secret ones"
                    + (f" ({', '.join(secret[name])})" if secret[name] else ", and it has none")
                    + "; leave it out"
                )
        remember(name, values)


def _folders(texts: Sequence[str], names: Iterable[str]) -> Mapping[str, Path]:
    places: dict[str, Path] = {}
    for text in texts:
        name, equals, folder = text.partition("=")
        if not equals or not folder:
            raise BadUsage(f"--in {text!r}: a name and a folder are needed, like --in mine=./server")
        _refuse_unknown(f"--in {text}", name, names)
        place = Path(folder).expanduser().absolute()
        if not place.is_dir():
            raise BadUsage(f"--in {text}: {place} is not a folder; give one that exists")
        if name in places:
            raise BadUsage(f"--in {text}: {name} has a folder already, {places[name]}; give one")
        places[name] = place
    return places


def _environments(texts: Sequence[str], names: Iterable[str]) -> Mapping[str, dict[str, str]]:
    environments: dict[str, dict[str, str]] = {}
    for text in texts:
        match = _VARIABLE.fullmatch(text)
        if match is None:  # the text may hold a secret
            raise BadUsage("--env: a name, a variable and a value are needed, like --env mine.LOG_LEVEL=warn")
        name, key, value = match[1], match[2], match[3]
        _refuse_unknown(f"--env {name}.{key}", name, names)
        if value is None and key not in os.environ:
            raise BadUsage(f"--env {name}.{key}: {key} is not set here; give --env {name}.{key}=VALUE")
        environments.setdefault(name, {})[key] = os.environ[key] if value is None else value
    return environments


def _refuse_unknown(given: str, name: str, names: Iterable[str]) -> None:
    if name not in names:
        raise BadUsage(f"{given}: no --serve command has the name {name!r}; {nearest(name, names, 'they are')}")
