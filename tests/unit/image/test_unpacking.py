"""Layers become a root, and hostile layers change nothing outside of it."""

from __future__ import annotations

import os
import random
import stat
import tarfile
from contextlib import suppress
from pathlib import Path

import images
import pytest

from dragstrip.errors import BadUsage
from dragstrip.image import archive
from dragstrip.image.unpacking import Unpacked, Unpacker, UnpackingLimits, inside


def _unpack(tmp_path: Path, *layers: bytes, limits: UnpackingLimits | None = None) -> tuple[Path, Unpacked]:
    file, root = tmp_path / "image.tar", tmp_path / "out" / "root"
    images.save(file, layers)
    root.mkdir(parents=True, exist_ok=True)
    with archive.opened(file) as saved:
        return root, Unpacker(root, None, limits or UnpackingLimits()).unpack(saved)


def _tree(root: Path) -> dict[str, str]:
    def text(place: Path) -> str:
        if place.is_symlink():
            return f"-> {place.readlink()}"
        return place.read_text() if place.is_file() else "/"

    return {place.relative_to(root).as_posix(): text(place) for place in sorted(root.rglob("*"))}


def test_layers_lie_over_each_other_and_whiteouts_remove(tmp_path: Path) -> None:
    root, done = _unpack(
        tmp_path,
        images.layer(
            images.folder("./usr/"), images.folder("usr/lib"), images.entry("usr/lib/one", b"1"),
            images.link("lib", "usr/lib"), images.entry("gone", b"x"), images.folder("all"),
            images.entry("all/a", b"a"), images.entry("all/deep/b", b"b"), images.entry("was-file", b"f"),
            images.folder("was-folder"), images.entry("was-folder/x", b"x"),
        ),
        images.layer(
            images.entry("lib/two", b"2"), images.entry(".wh.gone"), images.entry("all/new", b"n"),
            images.entry("all/.wh..wh..opq"), images.entry("all/deep/c", b"c"),
            images.entry("was-file/now", b"in"), images.link("was-folder", "lib"),
            images.link("hard", "usr/lib/one", hard=True), images.entry(".wh.never-was"),
        ),
    )  # fmt: skip
    assert _tree(root) == {
        "all": "/", "all/deep": "/", "all/deep/c": "c", "all/new": "n", "hard": "1", "lib": "-> usr/lib", "usr": "/",
        "usr/lib": "/", "usr/lib/one": "1", "usr/lib/two": "2", "was-file": "/", "was-file/now": "in",
        "was-folder": "-> lib",
    }  # fmt: skip
    assert (done.files, done.left_out) == (20, 0)


def test_modes_lose_their_special_bits_and_times_stay(tmp_path: Path) -> None:
    root, _ = _unpack(
        tmp_path,
        images.layer(
            images.entry("su", b"x", mode=0o6755, mtime=12345), images.folder("tmp", 0o1777), images.folder("shut", 0),
            images.entry("shut/in", b"x", mode=0),
        ),
    )  # fmt: skip
    assert stat.S_IMODE((root / "su").stat().st_mode) == 0o755
    assert (root / "su").stat().st_mtime == 12345
    assert stat.S_IMODE((root / "tmp").stat().st_mode) == 0o1777
    assert stat.S_IMODE((root / "shut").stat().st_mode) == 0o700, "it must be removable"


def test_devices_and_pipes_are_left_out(tmp_path: Path) -> None:
    kinds = {"null": tarfile.CHRTYPE, "disk": tarfile.BLKTYPE, "pipe": tarfile.FIFOTYPE}
    members = [images.entry(name, type=kind, devmajor=1, devminor=3) for name, kind in kinds.items()]
    root, done = _unpack(tmp_path, images.layer(*members))
    assert (_tree(root), done.left_out) == ({}, 3)


@pytest.mark.parametrize(
    "members",
    [
        [images.entry("../outside", b"x")],
        [images.entry("/outside", b"x")],
        [images.entry("a/../../outside", b"x")],
        [images.folder("..")],
        [images.entry("a/../.wh.secret")],
        [images.link("x", "../../secret", hard=True)],
        [images.link("x", "/nowhere", hard=True)],
        [images.link("in", "/"), images.link("x", "in/etc/passwd", hard=True)],
        [images.link("x", "..", hard=True)],
    ],
    ids=lambda members: members[-1][0].name,
)
def test_a_path_that_leads_out_is_refused_by_name(tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "secret").write_text("s")
    with pytest.raises(
        BadUsage, match=r"layer 1 of 1: the (path|hard link) .* Dragstrip does not unpack such an image"
    ):
        _unpack(tmp_path, images.layer(*members))
    assert {place.name for place in (tmp_path / "out").iterdir()} == {"secret", "root"}
    assert (tmp_path / "out" / "secret").read_text() == "s"


@pytest.mark.parametrize("target", ["/", "../../..", "/etc", "../../../../../../etc", "/proc/self/root", "{out}"])
def test_links_out_are_kept_within_the_root(tmp_path: Path, target: str) -> None:
    """What is written through a link of an earlier layer stays below the root, as it would in a container."""
    (tmp_path / "out").mkdir()
    target = target.format(out=tmp_path / "out")
    root, _ = _unpack(
        tmp_path,
        images.layer(images.link("way", target), images.link("again", "way")),
        images.layer(images.entry("again/made/file", b"x"), images.entry("way/.wh.passwd")),
        images.layer(images.entry("way/other", b"y"), images.entry("way/made/.wh..wh..opq")),
    )
    assert [place.name for place in (tmp_path / "out").iterdir()] == ["root"]
    assert not Path("/etc/made").exists()
    assert Path("/etc/passwd").exists()
    assert inside(root, "again/other").is_relative_to(root)
    assert inside(root, "again/other").read_text() == "y"


def test_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="more than 40 links"):
        _unpack(tmp_path, images.layer(images.link("a", "b"), images.link("b", "a"), images.entry("a/x", b"x")))


def test_files_and_bytes_are_bounded(tmp_path: Path) -> None:
    many = images.layer(*(images.entry(f"f{number}") for number in range(100)))
    with pytest.raises(BadUsage, match="more than 99 files and"):
        _unpack(tmp_path, many, limits=UnpackingLimits(files=99))
    sparse, _ = images.entry("sparse")
    sparse.size = 40 << 30  # nothing of it is stored
    with pytest.raises(BadUsage, match="more than 500,000 files and 17,179,869,184 bytes"):
        _unpack(tmp_path, sparse.tobuf(tarfile.PAX_FORMAT) + bytes(1024))
    with pytest.raises(BadUsage, match=r"more than .* 1,000 bytes"):
        _unpack(tmp_path, images.layer(images.entry("large", bytes(1001))), limits=UnpackingLimits(bytes=1000))


def test_a_header_that_claims_gigabytes_and_a_cut_layer_are_refused(tmp_path: Path) -> None:
    header = tarfile.TarInfo("././@PaxHeader")
    header.type, header.size = tarfile.XHDTYPE, 4 << 30
    with pytest.raises(BadUsage, match="claims 4,294,967,296 bytes"):
        _unpack(tmp_path, header.tobuf(tarfile.PAX_FORMAT) + bytes(1024))
    whole = images.layer(images.entry("file", bytes(100_000)))
    with pytest.raises(BadUsage, match="can't be unpacked"):
        _unpack(tmp_path, whole[:50_000])


def test_layers_that_the_image_does_not_name_are_refused(tmp_path: Path) -> None:
    """Otherwise an archive could put other files under the id of a known image."""
    named, other = images.layer(images.entry("a", b"1")), images.layer(images.entry("a", b"2"))
    images.save(tmp_path / "image.tar", [other], described=images.config([named]))
    (tmp_path / "root").mkdir()
    with archive.opened(tmp_path / "image.tar") as saved, pytest.raises(BadUsage, match="its digest is sha256:"):
        Unpacker(tmp_path / "root", None).unpack(saved)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_root_shifts_owners_and_ids_beyond_the_box_become_its_root(tmp_path: Path) -> None:
    images.save(
        tmp_path / "image.tar",
        [images.layer(images.entry("a", b"1", uid=33, gid=34), images.entry("b", b"1", uid=70_000, gid=-5 % 2**21))],
    )
    (tmp_path / "root").mkdir()
    with archive.opened(tmp_path / "image.tar") as saved:
        Unpacker(tmp_path / "root", 1_000_000).unpack(saved)
    state = (tmp_path / "root" / "a").stat()
    assert (state.st_uid, state.st_gid) == (1_000_033, 1_000_034)
    state = (tmp_path / "root" / "b").stat()
    assert (state.st_uid, state.st_gid) == (1_000_000, 1_000_000)


def test_random_damage_never_reaches_beyond_the_root(tmp_path: Path) -> None:
    """Bytes of a layer are changed at random; whatever comes of it, only the root may change."""
    drawn = random.Random(1)
    good = images.layer(
        images.folder("d"), images.link("l", "/d"), images.entry("l/f", b"x" * 600), images.link("h", "d/f", hard=True),
        images.entry("d/.wh.f"),
    )  # fmt: skip
    (tmp_path / "out").mkdir()
    for _ in range(150):
        damaged = bytearray(good)
        for _ in range(drawn.randint(1, 6)):
            damaged[drawn.randrange(len(damaged) - 1024)] = drawn.choice(b"/.\0a125~\xff")
        for start in range(0, len(damaged) - 512, 512):  # a header's sum must fit, or it is not read at all
            block = damaged[start : start + 512]
            if block[257:262] == b"ustar":
                total = sum(block[:148]) + 256 + sum(block[156:])
                damaged[start + 148 : start + 156] = f"{total:06o}\0 ".encode()
        with suppress(BadUsage):
            _unpack(tmp_path, bytes(damaged))
        assert [place.name for place in (tmp_path / "out").iterdir()] == ["root"]
        assert {place.name for place in tmp_path.iterdir()} == {"out", "image.tar"}
