"""What a release holds: a wheel installed into an empty environment, away from the checkout, races there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.release, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
STUB = "src/dragstrip/_engine.pyi"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkout's files as they are now, so that nothing is written beside them; of what is ignored, the stub."""
    folder = tmp_path_factory.mktemp("sources")
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
        text=True,
    )
    for name in filter(None, [*listed.stdout.split("\0"), STUB]):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def share(sources: Path) -> Path:
    """Man pages and completions, made by the program that ``make dist`` calls."""
    pytest.importorskip("click_man", reason="pip install -c constraints.txt '.[dist]'")
    folder = sources / "dragstrip._engine.data" / "data" / "share"
    subprocess.run([sys.executable, str(ROOT / "packaging" / "manual_and_completions.py"), str(folder)], check=True)
    return folder


@pytest.fixture(scope="module")
def built(sources: Path, share: Path) -> Path:
    """A folder with the source package and this machine's wheel; what cargo has compiled already is used."""
    assert share.is_dir()
    maturin, out = str(Path(sys.executable).with_name("maturin")), sources / "dist"
    environment = os.environ | {"CARGO_TARGET_DIR": os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))}
    for words in (["sdist"], ["build", "--release", "--strip"]):
        subprocess.run([maturin, *words, "--out", str(out)], cwd=sources, env=environment, check=True)
    return out


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that holds the wheel and what it asks for, nothing else."""
    environment = tmp_path_factory.mktemp("empty")
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    (wheel,) = built.glob("*.whl")
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "-c", str(ROOT / "constraints.txt"), str(wheel)], check=True)
    return environment


def run(environment: Path, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """One command line of the installed program, as a user's shell starts it."""
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DRAGSTRIP", "VIRTUAL"))
    }
    return subprocess.run(
        [str(environment / "bin" / "dragstrip"), *words],
        cwd=folder,
        env=clean | {"XDG_DATA_HOME": str(folder / "data")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_wheel_is_one_for_all_pythons_from_3_11(built: Path) -> None:
    """The stable interface (abi3, PEP 384): one wheel, however many Pythons."""
    (wheel,) = built.glob("*.whl")
    assert "-cp311-abi3-" in wheel.name


def test_the_wheel_has_the_engines_types(built: Path) -> None:
    """For type checkers and editors: the stub that `make build` made."""
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        assert file.read("dragstrip/_engine.pyi").decode() == (ROOT / STUB).read_text()
        assert file.namelist().count("dragstrip/_engine.pyi") == 1


def test_the_source_package_holds_the_sources_and_no_lock_file_with_addresses(built: Path) -> None:
    """Engine, doorway, package, and the pages made for it."""
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    wanted = {"Cargo.toml", "pyproject.toml", "LICENSE", "README.md", "crates/engine/src/lib.rs"}
    wanted |= {"src/dragstrip/commands/main.py", STUB, "dragstrip._engine.data/data/share/man/man1/dragstrip.1"}
    assert wanted <= names
    assert "Cargo.lock" not in names


def test_it_races_where_it_was_installed(installed: Path, tmp_path: Path) -> None:
    """Two real servers by definitions that came with the wheel, and the program's own version."""
    out = tmp_path / "race.json"
    raced = run(
        installed, "race", "nginx-return", "again=nginx-return", "--rounds", "2", "--json", str(out), folder=tmp_path
    )
    assert out.exists(), raced.stdout + raced.stderr
    record = json.loads(out.read_text())
    assert raced.returncode == 0, raced.stdout + raced.stderr
    assert [one["name"] for one in record["contenders"]] == ["nginx-return", "again"]
    assert record["rounds"] == 2
    package = subprocess.run(
        [
            str(installed / "bin" / "python"),
            "-I",
            "-c",
            "import dragstrip; print(dragstrip.__file__, dragstrip.__version__)",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    page = run(installed, "report", "last", "--html", "page.html", folder=tmp_path)
    assert (page.returncode, page.stderr.count("\n")) == (2, 1)
    assert page.stderr.endswith("pip install 'dragstrip[page]'\n")
    place, version = package.stdout.split()
    assert Path(place).is_relative_to(installed)
    assert run(installed, "--version", folder=tmp_path).stdout.strip().endswith(version)


def test_man_pages_and_completions_lie_where_shells_look(installed: Path, tmp_path: Path) -> None:
    """One page for each command, and a completion that knows the contenders."""
    pages = {path.name for path in (installed / "share" / "man" / "man1").iterdir()}
    assert {"dragstrip.1", "dragstrip-race.1", "dragstrip-load.1"} <= pages
    share = installed / "share"
    assert (share / "zsh" / "site-functions" / "_dragstrip").is_file()
    assert (share / "fish" / "vendor_completions.d" / "dragstrip.fish").is_file()
    script = share / "bash-completion" / "completions" / "dragstrip"
    asked = (
        f'PATH="{installed}/bin:$PATH"; source "{script}"; COMP_WORDS=(dragstrip race nginx-ret); COMP_CWORD=2; '
        '_dragstrip_completion dragstrip; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    answer = subprocess.run(["bash", "-c", asked], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["nginx-return"]
