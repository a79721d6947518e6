"""What tells one contender's definition from another's: a hash over all that decides how it is started."""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dragstrip.paths import is_file

#: Bytes of a program that are hashed; of a longer one its size counts, too.
MOST_BYTES = 256 * 2**20


def variant_hash(definition_hash: str, parameters: Mapping[str, object], usual: Mapping[str, object]) -> str:
    """The definition's hash; with parameters of other values than its own, one over both."""
    changed = {key: value for key, value in parameters.items() if value != usual.get(key)}
    if not changed:
        return definition_hash
    return hashlib.sha256(f"{definition_hash}\0{json.dumps(changed, sort_keys=True)}".encode()).hexdigest()


def command_hash(words: Sequence[str], folder: Path) -> str:
    """Over a command, its folder and its program: the first word's file, and the first file that an argument names.

    The second is what an interpreter runs, or a server's configuration.
    """
    return hashlib.sha256("\0".join((*words, str(folder), *_files(words, folder))).encode()).hexdigest()


def _files(words: Sequence[str], folder: Path) -> Iterator[str]:
    program = folder / words[0] if "/" in words[0] else Path(shutil.which(words[0]) or folder / words[0])
    arguments = (folder / word for word in words[1:])
    for found in (program, next((one for one in arguments if is_file(one)), None)):
        try:
            state = found.stat() if found is not None and is_file(found) else None
            if found is not None and state is not None:
                yield _content_hash(found, state.st_size, state.st_mtime_ns)
        except OSError:
            continue  # what can't be read can't be started either: the launch says so


@functools.lru_cache(maxsize=64)
def _content_hash(file: Path, size: int, _changed_ns: int) -> str:
    digest, left = hashlib.sha256(str(size).encode()), MOST_BYTES
    with file.open("rb") as stream:
        while left and (part := stream.read(min(left, 2**20))):
            digest.update(part)
            left -= len(part)
    return digest.hexdigest()
