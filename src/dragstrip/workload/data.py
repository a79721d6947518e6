"""What a workload puts into each launch's folder ``{data}``: drawn anew for every launch, so that no copy is right."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dragstrip.contender.budget import spend
from dragstrip.contender.template import render
from dragstrip.workload.draw import Drawn, one
from dragstrip.workload.fields import DataFields

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


def drawn(wanted: DataFields, seed: str, before: Data) -> Data:
    """One more file of a launch, and its rows; the same seed gives the same ones.

    Raises:
        TemplateRefused: its template is refused, or it has more than a definition may.
    """
    rng = random.Random(f"{seed} {wanted.file}")
    if wanted.bytes_:
        spend(1, wanted.bytes_)
        return replace(before, files={**before.files, wanted.file: rng.randbytes(wanted.bytes_)})
    mine: list[Drawn] = [{"id": number, **one(rng, wanted)} for number in range(1, wanted.rows + 1)]
    content = render(wanted.content, {"rows": mine}).encode()
    rows = {**before.rows, wanted.name: mine} if wanted.name else before.rows
    return replace(before, files={**before.files, wanted.file: content}, rows=rows)
