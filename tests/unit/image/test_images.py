"""Images in the cache: unpacked once, kept, bounded, removed; and what a box reads of them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import images
import pytest
from commands import dragstrip

from dragstrip import image
from dragstrip.errors import BadUsage, NotReady, StageError
from dragstrip.image import engines
from dragstrip.image import images as cache_module
from dragstrip.image.box import port_of
from dragstrip.image.images import Image

PASSWD = b"root:x:0:0:root:/root:/bin/sh\nweb:x:33:34:web:/var/www:/bin/sh\nhigh:x:70000:1:h:/:/bin/sh\n"
GROUP = b"root:x:0:\nweb:x:34:\nother:x:35:\n"


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Locks that a test holds are released at its end."""
    held: dict[Path, int] = {}
    monkeypatch.setattr(cache_module, "_held", held)
    yield
    for number in held.values():
        os.close(number)


def _unpacked(tmp_path: Path, *members: object, name: str = "image.tar", **start: object) -> Image:
    file = tmp_path / name
    base = (images.entry("etc/passwd", PASSWD), images.entry("etc/group", GROUP), images.entry(f"is/{name}"))
    images.save(file, [images.layer(*base, *members)], **start)  # type: ignore[arg-type]
    return image.unpacked(image.find(str(file), "none"), tmp_path / "cache")


def _release() -> None:
    for number in cache_module._held.values():
        os.close(number)
    cache_module._held.clear()


def test_an_image_is_unpacked_once_and_completed(tmp_path: Path) -> None:
    first = _unpacked(tmp_path, images.link("tmp", "/outside"), Cmd=["/x"])
    (first.root / "is" / "marked").touch()
    again = _unpacked(tmp_path, images.link("tmp", "/outside"), Cmd=["/x"])
    assert again.root == first.root
    assert (again.root / "is" / "marked").exists()
    assert (first.root / "etc" / "hosts").read_text().startswith("127.0.0.1 localhost")
    for name in ("proc", "dev", "sys", "tmp", "run"):
        assert (first.root / name).is_dir()
        assert not (first.root / name).is_symlink()
    assert (first.files, first.left_out, first.base, first.libc) == (4, 0, "none", "none")


def test_the_oldest_unused_images_are_removed_beyond_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "MAX_IMAGES", 2)
    for number in range(3):
        made = _unpacked(tmp_path, name=f"{number}.tar")
        os.utime(made.root.parent / "image.json", (number, number))
    assert [Path(one.name).name for one in image.kept(tmp_path / "cache")] == ["2.tar", "1.tar", "0.tar"], "all in use"
    _release()
    _unpacked(tmp_path, name="3.tar")
    assert [Path(one.name).name for one in image.kept(tmp_path / "cache")] == ["3.tar", "2.tar"]
    assert image.remove(tmp_path / "cache") == 1, "the newest is in use"
    _release()
    assert image.remove(tmp_path / "cache") == 1
    assert image.kept(tmp_path / "cache") == []


def test_the_command_line_lists_and_removes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGSTRIP_CACHE", str(tmp_path / "cache"))
    made = _unpacked(tmp_path)
    listed = dragstrip("contenders", "--images").stdout.splitlines()
    assert listed[0].startswith(made.id[:12])
    assert listed[0].endswith(f"  {made.name}")
    assert listed[1] == f"1 of at most 20 images are kept in {tmp_path / 'cache' / 'images'}"
    _release()
    assert dragstrip("contenders", "--clean-images").stdout.startswith("1 image was removed from ")
    assert image.kept(tmp_path / "cache") == []


def test_what_an_interrupted_unpacking_left_is_made_anew_and_a_refused_image_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "image.tar"
    images.save(file, [images.layer(images.entry("a", b"1"))])
    found = image.find(str(file), "none")
    place = cache_module.place_of(found, tmp_path / "cache")
    (place / "root").mkdir(parents=True)
    (place / "root" / "half").touch()
    assert not image.is_unpacked(found, tmp_path / "cache")
    assert not (image.unpacked(found, tmp_path / "cache").root / "half").exists()
    images.save(file, [images.layer(images.entry("../a", b"1"))])
    with pytest.raises(BadUsage, match="leads out of the image"):
        image.unpacked(image.find(str(file), "none"), tmp_path / "cache")
    assert len([one for one in (tmp_path / "cache" / "images").iterdir() if one.is_dir()]) == 1


def test_another_process_that_uses_an_image_keeps_it(tmp_path: Path) -> None:
    made = _unpacked(tmp_path)
    lock = os.open(made.root.parent.with_name(f"{made.root.parent.name}.lock"), os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_SH)
    _release()
    assert image.remove(tmp_path / "cache") == 0
    os.close(lock)
    assert image.remove(tmp_path / "cache") == 1


def test_base_and_c_library_are_read_from_files_without_leaving_the_image(tmp_path: Path) -> None:
    release = b'NAME="D"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n'
    libc = b"\0GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\0"
    made = _unpacked(
        tmp_path, images.entry("usr/lib/os-release", release), images.link("etc/os-release", "../usr/lib/os-release"),
        images.entry("usr/lib/libc.so.6", libc), images.link("lib", "/usr/lib"),
    )  # fmt: skip
    assert (made.base, made.libc) == ("Debian GNU/Linux 12 (bookworm)", "glibc 2.36")
    musl = _unpacked(tmp_path, images.entry("lib/ld-musl-x86_64.so.1", b"x"), name="musl.tar")
    assert musl.libc == "musl"
    assert cache_module.text_of(made.root, "/../../../../etc/passwd") == PASSWD.decode()


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ("", "root (id 0"),
        ("web", "web (id 33"),
        ("33", "web (id 33"),
        ("1234:other", "1234 (id 1234"),
        ("0", "root (id 0"),
    ],
)
def test_the_user_is_looked_up_in_the_image(tmp_path: Path, user: str, expected: str) -> None:
    assert image.facts(_unpacked(tmp_path, User=user))["image's user"].startswith(expected)


@pytest.mark.parametrize(("user", "why"), [("nobody", "lacks"), ("0:nogroup", "lacks"), ("high", "ids up to 65535")])
def test_a_user_that_the_image_lacks_is_refused(tmp_path: Path, user: str, why: str) -> None:
    with pytest.raises(StageError, match=why):
        image.facts(_unpacked(tmp_path, User=user))


@pytest.mark.parametrize(
    ("ports", "expected"), [({}, 8080), ({"9000/tcp": {}}, 9000), ({"80/tcp": {}, "443/tcp": {}}, 8080), (None, 8080)]
)
def test_the_port_is_the_only_exposed_one_or_8080(tmp_path: Path, ports: object, expected: int) -> None:
    assert port_of(_unpacked(tmp_path, ExposedPorts=ports)) == expected


def test_an_image_that_no_engine_has_names_what_each_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotReady, match="`podman` is not on PATH; `docker` is not on PATH; pull or build"):
        image.find("mine:latest", "auto")
    (tmp_path / "docker").write_text("#!/bin/sh\necho starting; echo no such image >&2; exit 1\n")
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(NotReady, match="`docker image inspect mine:latest`: no such image"):
        image.find("mine:latest", "docker")
    with pytest.raises(NotReady, match=r"absent\.tar: the file does not exist"):
        image.find(str(tmp_path / "absent.tar"), "auto")
    with pytest.raises(NotReady, match="the file does not exist"):
        image.find("mine:latest", "none")


def test_a_command_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    ended = engines.asked(["sh", "-c", "echo begun; sleep 100"], 0.3)
    assert ended.status != 0
    assert engines._said(ended, 0.3).split("\n") == ["begun", "", "It did not end within 0.3 s and was stopped."]
