"""What of a contender's programs is here: where, in which version. Looks only; installs and builds nothing.

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
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from dragstrip.contender.definition import fill, placeholders
from dragstrip.contender.fields import FILE_NAME, Alternative, Contender, texts_with_braces
from dragstrip.paths import is_file

#: Where Debian keeps servers.
_SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")

#: What a definition may name in braces of the program that loads modules, and how to ask it.
_MODULES = frozenset({"modules", "loadable", "built_in"})
_LOADER, _ASKED = "nginx", "-V"

#: nginx keeps the names of the modules it was built with, each a C string, for its messages (ngx_module_names).
_MODULE_NAME = re.compile(r"(?<=\0)(?:[a-z0-9]+_)+module(?=\0)")

#: Seconds that a program may take to say its version.
_SAY_S = 10.0

#: A larger file is not searched: more than any server's program has.
_MAX_BYTES = 256 * 2**20

_DPKG = Path("/var/lib/dpkg")


class _AbsentError(Exception):
    """Something needed is not here; the message says what; ``remedy``: what would do if installing would not."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Ready:
    """All that a contender needs is here.

    Args:
        version: as the program says it, and as the system's package manager does where it knows it.
        programs: the needed commands and where each one is.
    """

    version: str
    programs: Mapping[str, Path]


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a contender can't run here, and what would make it ready."""

    reason: str
    remedy: str


def cache_dir() -> Path:
    """Where builds and private environments are kept; made if need be.

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
    """The private environment for some packages: one folder per set of names, whatever their versions."""
    names = sorted(re.split(r"[^A-Za-z0-9_.@/-]", package)[0] for package in packages)
    return cache_dir() / "environments" / "+".join(names).replace("/", "-").replace("@", "")


def python_of(contender: Contender) -> Path:
    """The interpreter of a contender's private environment, there or not."""
    return environment(contender.fields.install.pip or (contender.name,)) / "bin" / "python3"


def find_programs(contender: Contender) -> dict[str, Path]:
    """Every needed command with its place; private environments are searched if PATH does not have it.

    Of several on PATH the first that says its version as expected and has the needed modules; else the first.

    Raises:
        _AbsentError: names the first command that is nowhere.
    """
    folders = [*os.environ.get("PATH", os.defpath).split(os.pathsep), *_SBIN]
    programs = {}
    for name in contender.fields.needs.commands:
        if name in contender.places:
            place = Path(contender.places[name])
            if not place.is_file() or not os.access(place, os.X_OK):
                raise _AbsentError(f"{place} is not an executable program", "give the path of one")
        else:
            on_path = (shutil.which(name, path=folder) for folder in folders if folder)
            places = list(dict.fromkeys(Path(place) for place in on_path if place))
            if not places and (private := _in_environments(contender, name)) is not None:
                places = [private]
            if not places:
                raise _AbsentError(f"`{name}` is neither on PATH nor in a private environment")
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
    """Values for the names in braces that depend on what is installed; only those the definition uses."""
    packages = environment(contender.fields.install.npm or (contender.name,)) / "node_modules"
    values = {"python": str(python_of(contender)), "npm": str(packages), "arch": platform.machine()}
    used = {name for _, text, _ in texts_with_braces(contender.fields) for name in placeholders(text)}
    if used & _MODULES and _LOADER in programs:
        values |= _modules(programs[_LOADER], contender.places.get("modules", ""))
    elif "modules" in contender.places:
        values["modules"] = contender.places["modules"]
    return values


def _modules(program: Path, given: str) -> dict[str, str]:
    """Where an nginx's modules are, which of them are in that folder and which are part of the program.

    Without --modules-path the folder is `modules` of its prefix (nginx's own auto/options). The program's bytes name
    the modules that are part of it. A script in its place has only the folders of `nginx -V`, whose names say less.

    Args:
        given: the folder that the user named; "" if none.
    """
    output = say((str(program), _ASKED))
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
    """What a module's sources call it, in the file `config` that nginx's own build reads; "" if they are not here."""
    try:
        match = re.search(r"^\s*ngx_addon_name=[\"']?(\w+)", (source / "config").read_text(errors="replace"), re.M)
    except OSError:
        return ""
    return match[1] if match and source.is_absolute() else ""


def _suits(contender: Contender, name: str, place: Path) -> bool:
    """Whether a program has the needed files beside it, or built in, and says its version as expected."""
    programs = {name: place}
    try:
        values = settings(contender, programs)
        _need_files(contender, values)
        command = contender.fields.version.command
        return name not in command or _version_and_output(contender, programs, values) is not None
    except _AbsentError:
        return False


def resolve(command: Sequence[str], programs: Mapping[str, Path], values: Mapping[str, object]) -> tuple[str, ...]:
    """A command ready to run: names in braces filled in, each needed command at the place where it was found.

    So a shell can be given a program that no other way starts: an actually portable executable, a script without `#!`.
    """
    return tuple(str(programs[word]) if word in programs else fill(word, values) for word in command)


def say(command: tuple[str, ...], *, any_status: bool = False) -> str:
    """What a program prints, standard error included; asked once per state of the files that the command names.

    Its temporary files are in a folder that goes away: looking leaves nothing behind.

    Args:
        any_status: what it prints counts even if it fails.

    Raises:
        _AbsentError: it can't be run, fails, or takes over 10 s.
    """
    program = shutil.which(command[0]) or command[0]
    try:
        states = [Path(program).stat(), *(Path(word).stat() for word in command[1:] if is_file(Path(word)))]
    except OSError as error:
        raise _AbsentError(f"`{command[0]}` can't be run: {error.strerror}") from error
    done = _done((program, *command[1:]), tuple((state.st_mtime_ns, state.st_size) for state in states))
    if done.returncode != 0 and not any_status:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it said nothing"]
        raise _AbsentError(f"`{' '.join(command)}` fails with status {done.returncode}: {last[0][:200]}")
    return done.stdout + done.stderr


@functools.lru_cache(maxsize=256)
def _done(command: tuple[str, ...], _states: tuple[tuple[int, int], ...]) -> subprocess.CompletedProcess[str]:
    try:
        with tempfile.TemporaryDirectory(prefix="dragstrip-", ignore_cleanup_errors=True) as folder:
            return subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_SAY_S,
                # C.UTF-8: programs that speak the user's language would say it otherwise
                env={**os.environ, "LC_ALL": "C.UTF-8", "TMPDIR": folder},
            )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _AbsentError(f"`{' '.join(command)}` can't be run: {error}") from error


def counts(contender: Contender, programs: Mapping[str, Path], values: Mapping[str, object]) -> bool:
    """Whether the contender, as it is installed here, can say how many requests it had (``[served]``)."""
    served = contender.fields.served
    if served is None or not served.if_command:
        return served is not None
    try:
        output = say(resolve(served.if_command, programs, values), any_status=True)
    except _AbsentError:
        return False
    return re.search(served.if_says, output) is not None


def look(contender: Contender) -> Ready | Missing:
    """Whether a contender can run here: every command, file, Python module and trial run it needs."""
    try:
        programs = find_programs(contender)
        values = settings(contender, programs)
        _need_files(contender, values)
        _need_python(contender)
        for command in contender.fields.needs.run:
            say(resolve(command, programs, values))
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
        if not Path(fill(text, values)).exists():
            raise _AbsentError(f"{fill(text, values)} was not found")


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
    wanted = contender.fields.version
    if wanted.package:
        return _python_package_version(contender, wanted.package)
    if not wanted.command:
        return "unknown"
    command = resolve(wanted.command, programs, values)
    asked = next((word for word in wanted.command if word in programs), wanted.command[0])
    program = programs.get(asked, Path(command[0]))
    answer = _version_and_output(contender, programs, values)
    if answer is None:
        output = say(command, any_status=True).strip()[:200]
        key = next((key for key, name in contender.place_keys().items() if name == asked), asked)
        remedy = (
            f"`--set {contender.name}.{key}=/path/to/{asked}` names another `{asked}`, or put one before it on PATH"
        )
        raise _AbsentError(
            f"`{' '.join(command)}` doesn't say a version that matches {wanted.pattern!r}: {output!r}",
            remedy if contender.shipped else f"correct [version] in {contender.source.file}",
        )
    version, output = answer
    details = [_debian_versions(contender, program), *_parts(contender, program, output, values)]
    return f"{version} ({'; '.join(filter(None, details))})" if any(details) else version


def _version_and_output(
    contender: Contender, programs: Mapping[str, Path], values: Mapping[str, str]
) -> tuple[str, str] | None:
    """The version that the definition's command says, and all that it said; None if that doesn't match."""
    wanted = contender.fields.version
    # Many tell it in a help text, and end as if it were a mistake to ask.
    output = say(resolve(wanted.command, programs, values), any_status=True)
    match = re.search(wanted.pattern, output)
    return (match[1], output) if match else None


def _parts(contender: Contender, program: Path, output: str, values: Mapping[str, str]) -> list[str]:
    """What `[version] also` finds: in the command's words, else in the program, its modules and their libraries."""
    names = [fill(text, values) for text in contender.fields.needs.files if "modules" in placeholders(text)]
    files = [program, *(Path(name) for name in names if Path(name).is_file())]
    matches = ((pattern, re.search(pattern, output)) for pattern in contender.fields.version.also)
    texts = [match[1] if match else first_match(pattern, files) for pattern, match in matches]
    return [text for text in dict.fromkeys(texts) if text]


def module_names(program: Path) -> tuple[str, ...]:
    """The names of modules in an nginx's bytes, sorted; () if they can't be read (a script, say)."""
    return tuple(sorted(set(_matches(program, _MODULE_NAME))))


def first_match(pattern: str, files: Sequence[Path]) -> str | None:
    """What a pattern's one group holds in the first of some files, or of the libraries they use, that has it."""
    compiled = re.compile(pattern)
    libraries = (library for file in files for library in linked(file))
    matches = (_matches(file, compiled) for file in itertools.chain(files, libraries))
    return next((texts[0] for texts in matches if texts), None)


def linked(file: Path) -> list[Path]:
    """The libraries that a program or module is linked with, by `ldd`; none without it."""
    try:
        output = say(("ldd", str(file)), any_status=True)
    except _AbsentError:
        return []
    return [Path(place) for place in re.findall(r"=> (/\S+)", output)]


def _matches(file: Path, pattern: re.Pattern[str]) -> tuple[str, ...]:
    """What a pattern's last group holds at each match in a file's bytes; () if it can't be read."""
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
    """The package version of a program, and of the packages beside it where it differs; "" if not dpkg's.

    The same version string of a program can hide a different build: Debian's revision tells them apart.
    """
    packages = contender.fields.install.debian
    owner = _owner(program, (*packages, program.name, program.resolve().name))
    status = _DPKG / "status"
    versions = _dpkg_versions(status.stat().st_mtime_ns) if owner and status.exists() else {}
    if owner is None or owner not in versions:
        return ""
    version = versions[owner]
    others = [f"{name} {versions[name]}" for name in packages if versions.get(name, version) != version]
    return "; ".join([version, *others])


def _owner(program: Path, candidates: Sequence[str]) -> str | None:
    """Which of some packages brought a program. Reads dpkg's own lists: `dpkg-query -S` takes 100 ms."""
    places = {os.path.realpath(program), str(program)}
    wanted = places | {place.removeprefix("/usr") for place in places}  # lists from before the merge of /usr
    for name in dict.fromkeys(candidates):
        for file in [_DPKG / "info" / f"{name}.list", *(_DPKG / "info").glob(f"{name}:*.list")]:
            if file.exists() and wanted & set(file.read_text(errors="replace").splitlines()):
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
