"""Spelling and style of the documents: `make prose`.

    python docs/check_prose.py

On pages, sentences have at most 35 words and lines at most 100 characters. Sentences in docstrings of modules, public
classes and public functions have at most 35 words. Tables, code, links and what a program wrote between
``begin`` and ``end`` marks are left out. codespell finds misspelt words; ``docs/spelling.txt`` lists those that it must
let pass: tests misspell names on purpose.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

#: Maximum number of words in a sentence, and of characters in a line.
MAX_WORDS, MAX_CHARACTERS = 35, 100

#: An end of a sentence: its stop, what closes after it, a blank, and how the next one begins.
_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"”)*_`]))\s+(?=[\"“(*_\[]*[`A-ZΑ-Ωλ0-9])")
_ABBREVIATED = re.compile(r"\b(e\.g|i\.e|cf|vs|etc|No|p|ch)\.\s")


def pages() -> list[Path]:
    """Every page that a person writes."""
    top = (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))
    return sorted([*top, *(ROOT / "docs").rglob("*.md")])


#: Pages with sentences and lines of limited length: all but one that a program writes.
STRICT = tuple(page for page in pages() if page.name != "CLAIMS.md")


def written(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a page that a person wrote as prose, with their numbers from 1; "" stands for what is left out."""
    code = generated = indented = False
    before = ""
    for number, line in enumerate(text.splitlines(), start=1):
        indented = line.startswith("    ") and (indented or not before.strip())
        before = line
        if re.match(r"<!-- .*: ?begin -->", line):
            generated = True
        if line.lstrip().startswith("```"):
            code = not code
            yield number, ""
        elif generated or code or indented or line.lstrip().startswith(("|", "<", "![")):
            yield number, ""
        else:
            yield number, line
        if re.match(r"<!-- .*: ?end -->", line):
            generated = False


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Each sentence of a page with the number of the line that its paragraph begins on."""
    block: list[str] = []
    first = 0
    for number, line in [*written(text), (0, "")]:
        begins = not line.strip() or re.match(r"\s*([-*]|\d+\.)\s|#", line)
        if begins and block:
            yield from ((first, sentence) for sentence in split(" ".join(block)))
            block = []
        if line.strip():
            first = number if not block else first
            block.append(line.strip())
        if line.startswith("#"):
            yield from ((first, sentence) for sentence in split(" ".join(block)))
            block = []


def split(paragraph: str) -> list[str]:
    """A paragraph's sentences."""
    plain = re.sub(r"\]\([^)]*\)", "]", paragraph)
    plain = _ABBREVIATED.sub(r"\1 ", plain)
    return [part for part in _END.split(plain) if part and part.strip()]


def words(sentence: str) -> int:
    """How many words a sentence has; what stands in backquotes is one word."""
    plain = re.sub(r"`+[^`]*`+", "code", sentence)
    return len([part for part in plain.split() if re.search(r"\w", part)])


def long_sentences(path: Path) -> list[str]:
    """A page's sentences of too many words, each with its place."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {count} words: {sentence}"
        for number, sentence in sentences(path.read_text(encoding="utf-8"))
        if (count := words(sentence)) > MAX_WORDS
    ]


def long_lines(path: Path) -> list[str]:
    """A page's lines of too many characters; one that is a single word, as an address, can't be broken."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {len(line)} characters"
        for number, line in written(path.read_text(encoding="utf-8"))
        if len(line) > MAX_CHARACTERS and len(line.split()) > 2
    ]


def long_docstrings() -> list[str]:
    """Sentences of too many words in docstrings of modules, public classes and public functions."""
    found = []
    for path in sorted((ROOT / "src" / "dragstrip").rglob("*.py")):
        if "data" in path.relative_to(ROOT / "src" / "dragstrip").parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                continue
            if getattr(node, "name", "").startswith("_"):
                continue
            for paragraph in re.split(r"\n\s*\n|\n\s*(?=[-*] |\w+(?:, \w+)*: )|:\n", ast.get_docstring(node) or ""):
                if paragraph.lstrip("\n").startswith(
                    ("    ", "\b")
                ):  # shown as it is: an example, or a table of the help
                    continue
                place = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"
                flat = " ".join(paragraph.split())
                found += [f"{place}: {words(one)} words: {one}" for one in split(flat) if words(one) > MAX_WORDS]
    return found


def misspelt() -> list[str]:
    """What codespell finds in documents, docstrings and comments."""
    where = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs", "src", "crates", "tests", "benchmarks"]
    skip = "*.jsonl,*.svg,*.png,*.gz,*.so,*.ipynb,*/corpus/*,*/target/*,*.lock,*/node_modules/*,*/__pycache__/*"
    command = [sys.executable, "-m", "codespell_lib", "--skip", skip, "--ignore-words", "docs/spelling.txt", *where]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode not in (0, 65) and not done.stdout:
        raise SystemExit(f"codespell did not run: {done.stderr.strip()}; `make test-deps` installs it")
    return done.stdout.splitlines()


def main() -> None:
    """Prints what is wrong, a line each; the exit code is 1 where anything is."""
    found = misspelt()
    for path in STRICT:
        found += [*long_lines(path), *long_sentences(path)]
    found += long_docstrings()
    print("\n".join([*found, f"{len(STRICT)} pages, {len(found)} faults"]))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
