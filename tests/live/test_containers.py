"""Containers as contenders: images made here, raced in boxes, and nothing of them is left, however they end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import images
import kill_check
import psutil
import pytest
from commands import dragstrip

from dragstrip import contender, image
from dragstrip.contender import Entry, prepare
from dragstrip.errors import NotReady, StageError
from dragstrip.machine.network_namespace import within
from dragstrip.process.database import find
from dragstrip.process.launcher import Launcher, ServerProcess, scratch_root
from dragstrip.process.supervisor import box_processes, descendants
from dragstrip.store.database import Store

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which(image.PROGRAM) is None, reason="bubblewrap is missing: no container can start"),
    pytest.mark.skipif(os.geteuid() != 0, reason="not root: tests/live/test_containers_as_user.py is for other users"),
]

CORE = max(os.sched_getaffinity(0))


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that the users of containers may enter, unlike pytest's."""
    folder = Path(tempfile.mkdtemp(prefix="containers-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def server(place: Path) -> bytes:
    """The program of the images."""
    if (made := images.compiled_server(place / "server")) is None:
        pytest.skip("`cc -static` does not work: no image can be made")
    return made


@pytest.fixture(autouse=True)
def _own_cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGSTRIP_CACHE", str(place / "cache"))


@pytest.fixture
def made(place: Path, server: bytes) -> Callable[..., Path]:
    """Makes a saved image whose server behaves in some way."""

    def make(how: str = "plain", **start: object) -> Path:
        file = place / f"{how}-{len(list(place.glob('*.tar')))}.tar"
        passwd = b"root:x:0:0::/root:/bin/sh\nweb:x:33:34::/srv:/bin/sh\n"
        content = images.layer(
            images.entry("srv/server", server, mode=0o755), images.entry("etc/passwd", passwd),
            images.folder("var/log"), images.entry("var/log/old", b"old", uid=33, gid=34),
        )  # fmt: skip
        images.save(file, [content], **({"Entrypoint": ["/srv/server"], "Cmd": [how], "WorkingDir": "/srv"} | start))
        return file

    return make


@pytest.fixture
def root() -> Iterator[Path]:
    with scratch_root() as folder:
        yield folder


@pytest.fixture
def launcher(root: Path) -> Iterator[Launcher]:
    with Launcher(name="boxed", scratch_root=root) as made:
        yield made


def is_right(host: str, port: int) -> str | None:
    with socket.create_connection((host, port), timeout=5) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(1000), b""))
    return None if answer.endswith(b"\r\n\r\nhello world\n") else f"answered {answer!r}"


def _launch(launcher: Launcher, root: Path, entry: Entry) -> ServerProcess:
    scratch = root / f"launch-{time.monotonic_ns()}"
    scratch.mkdir()
    start = prepare(entry, scratch=scratch, port=1, cores=(CORE,), workload="hello")
    return launcher.launch(start, scratch=scratch, cores=(CORE,), is_right=is_right)


def _entry(file: Path) -> Entry:
    return contender.image_entry(f"boxed={file}")


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _wait_until_gone(pids: list[int]) -> list[int]:
    """The processes that are left after 15 s at most."""
    until = time.monotonic() + 15
    left = pids
    while left and time.monotonic() < until:
        left = [pid for pid in left if _lives(pid)]
        time.sleep(0.01)
    return left


def test_a_container_runs_as_any_other_server(launcher: Launcher, root: Path, made: Callable[..., Path]) -> None:
    """As a descendant of its supervisor, on its cores, in its cgroup; with a network and a user of its own."""
    running = _launch(launcher, root, _entry(made("family", Env=["MODE=a b"], User="web")))
    monitor, init, own = box_processes(running.pid)
    assert {monitor, init, own} < set(descendants(launcher.pid))
    descriptors = sorted(str(item.readlink()).partition("[")[0] for item in Path(f"/proc/{own}/fd").iterdir())
    assert descriptors == ["/dev/null", "pipe:", "pipe:", "socket:", "user:"], (
        "bubblewrap keeps its user namespace open"
    )
    assert running.counts()[0] == 4, "the server and three children, without bubblewrap's own two"
    assert os.sched_getaffinity(own) == {CORE}
    assert running.users() == (str(image.images.BASE_ID + 33),)
    network = Path(f"/proc/{own}/ns/net").readlink()
    assert network != Path("/proc/self/ns/net").readlink()
    assert running.namespace is not None
    assert running.namespace.readlink() == network
    assert running.port == 8080
    if running.cgroup:
        assert {monitor, init, own} <= set(map(int, (running.cgroup / "cgroup.procs").read_text().split()))
    assert "family, uid 33, pid 2, in /srv, MODE=a b" in running.log_tail()
    spent_ns = sum(ns for path, ns in running.thread_cpu_ns().items() if path.split("/")[2] == str(monitor))
    assert spent_ns < 50_000_000, "bubblewrap starts the server, and then sleeps"
    running.freeze()
    with pytest.raises(TimeoutError), within(running.namespace):
        socket.create_connection(("127.0.0.1", 8080), timeout=1).recv(1) and None
    running.thaw()
    ended = running.stop()
    assert (ended.died, ended.exit_status) == (False, 0), ended
    assert "stopped by SIGTERM" in ended.log_tail
    assert _wait_until_gone([monitor, init, own]) == []
    assert not running.scratch.exists()
    assert running.namespace is None


def test_a_container_sees_nothing_of_the_racing_users_environment(
    launcher: Launcher, root: Path, made: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in its own process nor in bubblewrap's, which are its process 1; nor does a command show its own."""
    monkeypatch.setenv("A_TOKEN_OF_THE_USER", "secret")
    running = _launch(launcher, root, _entry(made("plain", Env=["PGPASSWORD=of the container"])))
    monitor, init, own = box_processes(running.pid)
    environment = {pid: Path(f"/proc/{pid}/environ").read_bytes() for pid in (monitor, init, own)}
    assert environment[monitor] == environment[init] == b""
    assert b"PGPASSWORD=of the container\0" in environment[own]
    assert b"TOKEN" not in environment[own]
    for pid in (monitor, init, own):
        assert b"of the container" not in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_two_containers_have_the_same_port_and_the_machine_keeps_its_own(root: Path, made: Callable[..., Path]) -> None:
    file = made()
    with Launcher(name="a", scratch_root=root) as a, Launcher(name="b", scratch_root=root) as b:
        one, two = _launch(a, root, _entry(file)), _launch(b, root, _entry(file))
        assert one.namespace is not None
        assert two.namespace is not None
        assert one.namespace.readlink() != two.namespace.readlink()
        for running in (one, two):
            with within(running.namespace):
                assert is_right("127.0.0.1", 8080) is None
        before = Path("/proc/thread-self/ns/net").readlink()
        with pytest.raises(ZeroDivisionError), within(one.namespace):
            _ = 1 / 0
        assert Path("/proc/thread-self/ns/net").readlink() == before


def test_what_a_container_writes_changes_nothing_outside_of_it(
    launcher: Launcher, root: Path, made: Callable[..., Path]
) -> None:
    """The image is read-only, folders for logs are copies; devices and the kernel's settings can't be written."""
    kept = [Path("/proc/sys/vm/swappiness"), Path("/proc/sys/kernel/hostname"), Path("/sys/kernel/mm/ksm/run")]
    settings = [file.read_text() for file in kept if file.exists()]
    devices = [(place.name, place.lstat().st_mode, place.lstat().st_uid) for place in sorted(Path("/dev").iterdir())]
    file = made("writes")
    entry = _entry(file)
    unpacked = contender.build(entry)
    assert unpacked is not None
    before = sorted((place, place.lstat().st_mtime_ns) for place in unpacked.rglob("*"))
    running = _launch(launcher, root, entry)
    written = [line for line in running.log_tail().splitlines() if line.endswith(": written")]
    own = {"/tmp/file: written", "/dev/made: written", "kill -9 -1: written"}  # in the box alone
    assert set(written) <= own, running.log_tail()
    assert "/tmp/file: written" in written
    assert (running.scratch / ".writable").is_dir()
    running.stop()
    assert sorted((place, place.lstat().st_mtime_ns) for place in unpacked.rglob("*")) == before
    assert [file.read_text() for file in kept if file.exists()] == settings
    assert devices == [
        (item.name, item.lstat().st_mode, item.lstat().st_uid) for item in sorted(Path("/dev").iterdir())
    ]


def test_a_container_that_ignores_its_signal_or_goes_away_is_ended(root: Path, made: Callable[..., Path]) -> None:
    with Launcher(name="stubborn", scratch_root=root) as launcher:
        running = _launch(launcher, root, _entry(made("stubborn")))
        pids = box_processes(running.pid)
        assert "killed" in running.stop(grace_s=0.2).how
        assert _wait_until_gone(pids) == []
    with Launcher(name="away", scratch_root=root) as launcher:
        with pytest.raises(StageError, match=r"died .* after its start|start the server in the foreground"):
            _launch(launcher, root, _entry(made("away")))
        assert descendants(launcher.pid) == {}


def test_deep_and_locked_folders_of_a_container_are_removed(
    launcher: Launcher, root: Path, made: Callable[..., Path]
) -> None:
    running = _launch(launcher, root, _entry(made("deep")))
    assert "deep enough" in running.log_tail()
    running.stop()
    assert not running.scratch.exists()


def test_a_command_that_looks_like_an_option_of_bubblewrap_is_the_program(
    launcher: Launcher, root: Path, made: Callable[..., Path]
) -> None:
    """An image could otherwise mount the machine's root."""
    for words in (["--bind", "/", "/host", "/srv/server"], ["--dev-bind", "/dev", "/dev", "/srv/server"]):
        with pytest.raises(StageError, match=r"execvp --(dev-)?bind: No such file"):
            _launch(launcher, root, _entry(made(Entrypoint=words)))


def test_a_start_that_fails_says_why(launcher: Launcher, root: Path, made: Callable[..., Path]) -> None:
    with pytest.raises(StageError, match="No such file or directory"):
        _launch(launcher, root, _entry(made(Entrypoint=["/srv/absent"])))
    assert descendants(launcher.pid) == {}


KILLED = r"""
import sys, time
from pathlib import Path
from dragstrip import contender
from dragstrip.process.launcher import Launcher, scratch_root
from test_containers import _entry, _launch
with scratch_root() as root, Launcher(name="boxed", scratch_root=root) as launcher:
    running = _launch(launcher, root, _entry(Path(sys.argv[1])))
    print(root, launcher.pid, running.cgroup, *running.pids(), flush=True)
    time.sleep(600)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("victim", ["program", "supervisor", "monitor", "process 1", "server"])
def test_after_a_kill_of_anybody_nothing_is_left(victim: str, made: Callable[..., Path]) -> None:
    """No process, mount, namespace, cgroup or folder. `tests/soak/kill_check.py --image` kills whole races."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, made("family")], stdout=subprocess.PIPE, text=True, env=env
    ) as program:
        try:
            assert program.stdout is not None
            _, supervisor, _, *others = program.stdout.readline().split()
            pids = [int(pid) for pid in others]
            monitor, init, own = box_processes(pids[0])
            assert len(pids) == 6
            watch = kill_check.Watch(program.pid, "no process has this in its environment")
            watch.look()
            assert len(watch.namespaces) >= 6
            chosen = {"program": program.pid, "supervisor": int(supervisor), "monitor": monitor, "process 1": init}
            os.kill(chosen.get(victim, own), signal.SIGKILL)
            assert _wait_until_gone(pids) == []
        finally:
            program.kill()
            program.wait()
        # The next race removes folder and cgroup of a lost supervisor (scratch.sweep_stale).
        removed_later = ("folder", "cgroup") if victim == "supervisor" else ()
        until = time.monotonic() + 60
        left = watch.left()
        while (left := [one for one in left if one.split()[0] not in removed_later]) and time.monotonic() < until:
            time.sleep(0.02)
            left = watch.left()
        assert left == []


@pytest.mark.thorough
def test_a_race_of_two_containers_on_one_port_and_a_program_ends_in_a_verdict(
    place: Path, made: Callable[..., Path]
) -> None:
    """Templates, mounts and the image's own command work in a definition; the parity sheet describes the box."""
    file = made(ExposedPorts={"8080/tcp": {}})
    folder = place / "definition"
    folder.mkdir()
    shutil.copy(file, folder / "mine.tar")
    (folder / "given.txt").write_text("port {{ port }}")
    (folder / "contender.toml").write_text(
        'name = "mine"\ntitle = "Mine"\nhost = "mine"\nlanguage = "C"\nworkloads = ["hello"]\n'
        '[container]\nimage = "mine.tar"\nmounts = { "/etc/given" = "{scratch}/given.txt" }\nwritable = ["/data"]\n'
        '[start]\nrender = ["given.txt"]\nenv = { MODE = "{cores}" }\n'
    )
    done = dragstrip(
        "race", str(folder), "--image", f"adhoc={file}", "--workload", "hello", "--rounds", "2",
        "--store", str(place / "races.sqlite"), "--html", str(place / "race.html"),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    with Store(place / "races.sqlite") as store:
        parity = {one.name: one.parity for one in store.load("last").entrants}
    assert set(parity) == {"mine", "adhoc"}
    for sheet in parity.values():
        assert "bubblewrap" in sheet["namespaces"]
        assert "id " in sheet["image"]
        assert sheet["image's user"] == "root (id 0)"
        assert "overlayfs" in sheet["without, as Docker has"]
    assert f"adhoc={file}" in (place / "race.html").read_text()


def test_verify_names_what_is_missing(place: Path) -> None:
    done = dragstrip("verify", "--image", f"a={place}/absent.tar", "--workload", "hello")
    assert (done.returncode, "the file does not exist" in done.stdout) == (2, True), done.stdout


def test_load_reaches_a_container_that_it_starts(made: Callable[..., Path]) -> None:
    """The URL's port is the container's own, which no program of the machine has."""
    file = made(ExposedPorts={"8080/tcp": {}})
    done = dragstrip("load", "--image", str(file), "http://localhost/", "-n", "100", "--json", "-")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["requests"], report["failed"], report["url"]) == (100, 0, "http://localhost:8080/")
    assert report["load"]["image"].startswith(f"{file}, id ")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", 8080), timeout=5)
    for words, expected in (
        (["--image", str(file), "http://example/"], "is not in the container"),
        (["--wake", "3s", "http://localhost/"], "--wake 3s is for --image"),
        (["--image", str(file), "--unix", "s", "http://localhost/"], "can't be combined with --unix"),
    ):
        done = dragstrip("load", *words)
        assert (done.returncode, expected in done.stderr) == (2, True), done.stderr


def _has_database() -> bool:
    try:
        find()
    except NotReady:
        return False
    return True


@pytest.mark.thorough
@pytest.mark.skipif(not _has_database(), reason="PostgreSQL is not installed")
@pytest.mark.parametrize(("how", "user"), [("asks", "web"), ("foreign", "root"), ("foreign", "web")])
def test_a_container_reaches_the_races_database(made: Callable[..., Path], how: str, user: str) -> None:
    """By its socket, or over TCP with the names that its program has built in; each one's statements are counted."""
    words = [word for name in ("one", "two") for word in ("--image", f"{name}={made(how, User=user)}")]
    done = dragstrip("verify", *words, "--workload", "db", "--json")
    proofs = json.loads(done.stdout)
    assert [(proof["status"], proof["reason"]) for proof in proofs] == [("passed", "")] * 2


def _engine_that_builds() -> str:
    """The name of an engine that works here; skips the test without one."""
    for name in image.ENGINES:
        state = image.examined(name)
        if state.program is not None and not state.refused:
            return name
    pytest.skip("neither Podman nor Docker works here: no image can be built")


@pytest.mark.thorough
def test_an_image_is_built_once_for_each_content_of_its_folder(
    place: Path, server: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a real engine; a failing build is reported with its last lines, and its log has the whole output."""
    engine = _engine_that_builds()
    monkeypatch.setenv("DRAGSTRIP_CACHE", str(place / f"built-{engine}"))
    folder = place / "to-build"
    folder.mkdir()
    (folder / "server").write_bytes(server)
    (folder / "server").chmod(0o755)
    dockerfile = folder / "mine.dockerfile"
    dockerfile.write_text(
        f"FROM scratch\nARG HOW\nLABEL made={time.time_ns()}\nCOPY server /server\nENV HOW=$HOW\nEXPOSE 8080\n"
        'RUN ["/server", "builds"]\nCMD ["/server", "plain"]\n'
    )
    (place / "contender.toml").write_text(
        'name = "mine"\ntitle = "Mine"\nhost = "mine"\nlanguage = "C"\nworkloads = ["hello"]\n[container]\n'
        f'build = "to-build"\ndockerfile = "mine.dockerfile"\nengine = "{engine}"\nargs = {{ HOW = "given" }}\n'
    )
    entry = contender.entry(str(place / "contender.toml"))
    state, pending = contender.check(entry), contender.pending_build(entry)
    assert isinstance(state, contender.Ready), state
    assert pending == ("build", f"{folder} (mine.dockerfile)")
    found = []
    try:
        root = contender.build(entry)
        assert root is not None
        assert (root / "server").read_bytes() == server
        assert contender.pending_build(entry) is None
        assert contender.check(entry) == state
        recipe = image.Recipe(folder=folder, dockerfile="mine.dockerfile", args=(("HOW", "given"),), engine=engine)
        built = image.built(recipe, contender.cache_dir())
        assert built is not None
        found.append(built.id)
        (unpacked,) = image.kept(contender.cache_dir())
        assert "HOW=given" in unpacked.start().environment
        dockerfile.write_text(dockerfile.read_text() + 'RUN ["/server", "fails"]\n')
        assert contender.pending_build(entry) is not None
        with pytest.raises(StageError) as refused:
            contender.build(entry)
        log = Path(str(refused.value).partition("its output is in ")[2].partition(",")[0])
        assert "RUN" in log.read_text()
        assert str(refused.value).rstrip().endswith(log.read_text().rstrip().splitlines()[-1])
        before = log.stat().st_mtime_ns
        with pytest.raises(StageError, match="its build failed"):
            contender.build(entry)
        assert log.stat().st_mtime_ns == before, "the same process does not try it again"
        assert image.forget(contender.cache_dir()) == 1
        assert not log.exists()
    finally:
        for one in found:
            subprocess.run([engine, "rmi", "-f", one], capture_output=True, check=False)


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("podman") is None, reason="podman is not installed: it can't give an image")
def test_an_image_of_podman_is_the_saved_one(place: Path, made: Callable[..., Path]) -> None:
    """Its id is the same, so is what is unpacked; nothing of podman runs meanwhile."""
    file = made(Labels={"made": str(time.time_ns())})
    loaded = subprocess.run(["podman", "load", "-i", file], capture_output=True, text=True, check=False)
    if loaded.returncode != 0:
        pytest.skip(f"podman does not work here: {loaded.stderr.strip()}")
    try:
        found = image.find("localhost/made:1", "podman")
        assert found.id == image.find(str(file), "none").id
        unpacked = image.unpacked(found, place / "cache")
        assert (unpacked.root / "srv" / "server").stat().st_size > 0
        done = dragstrip("verify", "--image", "engines=localhost/made:1", "--workload", "hello")
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        subprocess.run(["podman", "rmi", "-f", "localhost/made:1"], capture_output=True, check=False)
