"""Entries of the public suites as definitions of contenders: what an entry becomes, and why others are left out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Literal

from dragstrip import paths
from dragstrip.contender import imported

Engine = Literal["auto", "podman", "docker"]

#: The largest file of an entry that is read.
MAX_BYTES = 2**20


class Cause(StrEnum):
    """Why an entry, or a test of an entry, is left out."""

    UNREADABLE = "unreadable"
    BROKEN = "broken"
    DISABLED = "disabled"
    NO_TESTS = "no tests"
    NO_DOCKERFILE = "no Dockerfile"
    BUILD_SCRIPT = "build script"
    WHOLE_CHECKOUT = "whole checkout"
    DATABASE = "database"
    PROTOCOL = "protocol"
    SEVERAL_CONTAINERS = "several containers"
    UNKNOWN_TESTS = "unknown tests"
    NO_WORKLOAD = "no workload"
    NAME = "name"
    TWICE = "twice"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An entry that doesn't become a definition, or tests that a definition leaves out.

    Args:
        name: of the entry, like ``tfb:gin``. detail: what the cause is about: a file, a database, names of tests.
    """

    name: str
    cause: Cause
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedTest:
    """A workload of an entry.

    Args:
        path: the entry's own; "": the workload's. port: the entry's own for it; None: as for others.
        own_form: its JSON may have a form of its own. env: environment variables for it; names in braces.
    """

    path: str = ""
    port: int | None = None
    own_form: bool = False
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteEntry:
    """An entry that becomes a definition; texts are as the entry has them.

    Args:
        build, dockerfile, args: of its image. cmd: in place of the image's CMD.
        port: of all workloads without a port of their own.
        served: its workloads by their names. ignored: its tests that are left out.
        tls: it can also serve over TLS. mounts: files in the container, by their places; names in braces.
    """

    name: str
    title: str
    host: str
    language: str
    build: Path
    dockerfile: str
    args: Mapping[str, str] = field(default_factory=dict)
    cmd: Sequence[str] = ()
    port: int
    served: Mapping[str, ServedTest]
    parity: Mapping[str, str] = field(default_factory=dict)
    mounts: Mapping[str, str] = field(default_factory=dict)
    tls: bool = False
    ignored: tuple[LeftOut, ...] = ()


def refused(name: str, ignored: Sequence[LeftOut], precedence: Sequence[Cause]) -> LeftOut:
    """An entry whose tests are all left out, with the cause that comes first."""
    cause = min((one.cause for one in ignored), key=precedence.index)
    return LeftOut(name, cause, ", ".join(dict.fromkeys(one.detail for one in ignored if one.cause is cause)))


#: Seconds until the first response: some runtimes compile first, and both suites wait at least 30 s.
_WAKE_S = 60

#: Warm-up of just-in-time runtimes; others end it early.
_WARM_UP = "[warm_up]\nleast_s = 0.5\nmost_s = 10.0\n"


def definition(entry: SuiteEntry, engine: Engine) -> str:
    """The text of an entry's contender.toml."""
    lines = [
        f"# Made by `dragstrip import` from {_plain(str(entry.build))}; the next import replaces it.",
        f"name = {_text(entry.name)}",
        f"title = {_text(entry.title[:120])}",
        f"host = {_text(entry.host)}",
        f"language = {_text(entry.language)}",
        f"workloads = {_list(entry.served)}",
        "",
        "[container]",
        f"build = {_text(str(entry.build))}",
        f"dockerfile = {_text(entry.dockerfile)}",
        f"engine = {_text(engine)}",
        f"port = {entry.port}",
    ]
    lines += [f"args = {_table(entry.args)}"] if entry.args else []
    lines += [f"cmd = {_list(map(_braces, entry.cmd))}"] if entry.cmd else []
    lines += [f"mounts = {_table(entry.mounts)}"] if entry.mounts else []
    lines += ["", "[start]", f"wake_s = {_WAKE_S}", "", _WARM_UP]
    if entry.tls:
        lines += ["[parameters]", 'tls = "off"', "", "[choices]", 'tls = ["off", "on"]', ""]
    if entry.parity:
        lines += ["[parity]", *(f"{_text(key)} = {_text(_braces(text))}" for key, text in entry.parity.items()), ""]
    for name, served in entry.served.items():
        keys = [f"path = {_text(served.path)}"] if served.path else []
        keys += [f"port = {served.port}"] if served.port is not None else []
        keys += ['form = "own"'] if served.own_form else []
        keys += [f"env = {_table(served.env)}"] if served.env else []
        lines += [f"[workload.{name}]", *keys, ""] if keys else []
    return "\n".join(lines).rstrip() + "\n"


def write(entry: SuiteEntry, engine: Engine) -> Path:
    """Writes an entry's definition in place of an earlier one; returns the file."""
    file, text = imported.place_of(entry.name), definition(entry, engine)
    if not (paths.is_file(file) and file.read_text(encoding="utf-8") == text):
        paths.own_folder(file.parent, "set XDG_DATA_HOME to another folder")
        paths.write_durably(file, text.encode())
    return file


def _plain(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _text(text: str) -> str:
    """A basic string of TOML, whose escapes are JSON's."""
    return json.dumps(_plain(text), ensure_ascii=False)


def _list(words: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, words))}]"


def _table(texts: Mapping[str, str]) -> str:
    return "{ " + ", ".join(f"{_text(key)} = {_text(text)}" for key, text in texts.items()) + " }"


def _braces(text: str) -> str:
    """A text in which braces mean themselves."""
    return text.replace("{", "{{").replace("}", "}}")
