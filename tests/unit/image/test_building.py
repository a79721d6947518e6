"""What an image's build is kept under, and what happens without a container engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragstrip import image
from dragstrip.errors import BadUsage, NotReady
from dragstrip.image import Recipe, building


def _folder(place: Path) -> Path:
    (place / "src" / "inner").mkdir(parents=True)
    (place / "src" / "Dockerfile").write_text("FROM scratch\n")
    (place / "src" / "inner" / "file").write_text("1")
    return place / "src"


def _key(folder: Path, *, dockerfile: str = "Dockerfile", **args: str) -> str:
    return image.build_key(Recipe(folder=folder, dockerfile=dockerfile, args=tuple(args.items())))


def test_a_build_is_another_after_any_change_of_its_content(tmp_path: Path) -> None:
    """Of a file's content, name or mode, of a link, of the Dockerfile's name, of an argument; not of .git."""
    folder = _folder(tmp_path)
    keys = [_key(folder), _key(folder, a="1"), _key(folder, a="2"), _key(folder, dockerfile="inner/file")]
    for change in (
        lambda: (folder / "inner" / "file").write_text("2"),
        lambda: (folder / "inner" / "file").rename(folder / "inner" / "other"),
        lambda: (folder / "inner" / "other").chmod(0o755),
        lambda: (folder / "link").symlink_to("inner"),
        lambda: ((folder / "link").unlink(), (folder / "link").symlink_to("/inner")),
    ):
        change()
        keys.append(_key(folder))
    assert len(set(keys)) == len(keys)
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref")
    assert _key(folder) == keys[-1] == _key(folder)


def test_arguments_have_no_order_and_the_place_of_the_folder_does_not_matter(tmp_path: Path) -> None:
    first, second = _folder(tmp_path / "one"), _folder(tmp_path / "two")
    assert _key(first, a="1", b="2") == _key(second, b="2", a="1")


def test_a_folder_that_can_not_be_built_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _folder(tmp_path)
    with pytest.raises(BadUsage, match="absent: the folder does not exist; name a folder with a Dockerfile"):
        _key(tmp_path / "absent")
    with pytest.raises(BadUsage, match=r"mine.dockerfile is not a file in it; set container.dockerfile"):
        _key(folder, dockerfile="mine.dockerfile")
    with pytest.raises(BadUsage, match=r"can't be read \(File name too long\); name a folder in which every file"):
        _key(tmp_path / "/".join(["long" * 50] * 25))
    monkeypatch.setattr(building, "MAX_FILES", 1)
    with pytest.raises(BadUsage, match="more than 1 files and 4 GiB; build from a smaller folder"):
        _key(folder)


def test_without_an_engine_both_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    recipe = Recipe(folder=_folder(tmp_path), dockerfile="Dockerfile")
    assert image.built(recipe, tmp_path / "cache") is None
    said = "`podman` is not on PATH; `docker` is not on PATH; install or start one of podman and docker"
    for attempt in (
        lambda: image.refuse_without_engine(recipe),
        lambda: image.build(recipe, tmp_path / "cache", at_most_s=9),
    ):
        with pytest.raises(NotReady, match=said):
            attempt()
    assert image.examined("podman") == image.Examined("podman", None)


def test_an_engine_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that fails as Docker without its daemon does, and a program that prints nothing."""
    for name, text in (("docker", "echo to: $4; echo no daemon >&2; exit 1"), ("podman", "true")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert image.examined("docker").refused == "no daemon"
    assert image.examined("podman").refused == "it printed nothing"
