"""Vega's scripts in the cache: made once, never used if damaged; without a cache made each time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dragstrip.report.race import vega

SCRIPT = "/* Vega */ 'ä';\n"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """An empty cache, and a short script in place of vl-convert's; it gets an item each time the script is made."""
    calls: list[str] = []

    def make() -> str:
        calls.append(SCRIPT)
        return SCRIPT

    monkeypatch.setenv("DRAGSTRIP_CACHE", str(tmp_path))
    monkeypatch.setattr(vega, "_made", make)
    vega.scripts.cache_clear()
    yield calls
    vega.scripts.cache_clear()


def in_a_new_process() -> str:
    vega.scripts.cache_clear()
    return vega.scripts()


def test_the_scripts_are_made_once_and_kept_for_this_version_alone(made: list[str], tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "vega-0.0.1.js").write_text("of another version")
    assert [in_a_new_process() for _ in range(3)] == [SCRIPT] * 3
    assert len(made) == 1
    (kept,) = (tmp_path / "pages").iterdir()
    assert kept.name != "vega-0.0.1.js"
    assert kept.read_text().endswith(SCRIPT)


@pytest.mark.parametrize("damage", ["cut off", "changed", "writable by others", "no text"])
def test_a_file_that_is_not_sound_is_made_again(made: list[str], tmp_path: Path, damage: str) -> None:
    in_a_new_process()
    (kept,) = (tmp_path / "pages").iterdir()
    whole = kept.read_bytes()
    if damage == "cut off":
        kept.write_bytes(whole[:-3])
    elif damage == "changed":
        kept.write_bytes(whole.replace(b"Vega", b"Evil"))
    elif damage == "no text":
        kept.write_bytes(b"\xff" * 100)
    else:
        kept.chmod(0o666)
    assert in_a_new_process() == SCRIPT
    assert len(made) == 2


def test_without_a_cache_that_can_be_written_each_process_makes_the_scripts(
    made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pages").write_text("a file in its place")
    assert in_a_new_process() == SCRIPT
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DRAGSTRIP_CACHE", str(tmp_path / "file" / "below"))
    assert in_a_new_process() == SCRIPT
    assert len(made) == 2


@pytest.mark.thorough
def test_what_is_kept_is_what_vl_convert_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import vl_convert

    monkeypatch.setenv("DRAGSTRIP_CACHE", str(tmp_path))
    bundle = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # its stub lacks the default
    assert [in_a_new_process() for _ in range(2)] == [bundle] * 2
    assert list((tmp_path / "pages").iterdir())
    vega.scripts.cache_clear()
