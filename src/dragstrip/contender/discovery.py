"""What of a contender's programs is here: where, in which version. Looks only; installs and builds nothing.

Programs are looked for on PATH (and in the sbin folders, which Debian leaves off a user's PATH), then in
private environments under the cache directory.
"""

from __future__ import annotations

import functools
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

from dragstrip.contender.binary import first_match, module_names
from dragstrip.contender.definition import fill, placeholders
from dragstrip.contender.fields import FILE_NAME, Alternative, Contender, texts_with_braces
from dragstrip.paths import is_file

#: Where Debian keeps servers.
_SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")

#: What a definition may name in braces of the program that loads modules, and how to ask it.
_MODULES = frozenset({"modules", "loadable", "built_in"})
_LOADER, _ASKED = "nginx", "-V"

#: Seconds that a program may take to say its version.
_SAY_S = 10.0

_DPKG = Path("/var/lib/dpkg")


class _AbsentError(Exception):
    """Something needed is not here; the message says what, ``remedy`` what would do where installing would not."""

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

    ``$DRAGSTRIP_CACHE``; else, for root, ``/var/cache/dragstrip``, because servers run as ``nobody`` and
    root's home is closed to it; else the user's own cache folder.
    """
    given = os.environ.get("DRAGSTRIP_CACHE")
    if given:
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
    """Every needed command with its place; the alternatives' programs stand in where PATH has none.

    Of several on PATH the first that says its version as expected and has the needed modules; else the first.

    Raises:
        _AbsentError: the first one that is nowhere.
    """
    found = {}
    for name in contender.fields.needs.commands:
        if name in contender.places:
            found[name] = _given_program(contender.places[name])
            continue
        everywhere = _on_path(name)
        first = everywhere[0] if everywhere else _in_environments(contender, name)
        place = next((one for one in everywhere if len(everywhere) > 1 and _suits(contender, name, one)), first)
        if place is None:
            raise _AbsentError(f"`{name}` is neither on PATH nor in a private environment")
        found[name] = place
    return found


def _on_path(name: str) -> list[Path]:
    """Every program of that name on PATH and in the sbin folders, in that order."""
    folders = [*os.environ.get("PATH", os.defpath).split(os.pathsep), *_SBIN]
    places = (shutil.which(name, path=folder) for folder in folders if folder)
    return list(dict.fromkeys(Path(place) for place in places if place))


def _given_program(path: str) -> Path:
    place = Path(path)
    if not place.is_file() or not os.access(place, os.X_OK):
        raise _AbsentError(f"{place} is not an executable program", "give the path of one")
    return place


def _in_environments(contender: Contender, name: str) -> Path | None:
    install = contender.fields.install
    own = Alternative(pip=install.pip, npm=install.npm)
    for way in (own, *install.alternatives):
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
    """Where an nginx's modules are, which of them lie there and which are part of it.

    Without --modules-path they are in the folder `modules` of its prefix (nginx's own auto/options). Part of it is
    what its own bytes name; a script that stands for it has only the folders of `nginx -V`, whose names say less.

    Args:
        given: the folder that the user named; "" if none.
    """
    output = say((str(program), _ASKED))
    if "configure arguments" not in output and not given:
        return {"modules": "", "loadable": "", "built_in": ""}
    prefix = re.search(r"--prefix=(\S+)", output)
    path = re.search(r"--modules-path=(\S+)", output)
    folder = given or str(Path(prefix[1] if prefix else "/usr/local/nginx") / (path[1] if path else "modules"))
    added = [Path(one) for one in re.findall(r"--add-module=(\S+)", output)]
    built_in = {*module_names(program), *(one.name for one in added), *filter(None, map(_own_name, added))}
    return {
        "modules": folder,
        "loadable": " ".join(sorted(one.name for one in Path(folder).glob("*.so"))),
        "built_in": " ".join(sorted(built_in)),
    }


def _own_name(source: Path) -> str:
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
        with tempfile.TemporaryDirectory(prefix="dragstrip-", ignore_cleanup_errors=True) as own:
            return subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_SAY_S,
                # C.UTF-8: programs that speak the user's language would say it otherwise
                env={**os.environ, "LC_ALL": "C.UTF-8", "TMPDIR": own},
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
    folder = python_of(contender).parent.parent
    for module in contender.fields.needs.python:
        pattern = f"lib/python3*/site-packages/{module.replace('.', '/')}"
        if not python_of(contender).exists() or not (any(folder.glob(pattern)) or any(folder.glob(f"{pattern}.py"))):
            raise _AbsentError(f"Python's `{module}` is not in its private environment {folder}")


def _remedy(contender: Contender) -> str:
    install = contender.fields.install
    ways = []
    if install.debian or install.pip or install.npm or install.alternatives:
        asking = f" --workload {contender.asking}" if contender.asking else ""
        own = contender.folder if contender.source.file.name == FILE_NAME else contender.source.file
        word = contender.name if contender.shipped else shlex.quote(str(own))
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
        raise _AbsentError(
            f"`{' '.join(command)}` doesn't say a version that matches {wanted.pattern!r}: {output!r}",
            _another_program(contender, asked),
        )
    version, output = answer
    beside = [_debian_versions(contender, program), *_parts(contender, program, output, values)]
    return f"{version} ({'; '.join(filter(None, beside))})" if any(beside) else version


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
    found = []
    for pattern in contender.fields.version.also:
        match = re.search(pattern, output)
        found.append(match[1] if match else first_match(pattern, files))
    return [text for text in dict.fromkeys(found) if text]


def _another_program(contender: Contender, name: str) -> str:
    """What would do where a program isn't the expected one: for a shipped definition never to edit it."""
    if not contender.shipped:
        return f"correct [version] in {contender.source.file}"
    key = next((key for key, stands in contender.place_keys().items() if stands == name), name)
    return f"`--set {contender.name}.{key}=/path/to/{name}` names another `{name}`, or put one before it on PATH"


def _python_package_version(contender: Contender, package: str) -> str:
    folder = python_of(contender).parent.parent
    sites = [str(site) for site in folder.glob("lib/python3*/site-packages")]
    found = next(iter(distributions(name=package, path=sites)), None)
    if found is None:
        raise _AbsentError(f"Python's package `{package}` is not in its private environment {folder}")
    python = re.search(r"^version\s*=\s*(\S+)", (folder / "pyvenv.cfg").read_text(), re.MULTILINE)
    return f"{found.version} (Python {python[1]})" if python else found.version


def _debian_versions(contender: Contender, program: Path) -> str:
    """The package version of a program, and of the packages beside it where it differs; "" if not dpkg's.

    The same version string of a program can hide a different build: Debian's revision tells them apart.
    """
    packages = contender.fields.install.debian
    owner = _owner(program, (*packages, program.name, program.resolve().name))
    versions = _dpkg_versions(_dpkg_state()) if owner else {}
    if owner is None or owner not in versions:
        return ""
    own = versions[owner]
    beside = [f"{name} {versions[name]}" for name in packages if versions.get(name, own) != own]
    return "; ".join([own, *beside])


def _owner(program: Path, candidates: Sequence[str]) -> str | None:
    """Which of some packages brought a program. Reads dpkg's own lists: `dpkg-query -S` takes 100 ms."""
    places = {os.path.realpath(program), str(program)}
    wanted = places | {place.removeprefix("/usr") for place in places}  # lists from before the merge of /usr
    for name in dict.fromkeys(candidates):
        for file in [_DPKG / "info" / f"{name}.list", *(_DPKG / "info").glob(f"{name}:*.list")]:
            if file.exists() and wanted & set(file.read_text(errors="replace").splitlines()):
                return name
    return None


def _dpkg_state() -> int:
    try:
        return (_DPKG / "status").stat().st_mtime_ns
    except OSError:
        return 0


@functools.lru_cache(maxsize=2)
def _dpkg_versions(_state: int) -> dict[str, str]:
    """Every installed package's version, from dpkg's status file."""
    try:
        text = (_DPKG / "status").read_text(errors="replace")
    except OSError:
        return {}
    entry = re.compile(r"^Package: (\S+)\nStatus: \S+ \S+ installed\n(?:.+\n)*?Version: (\S+)$", re.MULTILINE)
    return dict(entry.findall(text))
