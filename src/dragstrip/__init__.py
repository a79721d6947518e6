"""Dragstrip: trustworthy side-by-side races of web servers and the languages embedded in them."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("dragstrip")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"
