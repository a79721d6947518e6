"""A command as people type it into a terminal, for ``--serve``: environment in front of it, or a line for a shell.

What a shell would do more than split words (``cd``, ``&&``, ``|``, ``>``, ``~``, ``$``, globs) is left to ``sh -c``
(POSIX.1-2024, XCU 2). All else is started without a shell: one process less, and its signals reach the server itself.

Values of variables whose names look secret never enter a record: the command is kept with ``NAME=…``, and the value as
a salted hash, by which a resumed race knows that it was given the same value.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dragstrip.contender.definition import fill, nearest, placeholders
from dragstrip.contender.fields import DATABASE, TLS_FILES
from dragstrip.errors import BadUsage
from dragstrip.store.masking import know

#: Names in braces that a command may use.
SERVE_NAMES = ("address", "port", "socket", "cores", "scratch", "data", *sorted(TLS_FILES), *sorted(DATABASE))

#: In place of a secret value in a kept command.
HIDDEN = "…"

#: Characters that a shell acts on outside of quotes, and within double quotes; some only at the beginning of a word.
_ACTIVE, _ACTIVE_IN_QUOTES, _ACTIVE_FIRST = frozenset("|&;<>()$`*?\n"), frozenset("$`"), frozenset("~#")

#: Commands that only a shell has.
_OF_SHELLS = frozenset(
    [".", "alias", "cd", "eval", "exec", "export", "for", "if", "set", "source", "trap", "ulimit", "umask", "unset",
     "until", "wait", "while", "{"]
)  # fmt: skip

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)

#: A part of a name by which its value is a secret. ``TOKEN_FILE`` and the like name a file.
_SECRET = re.compile(r"(TOKEN|KEY|SECRET|PASS|PASSWORD|PASSWD|PASSPHRASE|PW|PWD|CREDENTIAL|AUTH)S?(_|$)", re.IGNORECASE)
_OF_A_FILE = re.compile(r"(FILE|PATH|DIR|FOLDER)$", re.IGNORECASE)

#: A URL with a password in it (RFC 3986, 3.2.1), as many variables for databases have.
_WITH_PASSWORD = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/:@]*:[^\s/@]+@", re.IGNORECASE)

#: An assignment anywhere in a command, with its value as it is typed; and a value that names no text itself.
_TYPED_ASSIGNMENT = re.compile(
    r"(?<![\w./-])([A-Za-z_]\w*)=((?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|\\.|[^\s;&|<>()'\"\\])+)", re.DOTALL
)
_COMPUTED = re.compile(r"\"?(\$\w+|\$\{\w+\}|\$\([^)]*\)|\{[a-z_]+\})\"?")

#: Values of secret variables that this process was given, by contender and name: a record has only their hashes.
_given: dict[tuple[str, str], str] = {}


@dataclass(frozen=True, slots=True)
class OwnCommand:
    """A command that was read.

    Args:
        text: as it was typed, with ``HIDDEN`` in place of secret values.
        words: the program and its arguments; ``("sh", "-c", text)`` if a shell runs it.
        environment: what its leading ``NAME=VALUE`` words set; a shell sets its own.
        needs_shell: what a shell is needed for, like "&&"; "" if none is.
        secrets: the values of secret variables in the text, by name.
        hidden: the names of all secret variables in the text, also of those whose values it lacks.
    """

    text: str
    words: tuple[str, ...]
    environment: Mapping[str, str]
    needs_shell: str
    secrets: Mapping[str, str]
    hidden: tuple[str, ...]


def read(name: str, typed: str) -> OwnCommand:
    """A command of the contender ``name``.

    Raises:
        BadUsage: it can't be split, has no program, or has an unknown name in braces.
    """
    remedy = 'write --serve "mine=./server --port {port}", or "mine=npm start" if the server reads PORT'
    text, found = _without_secrets(name, typed.strip())
    hidden, found = tuple(found), {key: value for key, value in found.items() if value != HIDDEN}
    try:
        parts = shlex.split(text)
        count = next((index for index, word in enumerate(parts) if not _ASSIGNMENT.fullmatch(word)), len(parts))
        needed = _needs_shell(text, parts[count] if count < len(parts) else "")
        used = _braces(text) if needed else [used for word in parts for used in placeholders(word)]
    except ValueError as error:
        raise BadUsage(f"--serve {name}: the command can't be read ({error}); {remedy}") from error
    if count == len(parts):
        raise BadUsage(f"--serve {name}: the command has no program; {remedy}")
    if unknown := [name for name in used if name not in SERVE_NAMES]:
        raise BadUsage(
            f"--serve {name}: unknown placeholder {{{unknown[0]}}}; {nearest(unknown[0], SERVE_NAMES, 'valid:')}"
        )
    if needed:
        return OwnCommand(text, ("sh", "-c", text), {}, needed, found, hidden)
    leading = {match[1]: match[2] for word in parts[:count] if (match := _ASSIGNMENT.fullmatch(word))}
    return OwnCommand(text, tuple(parts[count:]), leading, "", found, hidden)


def filled(
    words: tuple[str, ...], *, shell: bool, values: Mapping[str, object], hidden: Mapping[str, str]
) -> tuple[str, ...]:
    """A command's words with values for the names in braces and for ``HIDDEN`` ones, quoted where a shell reads them.

    Args:
        hidden: values of secret variables by name.
    """
    if shell:
        return (*words[:-1], _filled_script(words[-1], values, hidden))
    return tuple(_shown(fill(word, values), hidden) for word in words)


def filled_value(text: str, values: Mapping[str, object]) -> str:
    """A variable's value with values for the known names in braces; other braces, as of JSON, stay."""
    return _NAME_IN_BRACES.sub(lambda match: str(values[match[1]]) if match[1] in values else match[0], text)


_NAME_IN_BRACES = re.compile(r"(?<![${])\{([a-z_]+)\}(?!\})")


def _filled_script(script: str, values: Mapping[str, object], hidden: Mapping[str, str]) -> str:
    """A shell's line: a value stands in the quotes around its name (POSIX.1-2024, XCU 2.2)."""
    quotes = {index: quote for index, _, quote in _characters(script)}

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            return match[0]
        text, quote = str(values[match[1]]), quotes.get(match.start(), "")
        if quote == '"':
            return re.sub(r'(["\\$`])', r"\\\1", text)
        return text.replace("'", "'\"'\"'") if quote == "'" else shlex.quote(text)

    done = _NAME_IN_BRACES.sub(value, script)
    for name, secret in hidden.items():
        done = done.replace(f"{name}={HIDDEN}", f"{name}={shlex.quote(secret)}")
    return done


def _shown(word: str, hidden: Mapping[str, str]) -> str:
    match = _ASSIGNMENT.fullmatch(word)
    return f"{match[1]}={hidden.get(match[1], HIDDEN)}" if match and match[2] == HIDDEN else word


def _characters(text: str) -> Iterator[tuple[int, str, str]]:
    """Every character with its place and with the quote around it; an escaped one counts as in single quotes."""
    quote, escaped = "", False
    for index, character in enumerate(text):
        if escaped:
            escaped = False
            yield index, character, "'"
        elif character == "\\" and quote != "'":
            escaped = True
        elif character == quote or (not quote and character in "'\""):
            quote = "" if quote else character
        else:
            yield index, character, quote


def _needs_shell(text: str, program: str) -> str:
    """What in a command needs a shell: its first such character or word; "" if nothing does."""
    if program in _OF_SHELLS:
        return program
    for index, character, quote in _characters(text):
        first = index == 0 or text[index - 1].isspace()
        if quote == '"' and character in _ACTIVE_IN_QUOTES:
            return character
        if not quote and (character in _ACTIVE or (first and character in _ACTIVE_FIRST)):
            return "a line break" if character == "\n" else _operator(text, index)
    return ""


def _operator(text: str, index: int) -> str:
    return text[index : index + 2] if text[index : index + 2] in ("&&", "||", ">>") else text[index]


def _braces(script: str) -> list[str]:
    """Names in braces of a shell's line, outside of single quotes, where programs of awk and jq have braces, too."""
    quotes = {index: quote for index, _, quote in _characters(script)}
    return [match[1] for match in _NAME_IN_BRACES.finditer(script) if quotes.get(match.start()) != "'"]


def first_command(script: str, folder: Path) -> tuple[Path, tuple[str, ...]]:
    """The first command of a shell's line that is not ``cd`` or an assignment, without redirections, and its folder."""
    lexer = shlex.shlex(script, posix=True, punctuation_chars=True)
    lexer.commenters, words = "", list[str]()
    try:
        tokens = [*lexer, ";"]
    except ValueError:  # what only a shell can split
        return folder, ()
    skips = False
    for token in tokens:
        if skips:
            skips = False
        elif token[0] in "<>":
            words, skips = words[:-1] if words and words[-1].isdigit() else words, True  # "2" of 2>
        elif token[0] not in ";&|()\n":
            words += [] if not words and _ASSIGNMENT.fullmatch(token) else [token]
        elif words[:1] == ["cd"]:
            folder, words = folder / " ".join(words[1:]), []
        elif words:
            break
    return folder, tuple(words)


def is_secret(name: str, value: str) -> bool:
    """Whether a variable's name looks secret, or its value is a URL with a password."""
    return bool((_SECRET.search(name) and not _OF_A_FILE.search(name)) or _WITH_PASSWORD.search(value))


def _without_secrets(name: str, text: str) -> tuple[str, dict[str, str]]:
    """A command with ``HIDDEN`` in place of secret values, and those values, which are ``HIDDEN`` in a record's."""
    found: dict[str, str] = {}

    def hide(match: re.Match[str]) -> str:
        try:
            value = "".join(shlex.split(match[2]))
        except ValueError:  # a quote without its end, which is refused later
            value = match[2]
        if not value or _COMPUTED.fullmatch(match[2]) or not (value == HIDDEN or is_secret(match[1], value)):
            return match[0]
        if found.setdefault(match[1], value) != value:
            raise BadUsage(f"--serve {name}: {match[1]} is given twice with two values; give it by --env once")
        return f"{match[1]}={HIDDEN}"

    return _TYPED_ASSIGNMENT.sub(hide, text), found


def remember(contender: str, values: Mapping[str, str]) -> None:
    """Keeps secret values for the length of this process, for entries that are made again from their record."""
    _given.update({(contender, key): value for key, value in values.items()})
    for value in values.values():
        know(value)


def remembered(contender: str, key: str) -> str | None:
    """A value that ``remember`` was given; None if there is none."""
    return _given.get((contender, key))
