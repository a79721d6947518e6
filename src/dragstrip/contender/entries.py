"""The entrants of a race: a definition with its parameters set, a command given ad hoc, or an address.

The words of the command line become an ``Entry`` here: ``nginx-lua:workers=2``, ``new=nginx-lua:program=/opt/nginx``,
``./mine/contender.toml``, ``--serve "mine=npm start"``, ``http://127.0.0.1:8080/users``. A user's own
definitions are in the folders of ``--contenders`` and ``$DRAGSTRIP_CONTENDERS``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from pydantic import Field

from dragstrip.contender import own_command
from dragstrip.contender.address import USUAL_TRUST, Address, Trust, address_of, is_address
from dragstrip.contender.definition import Strict, fill, nearest
from dragstrip.contender.definition import read as read_definition
from dragstrip.contender.elsewhere import Hosts
from dragstrip.contender.fields import (
    FILE_NAME,
    PER_CORE,
    SHIPPED,
    ContainerFields,
    Contender,
    Value,
    Words,
    is_imported,
    load,
)
from dragstrip.errors import BadDefinition, BadUsage
from dragstrip.paths import is_file
from dragstrip.record import DEFAULT_CONNECTIONS, SECRET, VARIABLE
from dragstrip.store import masking

LINE_UPS = SHIPPED.parent / "lineups"

#: Folders of the user's own definitions, separated by ``:``.
FOLDERS_VARIABLE = "DRAGSTRIP_CONTENDERS"

#: Bytes of a program that are hashed, in addition to its size.
_HASHED_BYTES = 256 * 2**20

#: The mark that responses of an ad hoc contender must carry if the workload requires one.
AD_HOC_MARK = "USER"

#: Keys of an entry's parameters: the file of a definition that isn't shipped, and the typed word of an entrant with a
#: name of its own. ``PLACE`` and a command's name are the key of the path that the user gave for this command.
DEFINITION, TYPED, PLACE = "definition", "typed", "place of "

#: The parameters that say which version of HTTP a contender is started for ("1.1", "2"), and whether over TLS ("on").
HTTP, TLS = "http", "tls"

#: Parameters of a server that is already running: its URL, the IP address of a host that the URL names, and which
#: certificates are accepted.
URL, AT, CACERT, INSECURE = "url", "address", "cacert", "insecure"

#: The parameter of a command's own start time, its default and its maximum, as a definition's ``start.wake_s``.
WAKE, USUAL_WAKE_S, MAX_WAKE_S = "wake_s", 10.0, 120.0

#: Seconds that a command without a time of its own gets until it listens; until then no response can come.
LISTENING_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entrant of a race, ready to be checked and started.

    Args:
        name: as shown in all results; overrides are part of it ("nginx-lua:workers=2").
        kind: "definition", "serve" (also of an image) or "url".
        mark: four characters that only its responses have ("USER" for ad hoc entrants); "" if it has none.
        parameters: values; ``"{cores}"`` means the number of the servers' cores. For ad hoc entrants, the command or
            address. ``entry_of`` makes the same entry again from name, kind and parameters.
        parity: facts for the parity sheet.
        workloads: names of the workloads that it serves; None for ad hoc entrants, which scrutineering checks.
        own_forms: workloads for which its JSON has a form of its own.
        contender: its definition; None for ad hoc entrants.
        command, folder: the words of ``--serve``, and the folder to start the command in.
        environment: variables that the user set for the command.
        secrets: values of its secret variables; ``missing_secrets`` if it was made from a record.
        needs_shell: what ``sh -c`` runs the command for, like "&&"; "": it is started without a shell.
        url: the address of a server that is already running.
        container: the image that is started; None: a program of this machine.
        profiled: its runtime shall name the code that it compiles, which no launch of a race does.
    """

    name: str
    title: str
    kind: str
    language: str
    mark: str
    parameters: Mapping[str, Value]
    definition_hash: str
    parity: Mapping[str, str] = field(default_factory=dict)
    workloads: tuple[str, ...] | None = None
    own_forms: frozenset[str] = frozenset()
    warm_up_least_s: float = 0.5
    warm_up_most_s: float = 10.0
    lead_ns: int = 10_000_000
    contender: Contender | None = None
    command: tuple[str, ...] = ()
    folder: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    needs_shell: str = ""
    url: Address | None = None
    container: ContainerFields | None = None
    profiled: bool = False

    def http(self, usual: str) -> str:
        """The version of HTTP that loads it: "2" if its parameter ``http`` is "2", otherwise ``usual``."""
        return "2" if self.parameters.get(HTTP) == "2" else usual

    @property
    def tls(self) -> bool:
        """Whether it serves TLS: its parameter ``tls`` is "on", its command contains ``{certificate}``, or https://."""
        if self.url is not None:
            return self.url.secure
        return self.parameters.get(TLS) == "on" or any("{certificate}" in word for word in self.command)

    def with_tls(self) -> Entry:
        """The same entrant with its parameter ``tls`` "on"; without that parameter, the entrant as it is."""
        if TLS not in self.parameters:
            return self
        return replace(self, parameters=MappingProxyType({**self.parameters, TLS: "on"}))

    @property
    def wake_s(self) -> float:
        """Seconds that its definition or ``--wake`` allows from its start to its first correct response."""
        if self.contender is not None:
            return self.contender.fields.start.wake_s
        return float(str(self.parameters.get(WAKE, USUAL_WAKE_S)))

    @property
    def listening_s(self) -> float:
        """Seconds within which it must listen, if nobody set a time for its start; otherwise 0: ``wake_s`` counts."""
        return LISTENING_S if self.command and WAKE not in self.parameters else 0.0

    @property
    def missing_secrets(self) -> tuple[str, ...]:
        """Names of secret variables whose values a record can't have, and that were not given again."""
        kept = (key.removeprefix(SECRET) for key in self.parameters if key.startswith(SECRET))
        return tuple(name for name in kept if name not in self.secrets) if self.command else ()

    @property
    def mounts_certificate(self) -> bool:
        """Whether its container needs a certificate's files also without TLS, because its program always reads them."""
        return self.container is not None and any("{certificate" in text for text in self.container.mounts.values())

    def path(self, workload: str) -> str:
        """The beginning of its own path for a workload, or its URL's whole path; "" for the workload's path."""
        if self.url is not None:
            return self.url.path
        return self.contender.serving(workload).path if self.contender is not None else ""

    def serves(self, workload: str) -> bool:
        """Whether it has a workload, or ""; True for ad hoc entrants, which scrutineering checks."""
        return self.workloads is None or not workload or workload in self.workloads

    def refuse_unless_it_serves(self, workload: str) -> None:
        """Refuses a workload that this contender doesn't have.

        Raises:
            BadUsage: names the workloads that it has, and the contenders that have the requested one.
        """
        if self.workloads is None or self.serves(workload):
            return
        others = [name for name, contender in shipped().items() if workload in contender.fields.workloads]
        having = f"the contenders that have it: {', '.join(others)}" if others else "no shipped contender has it"
        raise BadUsage(f"{self.name} has no workload {workload!r}, only {', '.join(self.workloads)}; {having}")

    def for_workload(self, workload: str, *, asks_database: bool) -> Entry:
        """This entrant with what its definition needs for a workload; the same entrant if that is nothing more."""
        if self.contender is None:
            return self
        contender = self.contender.for_workload(workload, asks_database=asks_database)
        if contender is self.contender:
            return self
        values = _in_words(self.parameters) | {"mark": self.mark}
        further = contender.further_parity(workload, asks_database=asks_database)
        more = {key: fill(text, values) for key, text in further.items()}
        return replace(self, contender=contender, parity={**self.parity, **more})


class LineUpRequest(Strict):
    """A request of its own, in place of a workload; its correct response is learned, as with ``--path``."""

    path: str = Field(pattern=r"^/", description="path with its query, like `/users/42?x=1`")
    method: str | None = Field(default=None, description="method; by default GET, or POST with a body")
    headers: Words = Field(default=(), description='like `["Accept: application/json"]`')
    body: str | None = Field(default=None, description="body, or `@FILE`")
    status: int | None = Field(default=None, description="expected status; by default the learned one")
    check: Literal["auto", "full", "length", "status"] = Field(
        default="auto", description="how much of each response is compared"
    )
    ignore: Words = Field(default=(), description='JSON fields that may change, like `["/id"]`')


class LineUp(Strict):
    """A named list of contenders, with its workload and load."""

    title: str = Field(min_length=1, description="the comparison in one line")
    names: Words = Field(min_length=2, alias="contenders", description='at least two, like `["one", "two:workers=2"]`')
    workload: str = Field(default="hello", description="name of the workload")
    request: LineUpRequest | None = Field(default=None, description="`[request]`: a request in place of a workload")
    connections: int = Field(
        default=DEFAULT_CONNECTIONS, ge=1, le=100_000, description="open connections, in place of the workload's"
    )
    keepalive: bool = Field(default=True, description="`false`: a new connection for each request")
    http: Literal["1.0", "1.1"] = Field(default="1.1", description="version of HTTP; 1.0 as `ab` speaks it")
    metric: Literal["auto", "throughput", "cpu"] = Field(
        default="auto", description="what decides the race; `auto` chooses by how disturbed the machine is"
    )


def line_up(word: str) -> LineUp:
    """A shipped line-up by name, or one from a TOML file.

    Raises:
        BadUsage: unknown name. BadDefinition: the file is refused.
    """
    file = Path(word) if word.endswith(".toml") else LINE_UPS / f"{word}.toml"
    if not is_file(file):
        known = sorted(file.stem for file in LINE_UPS.glob("*.toml"))
        raise BadUsage(f"unknown line-up {word!r}; {nearest(word, known, 'known:')}, or give a TOML file")
    return read_definition(file, LineUp)[0]


def shipped() -> dict[str, Contender]:
    """Every definition that comes with Dragstrip, by name."""
    files = sorted(SHIPPED.glob(f"*/{FILE_NAME}"))
    return {contender.name: contender for contender in map(_load_once, files)}


def _load_once(file: Path) -> Contender:
    """A definition by its file, which is read again only if it has changed."""
    return _loaded(file.absolute(), file.stat().st_mtime_ns)


@cache
def _loaded(file: Path, _changed_ns: int) -> Contender:
    return load(file)


def _users(extra_dirs: Iterable[Path]) -> dict[Path, Contender | BadDefinition]:
    """The user's definitions by their folders: ``extra_dirs``, the variable's folders, and folders directly in them.

    A refused definition is an error here: only this contender can't be raced.

    Raises:
        BadUsage: a folder of the variable does not exist.
    """
    variable = [Path(text) for text in os.environ.get(FOLDERS_VARIABLE, "").split(os.pathsep) if text]
    if absent := [folder for folder in variable if not folder.is_dir()]:
        raise BadUsage(f"{FOLDERS_VARIABLE}: {absent[0]} is not a folder; separate folders with {os.pathsep}")
    roots = (*variable, *extra_dirs)
    folders = {file.parent for root in roots for file in (*root.glob(FILE_NAME), *root.glob(f"*/{FILE_NAME}"))}
    definitions: dict[Path, Contender | BadDefinition] = {}
    for folder in sorted(folders):
        try:
            definitions[folder] = _load_once(folder / FILE_NAME)
        except BadDefinition as error:
            definitions[folder] = error
    return definitions


def find(word: str, extra_dirs: Iterable[Path] = ()) -> Contender:
    """A contender by its shipped name, by a name in the user's folders, or by the path of its file or folder.

    Args:
        extra_dirs: folders in addition to those in ``$DRAGSTRIP_CONTENDERS``.

    Raises:
        BadUsage: unknown name (the message has the nearest names), or two definitions have one name.
        BadDefinition: its definition is refused.
    """
    if is_imported(word):
        from dragstrip.contender import imported  # entries of suites alone need it

        return _load_once(imported.definition(word))
    users = _users(extra_dirs) if "/" not in word else {}
    valid: dict[str, Path] = {}
    for folder, contender in users.items():
        if isinstance(contender, Contender) and not valid.setdefault(contender.name, folder).samefile(folder):
            first = valid[contender.name]
            raise BadUsage(f"{first} and {folder} both define {contender.name!r}; change the name in one of them")
    if re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", word) and is_file(SHIPPED / word / FILE_NAME):
        if word in valid:
            raise BadUsage(f"{valid[word]} has the name of a shipped contender, {word!r}; use another name")
        return _load_once(SHIPPED / word / FILE_NAME)
    known = {folder.name: folder for folder, state in users.items() if isinstance(state, BadDefinition)} | valid
    path = known.get(word, Path(word))
    for file in (path, path / FILE_NAME):
        if is_file(file):
            return _load_once(file)
    if "/" in word or word.endswith(".toml"):
        raise BadUsage(f"{word} does not exist; name a {FILE_NAME} or a folder that contains one")
    raise BadUsage(f"unknown contender {word!r}; {nearest(word, {*shipped(), *known}, 'known:')}")


def names(extra_dirs: Iterable[Path] = ()) -> list[str]:
    """Words for every contender with a valid definition: shipped contenders by name, the user's by path."""
    users = _users(extra_dirs)
    return [*sorted(shipped()), *(str(folder) for folder in users if isinstance(users[folder], Contender))]


def broken_definitions(extra_dirs: Iterable[Path] = ()) -> dict[str, str]:
    """The user's refused definitions: the reason by the folder's path."""
    return {str(folder): str(state) for folder, state in _users(extra_dirs).items() if isinstance(state, BadDefinition)}


def parse_entry(text: str) -> tuple[str, dict[str, str]]:
    """Splits ``name:key=value,key=value`` into the name and the overrides, values as typed.

    Raises:
        BadUsage: an override without ``=``, or a key that is given twice.
    """
    suite, _, rest = text.partition(":") if is_imported(text) else ("", "", text)
    name, colon, rest = rest.partition(":")
    name = f"{suite}:{name}" if suite else name
    overrides: dict[str, str] = {}
    for part in rest.split(",") if colon else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key or not value:
            raise BadUsage(f"{text}: {part!r} is not a valid override; use {name}:key=value,key=value")
        if key in overrides:
            raise BadUsage(f"{text}: {key} is given twice; give it once")
        overrides[key] = value
    return name, overrides


def entry(text: str, extra_dirs: Iterable[Path] = ()) -> Entry:
    """An entrant from a word of the command line: a name, a variant, a path or a URL; ``mine=…`` gives it a name.

    Raises:
        BadUsage, BadDefinition: as ``entrants``.
    """
    return entrants([text], extra_dirs=extra_dirs)[0]


def split_label(text: str) -> tuple[str, str]:
    """``mine=nginx-lua:workers=2`` into ``mine`` and the rest; the label is "" if there is none."""
    label, equals, word = text.partition("=")
    if not equals or ":" in label or "/" in label:
        return "", text
    if not word or not 1 <= len(label.strip()) <= 60 or not label.isprintable():
        raise BadUsage(f"{text!r}: give a name of 1 to 60 printable characters and a contender, like mine=nginx-lua")
    return label.strip(), word


def entrants(
    words: Iterable[str],
    *,
    extra_dirs: Iterable[Path] = (),
    settings: Sequence[str] = (),
    allowed: Hosts = (),
    trust: Trust = USUAL_TRUST,
) -> tuple[Entry, ...]:
    """Entrants from the command line's words and its ``--set NAME.key=value``.

    A setting counts for all contenders of that name, unless the word itself sets its key. The path of a program does
    not become part of the contender's name: it only says where the program is on this machine.

    Args:
        allowed: hosts that a URL may name, in addition to this machine.
        trust: which certificates of https:// URLs are accepted.

    Raises:
        BadUsage: unknown contender or parameter, a value of the wrong type, a URL beyond this machine, a setting for a
            contender that is not among the words, or ``trust`` without an https:// URL.
        BadDefinition: a definition is refused.
    """
    entries: list[Entry] = []
    used: set[str] = set()
    dirs = tuple(extra_dirs)
    for text in words:
        label, word = split_label(text)
        if is_address(word):
            entries.append(url_entry(word, allowed, label=label, trust=trust))
            continue
        if len(word.split()) > 1 and not Path(word.partition(":")[0]).exists():
            raise BadUsage(f"unknown contender {word!r}; a command is raced by --serve {shlex.quote(text)}")
        name, overrides = parse_entry(word)
        contender = find(name, dirs)
        typed, places = dict(overrides), dict[str, str]()
        for setting in settings:
            name = next((name for name in (label, contender.name) if name and setting.startswith(f"{name}.")), "")
            if not name:
                continue
            key, _, value = setting.removeprefix(f"{name}.").partition("=")
            if not (key and value):
                raise BadUsage(f"--set {setting}: a key and a value are needed; use --set {name}.key=value")
            used.add(setting)
            if key not in overrides:
                (places if key in contender.place_keys() else typed)[key] = value
        entries.append(variant(contender, typed, label=label, places=places))
    if trust != USUAL_TRUST and not any(entry.url is not None and entry.url.secure for entry in entries):
        option = f"--cacert {trust.cacert}" if trust.cacert else "--insecure"
        raise BadUsage(f"{option} is for servers at https:// addresses, and this command has none; leave it out")
    if unused := [setting for setting in settings if setting not in used]:
        known = ", ".join(sorted(entry.name for entry in entries))
        raise BadUsage(
            f"--set {unused[0]}: no such contender in this command; use --set NAME.key=value with NAME one of {known}"
        )
    return tuple(entries)


def variant(
    contender: Contender,
    overrides: Mapping[str, str] | None = None,
    *,
    label: str = "",
    places: Mapping[str, str] | None = None,
) -> Entry:
    """A definition with some of its parameters overridden; a value is read as the type of its parameter's default.

    Args:
        overrides: parameters, or paths of programs that make it another contender (two versions of one program).
        label: its name, instead of a name made from the overrides.
        places: paths of programs on this machine; not in the name.

    Raises:
        BadUsage: unknown parameter, or a value of another type.
    """
    fields, parameters = contender.fields, dict(contender.fields.parameters)
    keys, paths = contender.place_keys(), dict[str, str]()
    for key, text in (overrides or {}).items():
        if key in keys:
            paths[key] = text
            continue
        if key not in parameters:
            raise BadUsage(
                f"{contender.name} has no parameter {key!r}; {nearest(key, [*parameters, *keys], 'its parameters are')}"
            )
        parameters[key] = _converted(contender.name, key, text, fields.parameters[key])
        if key in fields.choices and text not in fields.choices[key]:
            raise BadUsage(f"{contender.name}: {key}={text}: give one of {', '.join(fields.choices[key])}")
    paths.update(places or {})
    absolute = {keys[key]: str(Path(text).expanduser().absolute()) for key, text in paths.items()}
    typed = ",".join(f"{key}={text}" for key, text in (overrides or {}).items())
    name = f"{contender.name}:{typed}" if typed else contender.name
    values = _in_words(parameters)
    origin = {} if contender.shipped else {DEFINITION: str(contender.source.file)}
    origin |= {TYPED: name} if label else {}
    origin |= {f"{PLACE}{key}": text for key, text in absolute.items()}
    parity = {key: fill(text, values | {"mark": fields.mark}) for key, text in fields.parity.items()}
    return Entry(
        name=label or name,
        title=fields.title,
        kind="definition",
        language=fields.language,
        mark=fields.mark,
        parameters=MappingProxyType(parameters | origin),
        definition_hash=_variant_hash(contender, parameters),
        parity=parity | {f"place of {key}": text for key, text in absolute.items()},
        workloads=fields.workloads,
        own_forms=frozenset(name for name, serving in fields.workload.items() if serving.form == "own"),
        warm_up_least_s=fields.warm_up.least_s,
        warm_up_most_s=fields.warm_up.most_s,
        lead_ns=round(1e6 * fields.warm_up.lead_ms),
        contender=replace(contender, places=MappingProxyType(absolute)) if absolute else contender,
        container=fields.container and _placed(fields.container, contender.folder),
    )


def _placed(container: ContainerFields, folder: Path) -> ContainerFields:
    """A container with the whole path of its image's file, if the image is a file, or of its build's folder."""
    if container.build:
        return container.model_copy(update={"build": os.path.abspath(folder / container.build)})  # noqa: PTH100
    file = folder / container.image
    return container.model_copy(update={"image": str(file.absolute())}) if is_file(file) else container


def _variant_hash(contender: Contender, parameters: Mapping[str, Value]) -> str:
    """The definition's hash; if parameters differ from their defaults, a hash over both."""
    defaults = contender.fields.parameters
    changed = {key: value for key, value in parameters.items() if value != defaults.get(key)}
    if not changed:
        return contender.definition_hash
    return hashlib.sha256(f"{contender.definition_hash}\0{json.dumps(changed, sort_keys=True)}".encode()).hexdigest()


def _in_words(parameters: Mapping[str, Value]) -> dict[str, Value]:
    """Parameters as the parity sheet shows them, before the number of the servers' cores is known."""
    return {key: "one per core of the servers" if value == PER_CORE else value for key, value in parameters.items()}


def _converted(name: str, key: str, text: str, default: Value) -> Value:
    """An override as the type of its default; a count per core is a whole number of at least 1."""
    switches = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
    if isinstance(default, bool):
        if text.lower() in switches:
            return switches[text.lower()]
        raise BadUsage(f"{name}: {key}={text}: give true or false")
    kind = int if default == PER_CORE else type(default)
    try:
        value = kind(text)
    except ValueError as error:
        needed = "a whole number" if kind is int else "a number"
        raise BadUsage(f"{name}: {key}={text}: give {needed}, like {1 if default == PER_CORE else default}") from error
    if default == PER_CORE and int(value) < 1:
        raise BadUsage(f"{name}: {key}={text}: give at least 1")
    return value


def serve_entry(
    text: str,
    folder: Path | None = None,
    *,
    wake_s: float | None = None,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Entry:
    """An entrant from ``--serve "name=command"``: started in the user's folder, as the user.

    The command is read as ``own_command.read`` says; it may contain the ``SERVE_NAMES``. The server is told where to
    listen by the variable ``PORT``, and by ``{port}`` or ``{socket}`` (the path of a unix socket for it to make).

    Args:
        wake_s: seconds that it may take to its first correct response; None: ``USUAL_WAKE_S``.
        environment: variables to set for it.

    Raises:
        BadUsage: no name, no command, a name that can't be shown, an unknown placeholder, or too long a start.
    """
    if wake_s is not None and wake_s > MAX_WAKE_S:
        raise BadUsage(f"--wake {wake_s:g}s: a start may take up to {MAX_WAKE_S:g} s; give at most that")
    name, equals, command = text.partition("=")
    name = name.strip()
    if equals and re.fullmatch(r"env(\s+\S+)*\s+\w+", name):
        raise BadUsage(f'--serve {text!r}: a name is missing before the command; use --serve "mine={text}"')
    if not equals or not command.strip():
        remedy = 'write --serve "mine=./server --port {port}", or "mine=npm start" if the server reads PORT'
        raise BadUsage(f"--serve {text!r}: a name and a command are needed; {remedy}")
    if not 1 <= len(name) <= 60 or not name.isprintable():
        raise BadUsage(f"--serve: the name {name!r} can't be shown; use 1 to 60 printable characters")
    read = own_command.read(name, command)
    hidden = {key: value for key, value in environment.items() if own_command.is_secret(key, value)}
    hidden = {**read.secrets, **hidden}
    if unknown := [key for key in read.hidden if key not in hidden]:
        raise BadUsage(
            f"--serve {name}: the value of {unknown[0]} is hidden; give it by --env {name}.{unknown[0]}=VALUE"
        )
    own_command.remember(name, hidden)
    plain = {key: value for key, value in environment.items() if key not in hidden}
    kept = {key: masking.salted(value) for key, value in hidden.items()}
    return _of_command(name, read, (folder or Path.cwd()).absolute(), wake_s, plain, hidden, kept)


def _of_command(
    name: str,
    read: own_command.OwnCommand,
    folder: Path,
    wake_s: float | None,
    plain: Mapping[str, str],
    secrets: Mapping[str, str],
    kept: Mapping[str, str],
) -> Entry:
    """A command as an entrant.

    Args:
        plain: variables of the user's that are not secret. secrets: the others, as far as their values are known.
        kept: salted hashes of the secret values.
    """
    set_first = {**read.environment, **plain, **dict.fromkeys(kept, own_command.HIDDEN)}
    shown = ", ".join(f"{key}={value}" for key, value in sorted(set_first.items()))
    parity = {"command": read.text}
    parity |= {"run by": f"sh -c, because of {read.needs_shell}"} if read.needs_shell else {}
    parity |= {"environment": shown} if shown else {}
    parameters: dict[str, Value] = {"command": read.text, "folder": str(folder)}
    parameters |= {} if wake_s is None else {WAKE: wake_s}
    parameters |= {f"{VARIABLE}{key}": value for key, value in plain.items()}
    parameters |= {f"{SECRET}{key}": value for key, value in kept.items()}
    # Values of secrets have no part in the hash, by which a reader could try them: the salted hashes are compared.
    hashed = (*read.words, *(f"{key}={value}" for key, value in sorted(set_first.items())))
    return Entry(
        name=name,
        title=name,
        kind="serve",
        language="unknown",
        mark=AD_HOC_MARK,
        parameters=MappingProxyType(parameters),
        definition_hash=_command_hash(hashed, folder, bool(read.needs_shell)),
        parity=parity,
        command=read.words,
        folder=folder,
        environment=MappingProxyType({**read.environment, **plain}),
        secrets=MappingProxyType(dict(secrets)),
        needs_shell=read.needs_shell,
    )


def _served_again(name: str, parameters: Mapping[str, object], wake_s: float | None) -> Entry:
    """A command of a record; its secret values are those that this process was given.

    Raises:
        BadUsage: a secret value differs from the record's.
    """
    plain = {key.removeprefix(VARIABLE): str(text) for key, text in parameters.items() if key.startswith(VARIABLE)}
    kept = {key.removeprefix(SECRET): str(text) for key, text in parameters.items() if key.startswith(SECRET)}
    given = {key: value for key in kept if (value := own_command.remembered(name, key)) is not None}
    for key, value in given.items():
        if not masking.is_same(value, kept[key]):
            raise BadUsage(
                f"{name}: {key} has another value than in the race's record; give the same by --env {name}.{key}=VALUE"
                ", or start a new race"
            )
    read = own_command.read(name, str(parameters["command"]))
    return _of_command(name, read, Path(str(parameters["folder"])), wake_s, plain, given, kept)


def image_entry(text: str, folder: Path | None = None, *, wake_s: float | None = None) -> Entry:
    """An entrant from ``--image "name=image"``: a saved image's file, or an image that Podman or Docker has.

    Args:
        folder: where a file's relative path begins; None: the current folder.
        wake_s: as in ``serve_entry``.

    Raises:
        BadUsage: no name or no image, a name that can't be shown, or too long a start.
    """
    if wake_s is not None and wake_s > MAX_WAKE_S:
        raise BadUsage(f"--wake {wake_s:g}s: a start may take up to {MAX_WAKE_S:g} s; give at most that")
    name, equals, image = (part.strip() for part in text.partition("="))
    remedy = 'write --image "mine=localhost/mine:latest" or --image "mine=mine.tar"'
    if not equals or not image:
        raise BadUsage(f"--image {text!r}: a name and an image are needed; {remedy}")
    if not 1 <= len(name) <= 60 or not name.isprintable():
        raise BadUsage(f"--image: the name {name!r} can't be shown; use 1 to 60 printable characters")
    container = _placed(ContainerFields(image=image), (folder or Path.cwd()).absolute())
    return Entry(
        name=name,
        title=name,
        kind="serve",
        language="unknown",
        mark=AD_HOC_MARK,
        parameters=MappingProxyType({"image": container.image} | ({} if wake_s is None else {WAKE: wake_s})),
        definition_hash=_command_hash((container.image,), Path("/"), shell=False),
        container=container,
    )


def _command_hash(words: Sequence[str], folder: Path, shell: bool) -> str:
    """A hash over a command, its folder, its program, and the first file that an argument names.

    This file is the script of an interpreter, or a server's configuration.
    """
    where, parts = own_command.first_command(words[2], folder) if shell else (folder, words)
    return hashlib.sha256("\0".join((*words, str(folder), *_file_hashes(parts, where))).encode()).hexdigest()


def _file_hashes(words: Sequence[str], folder: Path) -> Iterator[str]:
    if not words:
        return
    program = folder / words[0] if "/" in words[0] else Path(shutil.which(words[0]) or folder / words[0])
    arguments = (folder / word for word in words[1:])
    for file in (program, next(filter(is_file, arguments), None)):
        try:
            if file is not None and is_file(file):
                state = file.stat()
                yield _content_hash(file, state.st_size, state.st_mtime_ns)
        except OSError:
            continue  # a file that can't be read can't be started either: the launch reports it


@lru_cache(maxsize=64)
def _content_hash(file: Path, size: int, _changed_ns: int) -> str:
    digest, left = hashlib.sha256(str(size).encode()), _HASHED_BYTES
    with file.open("rb") as stream:
        while left and (part := stream.read(min(left, 2**20))):
            digest.update(part)
            left -= len(part)
    return digest.hexdigest()


def url_entry(
    text: str, allowed: Hosts | None = (), *, label: str = "", trust: Trust = USUAL_TRUST, host: str = ""
) -> Entry:
    """An entrant from the URL of a server that is already running, or from its ``host:port``.

    Args:
        label: its name; "": its URL.
        allowed, trust, host: as in ``address_of``.

    Raises:
        BadUsage: as ``address_of``.
    """
    at = address_of(text, allowed, trust, host)
    own: dict[str, Value] = {URL: at.url}
    own |= {AT: at.host} if at.name and at.name != at.host else {}
    own |= {CACERT: at.trust.cacert} if at.trust.cacert else {}
    own |= {INSECURE: True} if at.trust.insecure else {}
    parity = {"path": at.path, "Host": at.authority}
    return Entry(
        name=label or at.url,
        title=label or at.url,
        kind="url",
        language="unknown",
        mark=AD_HOC_MARK,
        parameters=MappingProxyType(own),
        definition_hash=hashlib.sha256(at.url.encode()).hexdigest(),
        parity={name: text for name, text in parity.items() if text},
        url=at,
    )


def workload_word_of(entries: Sequence[Entry]) -> str:
    """The workload that the URLs of running servers name by their path, like "/users?x=1"; "" if none has a path.

    If paths differ, it is the first one's: each server is asked at its own (``Entry.path``).
    """
    return next((entry.url.path for entry in entries if entry.url is not None and entry.url.path), "")


def usual_workload(entries: Iterable[Entry], *, learns: bool = True) -> str:
    """The workload if none is named: "/", whose response is learned, unless a definition names workloads of its own.

    Args:
        learns: False: nothing can be learned, because what is learned here is not known on a fleet's machines.
    """
    return "/" if learns and all(entry.contender is None for entry in entries) else "hello"


def entry_of(name: str, kind: str, parameters: Mapping[str, object]) -> Entry:
    """The entry whose name, kind and parameters a race's record has.

    Raises:
        BadUsage: its definition no longer exists.
    """
    needed = {"url": (URL,), "serve": ("command", "folder")}.get(kind, ())
    needed = ("image",) if kind == "serve" and "image" in parameters else needed
    if absent := [key for key in needed if not isinstance(parameters.get(key), str)]:
        raise BadUsage(f"{name}: its record lacks its {absent[0]}; start a new race with --serve or a URL")
    if kind == "url":
        url, at = str(parameters[URL]), str(parameters.get(AT, ""))
        trust = Trust(str(parameters.get(CACERT, "")), insecure=bool(parameters.get(INSECURE)))
        return url_entry(url, None, label=name if name != url else "", trust=trust, host=at)
    wake_s = wake if isinstance(wake := parameters.get(WAKE), int | float) else None
    if kind == "serve" and "image" in parameters:
        return image_entry(f"{name}={parameters['image']}", wake_s=wake_s)
    if kind == "serve":
        return _served_again(name, parameters, wake_s)
    typed = str(parameters.get(TYPED, name))
    plain, overrides = parse_entry(typed)
    places = {key.removeprefix(PLACE): str(text) for key, text in parameters.items() if key.startswith(PLACE)}
    contender = find(str(parameters.get(DEFINITION, plain)))
    return variant(contender, overrides, label=name if name != typed else "", places=places)
