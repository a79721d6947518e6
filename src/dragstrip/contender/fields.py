"""The keys of a contender.toml, and the checks of their values. ``docs/CONTENDERS.md`` shows them by example."""

from __future__ import annotations

import hashlib
import re
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field

from dragstrip.contender.definition import Key, Source, Strict, check_placeholders, parsed, validated

FILE_NAME = "contender.toml"

#: The package's own definitions, a folder each.
SHIPPED = Path(__file__).resolve().parents[1] / "data" / "contenders"

#: Suites whose entries can be imported, by the words that begin the names of their definitions.
SUITES = ("tfb", "arena")

#: A contender's name. An imported entry keeps the name that its suite gives it.
NAME = re.compile(rf"^([a-z0-9][a-z0-9.+-]{{0,59}}|({'|'.join(SUITES)}):[a-z0-9][a-z0-9._+-]{{0,59}})$")

#: Seconds of a build: base images and packages are downloaded, and compilers run.
BUILD_S = 3600.0

#: A parameter's default that becomes the number of the servers' cores.
PER_CORE = "{cores}"
Value = int | float | bool | str
Words = Annotated[tuple[str, ...], Field(strict=False)]
Command = Annotated[tuple[str, ...], Field(strict=False, min_length=1)]

#: The key of an override that is the path of the first program that a contender needs.
PROGRAM = "program"

#: Names in braces, by the tables that may use them.
SETTING = frozenset({"modules", "loadable", "built_in", "python", "npm", "arch"})
BUILDING = SETTING | {"build", "cache"}
DATABASE = frozenset(
    f"database_{name}" for name in ("host", "port", "socket", "user", "password", "name", "connections")
)
TLS_FILES = frozenset({"certificate", "certificate_key"})
OWN = frozenset({"address", "port", "socket", "scratch", "data", "data_files", "cores", "mark", "workload", "served"})
STARTING = BUILDING | OWN | TLS_FILES | DATABASE

#: The meaning of each name in braces.
MEANING = {
    "address": "the address to listen on: 127.0.0.1, or the data address of a fleet's server machine",
    "port": "a free port of that address",
    "socket": "a path for a unix socket; if the command or a template uses it, Dragstrip connects there",
    "scratch": "a folder for this launch alone, which is also the working directory; removed after the launch",
    "data": "the folder with the workload's files, which differ from launch to launch; empty for most workloads",
    "data_files": 'the paths of these files in that folder; for templates, `{% if "items.json" in data_files %}`',
    "cores": "the number of cores that the servers have",
    "mark": "the contender's `mark`",
    "workload": "the name of the workload",
    "served": "whether Dragstrip can read the server's own count here (`[served]`); for templates, `{% if served %}`",
    "certificate": "the server's certificate, a PEM file; this name and the next are empty without TLS",
    "certificate_key": "the certificate's key, a PEM file with the same name and `.key`",
    "database_host": "the database's host; this name and the next six are empty if the workload sends no queries",
    "database_port": "the database's port",
    "database_socket": "the folder of the database's unix socket",
    "database_user": "this contender's own user in the database",
    "database_password": "that user's password, drawn for each launch; all users can read a command, not `PGPASSWORD`",
    "database_name": "the database with the table `rows`",
    "database_connections": "the number of connections that the server may open, over all its workers",
    "build": "the folder with the build's results",
    "python": "the interpreter of the contender's private environment",
    "npm": "the folder of the contender's npm packages (`node_modules`), for `NODE_PATH`",
    "modules": "nginx's folder of modules",
    "loadable": "the files in that folder; only for templates, and only if the definition uses `{modules}`",
    "built_in": "modules compiled into nginx, by their own names and by the folders of `--add-module`; same condition",
    "cache": "Dragstrip's own folder, kept between races",
    "arch": "the machine's architecture, like `x86_64`",
}


@dataclass(frozen=True, slots=True)
class Braces:
    """Marks a key whose texts may have names in braces: the valid names, and whether parameters are valid, too."""

    names: frozenset[str]
    parameters: bool = False


_SETTING, _BUILDING, _STARTING = Braces(SETTING), Braces(BUILDING), Braces(STARTING, parameters=True)

#: Facts for the parity sheet.
Facts = Annotated[dict[str, str], Braces(frozenset({"mark"}), parameters=True)]


def _plain_value(value: Any) -> Any:
    if not isinstance(value, int | float | str):
        raise ValueError("give a number, a text, true or false")
    return value


def alternatives(text: str) -> tuple[str, ...]:
    """The names of which one is enough, the preferred one first: ``a | b``, as in Debian's own dependencies."""
    return tuple(name.strip() for name in text.split("|"))


class Needs(Strict):
    """What must be installed; the contender is missing without it, and the reason is shown."""

    commands: Words = Field(
        default=(),
        description='programs on PATH, in an sbin folder or in a private environment; `"php | php8.4"`: one of them, '
        "which the other keys and files call by the first name",
    )
    files: Annotated[Words, _SETTING] = Field(
        default=(),
        description='files that must exist; `{modules}` is nginx\'s folder of modules; `"/a | /b"`: one of them',
    )
    built_in: str = Field(
        default="",
        description="part of a module's name; if the module is compiled into nginx, the `files` are not needed. A file "
        "of `{modules}` is not needed either if nginx has that module built in",
    )
    python: Words = Field(default=(), description="modules in its private Python environment")
    run: Annotated[tuple[Command, ...], Field(strict=False), _SETTING] = Field(
        default=(), description='commands that must succeed, like `[["lua5.4", "-e", "require(\'socket\')"]]`'
    )


class Alternative(Strict):
    """Another way to install the programs without root: packages in a private environment."""

    pip: Words = Field(default=(), description="packages from PyPI")
    npm: Words = Field(default=(), description="packages from npm")
    programs: Annotated[dict[str, str], Braces(frozenset({"arch"}))] = Field(
        default_factory=dict, description="path of a needed command in that environment, if it is not in `bin`"
    )


class Install(Strict):
    """What `dragstrip install` runs: the system's own package managers, after it has shown the commands."""

    debian: Words = Field(
        default=(),
        description='Debian packages, installed as root; their daemons are kept from starting. `"luajit2 | luajit"`: '
        "the first of them that this machine's apt has",
    )
    pip: Words = Field(default=(), description="PyPI packages, in a private environment; `{python}` runs it")
    npm: Words = Field(default=(), description="npm packages, in a private folder")
    hint: str = Field(default="", description="where else to get it, shown if it is missing")
    alternatives: Annotated[tuple[Alternative, ...], Field(strict=False)] = Field(
        default=(), description="`[[install.alternatives]]`: ways without root, tried in this order"
    )


class Build(Strict):
    """A command that runs once for each content of its files; Dragstrip keeps what it leaves in `{build}`."""

    command: Annotated[Command, _BUILDING] = Field(
        description="the command, one word per item; it runs on a copy of `files` and builds into `{build}`"
    )
    env: Annotated[dict[str, str], _BUILDING] = Field(
        default_factory=dict, description="environment variables, added to your own"
    )
    files: Words = Field(default=(), description="its sources, in this folder or in one next to it (`../NAME/FILE`)")


class Version(Strict):
    """How to read the version: a command and a pattern, or an installed Python package."""

    command: Annotated[Words, _SETTING] = Field(
        default=(), description="command that prints the version; a shell may start a needed command"
    )
    pattern: str = Field(default="", description="regular expression with one group, which is the version")
    package: str = Field(default="", description="Python package whose version to show, instead of a command")
    also: Words = Field(
        default=(),
        description="regular expressions with one group each, shown next to the version. Dragstrip searches the "
        "command's output, then the bytes of the program, its `{modules}` and their libraries, like "
        "`'(LuaJIT \\d[\\w.-]*)'`",
    )


class WarmUpFields(Strict):
    """Load on each launch before anything counts; it ends as soon as the speed no longer rises."""

    least_s: float = Field(default=0.05, ge=0, le=60, description="minimum, in seconds; 0.5 for just-in-time runtimes")
    most_s: float = Field(default=2.0, gt=0, le=120, description="maximum, in seconds; 10 for just-in-time runtimes")
    lead_ms: float = Field(
        default=10.0,
        ge=1,
        le=200,
        description="lead-in of each block, in milliseconds. Set less only if `benchmarks/lead_in.py` shows full speed "
        "by then: shorter blocks end races sooner, but after 4 ms Go reads 14 % too slow",
    )


class StartFields(Strict):
    """How to start and stop it. Dragstrip fills in names in braces; no shell sees the command."""

    command: Annotated[Command, _STARTING] = Field(
        description="command that serves in the foreground, one word per item"
    )
    env: Annotated[dict[str, str], _STARTING] = Field(
        default_factory=dict, description="environment variables, added to your own, `LANG=C.UTF-8` and `TZ=UTC`"
    )
    render: Words = Field(default=(), description="Jinja2 templates (`{{ port }}`), rendered into the scratch folder")
    copy_: Words = Field(  # pydantic's models have a method of that name
        default=(), alias="copy", description="files to copy into the scratch folder"
    )
    wake_s: float = Field(
        default=10.0, gt=0, le=120, description="seconds from the start to the first correct response"
    )
    stop_signal: str = Field(
        default="TERM", description="signal that stops it, like TERM, INT or QUIT; KILL follows after 15 s"
    )
    unprivileged: bool = Field(default=True, description="run it as `nobody` if Dragstrip runs as root")


class ContainerFields(Strict):
    """An image that is started instead of a program of this machine; docs/containers.md describes it."""

    image: str = Field(
        default="",
        description="a file that `docker save` or `podman save` wrote, in this folder or by its whole path; otherwise "
        "an image's name, which Podman or Docker must have",
    )
    build: str = Field(
        default="",
        description="instead of `image`, a folder whose Dockerfile Podman or Docker builds; its path from this folder, "
        "or its whole path",
    )
    dockerfile: str = Field(
        default="Dockerfile", min_length=1, description="with `build`, the path of the Dockerfile in that folder"
    )
    args: dict[str, str] = Field(
        default_factory=dict, description="with `build`, values of the Dockerfile's `ARG` by their names"
    )
    engine: Literal["auto", "podman", "docker", "none"] = Field(
        default="auto", description="which engine has the image, or builds it; `none`: it must be a file"
    )
    port: int | None = Field(
        default=None,
        ge=1,
        le=65_535,
        description="the port that it listens on, in a network of its own; by default the one that the image exposes, "
        "otherwise 8080",
    )
    mounts: Annotated[dict[str, str], _STARTING] = Field(
        default_factory=dict,
        description='files and folders of this machine by their places in the container, read-only, like `"/data" = '
        '"{data}"`',
    )
    cmd: Annotated[Words, _STARTING] = Field(
        default=(), description="words in place of the image's CMD; its ENTRYPOINT stays. `start.command` replaces both"
    )
    writable: Words = Field(
        default=(), description="further folders that the program may write; each launch gets a copy of its own"
    )


class Served(Strict):
    """The server's own count of requests, read between blocks and compared with the engine's count."""

    path: str = Field(pattern=r"^/[!-~]*$", description="path of the page with the count, outside every workload")
    pattern: str = Field(
        description="regular expression with one group, the number; the numbers of several matches are added up"
    )
    socket: Annotated[str, _STARTING] = Field(
        default="",
        description="unix socket of that page, like `{scratch}/served.socket`; otherwise the server's own port",
    )
    if_command: Annotated[Words, _SETTING] = Field(
        default=(), description="command whose output shows whether this server can count"
    )
    if_says: str = Field(default="", description="regular expression that this output matches if it can")


class Profiled(Strict):
    """What `dragstrip why` adds to its start, so that its runtime names compiled code; no launch of a race has it."""

    arguments: Annotated[Words, _STARTING] = Field(
        default=(), description="words after the program's own name in `start.command`, like `--perf-basic-prof`"
    )
    env: Annotated[dict[str, str], _STARTING] = Field(
        default_factory=dict, description="environment variables, added to `start.env`"
    )
    perf_map: bool = Field(
        default=False,
        description="the runtime then writes the names to `/tmp/perf-PID.map`; if that file is missing, the table of "
        "`why` says so",
    )


class Serving(Strict):
    """How it serves one workload, like `[workload.json]`."""

    form: Literal["canonical", "own"] = Field(
        default="canonical",
        description="`own`: its JSON has other spacing or another order of keys than the workload's. Scrutineering "
        "compares it parsed; the engine then compares later responses with these bytes",
    )
    path: str = Field(
        default="",
        pattern=r"^(/[!-z|~]*)?$",
        description="its own path, in place of the workload's up to the first value that varies; it may be `/items/` "
        "for `/item?id={{ n }}`",
    )
    port: int | None = Field(
        default=None, ge=1, le=65_535, description="its port for this workload, in place of `container.port`"
    )
    env: Annotated[dict[str, str], _STARTING] = Field(
        default_factory=dict, description="environment variables for this workload, added to `start.env`"
    )
    connections: int | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description="connections of `verify`, if it can't serve the workload's usual number in time",
    )
    needs: Needs = Field(default=Needs(), description="what else must be installed for this workload")
    install: Install = Field(default=Install(), description="how package managers install that")
    parity: Facts = Field(default_factory=dict, description="further facts for the parity sheet, like its JSON library")


class ForDatabase(Strict):
    """What it needs in addition for workloads that query the database; other workloads ignore this table."""

    needs: Needs = Field(default=Needs(), description="what else must be installed")
    install: Install = Field(default=Install(), description="how package managers install that")
    build: Build | None = Field(default=None, description="how to compile it then, in place of `[build]`")
    parity: Facts = Field(default_factory=dict, description="further facts for the parity sheet, like its driver")


class ContenderFile(Strict):
    """One contender.toml."""

    name: str = Field(
        pattern=NAME.pattern,
        description="up to 60 small letters, digits and `. + -`, in imported definitions after `tfb:` or `arena:`; old "
        "results refer to it, so never reuse one",
    )
    title: str = Field(min_length=1, max_length=120, description="its name as people write it")
    host: str = Field(min_length=1, description="the program that terminates HTTP")
    language: str = Field(min_length=1, description='the language of the handler; "none" for static files')
    homepage: str = Field(default="", pattern=r"^(https?://\S+)?$", description="web page about it")
    mark: str = Field(
        default="", pattern=r"^([!-~]{4})?$", description="four characters that its responses to `multiply` carry"
    )
    workloads: Words = Field(min_length=1, description='the workloads that it serves, like `["hello"]`')
    unable: dict[str, str] = Field(
        default_factory=dict, description="by workload, the reason why it does not serve that one"
    )
    needs: Needs = Field(default=Needs(), description="what must be installed")
    install: Install = Field(default=Install(), description="how package managers install that")
    workload: dict[str, Serving] = Field(
        default_factory=dict, description="`[workload.NAME]`: how it serves one of them, if that is unusual"
    )
    build: Build | None = Field(default=None, description="how to compile it")
    version: Version = Field(default=Version(), description="how to read its version")
    parameters: dict[str, Annotated[Value, BeforeValidator(_plain_value)]] = Field(
        default_factory=dict,
        description='what `NAME:key=value` may vary, with defaults; `"{cores}"` means one per core of the servers',
    )
    choices: dict[str, Annotated[tuple[str, ...], Field(strict=False, min_length=2)]] = Field(
        default_factory=dict, description="the values that a parameter accepts, including its default"
    )
    since: dict[str, str] = Field(
        default_factory=dict,
        description='by values of parameters, the first version that has them, like `"http=2,tls=off" = "1.24"`',
    )
    parity: Facts = Field(
        default_factory=dict, description="facts for the parity sheet that can't be seen from outside"
    )
    warm_up: WarmUpFields = Field(default=WarmUpFields(), description="how long to load it before anything counts")
    start: StartFields = Field(description="how to start and stop it")
    served: Served | None = Field(default=None, description="where it shows its own count of requests")
    profiled: Profiled = Field(
        default=Profiled(), description="what has its runtime name compiled code, in the extra launches of `why`"
    )
    database: ForDatabase = Field(
        default=ForDatabase(), description="what it needs in addition for workloads that query the database"
    )
    container: ContainerFields | None = Field(default=None, description="the image that is started")


class ContainerStart(StartFields):
    """How to start and stop an image; everything is optional, because the image says it."""

    command: Annotated[Words, _STARTING] = Field(default=(), description="command in place of the image's own")


class ContainerFile(ContenderFile):
    """One contender.toml with `[container]`."""

    start: ContainerStart = Field(default=ContainerStart(), description="how to start and stop it")


_Table = TypeVar("_Table", bound=Strict)


def _joined(first: _Table, more: _Table) -> _Table:
    """A table with the lists of both; a text of ``more`` replaces the text of ``first``."""
    update = {}
    for name in type(first).model_fields:
        before, after = getattr(first, name), getattr(more, name)
        update[name] = (*before, *after) if isinstance(before, tuple) else after or before
    return first.model_copy(update=update)


@dataclass(frozen=True)
class Contender:
    """One server stack under test, as its contender.toml describes it.

    Args:
        fields: the file's keys, checked.
        source: the file itself, for later refusals.
        places: paths that the user gave for needed programs (by command) or for nginx's ``modules``.
        asking: the workload that it must be ready for, if that workload needs more than others.
    """

    fields: ContenderFile
    source: Source
    places: Mapping[str, str] = field(default_factory=dict)
    asking: str = ""

    @property
    def name(self) -> str:
        """``software`` or ``software-variant``; old results refer to it, so a name is never reused."""
        return self.fields.name

    @property
    def folder(self) -> Path:
        """The folder of its templates and application files."""
        return self.source.file.parent

    @property
    def shipped(self) -> bool:
        """Whether the package contains it, so that the user can't correct it."""
        return self.folder.parent == SHIPPED

    @cached_property
    def definition_hash(self) -> str:
        """SHA-256 over the definition and every file that it uses, in the order of their names; hex."""
        digest = hashlib.sha256()
        files = {FILE_NAME: self.source.file, **{name: self.folder / name for name in self.files()}}
        for name, file in sorted(files.items()):
            content = file.read_bytes()
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
        return digest.hexdigest()

    @property
    def foreign(self) -> bool:
        """Whether it is an imported entry, whose commands came from elsewhere."""
        return self.name.partition(":")[0] in SUITES and ":" in self.name

    def serving(self, workload: str) -> Serving:
        """How it serves a workload."""
        return self.fields.workload.get(workload, Serving())

    def for_workload(self, workload: str, *, asks_database: bool) -> Contender:
        """This contender with what it needs for a workload; the same one if that adds nothing or was added before."""
        fields, more = self.fields, self.fields.database
        special = self.serving(workload)
        if self.asking or not (
            asks_database or special.needs != Needs() or special.install != Install() or special.parity or special.path
        ):
            return self
        needs, install = _joined(fields.needs, special.needs), _joined(fields.install, special.install)
        build = fields.build
        if asks_database:
            needs, install, build = _joined(needs, more.needs), _joined(install, more.install), more.build or build
        update = {"needs": needs, "install": install, "build": build}
        return replace(self, fields=fields.model_copy(update=update), asking=workload)

    def further_parity(self, workload: str, *, asks_database: bool) -> dict[str, str]:
        """Facts for the parity sheet that only this workload adds; names in braces are not filled in yet."""
        special = self.serving(workload)
        path = {"requested path": special.path} if special.path else {}
        return {**(self.fields.database.parity if asks_database else {}), **special.parity, **path}

    def place_keys(self) -> dict[str, str]:
        """Keys that a user may set to a path, and the key of that path in ``places``."""
        commands = [alternatives(text) for text in self.fields.needs.commands]
        first = {PROGRAM: commands[0][0]} if commands else {}
        keys = {name: names[0] for names in commands for name in names}
        return first | keys | ({"modules": "modules"} if "nginx" in keys else {})

    def files(self) -> tuple[str, ...]:
        """Files of the contender apart from the definition, relative to its folder."""
        builds = [build for build in (self.fields.build, self.fields.database.build) if build]
        sources = (file for build in builds for file in build.files)
        return tuple(sorted({*self.fields.start.render, *self.fields.start.copy_, *sources}))


def load(path: Path) -> Contender:
    """Reads a contender.toml and checks everything that can be checked without running anything.

    Raises:
        BadDefinition: names file, line, field, the given value and a valid one.
    """
    given, source = parsed(path)
    contender = Contender(validated(given, source, ContainerFile if "container" in given else ContenderFile), source)
    _check_files(contender)
    _check_names_in_braces(contender)
    _check_rest(contender)
    return contender


def _check_files(contender: Contender) -> None:
    start, build, with_database = contender.fields.start, contender.fields.build, contender.fields.database.build
    bad = contender.source.bad
    listed: list[tuple[tuple[Key, ...], tuple[str, ...]]] = [
        (("start", "render"), start.render),
        (("start", "copy"), start.copy_),
        (("build", "files"), build.files if build else ()),
        (("database", "build", "files"), with_database.files if with_database else ()),
    ]
    for at, names in listed:
        for name in names:
            parts = Path(name).parts
            if Path(name).is_absolute() or ".." in parts[1:] or (parts[:1] == ("..",) and len(parts) != 3):
                remedy = "name a file in the definition's folder, or in a folder next to it (../NAME/FILE)"
                raise bad(at, f"given {name!r}, which is in another folder", remedy)
            if not (contender.folder / name).is_file():
                remedy = "add that file or take the name out"
                raise bad(at, f"given {name!r}, which is not in {contender.folder}", remedy)
    for at, command in ((("build",), build), (("database", "build"), with_database)):
        if command and "files" not in command.model_fields_set:
            remedy = 'add `files = ["main.go"]` with the files that the build reads (`[]` for none); it runs on a copy'
            raise bad((*at, "files"), "is missing", remedy)


def _check_names_in_braces(contender: Contender) -> None:
    parameters = contender.fields.parameters
    for at, text, braces in texts_with_braces(contender.fields):
        check_placeholders(contender.source, at, text, braces.names | (set(parameters) if braces.parameters else set()))
    taken = STARTING | set(contender.place_keys())
    for name in parameters:
        if name in taken or not re.fullmatch(r"[a-z_][a-z0-9_]*", name):
            remedy = f"use small letters, digits and _, but none of {', '.join(sorted(taken))}"
            raise contender.source.bad(("parameters", name), "that name is taken or not valid", remedy)


def texts_with_braces(table: Strict, at: tuple[Key, ...] = ()) -> Iterator[tuple[tuple[Key, ...], str, Braces]]:
    """Every text that may have names in braces: its key, the text, and the names that are valid there."""
    for name, declared in type(table).model_fields.items():
        braces = next((mark for mark in declared.metadata if isinstance(mark, Braces)), None)
        for key, part in _parts(getattr(table, name), (*at, declared.alias or name)):
            if isinstance(part, Strict):
                yield from texts_with_braces(part, key)
            elif braces is not None:
                yield key, part, braces


def _parts(value: Any, at: tuple[Key, ...]) -> Iterator[tuple[tuple[Key, ...], Any]]:
    """The values of a key, also in nested lists; the texts of a list have the list's key."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _parts(part, (*at, name))
    elif isinstance(value, tuple):
        for number, part in enumerate(value):
            yield from _parts(part, (*at, number) if isinstance(part, Strict) else at)
    else:
        yield at, value


def _check_rest(contender: Contender) -> None:
    fields, bad = contender.fields, contender.source.bad
    name = fields.start.stop_signal
    if f"SIG{name}" not in signal.Signals.__members__:
        raise bad(("start", "stop_signal"), f"given {name!r}", "give a signal's name, like TERM, INT or QUIT")
    if fields.warm_up.least_s > fields.warm_up.most_s:
        problem = f"given {fields.warm_up.least_s:g}, above most_s = {fields.warm_up.most_s:g}"
        raise bad(("warm_up", "least_s"), problem, "least_s must not be above most_s")
    if fields.container is not None:
        _check_container(contender, fields.container)
    if fields.profiled.arguments and not fields.start.command:
        problem = "is given without start.command, whose program they are for"
        raise bad(("profiled", "arguments"), problem, "give start.command, or use profiled.env")
    version, served = fields.version, fields.served
    if not version.package and bool(version.command) != bool(version.pattern):
        raise bad(("version",), "has only one of command and pattern", "give both, or `package` alone")
    _check_pattern(contender, ("version", "pattern"), version.pattern or "()", "the version")
    for pattern in version.also:
        _check_pattern(contender, ("version", "also"), pattern, "the text to show")
    if served:
        _check_pattern(contender, ("served", "pattern"), served.pattern, "the number")
        _check_pattern(contender, ("served", "if_says"), served.if_says)
        if bool(served.if_command) != bool(served.if_says):
            raise bad(("served",), "has only one of if_command and if_says", "give both, or neither")
    for name in fields.workload:
        if name not in fields.workloads:
            raise bad(("workload", name), "is not among its workloads", f"name one of {', '.join(fields.workloads)}")
    for name, serving in fields.workload.items():
        if serving.port is not None and fields.container is None:
            problem = f"given {serving.port}, and it has no [container]"
            raise bad(("workload", name, "port"), problem, "take it out, and use {port} in start.command")
    for name in fields.unable:
        if name in fields.workloads:
            raise bad(("unable", name), "is also among its workloads", "take it out of one of the two")
    for key, allowed in fields.choices.items():
        if fields.parameters.get(key) not in allowed:
            problem = f"given {list(allowed)!r}, which has no default among the [parameters]"
            raise bad(("choices", key), problem, f'write `{key} = "{allowed[0]}"` under [parameters]')
    for words, first in fields.since.items():
        for key, choice in since_values(words).items():
            if choice not in fields.choices.get(key, ()):
                problem = f"given {words!r}, and {key} has no choice {choice!r}"
                raise bad(("since", words), problem, 'give values of [choices], like "http=2,tls=off"')
        if not re.fullmatch(r"\d+(\.\d+)*", first):
            raise bad(("since", words), f"given {first!r}", 'give a version, like "1.24"')
    for key, value in fields.parameters.items():
        if isinstance(value, str) and "{" in value and value != PER_CORE:
            raise bad(("parameters", key), f"given {value!r}", f'give a plain value, or "{PER_CORE}"')


def since_values(words: str) -> dict[str, str]:
    """The values of parameters that a key of ``[since]`` names."""
    parts = (part.partition("=") for part in words.split(","))
    return {key.strip(): value.strip() for key, _, value in parts}


def _check_container(contender: Contender, container: ContainerFields) -> None:
    bad = contender.source.bad
    if bool(container.image) == bool(container.build):
        problem = "has both image and build" if container.image else "has neither image nor build"
        raise bad(("container",), problem, 'give `image = "mine.tar"` or `build = "FOLDER"`')
    for key in ("dockerfile", "args"):
        if key in container.model_fields_set and not container.build:
            raise bad(("container", key), "is given without `build`", "add `build`, or take it out")
    if container.build and container.engine == "none":
        raise bad(("container", "engine"), "given 'none' with `build`", "give auto, podman or docker")
    if container.build and (Path(container.dockerfile).is_absolute() or ".." in Path(container.dockerfile).parts):
        problem = f"given {container.dockerfile!r}, which is not in the folder of `build`"
        raise bad(("container", "dockerfile"), problem, "give a path in that folder")


def _check_pattern(contender: Contender, at: tuple[Key, ...], pattern: str, group: str = "") -> None:
    """Checks a regular expression; it must have exactly one group if ``group`` names its meaning."""
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise contender.source.bad(at, f"given {pattern!r}: {error}", "give a valid regular expression") from error
    if group and groups != 1:
        raise contender.source.bad(
            at, f"given {pattern!r} with {groups} groups", f"exactly one group in parentheses must hold {group}"
        )


def is_imported(text: str) -> bool:
    """Whether a word begins as the name of an imported entry, like ``tfb:go``."""
    suite, colon, _ = text.partition(":")
    return bool(colon) and suite in SUITES
