"""A first ``dragstrip.toml``: what a repository's own files tell about how its server is built and started."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from dragstrip import paths
from dragstrip.contender.definition import toml
from dragstrip.revision.project import toml_text

#: Bytes of a file that is read, and files of a program that are looked at.
MAX_BYTES, MAX_FILES = 2**20, 10_000

#: Sources that can read a variable, and folders whose sources are not the server's own.
_SOURCE = re.compile(
    r".*\.(cjs|cs|exs?|go|java|js|kts?|mjs|php|properties|py|rb|rs|ru|scala|sh|ts)|application.*\.ya?ml"
)
_FOREIGN = frozenset({"__pycache__", "build", "dist", "node_modules", "spec", "target", "test", "tests", "vendor"})

#: How the languages read the variable PORT: process.env.PORT, os.Getenv("PORT"), os.environ.get("PORT"),
#: env::var("PORT"), ENV.fetch("PORT"), System.getenv("PORT"), $_SERVER['PORT']; ${PORT:8080} in settings and scripts.
#: Repetitions are bounded: a stranger's file of one long line must not take minutes.
_READS_PORT = re.compile(
    r"(?:[Ee]nv(?:iron\w{0,20})?|ENV|_SERVER)(?:\(\))?(?:\.get|\.fetch|::var(?:_os)?)?"
    r"\s*[\[(.]\s*[\"']?PORT\b"
    r"|\{[^{}\n]{0,200}\bPORT\b[^{}\n]{0,200}\}\s{0,9}=\s{0,9}process\.env\b"
)
_READS_PORT_IN_SETTINGS = re.compile(r"\$\{?PORT\b")

#: The program that installs what package.json names, by its lock file.
_NODE_LOCKS = {
    "package-lock.json": ("npm", "npm ci"),
    "pnpm-lock.yaml": ("pnpm", "pnpm install --frozen-lockfile"),
    "yarn.lock": ("yarn", "yarn install --frozen-lockfile"),
}

_VENV = ".dragstrip-venv/bin/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a repository's files suggest; "" where they tell nothing.

    Args:
        found: the files that told it, in words. build: a shell command. serve: a command as typed into a terminal,
            with ``{port}`` if no file reads the variable PORT.
        reads_port: a file that reads PORT. cache_by: commands whose output belongs to a build.
        files: patterns of the files that matter.
    """

    found: str
    build: str = ""
    serve: str = ""
    reads_port: str = ""
    cache_by: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def draft(folder: Path) -> Draft:
    """What the files of a repository suggest.

    A Procfile names the start command itself; a Dockerfile does, for its image, and counts only if nothing else does.
    """
    reads_port = _reads_port(folder)
    made = _first(
        folder,
        ("Cargo.toml", _cargo), ("go.mod", _go), ("package.json", _node), ("pyproject.toml", _python),
        ("requirements.txt", _requirements), ("Makefile", _make),
    )  # fmt: skip
    made = made or Draft(found="")
    stated = _first(folder, ("Procfile", _procfile))
    if stated is None and not made.serve:
        stated = _first(folder, ("Dockerfile", _docker))
    if stated is not None:
        found = " and ".join(filter(None, (made.found, stated.found)))
        made = replace(made, found=found, serve=_as_built(stated.serve, made.build))
    if not made.found:
        return made
    return replace(made, reads_port=reads_port, serve=_without_port(made.serve) if reads_port else made.serve)


def _first(folder: Path, *readers: tuple[str, Callable[[Path], Draft]]) -> Draft | None:
    """What the first of some files suggests that is there and can be read."""
    for name, read in readers:
        if (folder / name).is_file():
            # A file that can't be read, or has another form, tells nothing.
            with suppress(OSError, ValueError, TypeError, AttributeError, LookupError, RecursionError):
                return read(folder)
    return None


def _without_port(serve: str) -> str:
    return re.sub(r" --?port \{port\}$", "", serve)


def _as_built(serve: str, build: str) -> str:
    """A stated command, with the program that our build makes: Heroku's Go has bin/NAME, a venv is not on PATH."""
    if ".dragstrip-server" in build:
        return re.sub(r"^(\./)?bin/\S+", "./.dragstrip-server", serve)
    if _VENV in build and re.match(r"[\w.-]+( |$)", serve) and not re.match(r"(cd|exec|export|sh|bash) ", serve):
        return _VENV + serve
    return serve


def _sources(folder: Path) -> Iterator[tuple[str, str]]:
    """Names and texts of the sources below a folder, in one order; those of hidden and foreign folders are left out."""
    names = (
        (Path(place) / name).relative_to(folder).as_posix()
        for place, _, files in itertools.islice(_own_folders(folder), MAX_FILES)
        for name in sorted(files)
        if _SOURCE.fullmatch(name) and not re.search(r"[._-](test|spec)\.\w+$", name)
    )
    for name in itertools.islice((name for name in names if name.isprintable()), MAX_FILES):
        with suppress(ValueError):  # a file that can't be read tells nothing
            yield name, paths.read_beside(folder, name, MAX_BYTES).decode("utf-8", "replace")


def _own_folders(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _FOREIGN and not name.startswith("."))
        yield place, folders, files


def _reads_port(folder: Path) -> str:
    """The first source that reads the variable PORT; "" if none does."""
    for name, content in _sources(folder):
        settings = name.endswith((".sh", ".properties", ".yml", ".yaml"))
        if (_READS_PORT_IN_SETTINGS if settings else _READS_PORT).search(content):
            return name
    return ""


def text(draft: Draft, *, build: str, serve: str, workloads: tuple[str, ...], threshold: str) -> str:
    """The content of a dragstrip.toml."""
    lines = ["# How a commit of this repository becomes a running server, for `dragstrip diff` (docs/diff.md).", ""]
    if draft.files:
        lines += ["# Commits that differ only in other files are not raced.", f"files = {_list(draft.files)}", ""]
    if build:
        lines += ["[build]", f"command = {toml_text(build)}"]
        lines += [f"cache_by = {_list(draft.cache_by)}"] if draft.cache_by else []
        lines += [""]
    lines += ["[serve]"]
    if draft.reads_port and "{port}" not in serve:
        lines += [f"# {draft.reads_port} reads PORT, which is a free port in each launch."]
    lines += [f"command = {toml_text(serve)}", ""]
    lines += [
        "[race]",
        '# Names of workloads, workload files, or paths like "/users/1".',
        f"workloads = {_list(workloads)}",
    ]
    lines += [f"fail_if = {_list((threshold,))}"] if threshold else []
    return "\n".join(lines) + "\n"


def _text(folder: Path, name: str) -> str:
    """A file of the repository, which may be anything that can be committed.

    Raises:
        ValueError: it is not a regular file of it, is too long, or is not UTF-8.
    """
    return paths.read_beside(folder, name, MAX_BYTES).decode("utf-8")


def _cargo(folder: Path) -> Draft:
    content = toml(_text(folder, "Cargo.toml"))
    binaries = [str(part.get("name", "")) for part in content.get("bin", [])]
    name = (binaries or [str(content.get("package", {}).get("name", ""))])[0]
    return Draft(
        found="Cargo.toml",
        build="cargo build --release" + (" --locked" if (folder / "Cargo.lock").is_file() else ""),
        serve=f"./target/release/{name} --port {{port}}" if name else "",
        cache_by=("rustc --version",),
        files=("*.rs", "Cargo.toml", "Cargo.lock", "*/Cargo.toml"),
    )


def _go(folder: Path) -> Draft:
    mains = [
        Path(name).parent.as_posix()
        for name, content in _sources(folder)
        if name.endswith(".go") and re.search(r"^package main\b", content, re.MULTILINE)
    ]
    mains.sort()
    package = "." if "." in mains or not mains else shlex.quote(f"./{mains[0]}")
    return Draft(
        found="go.mod",
        build=f"go build -o .dragstrip-server {package}",
        serve="./.dragstrip-server -port {port}",
        cache_by=("go version",),
        files=("*.go", "go.mod", "go.sum"),
    )


def _node(folder: Path) -> Draft:
    content = json.loads(_text(folder, "package.json"))
    scripts = content.get("scripts", {}) if isinstance(content.get("scripts"), dict) else {}
    locks = (programs for lock, programs in _NODE_LOCKS.items() if (folder / lock).is_file())
    program, install = next(locks, ("npm", "npm install"))
    steps = [install] if content.get("dependencies") or content.get("devDependencies") else []
    steps += [f"{program} run build"] if "build" in scripts else []
    entry = shlex.quote(str(content.get("main", "index.js")))
    return Draft(
        found="package.json",
        build=" && ".join(steps),
        serve=f"{program} start" if "start" in scripts else f"node {entry}",
        cache_by=("node --version",),
        files=("*.js", "*.mjs", "*.cjs", "*.ts", "package.json", *_NODE_LOCKS),
    )


def _python(folder: Path) -> Draft:
    content = toml(_text(folder, "pyproject.toml"))
    program = next(iter(content.get("project", {}).get("scripts", {})), "")
    modules = sorted(file.parent.name for at in (".", "src") for file in (folder / at).glob("*/__main__.py"))
    program = program or (f"python -m {shlex.quote(modules[0])}" if modules else "")
    return _python_draft("pyproject.toml", ".", f"{_VENV}{program} --port {{port}}" if program else "")


def _requirements(folder: Path) -> Draft:
    program = next((name for name in ("app.py", "main.py", "server.py") if (folder / name).is_file()), "")
    serve = f"{_VENV}python {program} --port {{port}}" if program else ""
    return _python_draft("requirements.txt", "-r requirements.txt", serve)


def _python_draft(found: str, installed: str, serve: str) -> Draft:
    return Draft(
        found=found,
        build=f"python3 -m venv .dragstrip-venv && {_VENV}pip install --quiet {installed}",
        serve=serve,
        cache_by=("python3 --version",),
        files=("*.py", "pyproject.toml", "requirements*.txt"),
    )


def _make(folder: Path) -> Draft:
    rules = re.findall(r"^([A-Za-z0-9_.-]+)\s*:(?!=)", _text(folder, "Makefile"), re.MULTILINE)
    target = next((name for name in ("build", "release", "all") if name in rules), "")
    return Draft(found="Makefile", build=f"make {target}".strip())


def _procfile(folder: Path) -> Draft:
    """The command of the process type ``web`` (Heroku, "The Procfile")."""
    kinds = dict(re.findall(r"^(\w+):(.*)$", _text(folder, "Procfile"), re.MULTILINE))
    return Draft(found="Procfile", serve=kinds["web"].strip())


def _docker(folder: Path) -> Draft:
    """The start command of an image: a list, or a line for a shell (Dockerfile reference, CMD and ENTRYPOINT).

    The last one of the last stage counts; a line as ENTRYPOINT ignores CMD.
    """
    stated: dict[str, str] = {}
    whole = re.sub(r"[ \t]{0,9}\\[ \t]{0,9}\n[ \t]{0,80}", " ", _text(folder, "Dockerfile"))
    for line in whole.splitlines():
        instruction, _, rest = line.strip().partition(" ")
        if instruction.upper() == "FROM":
            stated = {}
        elif instruction.upper() in ("ENTRYPOINT", "CMD"):
            stated[instruction.upper()] = rest.strip()
    entry, command = stated.get("ENTRYPOINT", "[]"), stated.get("CMD", "[]")
    if not entry.startswith("["):
        serve = entry
    elif command.startswith("["):
        serve = shlex.join(str(word) for words in (entry, command) for word in json.loads(words))
    else:
        serve = command if entry == "[]" else ""  # the image's program would get a shell and its line as arguments
    return Draft(found="Dockerfile" if serve else "", serve=serve)


def _list(texts: tuple[str, ...]) -> str:
    return f"[{', '.join(map(toml_text, texts))}]"
