"""Reads entries of HttpArena: `meta.json` with the entry's profiles, next to a Dockerfile."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict

from dragstrip import paths
from dragstrip.extras.suites.suite_entries import MAX_BYTES, Cause, LeftOut, ServedTest, SuiteEntry, refused
from dragstrip.extras.suites.techempower import fault_of

META = "meta.json"

_SUITE = "arena"

#: The suite's profiles that Dragstrip can have as workloads, with the port of those that have a port of their own.
PROFILES: Mapping[str, int | None] = {
    "baseline": None,
    "limited-conn": None,
    "pipelined": None,
    "json": None,
    "json-comp": None,
    "upload": None,
    "static": None,
    "async-db": None,
    "crud": None,
    "api-4": None,
    "api-16": None,
    "json-tls": 8081,
    "baseline-h2": 8443,
    "static-h2": 8443,
    "baseline-h2c": 8082,
    "json-h2c": 8082,
    "echo-ws": None,
}

#: Profiles whose protocol Dragstrip doesn't speak, and profiles of several containers.
_PROTOCOLS = {
    "unary-grpc": "gRPC",
    "unary-grpc-tls": "gRPC",
    "stream-grpc": "gRPC",
    "stream-grpc-tls": "gRPC",
    "baseline-h3": "HTTP/3",
    "static-h3": "HTTP/3",
}
_COMPOSED = ("gateway-64", "gateway-h3", "production-stack")

_TLS = ("json-tls", "baseline-h2", "static-h2")
_JSON = ("json", "json-comp", "json-tls", "json-h2c", "async-db", "crud", "api-4", "api-16")

_DATABASE = ("async-db", "crud", "api-4", "api-16")

_PORT = 8080

#: What the suite sets for profiles with a database, beside `DATABASE_URL`.
_ENVIRONMENT = {"DATABASE_MAX_CONN": "{database_connections}"}

#: What the suite mounts into every container.
_MOUNTS = {"/data": "{data}", "/certs/server.crt": "{certificate}", "/certs/server.key": "{certificate_key}"}

#: A build script that is understood: its context is the whole checkout.
_SCRIPT, _WHOLE = "build.sh", re.compile(r'^docker build .*-f "\$SCRIPT_DIR/Dockerfile" "\$ROOT_DIR"$', re.MULTILINE)


#: Of several causes, the first of these is the entry's.
_PRECEDENCE = (Cause.NO_WORKLOAD, Cause.SEVERAL_CONTAINERS, Cause.PROTOCOL, Cause.UNKNOWN_TESTS)

_Text = Annotated[str, BeforeValidator(lambda given: given or "")]


class _Meta(BaseModel):
    """An entry's file; its other keys are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    display_name: _Text = ""
    language: _Text = ""
    type: _Text = ""
    engine: _Text = ""
    enabled: bool = True
    tests: tuple[str, ...]


def is_entry(file: Path) -> bool:
    """Whether a file of this common name is an entry's: it is next to a Dockerfile, or to files of Docker Compose."""
    return paths.is_file(file.parent / "Dockerfile") or any(file.parent.glob("compose*.yml"))


def read(folder: Path, workloads: Collection[str], given: Path) -> SuiteEntry | LeftOut:
    """The entry in a folder, or the cause why it is left out.

    Args:
        given: the folder that the user gave, which has the entry: nothing outside of it becomes part of a build.
        workloads: the names of the workloads that exist.
    """
    name = f"{_SUITE}:{folder.name.lower()}"
    try:
        meta = _Meta.model_validate_json(paths.read(folder / META, MAX_BYTES))
        return _entry(name, folder.absolute(), meta, workloads, given.absolute())
    except ValueError as error:
        return LeftOut(name, Cause.UNREADABLE, f"{META}: {fault_of(error)}")


def _entry(name: str, folder: Path, meta: _Meta, workloads: Collection[str], given: Path) -> SuiteEntry | LeftOut:
    if not meta.enabled:
        return LeftOut(name, Cause.DISABLED)
    if not meta.tests:
        return LeftOut(name, Cause.NO_TESTS)
    served: dict[str, ServedTest] = {}
    ignored: list[LeftOut] = []
    for profile in dict.fromkeys(meta.tests):
        workload = f"{_SUITE}-{profile}"
        if profile not in PROFILES:
            ignored.append(LeftOut(name, _cause(profile), _PROTOCOLS.get(profile, profile)))
        elif workload not in workloads:
            ignored.append(LeftOut(name, Cause.NO_WORKLOAD, workload))
        else:
            env = _ENVIRONMENT if profile in _DATABASE else {}
            served[workload] = ServedTest(port=PROFILES[profile], own_form=profile in _JSON, env=env)
    if not served:
        return refused(name, ignored, _PRECEDENCE)
    context = _context(folder)
    if context is None:
        return LeftOut(name, Cause.BUILD_SCRIPT, _SCRIPT)
    if not context.is_relative_to(given):
        return LeftOut(name, Cause.WHOLE_CHECKOUT, str(context))
    if not paths.is_file(folder / "Dockerfile"):
        return LeftOut(name, Cause.NO_DOCKERFILE, "Dockerfile")
    return SuiteEntry(
        name=name,
        title=meta.display_name or folder.name,
        host=meta.engine or meta.display_name or folder.name,
        language=meta.language or "unknown",
        build=context,
        dockerfile=str((folder / "Dockerfile").relative_to(context)),
        port=_PORT,
        served=served,
        parity={"suite": "HttpArena", **({"type": meta.type} if meta.type else {})},
        mounts=_MOUNTS,
        tls=any(f"{_SUITE}-{profile}" in served for profile in _TLS),
        ignored=tuple(dict.fromkeys(ignored)),
    )


def _cause(profile: str) -> Cause:
    if profile in _PROTOCOLS:
        return Cause.PROTOCOL
    return Cause.SEVERAL_CONTAINERS if profile in _COMPOSED else Cause.UNKNOWN_TESTS


def _context(folder: Path) -> Path | None:
    """The folder that an entry is built from: its own, or the whole checkout; None if its script does something else.

    Raises:
        ValueError: the script can't be read.
    """
    if not paths.is_file(folder / _SCRIPT):
        return folder
    text = paths.read(folder / _SCRIPT, MAX_BYTES).decode("utf-8", "replace")
    understood = len(re.findall(r"\bdocker\b", text)) == 1 and _WHOLE.search(text) is not None
    return folder.parent.parent if understood else None
