"""Dragstrip: trustworthy side-by-side races of web servers and the languages embedded in them."""

from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragstrip.api import Result, TypedRequest, compare, race, stored

    __version__: str

__all__ = ["Result", "TypedRequest", "__version__", "compare", "race", "stored"]


@lru_cache
def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("dragstrip")
    except PackageNotFoundError:  # a source tree that was never installed
        return "0+unknown"


def __getattr__(name: str) -> Any:
    # Only when asked for: a command that races nothing should not wait for numpy and the reports, and one that only
    # says its options not for the reading of packages' metadata.
    if name == "__version__":
        return _version()
    if name in __all__:
        return getattr(import_module("dragstrip.api"), name)
    raise AttributeError(f"module 'dragstrip' has no attribute {name!r}")
