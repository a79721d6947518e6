"""A contender's content key: what it covers, and that a definition's hash does not."""

from __future__ import annotations

import shutil
from pathlib import Path

from dragstrip.contender import Ready, entry, serve_entry
from dragstrip.contender.content import content_key


def test_the_key_covers_parameters_version_and_programs(tmp_path: Path) -> None:
    """A variant by its default value has the same hash as the plain contender, and another key."""
    program = tmp_path / "server"
    shutil.copyfile("/bin/true", program)
    ready = Ready("1.0", {"server": program})
    plain, same = entry("nginx-return"), entry("nginx-return")
    key = content_key(plain, ready)
    assert content_key(same, ready) == key
    assert content_key(entry("nginx-return:workers=7"), ready) != key
    assert content_key(plain, Ready("1.1", {"server": program})) != key
    program.write_bytes(program.read_bytes() + b"!")
    assert content_key(plain, ready) != key


def test_the_key_covers_every_file_that_a_command_names(tmp_path: Path) -> None:
    """Beyond the first, which is all that the command's hash covers."""
    for name in ("server.py", "settings.ini"):
        (tmp_path / name).write_text("one")
    mine = serve_entry("mine=python3 server.py settings.ini {port}", tmp_path)
    before = content_key(mine, Ready("", {}))
    (tmp_path / "settings.ini").write_text("two")
    again = serve_entry("mine=python3 server.py settings.ini {port}", tmp_path)
    assert again.definition_hash == mine.definition_hash
    assert content_key(again, Ready("", {})) != before
