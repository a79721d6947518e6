"""The definitions that a race was run with, as text: shown only while they are still what they were then."""

from __future__ import annotations

from pathlib import Path

from dragstrip import contender
from dragstrip.errors import DragstripError
from dragstrip.record import Entrant, Race

#: A file longer than this many bytes is cut, with a note: a page is not an archive.
MAX_BYTES = 16_000

#: Maximum number of files shown per contender.
MAX_FILES = 12


def files(race: Race) -> list[tuple[str, list[tuple[str, str]]]]:
    """By contender: its files' names and texts. A contender whose definition has changed since, or is gone, is left
    out: the record has its hash, not its text.
    """
    listed = []
    for entrant in race.entrants:
        files = _of(entrant)
        if files:
            listed.append((entrant.name, files))
    return listed


def _of(entrant: Entrant) -> list[tuple[str, str]]:
    if entrant.kind != "definition":
        return []
    try:
        entry = contender.entry_of(entrant.name, entrant.kind, entrant.parameters)
    except DragstripError:
        return []
    if entry.definition_hash != entrant.definition_hash or entry.contender is None:
        return []
    definition = entry.contender
    paths = {
        definition.source.file.name: definition.source.file,
        **{name: definition.folder / name for name in definition.files()},
    }
    return [(name, _text(path)) for name, path in list(paths.items())[:MAX_FILES]]


def _text(path: Path) -> str:
    data = path.read_bytes()
    text = data[:MAX_BYTES].decode("utf-8", "backslashreplace")
    return text if len(data) <= MAX_BYTES else f"{text}\n… {len(data) - MAX_BYTES} bytes more"
