"""A user's own servers, started by commands as people write them, wherever they listen."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from races import PYTHON, assert_nothing_left, begun, dragstrip_run, settings

from dragstrip import contender
from dragstrip.contender import serve_entry
from dragstrip.errors import StageError
from dragstrip.process.launcher import Launcher, scratch_root
from dragstrip.process.ports import free_port
from dragstrip.racing.launching import LaunchedServer, Launching
from dragstrip.scrutiny import is_right, plainest
from dragstrip.workload import Asking, Data
from dragstrip.workload import load as load_workload

CORE = max(os.sched_getaffinity(0))
OWN = f"{PYTHON} {Path(__file__).parents[1]}/servers/own.py"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's command starts again in a user namespace")
needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm")


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """After each test: no scratch directory of a race begun in it, and no process with a foot in one."""
    begun.clear()
    yield
    assert_nothing_left()


@pytest.fixture
def launching() -> Iterator[Launching]:
    with ExitStack() as resources:
        root = resources.enter_context(scratch_root())
        yield Launching((CORE,), root, resources, seed=1)


@contextmanager
def up(launching: Launching, command: str, folder: Path | None = None) -> Iterator[LaunchedServer]:
    """A command's server once it responds correctly; it is stopped within, and nothing of it is left then."""
    name = f"own-{len(launching._supervisors)}"
    launched = launching.launch(serve_entry(f"{name}={command}", folder), load_workload("hello"), "1.1")
    pids = launched.running.pids()
    try:
        yield launched
    finally:
        launched.running.stop()
    assert not [pid for pid in pids if Path(f"/proc/{pid}/stat").exists()]


@pytest.mark.parametrize(
    ("command", "host"),
    [
        (f"{OWN} PORT", "127.0.0.1"),
        (f"{OWN} {{port}}", "127.0.0.1"),
        (f"PORT={{port}} {OWN} PORT", "127.0.0.1"),
        (f"{OWN} $PORT $HOST", "127.0.0.1"),
        (f"{OWN} PORT 0.0.0.0", "127.0.0.1"),
        (f"{OWN} PORT ::", "127.0.0.1"),
        (f"{OWN} PORT ::1", "::1"),
        (f"true && {OWN} PORT 2>&1 | tee log", "127.0.0.1"),
        (f"mkdir -p in && cd in && {OWN} PORT > out.log", "127.0.0.1"),
    ],
)
def test_a_command_as_people_write_it_is_raced(launching: Launching, command: str, host: str, tmp_path: Path) -> None:
    """Where it was asked to listen; its whole tree ends when it is stopped, well before anything is killed."""
    with up(launching, command, tmp_path) as launched:
        assert launched.running.host == host
        assert launched.running.port not in launching._ports.values()
        ended = launched.running.stop()
        assert not ended.died
        assert "did not end it" not in ended.how
        assert ended.left_over == ()


def test_a_port_of_its_own_choice_is_found_and_said(launching: Launching, tmp_path: Path) -> None:
    """By its processes' sockets, behind a shell and at either family; the next launch goes there at once."""
    port = free_port()
    for command, host in ((f"{OWN} {port}", "127.0.0.1"), (f"cd {tmp_path} && {OWN} {port} ::1", "[::1]")):
        for _ in range(2):
            with up(launching, command) as launched:
                assert launched.running.port == port
                assert launched.running.note == f"listens at {host}:{port}, whatever PORT says"


def test_another_port_of_the_same_server_is_not_mistaken_for_it(launching: Launching) -> None:
    """A server's metrics answer first, and elsewhere; its own port comes later. Or its own port is a fixed one."""
    beside, fixed = free_port(), free_port()
    with up(launching, f"{OWN} PORT beside={beside} later=0.4") as launched:
        assert launched.running.port not in (beside, fixed)
        assert launched.running.note == ""
    with up(launching, f"{OWN} {fixed} beside={beside} later=0.4") as launched:
        assert launched.running.port == fixed


@as_root
def test_two_servers_that_insist_on_one_port_run_at_once(launching: Launching) -> None:
    """Each in a network of its own, so that no request reaches the other; a third command gets one, too."""
    port = free_port()
    command = f"{OWN} {port}"
    with up(launching, command) as first, up(launching, command) as second:
        assert (first.apart, second.apart) == (False, True)
        assert first.running.port == second.running.port == port
        assert "runs in a network of its own" in second.running.note
        with up(launching, f"{OWN} PORT ::1") as third:
            assert third.apart
            assert third.running.host == "::1"
    with up(launching, command) as again:
        assert again.apart


@as_root
def test_a_port_that_several_processes_share_is_not_shared_with_another_contender(
    launching: Launching, tmp_path: Path
) -> None:
    """SO_REUSEPORT lets two servers have one port, and the kernel divides the connections among them."""
    port = free_port()
    text = (Path(__file__).parents[1] / "servers" / "own.py").read_text()
    (tmp_path / "own.py").write_text(text.replace("daemon_threads,", "allow_reuse_port = daemon_threads,"))
    command = f"python3 {tmp_path}/own.py {port}"
    with up(launching, command) as first, up(launching, command) as second:
        assert (first.apart, second.apart) == (False, True)


@needs_npm
def test_npm_start_is_one_server_with_its_child(launching: Launching, tmp_path: Path) -> None:
    """The wrapper's whole tree is counted and ended."""
    script = "process.argv[1] && require('http').createServer((q, r) => { r.setHeader('content-type', 'text/plain');"
    (tmp_path / "s.js").write_text(f"{script} r.end('hello world\\n') }}).listen(process.env.PORT)")
    (tmp_path / "package.json").write_text('{"name": "own", "scripts": {"start": "node s.js"}}')
    with up(launching, "npm start", tmp_path) as launched:
        assert launched.running.counts()[0] >= 2
        before = sum(launched.running.thread_cpu_ns().values())
        exchange = plainest(
            Asking.of(load_workload("hello"), 1, launched.entry, launched.data, None).exchanges(keepalive=False)
        )
        for _ in range(200):
            assert is_right(exchange)(launched.running.host, launched.running.port) is None
        assert sum(launched.running.thread_cpu_ns().values()) > before
        ended = launched.running.stop()
        assert "did not end it" not in ended.how


def test_a_wrapper_that_keeps_its_stop_signal_to_itself_costs_seconds_not_the_grace(
    launching: Launching, tmp_path: Path
) -> None:
    """The signal goes to its processes, too, whose end ends it."""
    (tmp_path / "wrapper.py").write_text(
        "import signal, subprocess, sys\nsignal.signal(signal.SIGTERM, lambda *_: None)\n"
        "sys.exit(abs(subprocess.Popen(sys.argv[1:]).wait()))\n"
    )
    with up(launching, f"python3 {tmp_path}/wrapper.py env {OWN} PORT") as launched:
        ended = launched.running.stop(grace_s=60)
        assert "killed" not in ended.how
        assert ended.exit_status == 15


def test_a_start_that_takes_long_is_awaited_while_nothing_listens(tmp_path: Path) -> None:
    """Beyond its time; a server that never listens is out with the option that gives it more."""
    entry = serve_entry(f"slow={OWN} PORT later=1.5")
    exchange = plainest(Asking.of(load_workload("hello"), 1, entry, Data(), None).exchanges(keepalive=False))
    with scratch_root() as root, Launcher(name="slow", scratch_root=root) as launcher:

        def launch(**times: float) -> float:
            scratch = root / f"scratch-{time.monotonic_ns()}"
            scratch.mkdir()
            start = contender.prepare(entry, scratch=scratch, port=free_port(), cores=(CORE,), workload="hello")
            running = launcher.launch(
                replace(start, **times),  # type: ignore[arg-type]
                scratch=scratch,
                cores=(CORE,),
                is_right=is_right(exchange),
            )
            running.stop()
            return running.ready_ns / 1e9

        assert launch(wake_s=0.5, listening_s=30.0) > 1.5
        with pytest.raises(StageError, match=r"within 0\.5 s of its start: it listens on no TCP port.*--wake 60s"):
            launch(wake_s=0.5, listening_s=0.0)


def test_the_last_tries_of_a_long_start_still_wait_for_their_response(
    launching: Launching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever launches it: the probe's own limit is no shorter than the launcher's."""
    monkeypatch.setattr("dragstrip.contender.entries.USUAL_WAKE_S", 0.5)
    with up(launching, f"{OWN} PORT later=1.5") as launched:
        assert launched.running.ready_ns > 1.5e9


SECRET = "correct-horse-battery"


@pytest.mark.thorough
def test_a_race_of_ones_own_commands_is_resumed_without_a_file_and_keeps_no_secret(tmp_path: Path) -> None:
    """Folders and variables are in the record; a secret's value has to be given again, and it has to be the same."""
    env, port = settings(tmp_path), free_port()
    (tmp_path / "b").mkdir()
    noted = tmp_path / "noted.json"
    words = ["--serve", f"a=X_TOKEN={SECRET} {OWN} {port}", "--serve", f"b={OWN} {port} note={noted}"]
    words += ["--in", f"b={tmp_path}/b", "--env", "b.LEVEL=3", "--env", f"b.API_KEY={SECRET}"]
    outputs = ["--json", str(tmp_path / "o.json"), "--html", str(tmp_path / "o.html")]
    raced = dragstrip_run(env, "race", *words, "--rounds", "3", "--pause-after", "1", *outputs)
    assert "a: ready; it " in raced.stderr + raced.stdout, raced.stdout + raced.stderr
    told = json.loads(noted.read_text())
    assert (told["folder"], told["LEVEL"], told["API_KEY"], told["HOST"]) == (
        f"{tmp_path}/b", "3", SECRET, "127.0.0.1",
    )  # fmt: skip
    contenders = json.loads((tmp_path / "o.json").read_text())["contenders"]
    assert [one["out"] for one in contenders] == ["", ""]
    refused = dragstrip_run(env, "race", "--resume", "last")
    assert "the record has no value of a.X_TOKEN, b.API_KEY, because they are secret" in refused.stderr
    assert "--env a.X_TOKEN=VALUE --env b.API_KEY=VALUE" in refused.stderr
    given = ["--env", f"a.X_TOKEN={SECRET}", "--env"]
    other = dragstrip_run(env, "race", "--resume", "last", *given, "b.API_KEY=another")
    assert "API_KEY has another value than in the race's record" in other.stderr
    resumed = dragstrip_run({**env, "API_KEY": SECRET}, "race", "--resume", "last", *given, "b.API_KEY", *outputs)
    assert json.loads((tmp_path / "o.json").read_text())["rounds"] == 3, resumed.stdout + resumed.stderr
    noted.unlink()
    for file in tmp_path.rglob("*"):
        assert file.is_dir() or SECRET.encode() not in file.read_bytes(), file
    assert SECRET not in "".join((raced.stdout, raced.stderr, resumed.stdout, resumed.stderr))


@pytest.mark.thorough
def test_progress_shows_how_long_a_slow_start_may_take(tmp_path: Path) -> None:
    """Until it listens it has more time than afterwards."""
    done = dragstrip_run(
        settings(tmp_path), "race", "--serve", "slow=sleep 8", "--serve", "dead=false", "--workload", "hello"
    )
    assert re.search(r"slow, \d+ s of 30 s", done.stdout), done.stdout + done.stderr
