"""What a workload puts into each launch's folder ``{data}``: drawn anew for every launch, so that no copy is right."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dragstrip.workload.draw import Drawn, one
from dragstrip.workload.fields import DataFields
from dragstrip.workload.template import render

#: Rows of the race's database, with the ids 1 to this.
TABLE_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Data:
    """What one launch finds.

    Args:
        files: their contents, by their paths within ``{data}``.
        rows: what the answers' templates know: drawn rows, by name.
        table: ``n`` of each row of the race's database as it is now, of id 1 first; answers' templates know it so.
    """

    files: Mapping[str, bytes] = field(default_factory=dict)
    rows: Mapping[str, Sequence[Drawn]] = field(default_factory=dict)
    table: Sequence[int] = ()


def drawn(wanted: Sequence[DataFields], seed: str) -> Data:
    """The files and rows of one launch; the same seed gives the same ones."""
    files: dict[str, bytes] = {}
    rows: dict[str, Sequence[Drawn]] = {}
    for fields in wanted:
        rng = random.Random(f"{seed} {fields.file}")
        if fields.bytes_:
            files[fields.file] = rng.randbytes(fields.bytes_)
            continue
        mine: list[Drawn] = [{"id": number, **one(rng, fields)} for number in range(1, fields.rows + 1)]
        files[fields.file] = render(fields.content, {"rows": mine}).encode()
        if fields.name:
            rows[fields.name] = mine
    return Data(files, rows)
