"""Entries of the public suites, made here and kept below ``tests/suites``: completed to folders that can be built.

An engine builds them without a network: their Dockerfiles begin from scratch, and copy what is compiled here, or
programs of this machine with their libraries.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

SAMPLES = Path(__file__).parent / "suites"

#: Folders of Python's standard library that a small server does not need.
_NOT_NEEDED = ("__pycache__", "site-packages", "test", "tests", "idlelib", "tkinter", "ensurepip", "lib2to3", "*.a")


def copied(place: Path) -> tuple[Path, Path]:
    """Checkouts of both suites, as they are kept here; without programs, nothing in them can be built."""
    for suite in ("tfb", "arena"):
        shutil.copytree(SAMPLES / suite, place / suite)
    return place / "tfb", place / "arena"


def compile_go(folder: Path) -> bool:
    """Compiles a sample's ``main.go`` into its ``root``; False without Go."""
    if shutil.which("go") is None:
        return False
    env = {**os.environ, "CGO_ENABLED": "0", "GO111MODULE": "off", "GOFLAGS": ""}
    command = ["go", "build", "-ldflags=-s -w", "-o", "root/server", "main.go"]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, check=False).returncode == 0


def compile_c(folder: Path) -> bool:
    """Compiles a sample's ``server.c`` into its ``root``; False without a compiler that links statically."""
    if shutil.which("cc") is None:
        return False
    (folder / "root").mkdir(exist_ok=True)
    command = ["cc", "-O2", "-static", "-o", "root/server", "server.c"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0


def add_node(folder: Path) -> bool:
    """Copies this machine's Node with its libraries into a sample's ``root``; False without Node."""
    if (node := shutil.which("node")) is None:
        return False
    _copy_program(Path(node).resolve(), folder / "root" / "node")
    return True


def add_python(folder: Path) -> bool:
    """Copies this test's Python and the standard library into a sample's ``root``."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    program = Path(sys.base_prefix) / "bin" / version
    library = Path(sys.base_prefix) / "lib" / version
    if not (program.exists() and library.is_dir()):
        return False
    _copy_program(program.resolve(), folder / "root" / "python3")
    ignore = shutil.ignore_patterns(*_NOT_NEEDED, "config-*")
    shutil.copytree(library, folder / "root" / "python" / "lib" / version, ignore=ignore, symlinks=False)
    for name in ("binascii", "zlib"):
        for module in (library / "lib-dynload").glob(f"{name}.*.so"):
            _copy_libraries(module, folder / "root")
    return True


def _copy_program(program: Path, target: Path) -> None:
    """Copies a program, and its loader and libraries, which keep their paths."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(program, target)
    _copy_libraries(program, target.parent)


def _copy_libraries(program: Path, root: Path) -> None:
    output = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    for library in map(Path, re.findall(r"(?:=> |^\s*)(/\S+)", output, re.MULTILINE)):
        place = root / library.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(library.resolve(), place)
