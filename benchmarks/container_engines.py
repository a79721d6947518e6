"""Do races work from images of Podman and Docker, as root and as an ordinary user, and from an archive without either?

    python benchmarks/container_engines.py              # prints the table
    python benchmarks/container_engines.py --record     # also writes it into docs/containers.md

Needs root, bubblewrap, a C compiler, and the engines: `podman` with `uidmap`, `docker` with `dockerd`. It starts a
dockerd of its own, without a bridge and rules of a firewall, and ends it. The ordinary user exists in a mount namespace
alone: files over `/etc/passwd` and `/etc/subuid` give it an id, and Podman's range of ids. Exit code 1: a race failed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import images  # noqa: E402
from pages import splice  # noqa: E402

from dragstrip.store.database import Store  # noqa: E402

IMAGE = "localhost/dragstrip-trial:1"
USER = 4242
ROUNDS = 2

#: Runs a command as the user, in a mount namespace where it exists, and where Python below root's home can be entered.
AS_USER = f"""\
set -e
place=$1; home=$2; shift 2
for name in passwd group subuid subgid; do
  [ ! -e /etc/$name ] || mount --bind "$place/etc/$name" /etc/$name
done
case $home in /root/*)
  hidden=$(mktemp -d); mount --bind "$home" "$hidden"; mount -t tmpfs -o mode=755 tmpfs /root
  mkdir -p "$home"; mount --move "$hidden" "$home"; rmdir "$hidden";;
esac
cd "$place"
exec setpriv --reuid {USER} --regid {USER} --clear-groups "$@"
"""


@dataclass(frozen=True)
class Trial:
    """One way to an image, and what came of it: words for the table, and whether the race worked."""

    source: str
    user: str
    result: str
    works: bool


def prepared(place: Path) -> Path:
    """The folders and files of the ordinary user, and the saved image.

    Raises:
        SystemExit: no C compiler here links statically.
    """
    place.chmod(0o755)
    (place / "etc").mkdir()
    for name, line in (("passwd", f"trial:x:{USER}:{USER}::{place}/own:/bin/sh"), ("group", f"trial:x:{USER}:")):
        (place / "etc" / name).write_text(Path("/etc", name).read_text() + line + "\n")
    for name in ("subuid", "subgid"):
        (place / "etc" / name).write_text("trial:300000:65536\n")
    (place / "own" / "run").mkdir(parents=True, mode=0o700)
    for folder in (place / "own", place / "own" / "run"):
        os.chown(folder, USER, USER)
    if (server := images.compiled_server(place / "server")) is None:
        raise SystemExit("`cc -static` does not work here: no image can be made")
    content = images.layer(images.entry("srv/server", server, mode=0o755))
    images.save(
        place / "trial.tar", [content], name=IMAGE, Entrypoint=["/srv/server"], Labels={"made": str(time.time())}
    )
    return place / "trial.tar"


@contextmanager
def docker_daemon(place: Path) -> Iterator[str]:
    """A dockerd of this program; the value for ``DOCKER_HOST``, "" if it does not come up."""
    host, folder = f"unix://{place}/docker.sock", place / "docker"
    words = ["dockerd", "--iptables=false", "--ip6tables=false", "--bridge=none", "-H", host, "-p", f"{folder}.pid"]
    words += ["--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec"]
    with (place / "dockerd.log").open("wb") as log, subprocess.Popen(words, stdout=log, stderr=log) as daemon:
        try:
            until = time.monotonic() + 60
            while time.monotonic() < until and daemon.poll() is None:
                if (
                    subprocess.run(
                        ["docker", "version"], env={**os.environ, "DOCKER_HOST": host}, capture_output=True
                    ).returncode
                    == 0
                ):
                    os.chown(place / "docker.sock", USER, -1)
                    break
                time.sleep(0.2)
            else:
                host = ""
            yield host
        finally:
            daemon.terminate()


def run(
    words: Sequence[str], place: Path, env: Mapping[str, str], *, as_user: bool
) -> subprocess.CompletedProcess[str]:
    """Runs a command as root, or as the ordinary user."""
    kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
    own = {"HOME": f"{place}/own", "XDG_RUNTIME_DIR": f"{place}/own/run", "XDG_DATA_HOME": f"{place}/own/data"}
    env = {**kept, **(own if as_user else {"HOME": os.environ.get("HOME", "/root")}), **env}
    if as_user:
        words = ["unshare", "-m", "sh", "-c", AS_USER, "sh", str(place), sys.base_prefix, *words]
    return subprocess.run(words, env=env, cwd=place, capture_output=True, text=True, check=False)


def raced(source: str, given: str, place: Path, env: Mapping[str, str], *, as_user: bool) -> Trial:
    """One race of an image against itself, and what the store has of it."""
    user = "ordinary user" if as_user else "root"
    folder = place / ("own" if as_user else ".")
    store = folder / f"{source.split()[0]}.sqlite"
    words = [sys.executable, "-m", "dragstrip", "race", "--image", f"one={given}", "--image", f"two={given}"]
    words += ["--workload", "hello", "--rounds", str(ROUNDS), "--store", str(store), "--quiet"]
    # Root's cache must be one that a container's user may enter.
    done = run(words, place, {**env, "DRAGSTRIP_CACHE": f"{folder}/cache"}, as_user=as_user)
    if done.returncode not in (0, 3) or not store.exists():
        return Trial(source, user, f"fails: {(done.stderr or done.stdout).strip().splitlines()[-1][:150]}", False)
    with Store(store) as opened:
        race = opened.load("last")
    blocks = [block for one in race.rounds for block in one.blocks]
    wrong = sum(1 for block in blocks if block.errors)
    right = f"{len(race.rounds)} rounds raced, {wrong} of {len(blocks)} blocks with errors"
    return Trial(source, user, right, len(race.rounds) == ROUNDS and not wrong)


def trials(place: Path) -> Iterator[Trial]:
    """All ways, one after the other."""
    file = prepared(place)
    for as_user in (False, True):
        yield raced(
            "an archive, without an engine", str(file), place, {"PATH": path_without_engines(place)}, as_user=as_user
        )
    if shutil.which("podman"):
        version = subprocess.run(["podman", "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
        for as_user in (False, True):
            yield of_engine("podman", f"Podman {version}", file, place, {}, as_user=as_user)
    if shutil.which("docker") and shutil.which("dockerd"):
        with docker_daemon(place) as host:
            said = subprocess.run(["dockerd", "--version"], capture_output=True, text=True, check=True).stdout
            for as_user in (False, True):
                name = f"Docker {said.split()[2].rstrip(',')}"
                yield of_engine("docker", name, file, place, {"DOCKER_HOST": host}, as_user=as_user)


def of_engine(engine: str, name: str, file: Path, place: Path, env: Mapping[str, str], *, as_user: bool) -> Trial:
    """A race of an image that an engine has loaded; it is removed from the engine afterwards."""
    loaded = run([engine, "load", "-i", str(file)], place, env, as_user=as_user)
    if loaded.returncode != 0:
        said = loaded.stderr.strip().splitlines()[-1:]
        return Trial(
            name, "ordinary user" if as_user else "root", f"`{engine} load` fails: {' '.join(said)[:150]}", False
        )
    try:
        return raced(name, IMAGE, place, env, as_user=as_user)
    finally:
        run([engine, "rmi", "-f", IMAGE], place, env, as_user=as_user)


def path_without_engines(place: Path) -> str:
    """A PATH with every program but the engines'."""
    folder = place / "bin"
    if not folder.exists():
        folder.mkdir()
        for parent in os.environ["PATH"].split(os.pathsep):
            for program in Path(parent).glob("*") if Path(parent).is_dir() else ():
                if program.name not in ("podman", "docker") and not (folder / program.name).is_symlink():
                    (folder / program.name).symlink_to(program)
    return str(folder)


def main() -> int:
    """Tries all, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write the table into docs/containers.md")
    given = parser.parse_args()
    rows = ["| image from | user | what came of it |", "|-|-|-|"]
    works = True
    with tempfile.TemporaryDirectory(prefix="engines-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        for trial in trials(Path(folder)):
            rows.append(f"| {trial.source} | {trial.user} | {trial.result} |")
            print(rows[-1], flush=True)
            works &= trial.works
    if given.record:
        splice(ROOT / "docs" / "containers.md", "engines", "\n".join(rows))
    return 0 if works else 1


if __name__ == "__main__":
    sys.exit(main())
