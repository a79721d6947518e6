"""Qualifications, kept next to the store for as long as nothing that they depend on has changed.

A qualification is reused only for the same programs. Its key covers the definition and its files, the parameters, and
the place, size and time of change of every program, module and build. It also covers the private environment's files,
the system's list of packages, workload, load, lanes, machine, boot, and the code of Dragstrip that checks. Each has its
own file; if a file can't be read or written, the contender is simply checked again.
"""

# House: an edge: JSON of a file in the cache.
from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dragstrip import __version__
from dragstrip.contender import Entry, Ready, discovery
from dragstrip.contender.definition import fill, placeholders
from dragstrip.contender.entries import TYPED
from dragstrip.contender.fields import alternatives
from dragstrip.machine import Lanes
from dragstrip.machine_facts import Facts
from dragstrip.racing.calibration import FACTORS, Calibration
from dragstrip.record import Load
from dragstrip.store.json_values import decode, encode
from dragstrip.workload import Workload

#: Seconds for which a qualification is valid: a week, or an hour if other programs disturbed its calibration.
GOOD_S, DISTURBED_S = 7 * 86_400.0, 3_600.0

#: The largest number of files in a private environment that Dragstrip looks through before every race.
MAX_FILES = 50_000

_PACKAGE = Path(__file__).parents[1]
_DPKG = Path("/var/lib/dpkg/status")
_SHAPE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptQualification:
    """The result of checking and calibrating one contender.

    Args:
        at_s: wall clock, seconds since 1970; good_s: for how long it is valid.
        parity: facts for the parity sheet.
    """

    at_s: float
    good_s: float
    parity: Mapping[str, str]
    calibration: Calibration

    @property
    def when(self) -> str:
        """For the parity sheet: "2026-11-22 10:31"."""
        return datetime.fromtimestamp(self.at_s, UTC).strftime("%Y-%m-%d %H:%M")


class QualificationStore:
    """The kept qualifications of one kind of race on this machine.

    Args:
        folder: created, for its owner alone, when the first qualification is kept.
        context: what all contenders' qualifications depend on, see ``context``.
        fresh: none is reused; new ones are stored anyway.
    """

    def __init__(self, folder: Path, context: Iterable[str], *, fresh: bool = False) -> None:
        self._folder, self._context, self._fresh = folder, tuple(context), fresh

    def key(self, entry: Entry, ready: Ready, built: Path | None) -> str | None:
        """A hash of what a contender's qualification depends on; None if that is unknown, as for an ad hoc server."""
        if entry.contender is None or entry.container is not None:
            return None
        try:
            parts = [
                *self._context,
                *(entry.contender.name, entry.definition_hash, entry.mark, ready.version),
                # The name that the user gives it has no effect on it.
                json.dumps({k: v for k, v in entry.parameters.items() if k != TYPED}, sort_keys=True, default=str),
                *sorted(f"{name}={_identity(place)}" for name, place in ready.programs.items()),
                *_beside(entry, ready, built),
            ]
        except (OSError, ValueError):
            return None
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def find(self, key: str | None) -> KeptQualification | None:
        """The qualification of this key, if there is one that is still valid."""
        if key is None or self._fresh:
            return None
        try:
            file = self._folder / f"{key}.json"
            for state in (self._folder.stat(), file.stat()):
                if state.st_uid != os.geteuid() or state.st_mode & 0o022:
                    return None  # another user who may write here could forge a qualification
            proof = _decoded(json.loads(file.read_text(encoding="utf-8")), key)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        return proof if 0 <= time.time() - proof.at_s <= min(proof.good_s, GOOD_S) else None

    def keep(self, key: str | None, proof: KeptQualification) -> None:
        """Keeps a qualification, whole or not at all; removes those that are too old. None: it is not kept."""
        if key is None:
            return
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            for file in self._folder.iterdir():
                if file.suffix in (".json", ".part") and time.time() - file.stat().st_mtime > GOOD_S:
                    file.unlink(missing_ok=True)
            text = json.dumps({"shape": _SHAPE, "key": key, **encode(proof)}, ensure_ascii=False)
            number, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=self._folder)
            part = Path(name)
            try:
                with os.fdopen(number, "w", encoding="utf-8") as out:
                    out.write(text)
                part.replace(self._folder / f"{key}.json")
            except BaseException:
                part.unlink(missing_ok=True)
                raise

    def forget(self, key: str | None) -> None:
        """Forgets a contender that was taken out of its race, so that the next race checks it again."""
        if key is not None:
            with contextlib.suppress(OSError):
                (self._folder / f"{key}.json").unlink(missing_ok=True)


def context(workload: Workload, load: Load, lanes: Lanes, io: str, facts: Facts, *more: str) -> tuple[str, ...]:
    """What all qualifications of a race depend on; ``facts``: the machine's; ``more``: further texts."""
    code = [*_PACKAGE.glob("scrutiny/*.py"), *_PACKAGE.glob("racing/*.py"), *_PACKAGE.glob("_engine*")]
    return (
        __version__, *sorted(map(_identity, code)),
        workload.source.text, repr(load), repr(lanes), io, str(os.geteuid()), *more,
        *map(str, (facts.cpu, facts.cores_online, facts.kernel, facts.boot, facts.limits, facts.mitigations)),
    )  # fmt: skip


def _identity(place: Path) -> str:
    """A file as it is now: its resolved path, its size, and when it was last changed."""
    real = place.resolve(strict=True)
    state = real.stat()
    return f"{real} {state.st_dev} {state.st_ino} {state.st_size} {state.st_mtime_ns} {state.st_ctime_ns}"


def _beside(entry: Entry, ready: Ready, built: Path | None) -> list[str]:
    """What a contender's programs load: needed files, its build, its private environments, the system's packages."""
    contender = entry.contender
    assert contender is not None
    values = discovery.settings(contender, ready.programs)
    parts = [f"{name}={value}" for name, value in sorted(values.items())]
    # The definition's hash covers its files as they were when it was read; these are as they are now.
    parts += [_identity(contender.folder / name) for name in contender.files()]
    needed = [text for text in contender.fields.needs.files if all(values.get(name) for name in placeholders(text))]
    places = [Path(place) for text in needed for place in alternatives(fill(text, values))]
    parts += [_identity(place) for place in places if place.exists()]
    if modules := values.get("modules"):
        parts += sorted(_identity(place) for place in Path(modules).glob("*.so"))
    install, default = contender.fields.install, (contender.name,)
    folders = {discovery.environment(install.pip or default), discovery.environment(install.npm or default)}
    folders |= {discovery.environment(way.pip or way.npm or default) for way in install.alternatives}
    folders |= {built} if built else set()
    for folder in sorted(folders):
        parts += _tree(folder)
    return [*parts, _identity(_DPKG) if _DPKG.exists() else ""]


def _tree(folder: Path) -> list[str]:
    """Every file below a folder: its place, size and time of change.

    Raises:
        ValueError: there are too many files.
    """
    files: list[str] = []
    waiting = [str(folder)] if folder.is_dir() else []
    while waiting:
        with os.scandir(waiting.pop()) as inside:
            for entry in inside:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != "__pycache__":
                        waiting.append(entry.path)
                    continue
                state = entry.stat(follow_symlinks=False)
                files.append(f"{entry.path} {state.st_size} {state.st_mtime_ns}")
        if len(files) > MAX_FILES:
            raise ValueError(f"{folder} has over {MAX_FILES} files")
    return sorted(files)


def _decoded(stored: dict[str, Any], key: str) -> KeptQualification:
    """A qualification from a file's JSON.

    Raises:
        ValueError, TypeError, KeyError: it is not a valid qualification of this key.
    """
    if stored["shape"] != _SHAPE or stored["key"] != key:
        raise ValueError("another shape, or another contender's")
    proof = decode(KeptQualification, stored)
    calibration = proof.calibration
    if not (0 < calibration.p50_ns < 10**12 and calibration.capacity_per_s > 0 and 0 <= calibration.launch_s < 1e4):
        raise ValueError("impossible numbers")
    if calibration.block_factor not in FACTORS:
        raise ValueError("an unknown factor")
    return proof
