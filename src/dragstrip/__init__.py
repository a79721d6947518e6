"""Dragstrip: trustworthy side-by-side races of web servers and the languages embedded in them."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragstrip.api import Result, compare, race, stored

__all__ = ["Result", "__version__", "compare", "race", "stored"]

try:
    __version__ = version("dragstrip")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"


def __getattr__(name: str) -> Any:
    # Only when asked for: a command that races nothing should not wait for numpy and the reports.
    if name in __all__:
        return getattr(import_module("dragstrip.api"), name)
    raise AttributeError(f"module 'dragstrip' has no attribute {name!r}")
