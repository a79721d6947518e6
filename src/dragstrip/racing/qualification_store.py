"""Scrutineering's results, kept beside the store for as long as nothing that they depend on has changed.

A proof is reused only for the very same programs. Its key covers the definition and its files, the parameters, and
place, size and time of change of every program, module and build. It also covers the private environment's files and
the system's list of packages. Workload, load, lanes, machine, boot, and the code of Dragstrip that proves are in it,
too. One file per check; if a file can't be read or written, the contender is simply checked again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dragstrip.contender import Entry, Ready, discovery
from dragstrip.contender.definition import fill, placeholders
from dragstrip.machine import Lanes
from dragstrip.machine_facts import Facts
from dragstrip.racing.calibration import FACTORS, Calibration
from dragstrip.record import Load
from dragstrip.version import __version__
from dragstrip.workload import Workload

#: Seconds for which a proof stands: a week; an hour where others were at work on the cores while it was calibrated.
GOOD_S, DISTURBED_S = 7 * 86_400.0, 3_600.0

#: Most files that one private environment may have and still be looked through before every race.
MAX_FILES = 50_000

_PACKAGE = Path(__file__).parents[1]
_DPKG = Path("/var/lib/dpkg/status")
_SHAPE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptQualification:
    """What one contender showed when it was proved and calibrated.

    Args:
        at_s: wall clock, seconds since 1970; good_s: for how long it stands.
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
    """The kept proofs of one kind of race on this machine.

    Args:
        folder: made, for its owner alone, when the first proof is kept.
        context: what all contenders' proofs depend on, see ``context``.
        fresh: none is reused; new ones are stored anyway.
    """

    def __init__(self, folder: Path, context: Iterable[str], *, fresh: bool = False) -> None:
        self._folder, self._context, self._fresh = folder, tuple(context), fresh

    def key(self, entry: Entry, ready: Ready, built: Path | None) -> str | None:
        """What a contender's proof depends on, as one word; None where that can't be told, as of an ad hoc server."""
        if entry.contender is None:
            return None
        try:
            parts = [
                *self._context,
                *(entry.name, entry.definition_hash, entry.mark, ready.version),
                json.dumps(dict(entry.parameters), sort_keys=True, default=str),
                *sorted(f"{name}={_identity(place)}" for name, place in ready.programs.items()),
                *_beside(entry, ready, built),
            ]
        except (OSError, ValueError):
            return None
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def find(self, key: str | None) -> KeptQualification | None:
        """The proof of this key, if there is one that still stands."""
        if key is None or self._fresh:
            return None
        try:
            file = self._folder / f"{key}.json"
            for state in (self._folder.stat(), file.stat()):
                if state.st_uid != os.geteuid() or state.st_mode & 0o022:
                    return None  # whoever else may write here could pass off anything as proved
            proof = _proof(json.loads(file.read_text(encoding="utf-8")), key)
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        return proof if 0 <= time.time() - proof.at_s <= min(proof.good_s, GOOD_S) else None

    def keep(self, key: str | None, proof: KeptQualification) -> None:
        """Keeps a proof, whole or not at all; those that stand no more are removed. None: it is not kept."""
        if key is None:
            return
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            for file in self._folder.iterdir():
                if file.suffix in (".json", ".part") and time.time() - file.stat().st_mtime > GOOD_S:
                    file.unlink(missing_ok=True)
            text = json.dumps({"shape": _SHAPE, "key": key, **asdict(proof)}, ensure_ascii=False)
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
        """Forgets a contender that was taken out of its race: the next race checks it again."""
        if key is not None:
            with contextlib.suppress(OSError):
                (self._folder / f"{key}.json").unlink(missing_ok=True)


def context(workload: Workload, load: Load, lanes: Lanes, io: str, facts: Facts, *more: str) -> tuple[str, ...]:
    """What the proofs of all contenders of a race depend on; ``facts``: the machine's; ``more``: whatever else."""
    code = [*_PACKAGE.glob("scrutiny/*.py"), *_PACKAGE.glob("racing/*.py"), *_PACKAGE.glob("_engine*")]
    return (
        __version__, *sorted(map(_identity, code)),
        workload.source.text, repr(load), repr(lanes), io, str(os.geteuid()), *more,
        *map(str, (facts.cpu, facts.cores_online, facts.kernel, facts.boot, facts.limits, facts.mitigations)),
    )  # fmt: skip


def _identity(place: Path) -> str:
    """A file as it is now: where it really lies, its size, when it was last changed."""
    real = place.resolve(strict=True)
    state = real.stat()
    return f"{real} {state.st_dev} {state.st_ino} {state.st_size} {state.st_mtime_ns} {state.st_ctime_ns}"


def _beside(entry: Entry, ready: Ready, built: Path | None) -> list[str]:
    """What a contender's programs load: needed files, its build, its private environments, the system's packages."""
    contender = entry.contender
    assert contender is not None
    values = discovery.settings(contender, ready.programs)
    said = [f"{name}={value}" for name, value in sorted(values.items())]
    # The definition's hash covers them as they were when it was read: this, as they are now.
    said += [_identity(contender.folder / name) for name in contender.files()]
    needed = [text for text in contender.fields.needs.files if all(values.get(name) for name in placeholders(text))]
    said += [_identity(place) for text in needed if (place := Path(fill(text, values))).exists()]
    if modules := values.get("modules"):
        said += sorted(_identity(place) for place in Path(modules).glob("*.so"))
    install, own = contender.fields.install, (contender.name,)
    folders = {discovery.environment(install.pip or own), discovery.environment(install.npm or own)}
    folders |= {discovery.environment(way.pip or way.npm or own) for way in install.alternatives}
    folders |= {built} if built else set()
    for folder in sorted(folders):
        said += _tree(folder)
    return [*said, _identity(_DPKG) if _DPKG.exists() else ""]


def _tree(folder: Path) -> list[str]:
    """Every file below a folder: its place, size and time of change.

    Raises:
        ValueError: there are too many to look at.
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


def _proof(stored: dict[str, Any], key: str) -> KeptQualification:
    """A proof out of a file's words.

    Raises:
        ValueError, TypeError, KeyError: they are none.
    """
    from pydantic import TypeAdapter  # the command line's help does without it

    if stored["shape"] != _SHAPE or stored["key"] != key:
        raise ValueError("another shape, or another contender's")
    proof = TypeAdapter(KeptQualification).validate_python(stored)
    calibration = proof.calibration
    if not (0 < calibration.p50_ns < 10**12 and calibration.capacity_per_s > 0 and 0 <= calibration.launch_s < 1e4):
        raise ValueError("figures that can't be")
    if calibration.block_factor not in FACTORS:
        raise ValueError("a factor that can't be")
    return proof
