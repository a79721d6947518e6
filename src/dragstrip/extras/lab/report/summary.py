"""What reports show of a lab, read from its ledger and its store: plain values."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from dragstrip.extras.lab.choice import CellProgress, progress_of
from dragstrip.extras.lab.ledger import Attempt, CellRow, Ledger, Stored
from dragstrip.store.json_values import encode

#: A cell is still to be raced.
UNDONE = (CellProgress.WAITING, CellProgress.RACING)


@dataclass(frozen=True, kw_only=True)
class CountedLab:
    """A lab's ledger.

    Args:
        progress: of each cell, by its name. refusals: cell, strip and reason of each refused record.
        digests: of stored races, by cell, as ``heat.digest`` made them.
    """

    folder: Path
    cells: Sequence[CellRow]
    attempts: Sequence[Attempt]
    stored: Mapping[str, Stored]
    progress: Mapping[str, CellProgress]
    refusals: Sequence[tuple[str, str, str]] = ()
    digests: Mapping[str, str] = field(default_factory=dict)

    @property
    def counts(self) -> Mapping[str, int]:
        """Cells by their progress."""
        counted = Counter(self.progress.values())
        return {str(progress): counted[progress] for progress in CellProgress if counted[progress]}

    @property
    def decided(self) -> int:
        """Cells whose pairs are all decided."""
        return sum(self.stored[cell.name].decided for cell in self.cells if cell.name in self.stored)

    def why(self, cell: CellRow) -> str:
        """Why a cell has no record; "" if it has one, or if nothing is known."""
        if cell.why or cell.name in self.stored:
            return cell.why
        return self._reasons.get(cell.name, "")

    @cached_property
    def _reasons(self) -> Mapping[str, str]:
        """The last reason of each cell's attempts."""
        return {attempt.cell: attempt.why for attempt in self.attempts if attempt.why}

    def machine_s(self) -> Mapping[str, float]:
        """Machine time of each strip, in seconds."""
        spent: dict[str, float] = {}
        for attempt in self.attempts:
            spent[attempt.strip] = spent.get(attempt.strip, 0.0) + (attempt.ended or time.time()) - attempt.begun
        return spent


def counted(folder: Path) -> CountedLab:
    """A lab as it is now.

    Raises:
        StoreError: it does not exist.
    """
    with closing(Ledger(folder, write=False)) as ledger:
        cells, attempts, stored = ledger.cells(), ledger.attempts(), ledger.stored()
        refusals, digests = ledger.refusals(), ledger.digests()
    own: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        own.setdefault(attempt.cell, []).append(attempt)
    return CountedLab(
        folder=folder,
        cells=cells,
        attempts=attempts,
        stored=stored,
        progress={cell.name: progress_of(cell, own.get(cell.name, ()), stored.get(cell.name)) for cell in cells},
        refusals=refusals,
        digests=digests,
    )


def status_json(lab: CountedLab) -> str:
    """The status as JSON: counts, machine time and every cell."""
    cells = [
        encode(cell)
        | {"progress": str(lab.progress[cell.name]), "why": lab.why(cell)}
        | ({"race": encode(lab.stored[cell.name])} if cell.name in lab.stored else {})
        for cell in lab.cells
    ]
    whole = {
        "cells": cells,
        "counts": dict(lab.counts),
        "decided": lab.decided,
        "machine_s": {name: round(value, 1) for name, value in lab.machine_s().items()},
        "attempts": len(lab.attempts),
        "refused_records": [dict(zip(("cell", "strip", "why"), refusal, strict=True)) for refusal in lab.refusals],
    }
    return json.dumps(whole, indent=1)
