"""The installed version; imported only by modules that need it, because reading package metadata is slow."""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _version_of

__all__ = ["__version__"]

try:
    __version__ = _version_of("dragstrip")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"
