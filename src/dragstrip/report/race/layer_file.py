"""Reads the layers of a server's CPU time from ``data/layers.toml``."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

from dragstrip.analysis.layers import Layer
from dragstrip.store.json_values import decode


@cache
def layers() -> tuple[Layer, ...]:
    """The layers, in the order in which they are tried."""
    path = Path(__file__).parents[2] / "data" / "layers.toml"
    return tuple(decode(Layer, table) for table in tomllib.loads(path.read_text(encoding="utf-8"))["layer"])
