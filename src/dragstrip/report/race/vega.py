"""Vega's scripts for the page, kept between processes: vl-convert needs two seconds of CPU time to make them."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

from dragstrip import paths
from dragstrip.contender import cache_dir
from dragstrip.errors import DragstripError

#: Bytes; Vega, Vega-Lite and vega-embed together have 900 kB. A longer file in the cache is not ours.
_MAX_BYTES = 8_000_000


@cache
def scripts() -> str:
    """Vega, Vega-Lite and vega-embed as one script: from the cache, otherwise from vl-convert, which fills the cache.

    The cache holds one file, for the installed version of vl-convert. Its first line is the SHA-256 digest of the
    script, so that a damaged file is not used. If the cache can't be written, each process makes the script.
    """
    try:
        place = cache_dir() / "pages" / f"vega-{version('vl-convert-python')}.js"
    except (OSError, RuntimeError):  # no home, or a folder that can't be created
        return _made()
    if (kept := _kept(place)) is not None:
        return kept
    made = _made()
    with suppress(OSError, DragstripError):
        place.parent.mkdir(exist_ok=True)
        paths.write(place, f"{_digest(made)}\n{made}")
        for other in place.parent.glob("vega-*.js"):
            if other != place:
                other.unlink()
    return made


def _made() -> str:
    import vl_convert

    return str(vl_convert.javascript_bundle())  # type: ignore[call-arg]  # its stub lacks the default


def _kept(place: Path) -> str | None:
    """The script in a file of the cache; None if it is missing, damaged, or another user may have written it."""
    try:
        status = place.stat()
        if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
            return None
        digest, _, script = paths.read(place, _MAX_BYTES).decode().partition("\n")
    except (OSError, ValueError):
        return None
    return script if digest == _digest(script) else None


def _digest(script: str) -> str:
    return hashlib.sha256(script.encode()).hexdigest()
