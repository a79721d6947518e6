"""Hostile images: only the root changes, memory and disk are bounded, and a message says why an image is refused.

`test_unpacking.py` has links out of the root, devices, set-user-id bits and damaged bytes.
"""

from __future__ import annotations

import gzip
import io
import os
import random
import resource
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import images
import pytest
from commands import dragstrip

from dragstrip import image
from dragstrip.errors import BadUsage, StageError
from dragstrip.image import archive, box
from dragstrip.image.images import Image
from dragstrip.image.unpacking import Unpacked, Unpacker, UnpackingLimits

Member = tuple[tarfile.TarInfo, bytes]


@pytest.fixture
def out(tmp_path: Path) -> Iterator[Path]:
    """The folder around the root; nothing in it may change."""
    around = tmp_path / "out"
    (around / "victim" / "sub").mkdir(parents=True)
    (around / "victim" / "sub").chmod(0o700)
    (around / "secret").write_text("s")
    before = _state(around)
    yield around
    assert _state(around) == before


def _state(around: Path) -> list[tuple[str, int]]:
    """Everything next to the root: path and mode."""
    places = (place for place in around.rglob("*") if place.relative_to(around).parts[0] != "root")
    return sorted((str(place), place.lstat().st_mode) for place in places)


def _unpack(out: Path, *layers: bytes, limits: UnpackingLimits | None = None, compressed: bool = False) -> Unpacked:
    file, root = out.parent / "image.tar", out / "root"
    images.save(file, layers, compressed=compressed)
    root.mkdir(exist_ok=True)
    with archive.opened(file) as saved:
        return Unpacker(root, None, limits or UnpackingLimits()).unpack(saved)


@pytest.mark.parametrize("name", [".wh.", ".wh..", ".wh...", "a/.wh...", "a/../.wh.secret", "/.wh.secret"])
def test_a_whiteout_of_a_whole_folder_is_refused(out: Path, name: str) -> None:
    """`.wh...` names the folder above."""
    with pytest.raises(BadUsage, match=r"removes a whole folder|leads out of the image"):
        _unpack(out, images.layer(images.folder("a"), images.entry("b", b"1")), images.layer(images.entry(name)))


def test_whiteouts_through_links_stay_within_the_root(out: Path) -> None:
    layers = [
        images.layer(images.link("up", ".."), images.link("abs", str(out)), images.folder("victim")),
        images.layer(images.entry("up/.wh.secret"), images.entry("abs/.wh.secret"), images.entry("abs/.wh..wh..opq")),
        images.layer(images.entry("up/.wh.victim"), images.entry("up/.wh..wh..opq")),
    ]
    assert _unpack(out, *layers).files == 8


def test_a_folder_that_a_link_replaces_keeps_its_mode_to_itself(out: Path) -> None:
    """The mode of `x/sub` must not reach the folder that the link of the next layer leads to."""
    shared = images.layer(images.folder("x"), images.folder("x/sub", 0o777))
    _unpack(out, shared, images.layer(images.link("x", str(out / "victim"))))
    assert (out / "root" / "x").is_symlink()


def test_folders_that_a_later_layer_removes_are_gone(out: Path) -> None:
    _unpack(out, images.layer(images.folder("a"), images.folder("a/b")), images.layer(images.entry(".wh.a")))
    assert list((out / "root").iterdir()) == []


def test_links_and_entries_that_replace_each_other(out: Path) -> None:
    """Each kind replaces each other kind at the same path; the last is there, and links were not followed."""
    makers: list[Callable[[], Member]] = [
        lambda: images.entry("x", b"1"), lambda: images.folder("x"), lambda: images.link("x", str(out / "secret")),
        lambda: images.link("x", "f", hard=True), lambda: images.link("x", "x"), lambda: images.link("x", ".."),
    ]  # fmt: skip
    members = [images.entry("f", b"f"), *(make() for first in makers for second in makers for make in (first, second))]
    _unpack(out, images.layer(*members, images.entry("x", b"last")), images.layer(images.entry("x/in", b"1")))
    assert (out / "root" / "x" / "in").read_text() == "1"
    assert (out / "root" / "f").read_text() == "f"


def test_hard_links_through_links_are_to_files_of_the_image(out: Path) -> None:
    way = [
        images.link("way", str(out)),
        images.entry("way/secret", b"own"),
        images.link("hard", "way/secret", hard=True),
    ]
    _unpack(out, images.layer(*way, images.link("link", "x"), images.link("copy", "link", hard=True)))
    assert (out / "root" / "hard").read_text() == "own"
    assert (out / "root" / "copy").readlink() == Path("x")
    with pytest.raises(BadUsage, match="is not to a file of it"):
        _unpack(out, images.layer(images.link("w", str(out)), images.link("y", "w/victim", hard=True)))


def test_odd_names_are_names(out: Path) -> None:
    names = ["a\nb", "\x1b[2Jc", "d\udcff", " ", "...", "-rf", "*", "{port}", "é"]
    _unpack(out, images.layer(*(images.entry(name, b"1") for name in names)))
    assert {place.name for place in (out / "root").iterdir()} == set(names)
    with pytest.raises(BadUsage, match=r"the path '\.\./a\\nb\\x1b\[2J' leads out") as caught:
        _unpack(out, images.layer(images.entry("../a\nb\x1b[2J")))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ([images.entry("a/" * 200 + "f")], "more than 128 folders"),
        ([images.entry("a/" * 400_000)], "a path has more than 4,096 bytes"),
        ([images.entry("n" * 300)], "File name too long"),
        ([images.link("l", "t" * 5000)], "File name too long"),
        ([images.folder("d/" * 100), images.link("l", "d/" * 100), images.entry("l/" + "e/" * 60)], "128 folders"),
        ([images.link("l", "l/l/" * 200), images.entry("l/x")], "more than 128 folders"),
        ([images.entry("t", b"1", mtime=1e300)], "timestamp out of range"),
        ([images.entry("t", b"1", pax_headers={"mtime": "nan"})], "NaN"),
        ([images.entry("t", b"1", pax_headers={"size": "-512"})], "'t' has -512 bytes|header is not valid"),
        ([images.entry("t", b"1", pax_headers={"path": "a\0b"})], "leads out"),
        (
            [images.link("t", "a"), images.entry("u", pax_headers={"linkpath": "\0"}, type=tarfile.SYMTYPE)],
            "null (byte|character)",
        ),
    ],
    ids=lambda case: case[:12] if isinstance(case, str) else None,
)
def test_what_can_not_be_a_file_is_refused_in_one_line(out: Path, members: list[Member], why: str) -> None:
    with pytest.raises(BadUsage, match=f"layer 1 of 1.*{why}") as caught:
        _unpack(out, images.layer(*members))
    assert len(str(caught.value)) < 600


def _sparse(size: int, parts: list[tuple[int, int]], content: bytes) -> bytes:
    """A layer with a sparse file in GNU's old form, whose header has up to four parts."""
    info = tarfile.TarInfo("sparse")
    info.type, info.size = tarfile.GNUTYPE_SPARSE, len(content)
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    for number, (start, length) in enumerate(parts):
        header[386 + 24 * number : 386 + 24 * (number + 1)] = b"%011o\0%011o\0" % (start, length)
    header[483:495] = b"\x80" + size.to_bytes(11, "big")
    header[148:156] = b"%06o\0 " % (sum(header[:148]) + 256 + sum(header[156:]))
    return bytes(header) + content.ljust(-(-len(content) // 512) * 512, b"\0") + bytes(1024)


def test_ten_sparse_gigabytes_take_neither_disk_nor_memory(out: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = _unpack(out, _sparse(10 << 30, [(0, 512), (7 << 30, 512)], b"a" * 512 + b"b" * 512))
    state = (out / "root" / "sparse").stat()
    assert (state.st_size, done.bytes) == (10 << 30, 10 << 30)
    assert state.st_blocks * 512 < 1 << 20
    with (out / "root" / "sparse").open("rb") as file:
        assert file.read(600) == b"a" * 512 + bytes(88)
        file.seek(7 << 30)
        assert file.read(600) == b"b" * 512 + bytes(88)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10, "kibibytes"


def test_sparse_files_by_extended_headers_and_their_limits(out: Path) -> None:
    headers = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.name": "file", "GNU.sparse.size": "5000"}
    pax = {**headers, "GNU.sparse.map": "0,2,4000,3", "GNU.sparse.numblocks": "2"}
    _unpack(out, images.layer(images.entry("f", b"abcde", pax_headers=pax)))
    assert (out / "root" / "file").read_bytes() == b"ab" + bytes(3998) + b"cde" + bytes(997)
    for parts, why in (
        ([(0, 512), (100, 512)], "not within it|not in the order"),
        ([(5000, 512)], "not within it"),
        ([(0, 1024)], "not within it|its end is missing"),
    ):
        with pytest.raises(BadUsage, match=why):
            _unpack(out, _sparse(600, parts, b"a" * 1024))
    with pytest.raises(BadUsage, match=r"more than .* bytes"):
        _unpack(out, _sparse(40 << 30, [(0, 512)], b"a" * 512))


def test_zeros_become_a_hole_and_a_bomb_ends_at_the_limit(out: Path) -> None:
    """32 MiB of zeros are 32 kB of gzip."""
    bomb = images.layer(images.entry("zeros", bytes(32 << 20)))
    _unpack(out, bomb, compressed=True)
    assert (out / "root" / "zeros").stat().st_size == 32 << 20
    assert (out / "root" / "zeros").stat().st_blocks < 100
    with pytest.raises(BadUsage, match=r"more than .* 1,000,000 bytes"):
        _unpack(out, bomb, compressed=True, limits=UnpackingLimits(bytes=1_000_000))


def test_headers_without_an_end_are_refused(out: Path) -> None:
    """A map of a sparse file, and names of names, would fill the memory or the stack."""
    info = tarfile.TarInfo("sparse")
    info.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[482] = 1  # more parts follow
    header[148:156] = b"%06o\0 " % (sum(header[:148]) + 256 + sum(header[156:]))
    more = (b"%011o\0%011o\0" % (1, 1)) * 21 + b"\1" + bytes(7)
    with pytest.raises(BadUsage, match="more than 4,194,304 bytes of headers"):
        _unpack(out, bytes(header) + more * 20_000)
    name = tarfile.TarInfo("././@LongLink")
    name.type, name.size = tarfile.GNUTYPE_LONGNAME, 2
    with pytest.raises(BadUsage, match="too many headers"):
        _unpack(out, (name.tobuf(tarfile.GNU_FORMAT) + b"a\0".ljust(512, b"\0")) * 3000)


def test_a_layer_that_is_listed_again_and_again_ends_at_a_limit(out: Path) -> None:
    """Bytes that no file has count too: what is behind the end of the tar file, and the padding."""
    one = images.layer(images.entry("f", b"1")) + bytes(1 << 20)
    images.save(out.parent / "many.tar", [images.layer()] * 600)
    with pytest.raises(BadUsage, match="has 600 layers, more than 500"), archive.opened(out.parent / "many.tar"):
        pass
    images.save(out.parent / "some.tar", [one] * 8, compressed=True)
    (out / "root").mkdir()
    unpacker = Unpacker(
        out / "root", None, UnpackingLimits(bytes=(5 << 20) - 2**30)
    )  # a layer may have 1 GiB of padding
    with archive.opened(out.parent / "some.tar") as saved, pytest.raises(BadUsage, match="more than"):
        unpacker.unpack(saved)


def test_a_full_disk_is_noticed_before_it_is_full(out: Path) -> None:
    for limits in (UnpackingLimits(spare=1 << 60), UnpackingLimits(spare_files=1 << 60)):
        with pytest.raises(BadUsage, match=r"its disk has .* MiB and .* files left; free some space"):
            _unpack(out, images.layer(images.entry("f", b"1")), limits=limits)


def test_damaged_compression_is_refused(out: Path) -> None:
    """Bytes of a compressed layer are changed at random; zlib's errors are not files' errors."""
    drawn = random.Random(2)
    layer = images.layer(images.entry("f", random.Random(1).randbytes(30_000)))
    file = out.parent / "image.tar"
    for _ in range(60):
        images.save(file, [layer])
        damaged = bytearray(gzip.compress(layer))
        for _ in range(3):
            damaged[drawn.randrange(10, len(damaged))] ^= 1 << drawn.randrange(8)
        images.save(file, [bytes(damaged)], described=images.config([layer]))
        (out / "root").mkdir(exist_ok=True)
        with archive.opened(file) as saved, pytest.raises(BadUsage, match="layer 1 of 1"):
            Unpacker(out / "root", None).unpack(saved)
    with pytest.raises(zlib.error):
        gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(layer)[:10] + b"\xff" * 100)).read()


@pytest.mark.parametrize("count", [1000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_many_files_are_unpacked_and_removed(tmp_path: Path, count: int) -> None:
    """A thousand, so that the test stays quick; a hundred thousand once in a while."""
    file = tmp_path / "many.tar"
    members = (images.entry(f"d{number % 50}/f{number}", b"1") for number in range(count))
    images.save(file, [images.layer(*members)])
    found = image.find(str(file), "none")
    with pytest.raises(BadUsage, match=f"more than {count - 1:,} files"):
        image.unpacked(found, tmp_path / "cache", UnpackingLimits(files=count - 1))
    assert list((tmp_path / "cache" / "images").glob("*/")) == []
    assert image.unpacked(found, tmp_path / "cache").files == count


@pytest.mark.parametrize("what", ["Cmd", "Env", "WorkingDir", "User"])
def test_a_nul_character_in_the_configuration_is_refused(tmp_path: Path, what: str) -> None:
    value = "A=\0" if what in ("User", "WorkingDir") else ["A=\0"]
    images.save(tmp_path / "image.tar", [images.layer()], **{what: value})
    with pytest.raises(BadUsage, match="contains a NUL character"):
        image.find(str(tmp_path / "image.tar"), "none")


def _image(tmp_path: Path, *members: Member, **start: object) -> Image:
    images.save(tmp_path / "image.tar", [images.layer(*members)], **start)
    return image.unpacked(image.find(str(tmp_path / "image.tar"), "none"), tmp_path / "cache")


def test_texts_of_an_image_are_printed_in_one_line(tmp_path: Path) -> None:
    users = b"a\x1b[2J:x:33:1:::\n" + b"x" * 200_000 + b"\nb:x:" + b"9" * 5000 + b":1:::\nc\0:x:34:35::h\0:\n"
    made = _image(
        tmp_path, images.entry("etc/passwd", users), images.entry("etc/os-release", b'PRETTY_NAME="D\x1b[31m\r1"'),
        User="33",
    )  # fmt: skip
    assert made.base == "D?[31m?1"
    assert image.facts(made)["image's user"].startswith("a?[2J (id 33")


@pytest.mark.parametrize(
    ("start", "why"),
    [
        ({"User": "9" * 5000}, "lacks"),
        ({"User": "0:" + "9" * 5000}, "lacks"),
        ({"Volumes": {"/loop/x": {}}}, "more than 40 links"),
        ({"Volumes": {"/" + "v/" * 3000: {}}}, "more than 4,096 bytes"),
        ({"Volumes": {"relative": {}}}, "is not a path below /"),
        ({"Volumes": {"/file": {}}}, "can't be made: File exists"),
        ({"Volumes": {"/large": {}}}, "has more than 10,000 files and 64 MiB"),
    ],
    ids=lambda case: next(iter(case)) if isinstance(case, dict) else None,
)
def test_what_a_box_can_not_have_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: dict[str, object], why: str
) -> None:
    monkeypatch.setattr(box, "bubblewrap", lambda: "bwrap")
    monkeypatch.setattr(box, "_refuse_hidden", lambda root: None)
    members = [images.link("loop", "loop"), images.entry("file"), images.folder("large")]
    made = _image(tmp_path, *members, Cmd=["/x"], **start)
    os.truncate(os.open(made.root / "large" / "f", os.O_CREAT | os.O_WRONLY), 10 << 30)
    (tmp_path / "scratch").mkdir()
    with pytest.raises(StageError, match=why):
        image.boxed(made, image.Wish(environment={}, mounts={}), tmp_path / "scratch")


def test_a_port_that_is_none_is_the_usual_port(tmp_path: Path) -> None:
    ports = {f"{'9' * 5000}/tcp": {}, "0/tcp": {}, "70000": {}, "٣/udp": {}, "x": {}}
    assert box.port_of(_image(tmp_path, ExposedPorts={**ports, "9000/tcp": {}})) in (box.USUAL_PORT, 9000)


def test_the_command_line_refuses_a_hostile_image_and_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGSTRIP_CACHE", str(tmp_path / "cache"))
    images.save(tmp_path / "bad.tar", [images.layer(images.entry(".wh..."))], Cmd=["/x"])
    done = dragstrip("verify", "--image", f"bad={tmp_path / 'bad.tar'}", "--workload", "hello")
    said = done.stdout + done.stderr
    assert done.returncode in (1, 2), said
    assert "bwrap" in said or "removes a whole folder" in said, said
    assert list((tmp_path / "cache").glob("images/*/")) == []


def _with_global_headers(content: bytes, each: int) -> bytes:
    """A tar file whose members each have a global header before them, which holds for all later ones."""
    made = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(content)) as members:
        for number, member in enumerate(members):
            more = {f"dragstrip.{number}.{key}": "x" * 1000 for key in range(each)}
            made.write(tarfile.TarInfo.create_pax_global_header(more))
            made.write(member.tobuf())
            data = members.extractfile(member)
            body = data.read() if data else b""
            made.write(body + bytes(-len(body) % 512))
    return made.getvalue() + bytes(1024)


def test_global_headers_do_not_grow_with_each_member(out: Path) -> None:
    """Neither in a layer nor in the archive around the layers: 3.1 MB of such headers took 2.9 GB of memory."""
    few = _with_global_headers(images.layer(*(images.entry(f"f{number}") for number in range(5))), 1)
    assert _unpack(out, few).files == 5
    many = _with_global_headers(images.layer(*(images.entry(f"f{number}") for number in range(100))), 1)
    with pytest.raises(BadUsage, match="global headers"):
        _unpack(out, many)
    file = out.parent / "around.tar"
    images.save(file, [images.layer(images.entry("a"))])
    file.write_bytes(_with_global_headers(file.read_bytes(), 20))
    with pytest.raises(BadUsage, match="global headers"), archive.opened(file):
        pass
