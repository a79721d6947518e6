"""The words of the program: what the help, the messages and the pages must not say, as far as a program can see it.

CONTRIBUTING's "How we write" has the rules; ``docs/check_prose.py`` counts words and characters.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path

import check_prose as prose
import click
import pytest

from dragstrip.cli.main import COMMANDS, cli

# The text is the same on every machine: once in `make check` is enough.
pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "dragstrip"
SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if "data" not in path.relative_to(PACKAGE).parts)

PAGES = prose.pages()


def commands(group: click.Group = cli, path: str = "dragstrip") -> Iterator[tuple[str, click.Command]]:
    """Every command with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_each_ones_first_sentence(name: str) -> None:
    """The list is shown without loading a command; it must say what the command's own help says."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.help is not None
    first = " ".join(command.help.replace("\b", "").split("\n\n")[0].split())
    assert COMMANDS[name] == re.split(r"(?<=\.) ", first)[0]


def test_every_command_and_option_has_a_help_text() -> None:
    """An option without a text is a riddle in ``--help``."""
    silent = [
        f"{words} {option.opts[0]}"
        for words, command in commands()
        for option in command.params
        if isinstance(option, click.Option) and not option.help
    ]
    assert not silent
    assert all(command.help for _, command in commands())


#: What a native engineer would not write, and what would do instead.
HABITS = {
    r"\b(?:is|are|was|were) no\b(?! (?:longer|more|less|fewer|later|sooner|slower|faster)\b)": "is not a valid X",
    r"\b[Ss]o (?:many|long)\b(?! as\b)": "name the number or the duration",
    r"\b[Ww]hom\b|\b(?:[Nn]obody|[Ss]omebody)\b": "name the program or the person",
    r"\b(?:[Aa]new|[Ll]ikewise|[Bb]esides)\b": "again, similarly, also",
    r"\b(?:is|are|was|were) told\b": "is shown, is set",
    r"\bunder way\b|\bturn-round\b": "in flight, during; turnaround",
}

#: Further habits, which docstrings and comments of the package must not have.
NOTE_HABITS = {
    r"\b(?:falls?|fell|fallen) out\b": "is taken out",
    r"\b(?:as ever|all the same)\b": "as before, anyway",
    r"\b(?:as|unless|than) told\b|\btold (?:apart|to|otherwise)\b|\bturned round\b": "as given, by default, separated",
    r"\b[Mm]eanwhile\b": "during",
    r"\b(?:right|wrong|plain) answers?\b|\banswers? (?:rightly|wrongly|right)\b": "a correct or reference response",
    r"\b(?:requests?|answers?|responses?|connections?|handshakes?) a second\b": "per second",
    r"\b(?:is|are|was|were) asked\b": "is sent, is requested",
    r"\bplant(?:s|ed)?\b": "injected",
}

#: Further habits, which pages, help and messages must not have; docstrings still have some of these words.
PAGE_HABITS = {
    r"(?:^|[.;:] )Where\b[^?]*,": "if, when",
    r"\b(?:Whoever|whoever)\b|\b[Ww]ho\b(?<!user who)(?<!engineer who)": "which",
    r"\b[Aa]nybody\b": "any contender",
    r"\b(?:right|wrong|plain) answers?\b|\banswers? (?:rightly|wrongly|right)\b": "a correct or reference response",
    r"\b(?:told|tells?)\b": "shown, reports",
    r"\b(?:requests?|answers?|responses?|connections?|handshakes?) a second\b": "per second",
    r"\b[Ww]hole handshakes?\b|\bin the clear\b": "full handshake; unencrypted, without TLS",
    r"(?<!-)\b[Bb]eside\b": "next to, in addition to, during",
    r"(?:^|[.;] )Else\b|[;,] else\b": "otherwise",
    r", too\b(?! (?:much|little|many|few|long|late|early)\b)": "also",
    r"\bof (?:which|whom)\b": "two sentences",
    r"(?<!-)\bstands?\b(?!-in)|\bstood\b": "is, is listed, is valid",
    r"\bwant(?:s|ed)?\b": "needs, requires",
    r"\b[Mm]eanwhile\b|\bfore(?:told|tells?)\b": "during; predicts",
    r"\bplant(?:s|ed)?\b": "injected",
    r"(?:^|[.;] )Of\b": "begin with the noun",
    r"\b(?:go(?:es)?|went|going) on\b": "continues",
    r"\b(?:falls?|fell|fallen) out\b|\bfound out\b|\bcut off\b": "is taken out, is detected, is interrupted",
    r"\b(?:is|are|was|were) asked\b": "is sent, is requested",
    r"\b(?:as ever|all the same|at the most|in earnest|by heart|for ever)\b": "as before, anyway, at most, forever",
    r"\btold apart\b|\bturned round\b": "separated",
    r"\b(?:has|have) none\b": "does not have one",
}

#: First words of a help line that lacks its verb or noun.
HEADLESS = re.compile(r"(?:Of|For|Or|As|To|That|Whose|What|Where|Who)\b(?! \.hgrm)")


def faults(text: str, habits: Mapping[str, str] = HABITS) -> list[str]:
    """Each habit in a text, with its replacement; code, texts in «» and addresses of links are left out."""
    plain = re.sub(r"``[^`]*``|`[^`]*`|«[^»]*»|\]\([^)]*\)", "", text)
    return [f"{match[0]!r}: {instead}" for habit, instead in habits.items() for match in re.finditer(habit, plain)]


def test_the_habits_are_seen() -> None:
    """A planted one of each is found; near ones are let through."""
    for text in ("'x' is no rate", "There is no X.", "send so many", "whom", "made anew", "is told", "under way"):
        assert faults(text), text
    for text in (
        "is no longer there",
        "is no slower",
        "as long as it runs",
        "«is no X»",
        "`nobody`",
        "told by Dragstrip",
    ):
        assert not faults(text), text
    for text in (
        "Where it works, it is used",
        "a server, who is slow",
        "the right answer",
        "is told apart",
        "20 requests a second",
        "HTTP/2 in the clear",
        "shown beside it",
        "No; else it ends",
        "also this, too",
        "blocks of which one is void",
        "it stands in the table",
        "wants two",
        "as foretold",
        "a planted fault",
        "It ends. Of all these",
        "it goes on",
        "is found out",
        "is asked twice",
        "as ever",
        "HTTP/1 has none",
    ):
        assert faults(text, PAGE_HABITS), text
    for text in (
        "the folder where it is",
        "the user who logs in",
        "the response is correct",
        "a second request",
        "anything else, too much",
        "a stand-in",
        "it is too late",
    ):
        assert not faults(text, PAGE_HABITS), text
    for text in (
        "who fell out",
        "read as ever",
        "works as told",
        "not told apart",
        "it sleeps meanwhile",
        "the first right answer",
        "20 answers a second",
        "is asked twice",
        "a planted fault",
    ):
        assert faults(text, NOTE_HABITS), text
    assert HEADLESS.match("Of the null race.")
    assert not HEADLESS.match("Time for the null race.")


def test_help_says_what_it_is_in_plain_words() -> None:
    """Every command's text, and every option's: it begins with a verb or a noun."""
    found = []
    for words, command in commands():
        texts = {"": command.help or ""}
        texts |= {one.opts[0]: one.help or "" for one in command.params if isinstance(one, click.Option)}
        for option, text in texts.items():
            found += [f"{words} {option}: {fault}" for fault in faults(text, HABITS | PAGE_HABITS)]
            if HEADLESS.match(text):
                found.append(f"{words} {option}: begins with {text.split()[0]}")
    assert not found


#: Values of records, which keep their names, and words by which the site searches.
LABELS = {"cut off", "go on", "wrong answers", "running cut off"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_messages_are_in_plain_words(path: Path) -> None:
    """Every text in a source that is not a docstring and has more than one word."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    ]
    texts = [(line, text) for line, text in texts if " " in text.strip() and text not in LABELS]
    found = [f"{line}: {fault}" for line, text in texts for fault in faults(text, HABITS | PAGE_HABITS)]
    assert not found


def notes(path: Path) -> Iterator[tuple[int, str]]:
    """Each line of a source's docstrings and comments, with its number."""
    source = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from enumerate(node.value.value.split("\n"), node.lineno)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


#: Everything with docstrings and comments: the package, its tests and its benchmarks.
NOTED = sorted(
    path
    for folder in ("src/dragstrip", "tests", "benchmarks", "docs")
    for path in (ROOT / folder).rglob("*.py*")
    if path.suffix in (".py", ".pyi") and "data" not in path.relative_to(ROOT).parts
)


@pytest.mark.parametrize("path", NOTED, ids=lambda path: str(path.relative_to(ROOT)))
def test_docstrings_and_comments_are_in_plain_words(path: Path) -> None:
    """Line by line: a habit that a line break divides is not seen."""
    habits = HABITS | NOTE_HABITS if path.is_relative_to(PACKAGE) else HABITS
    found = [
        f"{path.relative_to(ROOT)}:{line}: {fault}" for line, text in notes(path) for fault in faults(text, habits)
    ]
    assert not found


def test_a_planted_docstring_and_comment_are_seen(tmp_path: Path) -> None:
    """Also in the middle of a docstring, and behind code on its line."""
    planted = tmp_path / "planted.py"
    planted.write_text('"""Sound.\n\nThere is no such thing.\n"""\nNUMBER = 1  # so many\n', encoding="utf-8")
    assert [line for line, text in notes(planted) if faults(text)] == [3, 5]


def prose_and_tables(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a page that a person wrote, with their numbers from 1: prose, and rows of tables."""
    generated = code = False
    for number, line in enumerate(text.splitlines(), start=1):
        generated = generated or bool(re.match(r"<!-- .*: ?begin -->", line))
        code = code != line.lstrip().startswith("```")
        if not generated and not code:
            yield number, line
        generated = generated and not re.match(r"<!-- .*: ?end -->", line)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_are_in_plain_words(page: Path) -> None:
    """What a person wrote on a page, tables included; programs wrote the rest."""
    name = str(page.relative_to(ROOT))
    lines = prose_and_tables(page.read_text(encoding="utf-8"))
    found = [f"{name}:{number}: {fault}" for number, line in lines for fault in faults(line, HABITS | PAGE_HABITS)]
    assert not found


def test_a_planted_habit_in_a_table_is_seen() -> None:
    """A generated block and code are left out."""
    page = "Sound.\n\n| a | is told |\n<!-- x: begin -->\nis told\n<!-- x: end -->\n```\nis told\n```\n"
    assert [number for number, line in prose_and_tables(page) if faults(line)] == [3]
