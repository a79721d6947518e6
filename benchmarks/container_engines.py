"""Do races work from images of Podman and Docker, as root and as an ordinary user, and from an archive without either?

Images are loaded into an engine, built from a folder, or built for an imported entry. A build that fails must say why,
and a container must reach the race's database.

    python benchmarks/container_engines.py              # prints the table
    python benchmarks/container_engines.py --record     # also writes it into docs/containers.md

Needs root, bubblewrap, a C compiler, and the engines: `podman` with `uidmap`, `docker` with `dockerd`. It starts a
dockerd of its own, without a bridge and rules of a firewall, and ends it. The ordinary user exists in a mount namespace
alone: files over `/etc/passwd` and `/etc/subuid` give it an id, and Podman's range of ids. Exit code 1: a race failed.
"""

from __future__ import annotations

import argparse
import json
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
import suite_samples  # noqa: E402
from pages import splice  # noqa: E402

from dragstrip.store.database import Store  # noqa: E402

IMAGE = "localhost/dragstrip-trial:1"
USER = 4242
ROUNDS = 2

INSTALL = "`RUNLEVEL=1 apt-get install podman uidmap docker.io` installs all engines and starts no daemon"

DEFINITION = """\
name = "{name}"
title = "Built from a folder"
host = "C"
language = "C"
workloads = ["hello"]
[container]
build = "."
engine = "{engine}"
"""

#: How the program of `tests/servers/boxed.c` reaches the database, and the image's user.
DATABASE = {"by its socket": ("asks", "web"), "over TCP": ("foreign", "root")}

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
    users = b"root:x:0:0::/root:/bin/sh\nweb:x:33:34::/srv:/bin/sh\n"
    content = images.layer(images.entry("srv/server", server, mode=0o755), images.entry("etc/passwd", users))
    images.save(
        place / "trial.tar", [content], name=IMAGE, Entrypoint=["/srv/server"], Labels={"made": str(time.time())}
    )
    for how, user in DATABASE.values():
        images.save(place / f"{how}.tar", [content], Entrypoint=["/srv/server"], Cmd=[how], User=user)
    for engine in ("podman", "docker"):
        for name, missing in (("built", False), ("fails", True)):
            folder = place / engine / name
            folder.mkdir(parents=True)
            (folder / "server").write_bytes(server)
            (folder / "server").chmod(0o755)
            copied = "missing" if missing else "server"
            (folder / "Dockerfile").write_text(f'FROM scratch\nCOPY {copied} /server\nENTRYPOINT ["/server"]\n')
            (folder / "contender.toml").write_text(DEFINITION.format(name=name, engine=engine))
    suite_samples.copied(place)
    suite_samples.compile_c(place / "arena" / "frameworks" / "arena-c")
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


def raced(source: str, given: Sequence[str], place: Path, env: Mapping[str, str], *, as_user: bool) -> Trial:
    """One race of two alike, and what the store has of it.

    Args:
        given: the arguments that name the contenders and the workload.
    """
    user = "ordinary user" if as_user else "root"
    folder = place / ("own" if as_user else ".")
    store = folder / f"{time.monotonic_ns()}.sqlite"
    words = [sys.executable, "-m", "dragstrip", "race", *given, "--rounds", str(ROUNDS)]
    done = run([*words, "--store", str(store), "--quiet", "--yes"], place, with_cache(env, folder), as_user=as_user)
    if done.returncode not in (0, 3) or not store.exists():
        return Trial(source, user, f"fails: {(done.stderr or done.stdout).strip().splitlines()[-1][:150]}", False)
    with Store(store) as opened:
        race = opened.load("last")
    if out := [entrant.out for entrant in race.entrants if entrant.out]:
        return Trial(source, user, f"fails: {out[0].splitlines()[0][:150]}", False)
    blocks = [block for one in race.rounds for block in one.blocks]
    wrong = sum(1 for block in blocks if block.errors)
    right = f"{len(race.rounds)} rounds raced, {wrong} of {len(blocks)} blocks with errors"
    return Trial(source, user, right, len(race.rounds) == ROUNDS and not wrong)


def with_cache(env: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Root's cache must be in a folder that a container's user may enter."""
    return {**env, "DRAGSTRIP_CACHE": f"{folder}/cache", "XDG_DATA_HOME": f"{folder}/data"}


def images_of(given: str) -> list[str]:
    """The arguments for a race of an image against itself at `hello`."""
    return ["--image", f"one={given}", "--image", f"two={given}", "--workload", "hello"]


def verified(source: str, given: Sequence[str], place: Path, env: Mapping[str, str], *, as_user: bool) -> Trial:
    """Scrutineering of one contender."""
    folder = place / ("own" if as_user else ".")
    words = [sys.executable, "-m", "dragstrip", "verify", *given]
    done = run(words, place, with_cache(env, folder), as_user=as_user)
    passed = done.returncode == 0 and "passed" in done.stdout
    said = "passes scrutineering" if passed else f"fails: {(done.stdout + done.stderr).strip()[-150:]}"
    return Trial(source, "ordinary user" if as_user else "root", said, passed)


def refused(source: str, folder: Path, place: Path, env: Mapping[str, str], *, as_user: bool) -> Trial:
    """A build that fails: the reason must have the engine's last lines and the path of the log."""
    own = place / ("own" if as_user else ".")
    words = [sys.executable, "-m", "dragstrip", "verify", str(folder), "--workload", "hello"]
    done = run(words, place, with_cache(env, own), as_user=as_user)
    said = " ".join((done.stdout + done.stderr).split())
    named = "its build failed" in said and "missing" in said and "its output is in" in said
    result = "refused, with its last lines and its log" if named else f"the reason lacks something: {said[-150:]}"
    return Trial(source, "ordinary user" if as_user else "root", result, named and done.returncode != 0)


def trials(place: Path) -> Iterator[Trial]:
    """All ways, one after the other."""
    file = prepared(place)
    for as_user in (False, True):
        env = {"PATH": path_without_engines(place)}
        yield raced("an archive, without an engine", images_of(str(file)), place, env, as_user=as_user)
        for way, (how, _) in DATABASE.items():
            name = f"an archive; it asks the database {way}"
            given = ["--image", f"one={place / how}.tar", "--workload", "db"]
            yield verified(name, given, place, env, as_user=as_user)
    if shutil.which("podman"):
        version = subprocess.run(["podman", "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
        for as_user in (False, True):
            yield from of_engine("podman", f"Podman {version}", file, place, {}, as_user=as_user)
    if shutil.which("docker") and shutil.which("dockerd"):
        with docker_daemon(place) as host:
            said = subprocess.run(["dockerd", "--version"], capture_output=True, text=True, check=True).stdout
            for as_user in (False, True):
                name = f"Docker {said.split()[2].rstrip(',')}"
                yield from of_engine("docker", name, file, place, {"DOCKER_HOST": host}, as_user=as_user)


def of_engine(
    engine: str, name: str, file: Path, place: Path, env: Mapping[str, str], *, as_user: bool
) -> Iterator[Trial]:
    """What an engine gives and builds; its images are removed afterwards."""
    other = {"podman": "docker", "docker": "podman"}[engine]
    env = {**env, "PATH": path_without_engines(place, other)}
    user, folder = "ordinary user" if as_user else "root", place / ("own" if as_user else ".")
    loaded = run([engine, "load", "-i", str(file)], place, env, as_user=as_user)
    if loaded.returncode != 0:
        said = " ".join(loaded.stderr.strip().splitlines()[-1:])
        yield Trial(name, user, f"`{engine} load` fails: {said[:150]}", False)
        return
    try:
        yield raced(name, images_of(IMAGE), place, env, as_user=as_user)
        built = [str(place / engine / "built"), f"two={place / engine / 'built'}", "--workload", "hello"]
        yield raced(f"{name}, built from a folder", built, place, env, as_user=as_user)
        yield refused(f"{name}, a build that fails", place / engine / "fails", place, env, as_user=as_user)
        words = [sys.executable, "-m", "dragstrip", "import", str(place / "arena")]
        run(words, place, with_cache(env, folder), as_user=as_user)
        entry = ["arena:arena-c", "two=arena:arena-c", "--workload", "arena-baseline"]
        yield raced(f"{name}, an imported entry of HttpArena", entry, place, env, as_user=as_user)
    finally:
        notes = (folder / "cache" / "image-builds").glob("*/build.json")
        made = [json.loads(note.read_text())["image"] for note in notes]
        run([engine, "rmi", "-f", IMAGE, *made], place, env, as_user=as_user)
        shutil.rmtree(folder / "cache" / "image-builds", ignore_errors=True)


def path_without_engines(place: Path, *names: str) -> str:
    """A PATH with every program but these engines; without a name, but both."""
    names = names or ("podman", "docker")
    folder = place / "-".join(("without", *names))
    if not folder.exists():
        folder.mkdir()
        for parent in os.environ["PATH"].split(os.pathsep):
            for program in Path(parent).glob("*") if Path(parent).is_dir() else ():
                if program.name not in names and not (folder / program.name).is_symlink():
                    (folder / program.name).symlink_to(program)
    return str(folder)


def main() -> int:
    """Tries all, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write the table into docs/containers.md")
    given = parser.parse_args()
    missing = [program for program in ("podman", "newuidmap", "docker", "dockerd") if not shutil.which(program)]
    if given.record and missing:
        parser.error(f"--record needs {', '.join(missing)}: without it, the page would lose rows; {INSTALL}")
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
