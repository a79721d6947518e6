"""Launches of a race: a launch is repeated if that can help."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dragstrip.errors import PortTaken, StageError
from dragstrip.racing.launching import Launching


@pytest.mark.parametrize(
    ("errors", "launches", "raised"),
    [
        ([], 1, None),
        ([PortTaken("taken")], 2, None),
        ([PortTaken("taken"), PortTaken("taken again")], 2, PortTaken),
        ([StageError("died; its last lines: Address already in use")], 1, StageError),
    ],
)
def test_a_launch_is_tried_once_more_where_its_port_was_taken_and_only_there(
    errors: list[StageError], launches: int, raised: type[StageError] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the server said of it decides nothing."""
    launching, entry, tried = Launching.__new__(Launching), SimpleNamespace(url=None, command=()), []

    launching._apart = False

    def launch(*_: Any, **__: Any) -> str:
        tried.append(1)
        if len(tried) <= len(errors):
            raise errors[len(tried) - 1]
        return "launched"

    monkeypatch.setattr(launching, "_launch", launch)
    if raised is None:
        assert launching.launch(entry, SimpleNamespace(), "1.1") == "launched"  # type: ignore[arg-type, comparison-overlap]
    else:
        with pytest.raises(raised):
            launching.launch(entry, SimpleNamespace(), "1.1")  # type: ignore[arg-type]
    assert len(tried) == launches
