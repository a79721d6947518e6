"""Entries of the public suites: imported as they are, built by an engine, and raced."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import suite_samples
from commands import dragstrip

from dragstrip import contender, image
from dragstrip.store.database import Store

pytestmark = [
    pytest.mark.live,
    pytest.mark.thorough,
    pytest.mark.skipif(shutil.which(image.PROGRAM) is None, reason="bubblewrap is missing: no container can start"),
    pytest.mark.skipif(os.geteuid() != 0, reason="not root: a container's network can't be entered from here"),
]

TFB = ("Go/tfb-go", "JavaScript/tfb-node", "Python/tfb-python")


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that the users of containers may enter, with checkouts of both suites, imported; images are removed."""
    if not any(state.program and not state.refused for state in map(image.examined, image.ENGINES)):
        pytest.skip("neither Podman nor Docker works here: no entry can be built")
    folder = Path(tempfile.mkdtemp(prefix="entries-", dir="/tmp"))
    folder.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAGSTRIP_CACHE", str(folder / "cache"))
        patch.setenv("XDG_DATA_HOME", str(folder / "data"))
        suite_samples.copied(folder)
        shutil.copytree(folder / "arena/frameworks/arena-c", folder / "arena/frameworks/arena-c-again")
        for suite in ("tfb", "arena"):
            assert dragstrip("import", str(folder / suite)).returncode == 0
        yield folder
        for note in (folder / "cache" / "image-builds").glob("*/build.json"):
            image.engines.remove(*image.building.stored(note))
    shutil.rmtree(folder)


def _races(place: Path, *words: str) -> dict[str, dict[str, str]]:
    """Runs a short race to its end; returns the parity sheets of its contenders."""
    store = place / "races.sqlite"
    done = dragstrip("race", *words, "--yes", "--rounds", "2", "--store", str(store))
    assert done.returncode == 0, done.stdout + done.stderr
    with Store(store) as opened:
        entrants = opened.load("last").entrants
    assert all(not entrant.out for entrant in entrants), [entrant.out for entrant in entrants]
    return {entrant.name: dict(entrant.parity) for entrant in entrants}


def test_frameworks_of_techempower_race_with_their_own_paths_and_ports(place: Path) -> None:
    """A framework in Go, and another in Python whose port is a text and whose paths are odd."""
    go, _, python = (place / "tfb" / "frameworks" / name for name in TFB)
    if not (suite_samples.compile_go(go) and suite_samples.add_python(python)):
        pytest.skip("Go or Python's library is missing: an entry can't be built")
    done = dragstrip("verify", "tfb:tfb-go", "--workload", "tfb-json")
    assert (done.returncode, "`dragstrip install tfb:tfb-go` asks" in done.stdout) == (2, True), done.stdout
    sheets = _races(place, "tfb:tfb-go", "tfb:tfb-python", "--workload", "tfb-json")
    assert sheets["tfb:tfb-go"]["requested path"] == "/json"
    assert sheets["tfb:tfb-python"]["requested path"] == "/api/v1/greet.json?as=object"
    assert "tfb-python.dockerfile" in sheets["tfb:tfb-python"]["image"]


@pytest.mark.soak
def test_two_variants_of_a_framework_share_an_image(place: Path) -> None:
    """Node, whose second variant has another command; its image has 100 MB."""
    if not suite_samples.add_node(place / "tfb" / "frameworks" / TFB[1]):
        pytest.skip("Node is missing: the framework can't be built")
    before = len(image.kept(contender.cache_dir()))
    assert dragstrip("install", "tfb:tfb-node", "--yes").returncode == 0
    assert contender.pending_build(contender.entry("tfb:tfb-node-spaced")) is None
    assert len(image.kept(contender.cache_dir())) == before + 1
    done = dragstrip("verify", "tfb:tfb-node", "tfb:tfb-node-spaced", "--workload", "tfb-json")
    assert done.stdout.count("passed") == 2, done.stdout + done.stderr


def test_two_entries_of_httparena_share_port_8080_and_do_not_meet(place: Path) -> None:
    """Both bind 0.0.0.0:8080 with SO_REUSEPORT, so on one network the kernel would mix them."""
    frameworks = place / "arena" / "frameworks"
    if not all(suite_samples.compile_c(frameworks / name) for name in ("arena-c", "arena-c-again")):
        pytest.skip("`cc -static` does not work: the entries can't be built")
    sheets = _races(place, "arena:arena-c", "arena:arena-c-again", "--workload", "arena-baseline")
    assert all("HttpArena" in sheet["suite"] for sheet in sheets.values())


@pytest.fixture
def built(place: Path) -> None:
    """The entry of six profiles, built."""
    if not suite_samples.compile_go(place / "arena" / "frameworks" / "arena-go"):
        pytest.skip("Go is missing: the entry can't be built")
    done = dragstrip("install", "arena:arena-go", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize("profile", ["json", "json-tls"])
def test_an_entry_finds_its_files_and_its_certificate(profile: str) -> None:
    """They are mounted at /data and /certs; TLS has its own port."""
    name = f"arena:arena-go{':tls=on' if profile == 'json-tls' else ''}"
    done = dragstrip("verify", name, "--workload", f"arena-{profile}", "--parity")
    assert done.stdout.count("passed") == 1, done.stdout + done.stderr
    assert ("TLS version" in done.stdout) == (profile == "json-tls"), done.stdout


@pytest.mark.soak
@pytest.mark.usefixtures("built")
def test_all_profiles_of_an_entry_pass() -> None:
    """Without a workload, `verify` switches TLS on where the workload needs it."""
    done = dragstrip("verify", "arena:arena-go")
    assert done.stdout.count("passed") == 6, done.stdout + done.stderr
