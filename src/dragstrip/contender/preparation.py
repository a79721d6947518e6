"""Makes a command that can be run from an entrant: checks readiness, builds, and writes the scratch folder's files."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from dragstrip.contender import discovery, own_command
from dragstrip.contender.definition import fill
from dragstrip.contender.discovery import Missing, Ready, cache_dir
from dragstrip.contender.entries import Entry
from dragstrip.contender.fields import (
    BUILD_S,
    DATABASE,
    PER_CORE,
    PROGRAM,
    TLS_FILES,
    ContainerFields,
    Contender,
    Profiled,
    since_values,
)
from dragstrip.contender.template import Json, TemplateRefused, render
from dragstrip.errors import BadDefinition, NotReady, StageError

if TYPE_CHECKING:
    from dragstrip.image import Box

#: Environment variable: the database's address as a URL, as HttpArena's entries read it; only in containers.
URL_VARIABLE = "DATABASE_URL"

#: Environment variable: the number of database connections that a server may open; unset without a database.
CONNECTIONS_VARIABLE = "DATABASE_CONNECTIONS"

#: Options by which runtimes name the code that they compile, by environment variable; other programs ignore them.
NAMING = MappingProxyType(
    {"NODE_OPTIONS": "--perf-basic-prof --interpreted-frames-native-stack", "PYTHONPERFSUPPORT": "1"}
)

#: The address of servers on the load generator's machine.
LOOPBACK = "127.0.0.1"

#: The unix socket in the scratch folder; its whole path may have up to 107 bytes.
SOCKET = "http.socket"

#: The folder of the workload's files in the scratch folder.
DATA = "data"

#: A server's certificate in the scratch folder, and its key, by the name that HAProxy expects.
CERTIFICATE, CERTIFICATE_KEY = "certificate.pem", "certificate.pem.key"


#: Seconds in which a wrapper passes its stop signal on, before Dragstrip sends it to the processes below as well.
PASSES_ON_S = 2.0


@dataclass(frozen=True, slots=True)
class Identity:
    """A server's certificate for TLS and its private key, both in PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class OwnCount:
    """The page on which a launch reports its own count of requests.

    Args:
        host: "unix:PATH"; "" for the launch's own address.
        path: path of the page, requested by GET.
        pattern: regular expression whose group is the number; the numbers of several matches are added up.
    """

    host: str
    path: str
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How to start one launch; all names in braces are filled in.

    Args:
        command: the program's path and its arguments; runs without a shell.
        env: added to this process's environment.
        cwd: the scratch folder, or the user's own folder for ``--serve``.
        wake_s: seconds that it may take from its start to the first correct response.
        stop_signal: name of the signal, without SIG.
        unprivileged: root starts it as ``nobody``, which must own the scratch folder.
        kind: "definition" or "serve".
        address: the address that it listens on, at ``port``.
        asked_port: the port that it was told; ``port`` differs if it is known to listen on another; 0: the same.
        any_port: it is reached on whichever port its processes listen, because nobody may have told it one.
        own_network: it gets a network of its own, in which there is nothing but its own loopback.
        stop_all_after_s: seconds after which a stop signal also goes to the processes that it started, if it has not
            ended by then: wrappers like ``npm`` and shells may not pass signals on; None: never.
        listening_s: seconds within which it must listen, if that is more than ``wake_s``.
        socket: the unix socket that it listens on instead; None: it listens at the port.
        own_count: where it reports its own count of requests; None: it has no count.
        box: the container that ``command`` starts; None: no container.
    """

    name: str
    command: tuple[str, ...]
    cwd: Path
    port: int
    env: dict[str, str] = field(default_factory=dict)
    wake_s: float = 10.0
    stop_signal: str = "TERM"
    unprivileged: bool = True
    kind: str = "definition"
    address: str = LOOPBACK
    asked_port: int = 0
    any_port: bool = False
    own_network: bool = False
    stop_all_after_s: float | None = None
    listening_s: float = 0.0
    socket: Path | None = None
    own_count: OwnCount | None = None
    box: Box | None = None


def check(entry: Entry | Contender) -> Ready | Missing:
    """Whether an entrant can run on this machine. May run its version command; builds and installs nothing."""
    if isinstance(entry, Contender):
        return discovery.look(entry)
    if entry.container is not None:
        from dragstrip.contender import boxes  # images alone need it

        return boxes.look(entry)
    if entry.contender is not None:
        state = discovery.look(entry.contender)
        return (isinstance(state, Ready) and _too_old(entry, entry.contender, state)) or state
    if entry.url is not None:
        return Ready("running", {})
    folder = entry.folder or Path.cwd()
    program = entry.command[0]
    place = str(folder / program) if "/" in program else shutil.which(program)
    if place is None or not os.access(place, os.X_OK) or Path(place).is_dir():
        return Missing(f"`{program}` can't be executed from {folder}", "give the program's path, or make it executable")
    return Ready("unknown", {program: Path(place)})


def _too_old(entry: Entry, contender: Contender, ready: Ready) -> Missing | None:
    """Why the installed version has not what the entrant's parameters ask for; None if it has."""
    installed = _numbers(ready.version)
    for words, first in contender.fields.since.items():
        wanted = since_values(words)
        if () < installed < _numbers(first) and all(
            entry.parameters.get(key) == value for key, value in wanted.items()
        ):
            program = next(iter(ready.programs), contender.name)
            return Missing(
                f"{words} needs `{program}` {first} or later; this is {ready.version}",
                f"`--set {contender.name}.{PROGRAM}=/path/to/{program}` names another `{program}`",
            )
    return None


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def commands(entry: Entry) -> list[str]:
    """The commands that a race runs for an entrant, and its changed parameters, a line each."""
    if entry.url is not None:
        return [f"{entry.name}: load on the server at {entry.url.host}:{entry.url.port}"]
    if entry.contender is None and entry.container is not None:
        return [f"{entry.name}: {_image_words(entry.container)}"]
    if entry.contender is None:
        set_first = [f"{key}={value}" for key, value in entry.environment.items()]
        return [f"{entry.name}: {shlex.join([*set_first, *entry.command])} (in {entry.folder})"]
    contender, fields, parameters = entry.contender, entry.contender.fields, entry.parameters
    origin = "a shipped definition" if contender.shipped else f"definition {contender.source.file}"
    lines = [f"{shlex.join(fields.start.command)} ({origin})"] if fields.start.command else [f"its image ({origin})"]
    lines += [_image_words(entry.container)] if entry.container else []
    lines += [f"{shlex.join(fields.build.command)} (its build)"] if fields.build else []
    lines += [f"{program} is {place}" for program, place in contender.places.items()]
    lines += [f"{key} is {parameters[key]!r}" for key, usual in fields.parameters.items() if parameters[key] != usual]
    return [f"{entry.name}: {line}" for line in lines]


def _image_words(container: ContainerFields) -> str:
    if not container.build:
        return f"image {container.image}, in a container"
    return f"a build of {container.build} by the commands in its {container.dockerfile}, then its image in a container"


def status(entry: Entry) -> dict[str, str]:
    """One row of ``dragstrip contenders``: name, title, status, version, reason, remedy; all texts."""
    state = check(entry)
    row = {"name": entry.name, "title": entry.title}
    if isinstance(state, Missing):
        return row | {"status": "missing", "version": "", "reason": state.reason, "remedy": state.remedy}
    return row | {"status": "ready", "version": state.version, "reason": "", "remedy": ""}


def _ready(contender: Contender) -> Ready:
    state = discovery.look(contender)
    if isinstance(state, Missing):
        raise NotReady(f"{contender.name} is not ready: {state.reason}; {state.remedy}")
    return state


def pending_build(entry: Entry) -> tuple[str, ...] | None:
    """The command that ``build`` would run, for up to ``BUILD_S`` seconds; None if there is nothing to build.

    Raises:
        NotReady: a program it needs is missing.
    """
    contender = entry.contender
    if entry.container is not None:
        from dragstrip.contender import boxes

        return boxes.pending(entry)
    if contender is None or contender.fields.build is None or _build_dir(contender, _ready(contender)).is_dir():
        return None
    return tuple(contender.fields.build.command)


def build(entry: Entry) -> Path | None:
    """Runs a definition's build unless its result exists already; returns the folder of the result, or of its image.

    A result is reused for the same definition and files, command, environment and compiler version. Two builds at once
    do no harm: the result of the first to end is kept.

    Raises:
        NotReady: a program it needs is missing.
        StageError: the build fails; with the compiler's last lines.
    """
    contender = entry.contender
    if entry.container is not None:
        from dragstrip.contender import boxes

        return boxes.unpacked(entry).root
    if contender is None or contender.fields.build is None:
        return None
    ready = _ready(contender)
    target = _build_dir(contender, ready)
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    target.parent.chmod(0o755)
    making = Path(tempfile.mkdtemp(prefix=f".{contender.name}-", dir=target.parent))
    try:
        (making / "out").mkdir()
        _copy(contender, contender.fields.build.files, making / "source")
        _run_build(contender, ready, source=making / "source", out=making / "out")
        _open_to_all(making / "out")
        try:
            (making / "out").rename(target)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return target


def _build_dir(contender: Contender, ready: Ready) -> Path:
    assert contender.fields.build is not None
    inputs = (contender.definition_hash, repr(contender.fields.build), ready.version, os.uname().machine)
    key = hashlib.sha256("\0".join(inputs).encode()).hexdigest()[:16]
    return cache_dir() / "builds" / f"{contender.name}-{key}"


def _copy(contender: Contender, names: Iterable[str], folder: Path) -> None:
    for name in names:
        shutil.copyfile(contender.folder / name, _place(folder, name))


def _place(folder: Path, name: str) -> Path:
    """The path of a listed file, whose folder is created: a file of another definition loses that folder's name."""
    parts = Path(name).parts
    target = folder / (parts[-1] if parts[0] == ".." else name)
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def _run_build(contender: Contender, ready: Ready, *, source: Path, out: Path) -> None:
    from dragstrip.machine.bounded_command import bounded  # builds alone need it

    declared = contender.fields.build
    assert declared is not None
    values = discovery.settings(contender, ready.programs) | {"build": str(out), "cache": str(cache_dir())}
    command = discovery.resolve(declared.command, ready.programs, values)
    env = {"HOME": str(cache_dir()), **os.environ} | {key: fill(text, values) for key, text in declared.env.items()}
    try:
        ended = bounded(command, BUILD_S, folder=source, env=env)
    except OSError as error:
        raise StageError(f"{contender.name}: its build can't be run: {error}") from error
    if ended.late:
        raise StageError(
            f"{contender.name}: its build (`{' '.join(command)}`) did not end within {BUILD_S:g} s and was stopped; "
            "run a longer build by hand, and name its result in the definition"
        )
    if ended.status != 0:
        raise StageError(
            f"{contender.name}: its build failed with status {ended.status} (`{' '.join(command)}`); its last "
            f"lines:\n{ended.tail}"
        )


def _open_to_all(folder: Path) -> None:
    """Lets an unprivileged user read and execute the folder's files, whatever the umask."""
    folder.chmod(0o755)
    for place in folder.rglob("*"):
        if not place.is_symlink():
            place.chmod(0o755 if place.is_dir() or place.stat().st_mode & 0o100 else 0o644)


def prepare(
    entry: Entry,
    *,
    scratch: Path,
    port: int,
    cores: tuple[int, ...],
    workload: str,
    data: Mapping[str, bytes] = MappingProxyType({}),
    database: Mapping[str, str | int] = MappingProxyType({}),
    network: str = "",
    identity: Identity | None = None,
    address: str = LOOPBACK,
) -> Start:
    """Fills a launch's scratch folder and makes its command.

    Args:
        scratch: an empty folder for this launch alone.
        cores: the servers' cores; a parameter with the value ``{cores}`` becomes their number.
        data: files for ``{data}``, by their paths in that folder.
        database: values of the names in braces that begin with ``database_``; empty without a database.
        network: the network that a container joins, to reach the database; "": one of its own.
        identity: the certificate for an entrant with TLS.
        address: the address to listen on.

    Raises:
        BadUsage: the entrant doesn't have the workload, or is a running server.
        BadDefinition: a template is refused. NotReady, StageError: as ``check`` and ``build``.
    """
    entry.refuse_unless_it_serves(workload)
    outside = ""
    if entry.container is not None:
        from dragstrip.contender import boxes

        if database:
            outside = str(database["database_socket"])
            database = {**database, **dict.fromkeys(("database_host", "database_socket"), boxes.DATABASE_FOLDER)}
        port = boxes.port(entry, workload)
    for name, content in data.items():
        _place(scratch / DATA, name).write_bytes(content)
    (scratch / DATA).mkdir(parents=True, exist_ok=True)
    _open_to_all(scratch / DATA)
    values: dict[str, Json] = {"address": address, "port": port, "cores": len(cores), "scratch": str(scratch)}
    values |= {"socket": str(scratch / SOCKET), "data": str(scratch / DATA), "data_files": tuple(sorted(data))}
    values |= dict.fromkeys((*DATABASE, *TLS_FILES), "") | dict(database)
    if identity is not None:  # both files are valid for this race alone
        (scratch / CERTIFICATE).write_bytes(identity.certificate)
        (scratch / CERTIFICATE_KEY).write_bytes(identity.key)
        values |= {"certificate": str(scratch / CERTIFICATE), "certificate_key": str(scratch / CERTIFICATE_KEY)}
    if entry.contender is not None:
        values |= {"workload": workload}
        start = _prepare_definition(entry, entry.contender, scratch, port, values)
    elif entry.container is not None:
        start = Start(name=entry.name, command=(), cwd=scratch, port=port, wake_s=entry.wake_s, kind=entry.kind)
    else:
        start = _prepare_command(entry, scratch, port, values)
    start = replace(start, address=address, env=_database_environment(database) | start.env)
    return _in_box(entry, start, scratch, values, outside, network) if entry.container is not None else start


def _prepare_command(entry: Entry, scratch: Path, port: int, values: Mapping[str, Json]) -> Start:
    """The user's own command, in the user's own folder, as the user."""
    if missing := entry.missing_secrets:
        raise StageError(f"{entry.name}: the value of {missing[0]} is not known here; a record has only its hash")
    command = own_command.filled(entry.command, shell=bool(entry.needs_shell), values=values, hidden=entry.secrets)
    own = {key: own_command.filled_value(text, values) for key, text in entry.environment.items()}
    env = {"PORT": str(port), "HOST": str(values["address"]), **(_naming() if entry.profiled else {})}
    env |= {**own, **entry.secrets}
    return Start(
        name=entry.name,
        command=command,
        env=env,
        socket=_requested_socket(scratch, (*command, *env.values())),
        cwd=entry.folder or scratch,
        port=port,
        asked_port=port,
        any_port=True,
        stop_all_after_s=0.0 if entry.needs_shell else PASSES_ON_S,
        wake_s=entry.wake_s,
        listening_s=entry.listening_s,
        unprivileged=False,
        kind=entry.kind,
    )


def _naming() -> dict[str, str]:
    """The environment that has runtimes name their code; options that the user has set for Node stay set."""
    return {
        key: f"{os.environ.get(key, '') if key == 'NODE_OPTIONS' else ''} {text}".strip()
        for key, text in NAMING.items()
    }


def _in_box(
    entry: Entry, start: Start, scratch: Path, values: Mapping[str, Json], database: str, network: str
) -> Start:
    """A start whose program and environment are an image's, with what the definition changes.

    Args:
        database: the folder of the database's socket; "" without a database.
        network: as in ``prepare``; in it, the database also has PostgreSQL's usual port, for programs without sockets.
    """
    from dragstrip.contender import boxes

    env, places = dict(start.env), dict[str, str]()
    if database:
        hosts = scratch / "hosts"
        hosts.write_text(f"127.0.0.1 localhost {boxes.DATABASE_HOST}\n", encoding="ascii")
        places = {boxes.DATABASE_FOLDER: database, "/etc/hosts": str(hosts)}
        url = f"postgresql://{{database_user}}:none@{boxes.DATABASE_HOST}:5432/{{database_name}}"
        env = {URL_VARIABLE: fill(url, values), **env}
    box = boxes.box(entry, start.command, env, values, scratch, places=places, network=network)
    declared = entry.contender is not None and "stop_signal" in entry.contender.fields.start.model_fields_set
    stop_signal = start.stop_signal if declared or not box.stop_signal else box.stop_signal
    # bubblewrap, not this user switch, decides which user the program runs as.
    return replace(start, command=box.command, env={}, box=box, stop_signal=stop_signal, unprivileged=False)


def _prepare_definition(entry: Entry, contender: Contender, scratch: Path, port: int, values: dict[str, Json]) -> Start:
    ready, fields, cores = _ready(contender), contender.fields.start, values["cores"]
    values |= {key: cores if value == PER_CORE else value for key, value in entry.parameters.items()}
    values |= discovery.settings(contender, ready.programs)
    values |= {"mark": entry.mark, "cache": str(cache_dir()), "build": str(build(entry) or "")}
    values |= {"served": discovery.counts(contender, ready.programs, values)}
    _copy(contender, fields.copy_, scratch)
    rendered = {name: _rendered(contender, name, values) for name in fields.render}
    for name, text in rendered.items():
        _place(scratch, name).write_text(text, encoding="utf-8")
    _open_to_all(scratch)
    profiled = contender.fields.profiled if entry.profiled else Profiled()
    words = (*fields.command[:1], *profiled.arguments, *fields.command[1:])
    command = discovery.resolve(words, ready.programs, values)
    serving = contender.serving(str(values["workload"]))
    env = {key: fill(text, values) for key, text in {**fields.env, **serving.env, **profiled.env}.items()}
    own = {"HOME": str(scratch), "TMPDIR": str(scratch), "LANG": "C.UTF-8", **_path_to(ready, scratch)}
    served = contender.fields.served if values["served"] else None
    socket = fill(served.socket, values) if served else ""
    return Start(
        name=entry.name,
        command=command,
        env=env if entry.container else {**own, **env},
        socket=_requested_socket(scratch, (*command, *env.values(), *rendered.values())),
        cwd=scratch,
        port=port,
        wake_s=fields.wake_s,
        stop_signal=fields.stop_signal,
        unprivileged=fields.unprivileged,
        kind=entry.kind,
        own_count=OwnCount(f"unix:{socket}" if socket else "", served.path, served.pattern) if served else None,
    )


def _database_environment(database: Mapping[str, str | int]) -> dict[str, str]:
    """The database's address in libpq's environment variables (its manual, 34.15); empty without a database."""
    if not database.get("database_host"):
        return {}
    return {
        "PGHOST": str(database["database_host"]),
        "PGPORT": str(database["database_port"]),
        "PGUSER": str(database["database_user"]),
        "PGPASSWORD": str(database["database_password"]),
        "PGDATABASE": str(database["database_name"]),
        "PGSSLMODE": "disable",
        CONNECTIONS_VARIABLE: str(database["database_connections"]),
    }


def _requested_socket(scratch: Path, texts: Iterable[str]) -> Path | None:
    """The launch's socket, if its path occurs in the server's command, environment or files."""
    path = scratch / SOCKET
    return path if any(str(path) in text for text in texts) else None


def _path_to(ready: Ready, scratch: Path) -> dict[str, str]:
    """PATH for servers that call programs by name: programs that are not on PATH get links in the scratch folder."""
    elsewhere = {name: place for name, place in ready.programs.items() if shutil.which(name) != str(place)}
    if not elsewhere:
        return {}
    links = scratch / ".programs"
    links.mkdir(exist_ok=True)
    for name, place in elsewhere.items():
        (links / name).symlink_to(place)
    return {"PATH": os.pathsep.join((str(links), os.environ.get("PATH", os.defpath)))}


def _rendered(contender: Contender, name: str, values: Mapping[str, Json]) -> str:
    file = contender.folder / name
    try:
        return render(file.read_text(encoding="utf-8"), values)
    except UnicodeDecodeError as error:
        raise BadDefinition(
            file=str(file), field="template", problem=f"is not a valid text ({error})", remedy="write it in UTF-8"
        ) from error
    except TemplateRefused as error:
        remedy = f"known: {', '.join(sorted(values))}" if error.unknown else error.remedy
        raise BadDefinition(
            file=str(file), line=error.line, field="template", problem=error.problem, remedy=remedy
        ) from error
