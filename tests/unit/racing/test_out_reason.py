"""The reason that a record keeps for a contender that is out because of its responses under load."""

from __future__ import annotations

import pytest

from dragstrip.racing.round import _load_fault_text
from dragstrip.validity.block import LoadFault, LoadFaultKind

SENTENCES = [
    (
        LoadFault(kind=LoadFaultKind.WRONG_ANSWERS, sent=2801, failed=1, errors={"wrong_body": 1}, sample="hellO"),
        "sent incorrect responses under load (wrong_body 1, of 2801 requests); the first: hellO",
    ),
    (
        LoadFault(kind=LoadFaultKind.FAILED, sent=5630, failed=30, errors={"reset": 0, "closed": 3, "timeout": 27}),
        "failed under load: 30 errors to 5630 requests (timeout 27, closed 3)",
    ),
    (
        LoadFault(kind=LoadFaultKind.NO_ANSWER, sent=9, failed=0, sample="x"),
        "sent no correct response under load in any block; the first: x",
    ),
]


@pytest.mark.parametrize(("fault", "text"), SENTENCES, ids=lambda value: getattr(value, "kind", ""))
def test_it_is_written_as_it_always_was(fault: LoadFault, text: str) -> None:
    """With counts by kind, the most frequent first, and the first one's excerpt."""
    assert _load_fault_text(fault) == text


def test_every_kind_is_in_the_list_above() -> None:
    """A new one needs its sentence."""
    assert {fault.kind for fault, _ in SENTENCES} == set(LoadFaultKind)
