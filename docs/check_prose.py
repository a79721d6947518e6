"""Spelling, style and references of documents, help, messages, docstrings and comments: `make prose`.

    python docs/check_prose.py

A misspelt word (by codespell; ``docs/spelling.txt`` lists what it must let pass: tests misspell names on purpose) is an
error: the exit code is 1. All else is advice, of which good English may make nothing: sentences of more than 35 words,
lines of more than 100 characters, the words of CONTRIBUTING's "How we write", and files and names in backquotes that
the sources don't have. Tables, code, links and what a program wrote between ``begin`` and ``end`` marks are left out.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "dragstrip"

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


def sources(*folders: str) -> list[Path]:
    """Python files of these folders, without the package's data."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py*"))
    return sorted(path for path in found if path.suffix in (".py", ".pyi") and "/data/" not in path.as_posix())


def long_docstrings() -> list[str]:
    """Sentences of too many words in docstrings of modules, public classes and public functions."""
    found = []
    for path in sources("src/dragstrip"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                continue
            if getattr(node, "name", "").startswith("_"):
                continue
            for paragraph in re.split(r"\n\s*\n|\n\s*(?=[-*] |\w+(?:, \w+)*: )|:\n", ast.get_docstring(node) or ""):
                if paragraph.lstrip("\n").startswith(("    ", "\b")):  # an example, or a table of the help
                    continue
                place = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"
                flat = " ".join(paragraph.split())
                found += [f"{place}: {words(one)} words: {one}" for one in split(flat) if words(one) > MAX_WORDS]
    return found


#: What a native engineer would rarely write, and what would do instead: everywhere.
HABITS = {
    r"\b(?:is|are|was|were) no\b(?! (?:longer|more|less|fewer|later|sooner|slower|faster)\b)": "is not a valid X",
    r"\b[Ss]o (?:many|long)\b(?! as\b)": "name the number or the duration",
    r"\b[Ww]hom\b|\b(?:[Nn]obody|[Ss]omebody)\b": "name the program or the person",
    r"\b(?:[Aa]new|[Ll]ikewise|[Bb]esides)\b": "again, similarly, also",
    r"\b(?:is|are|was|were) told\b": "is shown, is set",
    r"\bunder way\b|\bturn-round\b": "in flight, during; turnaround",
}

#: Further ones in the package's docstrings and comments, and in all that users read.
PACKAGE_HABITS = HABITS | {
    r"\b(?:falls?|fell|fallen) out\b": "is taken out",
    r"\b(?:as ever|all the same)\b": "as before, anyway",
    r"\btold apart\b|\bturned round\b": "separated",
    r"\b[Mm]eanwhile\b": "during",
    r"\b(?:right|wrong|plain) answers?\b|\banswers? (?:rightly|wrongly|right)\b": "a correct or reference response",
    r"\b(?:requests?|answers?|responses?|connections?|handshakes?) a second\b": "per second",
    r"\b(?:is|are|was|were) asked\b": "is sent, is requested",
    r"\bplant(?:s|ed)?\b": "injected",
}

#: Further ones on pages, in help and in messages.
READER_HABITS = PACKAGE_HABITS | {
    r"(?:^|[.;:] )Where\b[^?]*,": "if, when",
    r"\b(?:Whoever|whoever)\b|\b[Ww]ho\b(?<!user who)(?<!engineer who)": "which",
    r"\b[Aa]nybody\b": "any contender",
    r"\b(?:told|tells?|fore(?:told|tells?))\b": "shown, reports, predicts",
    r"\b[Ww]hole handshakes?\b|\bin the clear\b": "full handshake; unencrypted, without TLS",
    r"(?<!-)\b[Bb]eside\b": "next to, in addition to, during",
    r"(?:^|[.;] )Else\b|[;,] else\b": "otherwise",
    r", too\b(?! (?:much|little|many|few|long|late|early)\b)": "also",
    r"\bof (?:which|whom)\b": "two sentences",
    r"(?<!-)\bstands?\b(?!-in)|\bstood\b": "is, is listed, is valid",
    r"\bwant(?:s|ed)?\b": "needs, requires",
    r"(?:^|[.;] )Of\b": "begin with the noun",
    r"\b(?:go(?:es)?|went|going) on\b": "continues",
    r"\bfound out\b|\bcut off\b": "is detected, is interrupted",
    r"\b(?:at the most|in earnest|by heart|for ever)\b": "at most, forever",
    r"\b(?:has|have) none\b": "does not have one",
}

#: First words of a help line that lacks its verb or noun.
HEADLESS = re.compile(r"(?:Of|For|Or|As|To|That|Whose|What|Where|Who)\b(?! \.hgrm)")

#: Values of records, which keep their names, and words by which the site searches.
LABELS = {"cut off", "go on", "wrong answers", "running cut off"}


def habits_in(text: str, habits: Mapping[str, str] = HABITS) -> list[str]:
    """Each habit in a text, with its replacement; code, texts in «» and addresses of links are left out."""
    plain = re.sub(r"``[^`]*``|`[^`]*`|«[^»]*»|\]\([^)]*\)", "", text)
    return [f"{match[0]!r}: {instead}" for habit, instead in habits.items() for match in re.finditer(habit, plain)]


def help_texts() -> Iterator[tuple[str, str]]:
    """The help of every command and option, after the words that show it."""
    import click

    from dragstrip.commands.main import cli

    def within(group: click.Group, path: str) -> Iterator[tuple[str, str]]:
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield f"{path} {name}", command.help or ""
            options = (one for one in command.params if isinstance(one, click.Option))
            yield from ((f"{path} {name} {one.opts[0]}", one.help or "") for one in options)
            if isinstance(command, click.Group):
                yield from within(command, f"{path} {name}")

    return within(cli, "dragstrip")


def messages(path: Path) -> Iterator[tuple[int, str]]:
    """Each text in a source that is not a docstring and has more than one word, with its line."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docstrings]
    for node in texts:
        if isinstance(node.value, str) and " " in node.value.strip() and node.value not in LABELS:
            yield node.lineno, node.value


def notes(path: Path) -> Iterator[tuple[int, str]]:
    """Each line of a source's docstrings and comments, with its number."""
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from enumerate(node.value.value.split("\n"), node.lineno)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def prose_and_tables(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a page that a person wrote, with their numbers from 1: prose, and rows of tables."""
    generated = code = False
    for number, line in enumerate(text.splitlines(), start=1):
        generated = generated or bool(re.match(r"<!-- .*: ?begin -->", line))
        code = code != line.lstrip().startswith("```")
        if not generated and not code:
            yield number, line
        generated = generated and not re.match(r"<!-- .*: ?end -->", line)


def habits() -> list[str]:
    """Habits in help, messages, docstrings, comments and pages, each with its place."""
    found = []
    for place, text in help_texts():
        found += [f"{place}: {fault}" for fault in habits_in(text, READER_HABITS)]
        if HEADLESS.match(text):
            found.append(f"{place}: begins with {text.split()[0]}")
    for path in sources("src/dragstrip", "tests", "benchmarks", "docs", "packaging"):
        ours = path.is_relative_to(PACKAGE)
        texts = [(line, text, PACKAGE_HABITS if ours else HABITS) for line, text in notes(path)]
        texts += [(line, text, READER_HABITS) for line, text in messages(path)] if ours else []
        name = path.relative_to(ROOT)
        found += [f"{name}:{line}: {fault}" for line, text, known in texts for fault in habits_in(text, known)]
    for page in pages():
        name, lines = page.relative_to(ROOT), prose_and_tables(page.read_text(encoding="utf-8"))
        found += [f"{name}:{line}: {fault}" for line, text in lines for fault in habits_in(text, READER_HABITS)]
    return found


#: What pages name in backquotes although this checkout lacks it, and why.
ELSEWHERE = {
    "runs/latest.html": "`make race` writes it",
    "package.json": "a contender's own file",
}

#: Where a path on a page may begin.
ROOTS = (
    *("", "docs/", "src/dragstrip/", "src/dragstrip/data/"),
    *(f"crates/engine/{folder}" for folder in ("", "src/", "src/worker/", "tests/")),
)

A_PATH = re.compile(r"(?:[\w.-]+/)+[\w.-]+\.(?:py|rs|md|toml|sql|yml|txt|jsonl|html)")
A_SYMBOL = re.compile(r"_?[A-Z][a-z]+(?:[A-Z][a-z]+)+|[a-z]+(?:_[a-z0-9]+)+(?:\(\))?|[A-Z]+(?:_[A-Z]+)+")

#: Pages about code, whose words in backquotes are names in the sources.
ABOUT_CODE = ("ARCHITECTURE.md", "CONTRIBUTING.md", "ENGINE.md", "testing.md")


def gone() -> list[str]:
    """Files, classes, functions, constants and fields in backquotes that the checkout does not have."""
    kinds = ("src/**/*.py", "crates/**/*.rs", "tests/**/*.py", "benchmarks/*.py", "docs/*.py", "src/**/*.toml")
    files = [path for kind in kinds for path in ROOT.glob(kind) if path != Path(__file__).resolve()]
    known = {
        word
        for path in [*files, ROOT / "Makefile", ROOT / "pyproject.toml"]
        for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))
    }
    found = []
    for page in (page for page in pages() if page.name != "CHANGELOG.md"):
        plain = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for word in sorted(set(re.findall(r"`([^`\n]+)`", plain))):
            pattern = re.sub(r"NAME|YEAR|(?<=_)N(?=\.)", "*", word)
            path = A_PATH.fullmatch(word) and word not in ELSEWHERE
            symbol = page.name in ABOUT_CODE and A_SYMBOL.fullmatch(word)
            if (path and not any(next(ROOT.glob(root + pattern), None) for root in ROOTS)) or (
                symbol and word.rstrip("()") not in known
            ):
                found.append(f"{page.relative_to(ROOT)}: {word} is not in the sources")
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


def advice() -> list[str]:
    """All that a writer may look at: long sentences and lines, habits, names that are gone."""
    return [
        *(one for page in STRICT for one in (*long_lines(page), *long_sentences(page))),
        *long_docstrings(),
        *habits(),
        *gone(),
    ]


def main() -> None:
    """Prints advice and errors, a line each; the exit code is 1 if a word is misspelt."""
    advised, wrong = advice(), misspelt()
    print("\n".join([*(f"advice: {one}" for one in advised), *wrong]))
    print(f"{len(STRICT)} pages, {len(advised)} times advice, {len(wrong)} words misspelt")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
