"""The check of all definitions' package names reads lists as apt keeps them, and finds what a release lacks."""

from __future__ import annotations

from pathlib import Path

import package_names
import pytest
import releases

from dragstrip import contender

#: Two entries, as in a release's list.
PACKAGES = """\
Package: luajit
Version: 2.1.0+openresty20250117-2
Depends: libluajit-5.1-2 (= 2.1.0), libc6 (>= 2.38)
Description: just-in-time compiler
 Package: no entry, but a line of the description

Package: nginx
Provides: httpd, nginx-abi-1.26.3-1 (= 1), nginx-core
"""

#: Wants both names of LuaJIT, and a package that is nowhere.
DEFINITION = """\
name = "own"
title = "Own"
host = "own"
language = "Lua"
workloads = ["hello", "json"]
[workload.json]
install.debian = ["lua-none | lua-nil"]
[install]
debian = ["luajit2 | luajit", "httpd"]
[start]
command = ["own", "{port}"]
"""


def test_lists_are_read_with_what_packages_provide(tmp_path: Path) -> None:
    """Names alone, without versions; a folder without lists is refused."""
    (tmp_path / "mirror_dists_trixie_main_binary-amd64_Packages").write_text(PACKAGES)
    expected = {"luajit", "nginx", "httpd", "nginx-abi-1.26.3-1", "nginx-core"}
    assert package_names.of_folder(tmp_path) == expected
    with pytest.raises(SystemExit, match="no file"):
        package_names.of_folder(tmp_path / "none")


def test_who_lacks_what_is_found(tmp_path: Path) -> None:
    """One of several names is enough for a release; a name that no release has is a fault."""
    (tmp_path / "contender.toml").write_text(DEFINITION)
    own = {"own": contender.load(tmp_path / "contender.toml")}
    trixie, bookworm = frozenset(package_names.names_in(PACKAGES)), frozenset({"luajit2", "nginx"})
    assert package_names.lacking(trixie, own) == {"own at json": ["lua-none | lua-nil"]}
    assert package_names.lacking(bookworm, own) == {"own": ["httpd"], "own at json": ["lua-none | lua-nil"]}
    assert {"lua-nil", "lua-none"} <= set(package_names.gone([trixie, bookworm], own))
    assert "luajit2" not in package_names.gone([trixie, bookworm], own)


def test_a_release_has_a_version_or_a_reason_for_each() -> None:
    """What the table of docs/CONTENDERS.md is made of: missing, passed, failed, and not tried."""
    rows = [
        {"name": "gone", "status": "missing", "version": "", "reason": "`gone` is neither on PATH"},
        *({"name": name, "status": "ready", "version": "1.2 (1.2-3)", "reason": ""} for name in ("good", "bad", "new")),
    ]
    plan = "# can't be installed here: gone: this machine's apt has no package gone; see https://example.invalid\n"
    verified = [
        {"contender": "good", "status": "passed", "reason": ""},
        {"contender": "bad", "status": "rejected", "reason": "sent status 500"},
    ]
    assert releases.found(rows, verified, plan, "2026-11-28") == {
        "date": "2026-11-28",
        "contenders": {
            "gone": {"version": "", "reason": "this machine's apt has no package gone"},
            "good": {"version": "1.2", "reason": ""},
            "bad": {"version": "1.2", "reason": "sent status 500"},
            "new": {"version": "1.2", "reason": "not verified"},
        },
    }
