"""Fixtures that several test modules share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from loads import Nginx


@pytest.fixture
def nginx(tmp_path: Path) -> Iterator[Nginx]:
    """A real nginx with a log, started for one test and ended with it."""
    from loads import Nginx

    server = Nginx(tmp_path)
    yield server
    server.ended()
