"""The stage, on real processes: what is started is right, pinned and counted, and nothing of it is left."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from dragstrip import contender
from dragstrip.errors import PortTaken, StageError
from dragstrip.process import launcher as launcher_module
from dragstrip.process.launcher import Launcher, ServerProcess, scratch_root
from dragstrip.process.ports import free_port
from dragstrip.process.supervisor import descendants
from dragstrip.racing.launching import hidden_text
from dragstrip.scrutiny.responses import Incorrect

CORE = max(os.sched_getaffinity(0))
WAIT_S = 20.0
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")

#: A server with a fault: it writes the pids of all its processes to ``pids``, then answers each connection "ok".
SERVER = r"""
import os, signal, socket, sys, time
port, fault = int(sys.argv[1]), sys.argv[2]
def note():
    with open("pids", "a") as file:
        file.write(f"{os.getpid()}\n")
def forked(work):
    if os.fork() == 0:
        work()
        os._exit(0)
def sleeper():
    note()
    time.sleep(600)
def daemon():
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    forked(sleeper)
note()
if fault == "exits":
    print("cannot read the flux capacitor", flush=True)
    sys.exit(3)
if fault == "deaf":
    sleeper()
if fault == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if fault == "family":
    forked(sleeper)
    forked(daemon)
    os.wait()  # the daemon's parent
    while len(open("pids").read().split()) < 3:
        time.sleep(0.001)
if fault == "floods":
    print("the first line", flush=True)
    for _ in range(1600):
        os.write(1, b"x" * 65535 + b"\n")
    print("the last line", flush=True)
if fault == "burns":
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    memory = b"\x01" * 50_000_000
if fault in ("leaves", "hides"):
    own = [line for line in open("/proc/self/cgroup") if line.startswith("0::")][0][3:].strip()
    mount = "/sys/fs/cgroup/unified" if os.path.exists("/sys/fs/cgroup/unified") else "/sys/fs/cgroup"
    def move(to):
        with open(f"{mount}{to}/cgroup.procs", "w") as file:
            file.write("0")
    move("/")
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    if fault == "hides":
        move(own)
if fault == "closes-output":
    os.close(1), os.close(2)
if fault == "ipv6":
    listener = socket.create_server(("::1", port), family=socket.AF_INET6)
else:
    listener = socket.create_server(("127.0.0.1", port))
served = 0
while True:
    connection, _ = listener.accept()
    served += 1
    connection.sendall(b"ok")
    connection.close()
    if fault == "dies-later" and served == 2:
        print("out of fuel", flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
"""

DIRECTOR = """
import sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_launcher import Start, as_server, is_right
from dragstrip.process.launcher import Launcher, scratch_root
with scratch_root() as root, Launcher(name="a", scratch_root=root) as a, Launcher(name="b", scratch_root=root) as b:
    one = as_server(a, root, "family")
    two = as_server(b, root, "stubborn")
    (root / "prepared-but-never-launched").mkdir()
    print(root, a.pid, b.pid, *one.pids(), *two.pids(), one.cgroup, two.cgroup, flush=True)
    time.sleep(600)
"""


#: As ``--serve`` has it: as whoever runs it.
Start = partial(contender.Start, unprivileged=False, kind="serve")


def is_right(host: str, port: int) -> str | None:
    with socket.create_connection((host, port), timeout=5) as connection:
        answer = connection.recv(10)
    return None if answer == b"ok" else f"answered {answer!r}"


def as_server(
    launcher: Launcher,
    root: Path,
    fault: str,
    *,
    wake_s: float = 10.0,
    right: Callable[[str, int], str | None] = is_right,
    port: int | None = None,
) -> ServerProcess:
    port = port or free_port()
    scratch = root / f"{fault}-{port}"
    scratch.mkdir()
    (scratch / "server.py").write_text(SERVER)
    command = (sys.executable, "-I", "-S", "server.py", str(port), fault)
    start = Start(name=fault, command=command, cwd=scratch, port=port, wake_s=wake_s)
    return launcher.launch(start, scratch=scratch, cores=(CORE,), is_right=right)


def is_gone(pid: int) -> bool:
    """Not there, or a zombie that only its parent's reading keeps."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until(true: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.005)


@pytest.fixture
def root() -> Iterator[Path]:
    with scratch_root() as made:
        yield made


@pytest.fixture
def launcher(root: Path) -> Iterator[Launcher]:
    with Launcher(name="mine", scratch_root=root) as made:
        yield made


def test_a_launch_answers_and_its_stop_leaves_nothing(launcher: Launcher, root: Path) -> None:
    """Process, cgroup, scratch directory and log are gone, and TERM was enough."""
    running = as_server(launcher, root, "none")
    assert running.alive()
    assert running.pids() == (running.pid,)
    assert running.counts() == (1, 1)
    assert all(Path(path).exists() for path in running.schedstats())
    assert len(running.schedstats()) == 1
    assert 0 < running.ready_ns < 10e9
    ended = running.stop()
    assert (ended.died, ended.exit_status) == (False, -signal.SIGTERM)
    assert "SIGTERM ended it" in ended.how
    assert is_gone(running.pid)
    assert list(root.iterdir()) == []
    assert running.cgroup is None or not running.cgroup.exists()
    assert running.stop() is ended
    assert not running.alive()


def test_a_port_that_another_program_holds_is_named(launcher: Launcher, root: Path) -> None:
    """By the port, or by the server's words if the other program has ended; another cause of death is not a case."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortTaken, match=f"Another program held port {port}"):
            as_server(launcher, root, "none", port=port, right=lambda *_: "not asked")
    for words, taken in (("bind: Address already in use", True), ("Error: EADDRINUSE", True), ("no such file", False)):
        command = ("/bin/sh", "-c", f"echo '{words}' >&2; exit 1")
        dying, scratch = Start(name="dying", command=command, cwd=root, port=free_port()), root / words
        scratch.mkdir()
        with pytest.raises(StageError) as error:
            launcher.launch(dying, scratch=scratch, cores=(CORE,), is_right=lambda *_: "not asked")
        assert isinstance(error.value, PortTaken) == taken
    with pytest.raises(StageError) as error:
        as_server(launcher, root, "none", wake_s=0.2, right=lambda *_: "not asked")
    assert not isinstance(error.value, PortTaken)


def test_forked_and_daemonised_processes_are_counted_and_ended(launcher: Launcher, root: Path) -> None:
    """A grandchild with a session of its own that ignores SIGTERM is found and killed."""
    running = as_server(launcher, root, "family")
    written = {int(pid) for pid in (running.scratch / "pids").read_text().split()}
    assert len(written) == 3
    assert set(running.pids()) == written
    assert running.pids()[0] == running.pid
    assert running.counts() == (3, 3)
    ended = running.stop()
    assert "left over" in ended.how
    assert [pid for pid in written if not is_gone(pid)] == []


def test_a_frozen_server_does_nothing_until_it_is_let_go_and_can_be_stopped(launcher: Launcher, root: Path) -> None:
    """It takes no CPU time and gives no answer; thawed it answers; stopped while frozen it ends by its stop signal."""
    running = as_server(launcher, root, "none")
    assert running.resident_bytes() > 2**20
    running.freeze()
    with socket.create_connection((running.host, running.port), timeout=5) as connection:
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(2)
        running.thaw()
        connection.settimeout(WAIT_S)
        assert connection.recv(2) == b"ok"
    running.freeze()
    ended = running.stop()
    assert "SIGTERM ended it" in ended.how


def test_a_server_that_ignores_its_stop_signal_is_killed_after_the_grace(launcher: Launcher, root: Path) -> None:
    """Not before, and the report says so."""
    running = as_server(launcher, root, "stubborn")
    began = time.monotonic()
    ended = running.stop(grace_s=0.3)
    assert time.monotonic() - began >= 0.3
    assert "killed" in ended.how
    assert ended.exit_status == -signal.SIGKILL
    assert not ended.died
    assert is_gone(running.pid)


def test_a_flood_of_output_blocks_nobody_and_its_log_is_bounded(launcher: Launcher, root: Path) -> None:
    """100 MB: the first line and the last are kept, what lies between is counted."""
    running = as_server(launcher, root, "floods", wake_s=60)
    wait_until(lambda: "the last line" in running.log_tail())
    text = running.log.read_text()
    assert len(text) <= launcher_module.LOG_LIMIT_BYTES
    assert text.startswith("the first line\n")
    assert "bytes left out here" in text
    assert running.stop().log_tail.endswith("the last line")


def test_a_server_that_closes_its_output_is_kept_without_spinning(launcher: Launcher, root: Path) -> None:
    """The hang-up on its pipe is taken once: the supervisor then sleeps."""
    running = as_server(launcher, root, "closes-output")
    before = _cpu_ticks(launcher.pid)
    time.sleep(0.3)
    assert _cpu_ticks(launcher.pid) - before < 15
    assert running.alive()


def _cpu_ticks(pid: int) -> int:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(words[11]) + int(words[12])


def test_a_server_that_dies_at_once_is_named_with_its_last_words(launcher: Launcher, root: Path) -> None:
    """At once, not after its whole waking time; the scratch directory is gone."""
    began = time.monotonic()
    with pytest.raises(StageError, match=r"exits: died .* \(exit status 3\)[\s\S]*cannot read the flux capacitor"):
        as_server(launcher, root, "exits", wake_s=60)
    assert time.monotonic() - began < 30
    assert list(root.iterdir()) == []


def test_a_server_that_never_listens_is_ended_and_named_with_the_last_reason(launcher: Launcher, root: Path) -> None:
    """The message has the wait, its field and what the last attempt met."""
    with pytest.raises(
        StageError,
        match=r"deaf: sent no correct response within 0\.2 s of its start: it listens on no TCP port.*refused",
    ):
        as_server(launcher, root, "deaf", wake_s=0.2)
    assert list(root.iterdir()) == []
    assert len(descendants(launcher.pid)) == 0


def test_a_server_that_never_answers_right_is_refused_with_the_reason(launcher: Launcher, root: Path) -> None:
    """It listens and answers; that isn't enough."""
    with pytest.raises(StageError, match=r"the last try: the body is off by one"):
        as_server(launcher, root, "none", wake_s=0.2, right=lambda host, port: "the body is off by one")


def test_the_same_incorrect_response_ends_the_wait(launcher: Launcher, root: Path) -> None:
    """The server responds at once: more time to start would not help, and is not advised."""
    with pytest.raises(StageError, match="the same incorrect one until") as refused:
        as_server(launcher, root, "none", wake_s=600, right=lambda host, port: Incorrect("the body is off by one"))
    assert "--wake" not in str(refused.value)
    assert "the last try: the body is off by one" in str(refused.value)


def test_a_server_that_listens_at_ipv6_alone_is_reached_there(launcher: Launcher, root: Path) -> None:
    """As servers do that are bound to ``localhost`` where ::1 comes first; the parity sheet notes it."""
    running = as_server(launcher, root, "ipv6")
    assert running.host == "::1"
    assert running.note == "listens at [::1] alone, not at 127.0.0.1"
    running.stop()


def test_a_command_that_does_not_exist_is_named(launcher: Launcher, root: Path) -> None:
    """No shell's message, no exit status 127, but what could not be executed and why; the supervisor goes on."""
    scratch = root / "x"
    scratch.mkdir()
    start = Start(name="ghost", command=("/no/such/server",), cwd=scratch, port=free_port())
    with pytest.raises(StageError, match=r"ghost: cannot execute /no/such/server .*: No such file or directory"):
        launcher.launch(start, scratch=scratch, cores=(CORE,), is_right=is_right)  # type: ignore[arg-type]
    assert as_server(launcher, root, "none").alive()


def test_a_death_later_on_is_seen_and_reported(launcher: Launcher, root: Path) -> None:
    """``alive`` turns false without being told; the signal and the last words are kept."""
    running = as_server(launcher, root, "dies-later")
    assert is_right(running.host, running.port) is None
    wait_until(lambda: not running.alive())
    ended = running.stop()
    assert (ended.died, ended.exit_status) == (True, -signal.SIGSEGV)
    assert "out of fuel" in ended.log_tail
    assert "out of fuel" in running.log_tail()
    assert "peak_memory_bytes" not in ended.counts
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("with_cgroup", [True, False], ids=["as here", "without cgroup"])
def test_cpu_time_and_memory_of_the_whole_tree_are_plausible(
    launcher: Launcher, root: Path, with_cgroup: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0.2 s burnt and 50 MB touched show, by a cgroup where there is one and by /proc."""
    if not with_cgroup:
        monkeypatch.setattr(launcher_module, "make_cgroup", lambda number: None)
    running = as_server(launcher, root, "burns")
    assert running.cpu_source == ("cgroup" if running.cgroup else "proc")
    assert with_cgroup or running.cgroup is None
    assert (running.cpu_stat() is None) == (running.cgroup is None)
    ended = running.stop()
    assert 0.2e9 <= ended.counts["cpu_ns"] < 5e9
    assert 50e6 < ended.counts["peak_memory_bytes"] < 200e6


def test_a_tree_without_cgroup_is_ended_too(launcher: Launcher, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The subreaper's walk finds what a cgroup would have."""
    monkeypatch.setattr(launcher_module, "make_cgroup", lambda number: None)
    running = as_server(launcher, root, "family")
    pids = running.pids()
    assert len(pids) == 3
    running.stop()
    assert [pid for pid in pids if not is_gone(pid)] == []


def test_a_server_runs_on_its_cores_in_its_own_session_with_descriptors(launcher: Launcher, root: Path) -> None:
    """Affinity as asked, a session of its own, the soft limit of open files raised, signals at their defaults."""
    running = as_server(launcher, root, "none")
    assert os.sched_getaffinity(running.pid) == {CORE}
    assert os.getsid(running.pid) == running.pid
    limits = Path(f"/proc/{running.pid}/limits").read_text()
    soft, hard = next(line for line in limits.splitlines() if line.startswith("Max open files")).split()[3:5]
    assert soft == hard or int(soft) >= 1 << 20
    ignored = int(_status(running.pid, "SigIgn"), 16)
    assert ignored & 1 << (signal.SIGTERM - 1) == 0
    descriptors = Path(f"/proc/{running.pid}/fd")
    assert str((descriptors / "0").readlink()) == os.devnull
    # 3 is its listener; nothing of the supervisor's is inherited, and the probe's connection is being closed
    wait_until(lambda: sorted(path.name for path in descriptors.iterdir()) == ["0", "1", "2", "3"])


def _status(pid: int, key: str) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split(":", 1)[1] for line in lines if line.startswith(key)).strip()


def _sleeper(launcher: Launcher, root: Path, command: tuple[str, ...]) -> ServerProcess:
    scratch = root / "unprivileged"
    scratch.mkdir()
    (scratch / "file").write_text("x")
    start = Start(name="sleeper", command=command, cwd=scratch, port=free_port(), unprivileged=True)
    return launcher.launch(
        start, scratch=scratch, cores=(CORE,), is_right=lambda host, port: None,  # type: ignore[arg-type]
    )  # fmt: skip


@as_root
def test_an_unprivileged_server_runs_as_nobody_in_a_directory_of_its_own(launcher: Launcher, root: Path) -> None:
    """All its ids belong to user ``nobody``, without supplementary groups, and it owns its scratch directory."""
    nobody = pwd.getpwnam("nobody")
    running = _sleeper(launcher, root, ("/bin/sleep", "600"))
    assert running.note == ""
    assert _status(running.pid, "Uid").split() == [str(nobody.pw_uid)] * 4
    assert _status(running.pid, "Gid").split() == [str(nobody.pw_gid)] * 4
    assert _status(running.pid, "Groups") == ""
    assert (running.scratch / "file").stat().st_uid == nobody.pw_uid
    running.stop()
    assert list(root.iterdir()) == []


@as_root
def test_a_program_that_nobody_may_not_execute_runs_as_root_and_says_so(
    launcher: Launcher, root: Path, tmp_path: Path
) -> None:
    """Found out by trying as that user; not a failure, but a note."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    (private / "run").write_text("#!/bin/sh\nexec sleep 600\n")
    (private / "run").chmod(0o755)
    running = _sleeper(launcher, root, (str(private / "run"),))
    assert "runs as uid 0" in running.note
    assert f"may not execute {private}/run" in running.note
    assert _status(running.pid, "Uid").split() == ["0"] * 4


@as_root
def test_a_script_that_nobody_may_not_read_runs_as_root_and_says_so(
    launcher: Launcher, root: Path, tmp_path: Path
) -> None:
    """The interpreter alone is not enough: each word that is a file must be readable."""
    script = tmp_path / "app.sh"
    script.write_text("exec sleep 600\n")
    script.chmod(0o600)
    running = _sleeper(launcher, root, ("/bin/sh", str(script)))
    assert f"may not read {script}" in running.note


def _race(tmp_path: Path) -> tuple[subprocess.Popen[str], Path, list[int], list[Path]]:
    script = tmp_path / "loop.py"
    script.write_text(DIRECTOR.format(tests=str(Path(__file__).parent)))
    race = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert race.stdout is not None
    words = race.stdout.readline().split()
    assert words, "the race did not come up"
    cgroups = [Path(word) for word in words[-2:] if word != "None"]
    return race, Path(words[0]), [int(word) for word in words[1:-2]], cgroups


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
def test_however_the_race_ends_nothing_of_the_race_is_left(tmp_path: Path, number: signal.Signals) -> None:
    """Supervisors, servers, daemonised grandchildren, cgroups and the whole scratch root are gone.

    So are the maps that a server's compiler has written for ``why``.
    """
    race, root, pids, cgroups = _race(tmp_path)
    assert len(pids) == 6
    assert not any(is_gone(pid) for pid in pids)
    servers = [pid for pid in pids if "supervisor.py" not in " ".join(psutil.Process(pid).cmdline())]
    assert len(servers) == 4
    maps = [Path(f"/tmp/perf-{pid}.map") for pid in servers]
    for written in maps:
        written.write_text("1000 10 f\n")
    race.send_signal(number)
    race.wait(WAIT_S)
    wait_until(lambda: all(is_gone(pid) for pid in pids))
    wait_until(lambda: not root.exists())
    if number is signal.SIGINT:  # then the parent ends in order, and `why` has removed them
        for written in maps:
            written.unlink()
    wait_until(lambda: not any(written.exists() for written in maps))
    assert not any(cgroup.exists() for cgroup in cgroups)
    assert race.stdout is not None
    race.stdout.close()


def test_a_supervisor_killed_outright_is_noticed_and_its_server_ended(root: Path) -> None:
    """More is impossible after kill -9, but the session is ended and the launch counts as died."""
    with Launcher(name="mine", scratch_root=root) as launcher:
        running = as_server(launcher, root, "none")
        os.kill(launcher.pid, signal.SIGKILL)
        wait_until(lambda: not running.alive())
        ended = running.stop()
        assert ended.died
        assert ended.exit_status is None
        wait_until(lambda: is_gone(running.pid))
    assert list(root.iterdir()) == []


def test_a_lost_supervisors_daemons_are_found_without_a_cgroup(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have a session of their own, and nothing but the scratch folder ties them to the launch."""
    monkeypatch.setattr(launcher_module, "make_cgroup", lambda number: None)
    with Launcher(name="mine", scratch_root=root) as launcher:
        running = as_server(launcher, root, "family")
        pids = running.pids()
        assert len(pids) == 3
        os.kill(launcher.pid, signal.SIGKILL)
        wait_until(lambda: not running.alive())
        assert running.stop().died
        wait_until(lambda: all(is_gone(pid) for pid in pids))


def test_a_supervisor_told_to_end_ends_its_tree_orderly(root: Path) -> None:
    """SIGTERM to the supervisor alone: its server is ended and reported, though the race never asked."""
    with Launcher(name="mine", scratch_root=root) as launcher:
        running = as_server(launcher, root, "none")
        os.kill(launcher.pid, signal.SIGINT)  # ignored
        assert is_right(running.host, running.port) is None
        os.kill(launcher.pid, signal.SIGTERM)
        wait_until(lambda: launcher.has_ended(running.number))  # its report is there, a moment after its end
        assert not running.alive()
        assert running.stop().died
        assert is_gone(running.pid)


def test_leaving_the_supervisor_ends_a_launch_that_nobody_stopped(root: Path) -> None:
    """An exception on the way is enough; it is passed on."""
    pids: tuple[int, ...] = ()

    def fall() -> None:
        nonlocal pids
        with launcher:
            pids = as_server(launcher, root, "family").pids()
            raise ZeroDivisionError

    launcher = Launcher(name="mine", scratch_root=root)
    with pytest.raises(ZeroDivisionError):
        fall()
    assert len(pids) == 3
    assert [pid for pid in (*pids, launcher.pid) if not is_gone(pid)] == []
    assert list(root.iterdir()) == []


def test_an_interruption_does_not_wait_for_a_stubborn_server(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C cuts the grace short: far below what a healthy server may take, here two minutes."""
    monkeypatch.setattr(launcher_module, "GRACE_S", 120.0)
    launcher = Launcher(name="mine", scratch_root=root)
    running = as_server(launcher, root, "stubborn")
    began = time.monotonic()

    def interrupted() -> None:
        with launcher:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert time.monotonic() - began < launcher_module.GRACE_S / 2
    assert is_gone(running.pid)


def test_one_supervisor_serves_many_launches_one_at_a_time(launcher: Launcher, root: Path) -> None:
    """A second launch while one runs is refused in words; after its stop it is welcome."""
    first = as_server(launcher, root, "none")
    with pytest.raises(StageError, match="still runs"):
        as_server(launcher, root, "none")
    first.stop()
    second = as_server(launcher, root, "none")
    assert second.alive()
    assert second.pid != first.pid


def test_a_scratch_directory_outside_the_root_is_refused(launcher: Launcher, tmp_path: Path) -> None:
    """What the supervisor removes can only be the race's own."""
    start = Start(name="x", command=("/bin/true",), cwd=tmp_path, port=1)
    with pytest.raises(StageError, match="is not below"):
        launcher.launch(start, scratch=tmp_path, cores=(CORE,), is_right=is_right)  # type: ignore[arg-type]
    assert tmp_path.exists()


def test_a_start_can_set_the_environment(launcher: Launcher, root: Path) -> None:
    """It is laid over the race's own."""
    scratch = root / "env"
    scratch.mkdir()
    command = ("sh", "-c", "echo $COLOUR > colour; exec sleep 600")
    start = Start(name="env", command=command, cwd=scratch, port=1, env={"COLOUR": "green"})

    def written(host: str, port: int) -> str | None:
        return None if (scratch / "colour").read_text() else "nothing written"

    running = launcher.launch(start, scratch=scratch, cores=(CORE,), is_right=written)  # type: ignore[arg-type]
    assert (scratch / "colour").read_text() == "green\n"
    running.stop()


def test_a_server_has_our_locale_and_time_zone_unless_its_start_says_otherwise(
    launcher: Launcher, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C.UTF-8 and UTC wherever the race was started; what the start sets, LANG alone too, is what it gets."""
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    command = ("sh", "-c", "echo ${LC_ALL-none} $LANG $TZ > told; exec sleep 600")
    told = []
    for own in ({}, {"LANG": "el_GR.UTF-8", "TZ": "Europe/Athens"}):
        scratch = root / f"launch-{len(told)}"
        scratch.mkdir()
        start = Start(name="env", command=command, cwd=scratch, port=1, env=own)

        def written(host: str, port: int, file: Path = scratch / "told") -> str | None:
            return None if file.exists() and file.read_text() else "nothing written"

        running = launcher.launch(start, scratch=scratch, cores=(CORE,), is_right=written)  # type: ignore[arg-type]
        told.append((scratch / "told").read_text().split())
        running.stop()
    assert told == [["none", "C.UTF-8", "UTC"], ["none", "el_GR.UTF-8", "Europe/Athens"]]


@as_root
@pytest.mark.parametrize("fault", ["leaves", "hides", "burns", "family"])
def test_cpu_time_outside_of_the_cgroup_is_seen(launcher: Launcher, root: Path, fault: str) -> None:
    """While a process is outside, and by its own clock if it came back; a server that stays hides nothing."""
    running = as_server(launcher, root, fault)
    if running.cgroup is None:
        pytest.skip("no cgroup v2 can be made here")
    assert bool(running.outside()) == (fault == "leaves")
    assert all(name.startswith(f"{running.pid} (") for name in running.outside())
    ended = running.stop()
    assert (hidden_text(ended) is not None) == (fault in ("leaves", "hides")), ended
    assert (ended.hidden_ns > 250_000_000) == (fault in ("leaves", "hides"))
