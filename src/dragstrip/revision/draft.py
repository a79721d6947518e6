"""A first ``dragstrip.toml``: what a repository's own files tell about how its server is built and started."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import tomllib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dragstrip import paths
from dragstrip.revision.project import toml_text

#: Bytes of a file that is read, and files of a program that are looked at.
MAX_BYTES, MAX_FILES = 2**20, 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a repository's files suggest; "" where they tell nothing.

    Args:
        found: the file that told it. build: a shell command. serve: a command with ``{port}``.
        cache_by: commands whose output belongs to a build. files: patterns of the files that matter.
    """

    found: str
    build: str = ""
    serve: str = ""
    cache_by: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def draft(folder: Path) -> Draft:
    """What the files of a repository suggest; a Dockerfile tells about the start only if nothing else does."""
    for file, look in (
        ("Cargo.toml", _cargo), ("go.mod", _go), ("package.json", _node), ("pyproject.toml", _python),
        ("Makefile", _make), ("Dockerfile", _docker),
    ):  # fmt: skip
        if (folder / file).is_file():
            try:
                return look(folder)
            except (OSError, ValueError, TypeError, AttributeError, LookupError, RecursionError):
                continue  # a file that can't be read, or has another form, tells nothing
    return Draft(found="")


def text(draft: Draft, *, build: str, serve: str, workloads: tuple[str, ...], threshold: str) -> str:
    """The content of a dragstrip.toml."""
    lines = ["# How a commit of this repository becomes a running server, for `dragstrip diff` (docs/diff.md).", ""]
    if draft.files:
        lines += ["# Commits that differ only in other files are not raced.", f"files = {_list(draft.files)}", ""]
    if build:
        lines += ["[build]", f"command = {toml_text(build)}"]
        lines += [f"cache_by = {_list(draft.cache_by)}"] if draft.cache_by else []
        lines += [""]
    lines += ["[serve]", f"command = {toml_text(serve)}", ""]
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
    content = tomllib.loads(_text(folder, "Cargo.toml"))
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
    mains = []
    for file in itertools.islice(folder.glob("**/*.go"), MAX_FILES):
        name = file.relative_to(folder)
        with suppress(ValueError):  # a file that can't be read tells nothing
            content = paths.read_beside(folder, str(name), MAX_BYTES).decode("utf-8", "replace")
            mains += [name.parent.as_posix()] if re.search(r"^package main\b", content, re.MULTILINE) else []
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
    steps = ["npm ci" if (folder / "package-lock.json").is_file() else "npm install"]
    steps = steps if content.get("dependencies") or content.get("devDependencies") else []
    steps += ["npm run build"] if "build" in scripts else []
    start = str(scripts.get("start", ""))
    entry = start.removeprefix("node ").strip() if start.startswith("node ") else str(content.get("main", "index.js"))
    return Draft(
        found="package.json",
        build=" && ".join(steps),
        serve=f"env PORT={{port}} node {entry}",
        cache_by=("node --version",),
        files=("*.js", "*.mjs", "*.cjs", "*.ts", "package.json", "package-lock.json"),
    )


def _python(folder: Path) -> Draft:
    content = tomllib.loads(_text(folder, "pyproject.toml"))
    scripts = content.get("project", {}).get("scripts", {})
    program = next(iter(scripts), "python -m app")
    return Draft(
        found="pyproject.toml",
        build="python3 -m venv .dragstrip-venv && .dragstrip-venv/bin/pip install --quiet .",
        serve=f".dragstrip-venv/bin/{program} --port {{port}}",
        cache_by=("python3 --version",),
        files=("*.py", "pyproject.toml", "requirements*.txt"),
    )


def _make(folder: Path) -> Draft:
    rules = re.findall(r"^([A-Za-z0-9_.-]+)\s*:(?!=)", _text(folder, "Makefile"), re.MULTILINE)
    target = next((name for name in ("build", "release", "all") if name in rules), "")
    return Draft(found="Makefile", build=f"make {target}".strip())


def _docker(folder: Path) -> Draft:
    """The start command of an image, in its list form (Dockerfile reference, CMD and ENTRYPOINT)."""
    content = _text(folder, "Dockerfile")
    lists = dict(re.findall(r"^\s*(ENTRYPOINT|CMD)\s+(\[.*\])\s*$", content, re.MULTILINE))
    words = [str(word) for key in ("ENTRYPOINT", "CMD") for word in json.loads(lists.get(key, "[]"))]
    return Draft(found="Dockerfile", serve=" ".join(words))


def _list(texts: tuple[str, ...]) -> str:
    return f"[{', '.join(map(toml_text, texts))}]"
