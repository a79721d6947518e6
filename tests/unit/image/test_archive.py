"""Saved images of both formats are read without an engine; damaged ones are refused with a reason."""

from __future__ import annotations

import tarfile
from pathlib import Path

import images
import pytest

from dragstrip.errors import BadUsage, NotReady
from dragstrip.image import archive
from dragstrip.image.images import find

LAYERS = (images.layer(images.entry("a", b"1")), images.layer(images.entry("b", b"2")))


def _contents(file: Path) -> list[bytes]:
    with archive.opened(file) as saved:
        found = []
        for number in range(len(saved.layers)):
            with saved.layer(number) as stream:
                found.append(stream.read(1 << 20))
        return found


def test_both_formats_give_the_same_id_configuration_and_layers(tmp_path: Path) -> None:
    ids = {
        images.save(tmp_path / "plain.tar", LAYERS, Cmd=["/a"], Env=None),
        images.save(tmp_path / "compressed.tar", LAYERS, compressed=True, Cmd=["/a"], Env=None),
        images.save_oci(tmp_path / "oci.tar", LAYERS, Cmd=["/a"], Env=None),
        images.save_oci(tmp_path / "platforms.tar", LAYERS, platforms=True, Cmd=["/a"], Env=None),
    }
    assert len(ids) == 1
    for file in tmp_path.iterdir():
        with archive.opened(file) as saved:
            assert (saved.id, saved.config.config.command, saved.config.config.environment) == (*ids, ("/a",), ())
        assert _contents(file) == list(LAYERS), file.name


def test_a_layer_that_is_a_link_to_another_is_that_layer(tmp_path: Path) -> None:
    described = images.config([LAYERS[0], LAYERS[0]])
    image = images.save(tmp_path / "one.tar", [LAYERS[0], LAYERS[0]], described=described)
    with tarfile.open(tmp_path / "one.tar") as given, tarfile.open(tmp_path / "linked.tar", "w") as made:
        for member in given:
            if member.name == "1/layer.tar":
                member.type, member.linkname, member.size = tarfile.SYMTYPE, "../0/layer.tar", 0
            made.addfile(member, given.extractfile(member) if member.isreg() else None)
    with archive.opened(tmp_path / "linked.tar") as saved:
        assert saved.id == image
    assert _contents(tmp_path / "linked.tar") == [LAYERS[0], LAYERS[0]]


def test_what_is_not_a_saved_image_is_refused_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "bad.tar"
    cases: list[tuple[bytes, str]] = [
        (b"no tar at all" * 100, "is not a saved image"),
        (b"", "is not a saved image"),
        (b"\x1f\x8b" + bytes(2000), "decompress it first"),
        (images.layer(images.entry("x", b"1")), "neither manifest.json nor index.json"),
        (images.layer(images.entry("manifest.json", b"{")), "is not a saved image"),
        (images.layer(images.entry("manifest.json", b"[" * 100_000)), "is not a saved image"),
        (images.layer(images.entry("manifest.json", b"[]")), "holds 0 images"),
        (images.layer(images.entry("manifest.json", b'[{"Config":"c","Layers":[]}]')), "lacks c"),
        (images.layer(images.entry("manifest.json", bytes(5 << 20))), "has 5,242,880 bytes"),
        (images.layer(images.entry("index.json", b'{"manifests":[]}')), "holds 0 images for linux/"),
    ]
    for content, reason in cases:
        file.write_bytes(content)
        with pytest.raises(BadUsage, match=reason), archive.opened(file):
            pass
    with pytest.raises(BadUsage, match="docker save IMAGE"), archive.opened(tmp_path / "absent.tar"):
        pass


def test_a_header_that_claims_gigabytes_is_refused_unread(tmp_path: Path) -> None:
    """A name's length is in a header; the reader would make room for it."""
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 8 << 30
    (tmp_path / "bad.tar").write_bytes(header.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    with pytest.raises(BadUsage, match="claims 8,589,934,592 bytes"), archive.opened(tmp_path / "bad.tar"):
        pass


def test_several_images_a_damaged_blob_and_another_processor_are_named(tmp_path: Path) -> None:
    content = b'[{"Config":"c","Layers":[],"RepoTags":["a:1"]},{"Config":"d","Layers":[]}]'
    (tmp_path / "two.tar").write_bytes(images.layer(images.entry("manifest.json", content)))
    with pytest.raises(BadUsage, match=r"holds 2 images \(a:1, one without a name\)"):
        find(str(tmp_path / "two.tar"), "none")
    images.save_oci(tmp_path / "oci.tar", LAYERS)
    data = (tmp_path / "oci.tar").read_bytes()
    (tmp_path / "oci.tar").write_bytes(data.replace(b'"architecture"', b'"architectur_"'))
    with pytest.raises(BadUsage, match="damaged: its digest differs"):
        find(str(tmp_path / "oci.tar"), "none")
    images.save(tmp_path / "foreign.tar", LAYERS, described=images.config(LAYERS, architecture="mips"))
    with pytest.raises(NotReady, match="is for linux/mips, and this machine is linux/"):
        find(str(tmp_path / "foreign.tar"), "none")


def test_compression_that_is_not_read_says_what_to_do(tmp_path: Path) -> None:
    described = images.config([LAYERS[0]])
    images.save(tmp_path / "zstd.tar", [b"\x28\xb5\x2f\xfd" + bytes(100)], described=described)
    with archive.opened(tmp_path / "zstd.tar") as saved, pytest.raises(BadUsage, match="compressed by zstd"):  # noqa: SIM117
        with saved.layer(0):
            pass
