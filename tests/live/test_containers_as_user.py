"""An ordinary user races containers: the command line starts itself again in a user namespace."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import images
import pytest

from dragstrip import image
from dragstrip.image.namespaces import why_no_user_namespace
from dragstrip.store.database import Store

#: A user id that no user of the machine has.
USER = 4242

#: Runs a command as that user in a mount namespace where root's home, if Python is in it, can be entered.
AS_USER = """\
set -e
home=$1; user=$2; shift 2
case $home in /root/*)
  hidden=$(mktemp -d); mount --bind "$home" "$hidden"; mount -t tmpfs -o mode=755 tmpfs /root
  mkdir -p "$home"; mount --move "$hidden" "$home"; rmdir "$hidden";;
esac
exec setpriv --reuid "$user" --regid "$user" --clear-groups "$@"
"""

BUILT = """\
name = "boxed"
title = "Boxed"
host = "boxed"
language = "C"
workloads = ["hello"]
[container]
build = "."
engine = "docker"
"""

#: An engine that works only outside of Dragstrip's user namespace, as rootless Podman does.
ENGINE = """\
#!/bin/sh
[ "$(cat /proc/self/uid_map)" = "{ids}" ] || {{ echo "it is in another user namespace" >&2; exit 1; }}
case $1 in
  info) echo 1;;
  build) while [ "$1" != --iidfile ]; do shift; done; echo sha256:{image} > "$2";;
  image) echo sha256:{image};;
  save) cp "{file}" "$3";;
esac
"""

pytestmark = [
    pytest.mark.live,
    pytest.mark.thorough,
    pytest.mark.skipif(shutil.which(image.PROGRAM) is None, reason="bubblewrap is missing: no container can start"),
]


@pytest.fixture
def place() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="containers-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def _as_user(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of Dragstrip as an ordinary user, whose home is the folder `own`."""
    own = place / "own"
    command = [sys.executable, "-m", "dragstrip", *words]
    if os.geteuid() == 0:
        command = ["unshare", "-m", "sh", "-c", AS_USER, "sh", str(Path(sys.base_prefix)), str(USER), *command]
    path = f"{place / 'engines'}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "HOME": str(own), "XDG_DATA_HOME": str(own)}
    env["DRAGSTRIP_CACHE"] = str(own / "cache")
    return subprocess.run(
        command, env=env | {"TMPDIR": "/tmp"}, cwd=place, capture_output=True, text=True, timeout=200, check=False
    )


def test_an_ordinary_user_builds_and_races_a_container_and_a_program(place: Path) -> None:
    """The image is built outside of the race's user namespace.

    The user stays the same, servers outside of containers run as before, and have no rights of the namespace."""
    if (server := images.compiled_server(place / "server")) is None:
        pytest.skip("`cc -static` does not work: no image can be made")
    if why := why_no_user_namespace():
        pytest.skip(f"no user namespaces here: {why}")
    file = place / "plain.tar"
    made = images.save(file, [images.layer(images.entry("srv/server", server, mode=0o755))], Entrypoint=["/srv/server"])
    engines = place / "engines"
    engines.mkdir()
    (engines / "docker").write_text(
        ENGINE.format(ids=Path("/proc/self/uid_map").read_text().rstrip(), image=made, file=file)
    )
    (engines / "docker").chmod(0o755)
    boxed = place / "boxed"
    boxed.mkdir()
    (boxed / "Dockerfile").write_text("FROM scratch\n")
    (boxed / "contender.toml").write_text(BUILT)
    program = place / "program.py"
    program.write_text(
        "import http.server\n"
        "for line in open('/proc/self/status'):\n"
        "    if line.startswith(('CapEff', 'CapAmb')): print(line, flush=True)\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "    protocol_version = 'HTTP/1.1'\n"
        "    def log_message(self, *words): pass\n"
        "    def do_GET(self):\n"
        "        self.send_response(200); self.send_header('Content-Type', 'text/plain')\n"
        "        self.send_header('Content-Length', '12'); self.end_headers(); self.wfile.write(b'hello world\\n')\n"
        "import sys; http.server.ThreadingHTTPServer.request_queue_size = 1024\n"
        "http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), H).serve_forever()\n"
    )
    own = place / "own"
    own.mkdir()
    os.chown(own, USER if os.geteuid() == 0 else -1, -1)
    done = _as_user(
        place, "race", str(boxed), "--serve", f"program={sys.executable} {program} {{port}}",
        "--workload", "hello", "--rounds", "2", "--store", str(own / "races.sqlite"),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    with Store(own / "races.sqlite") as store:
        race = store.load("last")
    parity = {one.name: one.parity for one in race.entrants}
    user = str(USER if os.geteuid() == 0 else os.geteuid())
    assert user in (parity["boxed"]["runs as"], str(os.geteuid())), parity["boxed"]
    assert parity["boxed"]["image's user"] == "0 (id 0, the only user that the box has)"
    rights = [launch.log_tail for round_ in race.rounds for launch in round_.launches if launch.contender == "program"]
    assert len(rights) == 2
    assert all("CapEff:\t0000000000000000" in text for text in rights), rights
    assert all("CapAmb:\t0000000000000000" in text for text in rights), rights
