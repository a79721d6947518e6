"""The measuring code as hashes: what measured pages rest on, today and at each commit.

A hash covers the statements of a folder's files. Comments, docstrings and blank lines don't count, so that a
rewording makes no page older. Files are read from the checkout, or from git's objects for an earlier commit.
"""

from __future__ import annotations

import ast
import hashlib
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

ENGINE, ANALYSIS, RACING, VALIDITY = (
    "crates/engine/src",
    "src/dragstrip/analysis",
    "src/dragstrip/racing",
    "src/dragstrip/validity",
)

#: Folders whose change can change a measured number or a verdict.
FOLDERS = (ENGINE, ANALYSIS, RACING, VALIDITY)

PROFILE, SAMPLER = "src/dragstrip/profile", "crates/profile/src"

#: Folders whose change can change what `dragstrip why` finds.
CAUSES = (ANALYSIS, PROFILE, SAMPLER)

_ALL = (*FOLDERS, PROFILE, SAMPLER)

_ENDINGS = (".py", ".rs")


def statements(name: str, text: str) -> str:
    """A source file without comments that have a line of their own, docstrings, blank lines and indents."""
    lines = text.splitlines()
    if name.endswith(".py"):
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if ast.get_docstring(node, clean=False) is not None:
                first, last = node.body[0].lineno, node.body[0].end_lineno or node.body[0].lineno
                lines[first - 1 : last] = [""] * (last - first + 1)
    comment = "#" if name.endswith(".py") else "//"
    return "\n".join(line.strip() for line in lines if line.strip() and not line.strip().startswith(comment))


@cache
def _digest(name: str, text: str) -> str:
    return hashlib.sha256(f"{name}\n{statements(name, text)}".encode()).hexdigest()


def _folder_digest(files: Mapping[str, str]) -> str:
    """A folder's hash from its files' texts by path: 12 hexadecimal digits."""
    return hashlib.sha256("".join(_digest(name, files[name]) for name in sorted(files)).encode()).hexdigest()[:12]


def today(folders: Iterable[str] = _ALL) -> dict[str, str]:
    """Each folder's hash in this checkout."""
    found = {}
    for folder in folders:
        paths = [path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in _ENDINGS]
        found[folder] = _folder_digest({str(path.relative_to(ROOT)): path.read_text("utf-8") for path in paths})
    return found


@cache
def state(folders: tuple[str, ...] = FOLDERS) -> str:
    """Folders' code in one word, as it was when the program first asked: 8 hexadecimal digits."""
    return hashlib.sha256("".join(today(folders).values()).encode()).hexdigest()[:8]


def at(commit: str) -> dict[str, str]:
    """Each folder's hash at a commit; empty if the commit does not exist here, or a file of it can't be parsed."""
    texts: dict[str, dict[str, str]] = {folder: {} for folder in _ALL}
    for line in git("ls-tree", "-r", commit, "--", *_ALL).splitlines():
        head, _, name = line.partition("\t")
        folder = next(folder for folder in _ALL if name.startswith(f"{folder}/"))
        if name.endswith(_ENDINGS):
            texts[folder][name] = _blob(head.split()[2])
    try:
        return {folder: _folder_digest(files) for folder, files in texts.items()} if any(texts.values()) else {}
    except SyntaxError:
        return {}


@cache
def _blob(identifier: str) -> str:
    return git("cat-file", "blob", identifier)


def git(*words: str) -> str:
    """What git prints; empty if git fails or does not exist."""
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def head() -> str:
    """The checkout's commit, in eight digits; empty without git."""
    return git("rev-parse", "--short=8", "HEAD").strip()


def uncommitted() -> bool:
    """Whether the measuring code differs from the commit."""
    return bool(git("status", "--porcelain", "--", *_ALL).strip())


def history_is_whole() -> bool:
    """Whether every commit since the first is in this clone."""
    return git("rev-parse", "--is-shallow-repository").strip() == "false"


@cache
def in_history(commit: str) -> bool:
    """Whether a commit belongs to the history of the checkout's commit."""
    base = git("merge-base", commit, "HEAD").strip()
    return bool(base) and base == git("rev-parse", f"{commit}^{{commit}}").strip()


def with_this_code(code: Mapping[str, str], newest: int = 60) -> str:
    """The newest commit of the history whose measuring code has these hashes; empty if the newest 60 have not."""
    for commit in git("log", f"-{newest}", "--format=%h", "--abbrev=8", "--", *_ALL).split():
        if code.items() <= at(commit).items():
            return commit
    return ""
