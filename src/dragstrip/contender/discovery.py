"""Finds the installed programs of a contender and their versions; installs and builds nothing.

Programs are looked for on PATH (and in the sbin folders, which Debian leaves off a user's PATH), then in
private environments under the cache directory. A program prints its own version; the version of a language that it
embeds is in its bytes, or in the bytes of a library that it is linked with.
"""

from __future__ import annotations

import functools
import itertools
import os
import platform
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from dragstrip.contender.definition import fill, placeholders
from dragstrip.contender.fields import FILE_NAME, Alternative, Contender, alternatives, texts_with_braces
from dragstrip.paths import NOWHERE, is_file, temporary

#: Where Debian keeps servers.
_SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")

#: Names in braces that depend on the program that loads modules, and its option that prints them.
_MODULES = frozenset({"modules", "loadable", "built_in"})
_LOADER, _CONFIGURATION = "nginx", "-V"

#: nginx keeps the names of the modules it was built with, each a C string, for its messages (ngx_module_names).
_MODULE_NAME = re.compile(r"(?<=\0)(?:[a-z0-9]+_)+module(?=\0)")

#: Seconds that a program may take to print its version.
_PRINT_S = 10.0

#: Bytes of the largest file that is searched: more than any server's program has.
_MAX_BYTES = 256 * 2**20

_DPKG = Path("/var/lib/dpkg")


class _AbsentError(Exception):
    """Something needed is not installed; the message names it. ``remedy``: advice in place of `dragstrip install`."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Ready:
    """Everything that a contender needs is installed.

    Args:
        version: the version that the program prints, with the version of its Debian package if it has one.
        programs: the path of each needed command.
    """

    version: str
    programs: Mapping[str, Path]


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a contender can't run on this machine, and what would make it ready."""

    reason: str
    remedy: str


def cache_dir() -> Path:
    """The folder of builds and private environments; created if it is missing.

    ``$DRAGSTRIP_CACHE``; otherwise, for root, ``/var/cache/dragstrip``, because servers run as ``nobody`` and
    can't enter root's home; for other users, their own cache folder.
    """
    if given := os.environ.get("DRAGSTRIP_CACHE"):
        place = Path(given).absolute()
    elif os.geteuid() == 0:
        place = Path("/var/cache/dragstrip")
    else:
        place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dragstrip"
    if not place.is_dir():
        place.mkdir(parents=True, exist_ok=True)
        place.chmod(0o755)
    return place


def environment(packages: Sequence[str]) -> Path:
    """The folder of the private environment for these packages; their versions are not part of its name."""
    names = sorted(re.split(r"[^A-Za-z0-9_.@/-]", package)[0] for package in packages)
    return cache_dir() / "environments" / "+".join(names).replace("/", "-").replace("@", "")


def python_of(contender: Contender) -> Path:
    """The path of the interpreter in a contender's private environment, which may be missing."""
    return environment(contender.fields.install.pip or (contender.name,)) / "bin" / "python3"


def find_programs(contender: Contender) -> dict[str, Path]:
    """The path of every needed command, by its first name; private environments are searched after PATH.

    If there are several, the first that prints its version as expected and has the needed modules; otherwise the first.

    Raises:
        _AbsentError: names the first command that was not found.
    """
    folders = [*os.environ.get("PATH", os.defpath).split(os.pathsep), *_SBIN]
    programs = {}
    for names in map(alternatives, contender.fields.needs.commands):
        name = names[0]
        if name in contender.places:
            place = Path(contender.places[name])
            if not place.is_file() or not os.access(place, os.X_OK):
                raise _AbsentError(f"{place} is not an executable program", "give the path of one")
        else:
            on_path = (shutil.which(one, path=folder) for one in names for folder in folders if folder)
            places = list(dict.fromkeys(Path(place) for place in on_path if place))
            places += [place for place in [_in_environments(contender, name)] if place is not None]
            if not places:
                shown = "` or `".join(names)
                raise _AbsentError(f"`{shown}` is neither on PATH nor in a private environment")
            place = places[0]
            if len(places) > 1:
                place = next((place for place in places if _suits(contender, name, place)), place)
        programs[name] = place
    return programs


def _in_environments(contender: Contender, name: str) -> Path | None:
    install = contender.fields.install
    for way in (Alternative(pip=install.pip, npm=install.npm), *install.alternatives):
        if not (way.pip or way.npm):
            continue
        folder = environment(way.pip or way.npm)
        pattern_given = way.programs.get(name)
        arch = {"arch": platform.machine()}
        patterns = [fill(pattern_given, arch)] if pattern_given else [f"bin/{name}", f"node_modules/.bin/{name}"]
        for place in (place for pattern in patterns for place in sorted(folder.glob(pattern))):
            if os.access(place, os.X_OK):
                return place
    return None


def settings(contender: Contender, programs: Mapping[str, Path]) -> dict[str, str]:
    """Values for the names in braces that depend on what is installed."""
    packages = environment(contender.fields.install.npm or (contender.name,)) / "node_modules"
    values = {"python": str(python_of(contender)), "npm": str(packages), "arch": platform.machine()}
    used = {name for _, text, _ in texts_with_braces(contender.fields) for name in placeholders(text)}
    if used & _MODULES and _LOADER in programs:
        values |= _modules(programs[_LOADER], contender.places.get("modules", ""))
    elif "modules" in contender.places:
        values["modules"] = contender.places["modules"]
    return values


def _modules(program: Path, given: str) -> dict[str, str]:
    """The folder of an nginx's modules, the modules in that folder, and those that are compiled into the program.

    Without --modules-path the folder is `modules` below its prefix (nginx's own auto/options). The program's bytes
    name the modules that are compiled in. If the program is a script, only the folders of `nginx -V` name them.

    Args:
        given: the folder that the user named; "" if none.
    """
    output = output_of((str(program), _CONFIGURATION))
    if "configure arguments" not in output and not given:
        return {"modules": "", "loadable": "", "built_in": ""}
    prefix = re.search(r"--prefix=(\S+)", output)
    path = re.search(r"--modules-path=(\S+)", output)
    folder = given or str(Path(prefix[1] if prefix else "/usr/local/nginx") / (path[1] if path else "modules"))
    sources = [Path(source) for source in re.findall(r"--add-module=(\S+)", output)]
    built_in = {*module_names(program), *(source.name for source in sources), *map(_module_name, sources)} - {""}
    return {
        "modules": folder,
        "loadable": " ".join(sorted(file.name for file in Path(folder).glob("*.so"))),
        "built_in": " ".join(sorted(built_in)),
    }


def _module_name(source: Path) -> str:
    """The name of a module in its sources' file `config`, which nginx's build reads; "" without the sources."""
    try:
        match = re.search(r"^\s*ngx_addon_name=[\"']?(\w+)", (source / "config").read_text(errors="replace"), re.M)
    except OSError:
        return ""
    return match[1] if match and source.is_absolute() else ""


def _suits(contender: Contender, name: str, place: Path) -> bool:
    """Whether a program has the needed modules, as files or compiled in, and prints its version as expected."""
    programs = {name: place}
    try:
        values = settings(contender, programs)
        _need_files(contender, values)
        command = contender.fields.version.command
        return name not in command or _version_match(contender, programs, values) is not None
    except _AbsentError:
        return False


def resolve(command: Sequence[str], programs: Mapping[str, Path], values: Mapping[str, object]) -> tuple[str, ...]:
    """A command ready to run: names in braces are filled in, needed commands replaced by their paths.

    Commands behind the first are replaced, too: some programs need a shell that starts them (actually portable
    executables, scripts without `#!`).
    """
    return tuple(str(programs[word]) if word in programs else fill(word, values) for word in command)


def output_of(command: tuple[str, ...], *, any_status: bool = False) -> str:
    """A program's output, standard error included; run again only if a file that the command names has changed.

    It runs in a folder in which only root can leave files, and its temporary files are in a folder that is removed
    afterwards.

    Args:
        any_status: return the output even if the program fails.

    Raises:
        _AbsentError: it can't be run, fails, or takes over 10 s.
    """
    program = str(Path(shutil.which(command[0]) or command[0]).absolute())
    files = {word: Path(word).absolute() for word in command[1:] if "/" in word and is_file(Path(word))}
    words = [str(files.get(word, word)) for word in command[1:]]
    try:
        states = [Path(program).stat(), *(file.stat() for file in files.values())]
    except OSError as error:
        raise _AbsentError(f"`{command[0]}` can't be run: {error.strerror}") from error
    done = _done((program, *words), tuple((state.st_mtime_ns, state.st_size) for state in states))
    if done.returncode != 0 and not any_status:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it printed nothing"]
        raise _AbsentError(f"`{' '.join(command)}` fails with status {done.returncode}: {last[0][:200]}")
    return done.stdout + done.stderr


@functools.lru_cache(maxsize=256)
def _done(command: tuple[str, ...], _states: tuple[tuple[int, int], ...]) -> subprocess.CompletedProcess[str]:
    try:
        with temporary(after_kill=":") as folder:
            return subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_PRINT_S,
                cwd=NOWHERE,
                # C.UTF-8: in the user's language, some programs print other words
                env={**os.environ, "LC_ALL": "C.UTF-8", "TMPDIR": str(folder)},
            )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _AbsentError(f"`{' '.join(command)}` can't be run: {error}") from error


def counts(contender: Contender, programs: Mapping[str, Path], values: Mapping[str, object]) -> bool:
    """Whether the contender, as it is installed on this machine, can report its own count (``[served]``)."""
    served = contender.fields.served
    if served is None or not served.if_command:
        return served is not None
    try:
        output = output_of(resolve(served.if_command, programs, values), any_status=True)
    except _AbsentError:
        return False
    return re.search(served.if_says, output) is not None


def look(contender: Contender) -> Ready | Missing:
    """Whether a contender can run on this machine: checks its commands, files, Python modules and trial runs."""
    try:
        programs = find_programs(contender)
        values = settings(contender, programs)
        _need_files(contender, values)
        _need_python(contender)
        for command in contender.fields.needs.run:
            output_of(resolve(command, programs, values))
        return Ready(_version(contender, programs, values), programs)
    except _AbsentError as absent:
        return Missing(str(absent), absent.remedy or _remedy(contender))


def _need_files(contender: Contender, values: Mapping[str, str]) -> None:
    module, built_in = contender.fields.needs.built_in, values.get("built_in", "")
    if module and module in built_in:
        return
    for text in contender.fields.needs.files:
        if "modules" in placeholders(text) and Path(text).stem in built_in.split():
            continue  # by nginx's own convention the file of a module has its name
        absent = [name for name in placeholders(text) if not values.get(name)]
        if absent:
            raise _AbsentError(f"{text} was not found: {{{absent[0]}}} is unknown on this machine")
        places = alternatives(fill(text, values))
        if not any(Path(place).exists() for place in places):
            raise _AbsentError(f"{' or '.join(places)} was not found")


def _need_python(contender: Contender) -> None:
    python = python_of(contender)
    folder = python.parent.parent
    for module in contender.fields.needs.python:
        pattern = f"lib/python3*/site-packages/{module.replace('.', '/')}"
        if not python.exists() or not (any(folder.glob(pattern)) or any(folder.glob(f"{pattern}.py"))):
            raise _AbsentError(f"Python's `{module}` is not in its private environment {folder}")


def _remedy(contender: Contender) -> str:
    install = contender.fields.install
    ways = []
    if install.debian or install.pip or install.npm or install.alternatives:
        asking = f" --workload {contender.asking}" if contender.asking else ""
        place = contender.folder if contender.source.file.name == FILE_NAME else contender.source.file
        word = contender.name if contender.shipped else shlex.quote(str(place))
        ways.append(f"`dragstrip install {word}{asking}` installs it")
    if install.hint:
        ways.append(f"see {install.hint}")
    return ", or ".join(ways) or f"install what {contender.source.file} names under [needs]"


def _version(contender: Contender, programs: Mapping[str, Path], values: Mapping[str, str]) -> str:
    declared = contender.fields.version
    if declared.package:
        return _python_package_version(contender, declared.package)
    if not declared.command:
        return "unknown"
    command = resolve(declared.command, programs, values)
    name = next((word for word in declared.command if word in programs), declared.command[0])
    program = programs.get(name, Path(command[0]))
    match = _version_match(contender, programs, values)
    if match is None:
        output = output_of(command, any_status=True).strip()[:200]
        key = next((key for key, place in contender.place_keys().items() if place == name), name)
        remedy = f"`--set {contender.name}.{key}=/path/to/{name}` names another `{name}`, or put one before it on PATH"
        raise _AbsentError(
            f"`{' '.join(command)}` doesn't print a version that matches {declared.pattern!r}: {output!r}",
            remedy if contender.shipped else f"correct [version] in {contender.source.file}",
        )
    details = [_debian_versions(contender, program), *_parts(contender, program, match.string, values)]
    return f"{match[1]} ({'; '.join(filter(None, details))})" if any(details) else match[1]


def _version_match(
    contender: Contender, programs: Mapping[str, Path], values: Mapping[str, str]
) -> re.Match[str] | None:
    """The version in the output of the definition's command."""
    declared = contender.fields.version
    # Many programs print their version in a help text, and exit with an error.
    return re.search(declared.pattern, output_of(resolve(declared.command, programs, values), any_status=True))


def _parts(contender: Contender, program: Path, output: str, values: Mapping[str, str]) -> list[str]:
    """Matches of `[version] also` in the command's output, otherwise in the program, its modules and libraries."""
    needed = [text for text in contender.fields.needs.files if "modules" in placeholders(text)]
    names = [place for text in needed for place in alternatives(fill(text, values))]
    files = [program, *(Path(name) for name in names if Path(name).is_file())]
    matches = ((pattern, re.search(pattern, output)) for pattern in contender.fields.version.also)
    texts = [match[1] if match else first_match(pattern, files) for pattern, match in matches]
    return [text for text in dict.fromkeys(texts) if text]


def module_names(program: Path) -> tuple[str, ...]:
    """The names of modules in an nginx's bytes, sorted; () if they can't be read (a script, say)."""
    return tuple(sorted(set(_matches(program, _MODULE_NAME))))


def first_match(pattern: str, files: Sequence[Path]) -> str | None:
    """The group of a pattern's first match in these files, then in the libraries that they use."""
    compiled = re.compile(pattern)
    libraries = (library for file in files for library in linked(file))
    matches = (_matches(file, compiled) for file in itertools.chain(files, libraries))
    return next((texts[0] for texts in matches if texts), None)


def linked(file: Path) -> list[Path]:
    """The libraries that a program or module is linked with, by `ldd`; none without it."""
    try:
        output = output_of(("ldd", str(file)), any_status=True)
    except _AbsentError:
        return []
    return [Path(place) for place in re.findall(r"=> (/\S+)", output)]


def _matches(file: Path, pattern: re.Pattern[str]) -> tuple[str, ...]:
    """A pattern's last group at each match in a file's bytes; () if it can't be read."""
    try:
        state = file.stat()
        return _searched(file, pattern, state.st_mtime_ns, state.st_size) if state.st_size <= _MAX_BYTES else ()
    except OSError:
        return ()


@functools.lru_cache(maxsize=256)
def _searched(file: Path, pattern: re.Pattern[str], _changed_ns: int, _size: int) -> tuple[str, ...]:
    text = file.read_bytes().decode("latin-1")
    return tuple(match[pattern.groups] for match in pattern.finditer(text))


def _python_package_version(contender: Contender, package: str) -> str:
    folder = python_of(contender).parent.parent
    sites = [str(site) for site in folder.glob("lib/python3*/site-packages")]
    distribution = next(iter(distributions(name=package, path=sites)), None)
    if distribution is None:
        raise _AbsentError(f"Python's package `{package}` is not in its private environment {folder}")
    python = re.search(r"^version\s*=\s*(\S+)", (folder / "pyvenv.cfg").read_text(), re.MULTILINE)
    return f"{distribution.version} (Python {python[1]})" if python else distribution.version


def _debian_versions(contender: Contender, program: Path) -> str:
    """The version of a program's Debian package, and of its other packages if they differ; "" without a package.

    Two builds of a program may print the same version; the revision of the Debian package distinguishes them.
    """
    packages = [name for text in contender.fields.install.debian for name in alternatives(text)]
    info = _DPKG / "info"
    changed_ns = info.stat().st_mtime_ns if info.is_dir() else 0
    owner = _owner(program, (*packages, program.name, program.resolve().name), changed_ns)
    status = _DPKG / "status"
    versions = _dpkg_versions(status.stat().st_mtime_ns) if owner and status.exists() else {}
    if owner is None or owner not in versions:
        return ""
    version = versions[owner]
    others = [f"{name} {versions[name]}" for name in packages if versions.get(name, version) != version]
    return "; ".join([version, *others])


@functools.lru_cache(maxsize=256)
def _owner(program: Path, candidates: tuple[str, ...], _changed_ns: int) -> str | None:
    """The package among ``candidates`` that owns a program. Reads dpkg's own lists: `dpkg-query -S` takes 100 ms."""
    places = {os.path.realpath(program), str(program)}
    accepted = places | {place.removeprefix("/usr") for place in places}  # lists from before the merge of /usr
    for name in dict.fromkeys(candidates):
        for file in [_DPKG / "info" / f"{name}.list", *(_DPKG / "info").glob(f"{name}:*.list")]:
            if file.exists() and accepted & set(file.read_text(errors="replace").splitlines()):
                return name
    return None


@functools.lru_cache(maxsize=2)
def _dpkg_versions(_changed_ns: int) -> dict[str, str]:
    """Every installed package's version, from dpkg's status file."""
    try:
        text = (_DPKG / "status").read_text(errors="replace")
    except OSError:
        return {}
    entry = re.compile(r"^Package: (\S+)\nStatus: \S+ \S+ installed\n(?:.+\n)*?Version: (\S+)$", re.MULTILINE)
    return dict(entry.findall(text))
