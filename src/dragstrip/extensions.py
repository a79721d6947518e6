"""Where extras take part in commands of the core, each imported when it is used: the core imports no extra."""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: Modules by what they are needed for.
PLACES = {
    "fleet": "dragstrip.extras.fleet.joining",
    "lab's page": "dragstrip.extras.lab.report.page",
    "other tools' flags": "dragstrip.extras.compat.flags",
    "other tools' reports": "dragstrip.extras.compat.styles",
    "other tools' results": "dragstrip.extras.compat.outputs",
    "scripts of wrk": "dragstrip.extras.compat.wrk_script",
    "suites": "dragstrip.extras.suites.report",
}


def extension(place: str) -> Any:
    """The module that takes part there."""
    return import_module(PLACES[place])
