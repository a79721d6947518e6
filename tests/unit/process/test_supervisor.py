"""The supervisor's own parts, and its protocol over its real pipes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragstrip.process import supervisor
from dragstrip.process.supervisor import BoundedLog, descendants, peak_memory_bytes

CORE = max(os.sched_getaffinity(0))


def test_a_folder_is_removed_while_a_process_still_writes_there(tmp_path: Path) -> None:
    """Servers that are being ended do; and a race and its supervisor may both remove the folder."""
    folder = tmp_path / "race"
    folder.mkdir()
    code = (
        "import os, time\nend, number = time.monotonic() + 0.3, 0\nprint(flush=True)\n"
        "while time.monotonic() < end:\n"
        "    number += 1\n"
        "    try:\n"
        "        os.mkdir(f'{number % 50}')\n"
        "        open(f'{number % 50}/{number}', 'w').close()\n"
        "    except OSError:\n"
        "        pass\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=folder, stdout=subprocess.PIPE) as writes:
        assert writes.stdout
        writes.stdout.readline()
        other = f"from dragstrip.process import supervisor\nsupervisor.remove_tree({str(folder)!r})"
        with subprocess.Popen([sys.executable, "-c", other]):
            supervisor.remove_tree(str(folder))
    assert not folder.exists()


class Talk:
    """A supervisor run as the stage runs it, spoken to line by line."""

    def __init__(self, root: Path, **how: Any) -> None:
        self.root = root
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", supervisor.__file__, str(root)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True, **how,
        )  # fmt: skip

    def say(self, **order: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return dict(json.loads(self.process.stdout.readline()))

    def start(self, *command: str, number: int = 1, **other: Any) -> dict[str, Any]:
        scratch = self.root / f"launch-{number}"
        scratch.mkdir(exist_ok=True)
        order = {
            "do": "start", "launch": number, "command": command, "env": dict(os.environ), "cwd": str(scratch),
            "cores": [CORE], "user": None, "box": None, "ids": None, "network": "", "log": f"{scratch}.log",
            "log_limit_bytes": 4096, "scratch": str(scratch), "cgroup": None, "signal": "TERM",
            "stop_all_after_s": None,
        }  # fmt: skip
        self.say(**(order | other))
        return self.hear()

    def close(self) -> int:
        """Closes both pipes, as a race's end does; gives the exit status."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        status = self.process.wait(20)
        self.process.stdout.close()
        return status


@pytest.fixture
def talk(tmp_path: Path) -> Any:
    made = Talk(tmp_path)
    yield made
    if made.process.poll() is None:
        made.close()


def test_a_start_and_a_stop_are_answered_in_words_of_the_protocol(talk: Talk) -> None:
    """started with the pid; ended with status, CPU, memory and how."""
    started = talk.start("sleep", "600")
    assert (started["kind"], started["cgroup"]) == ("started", None)
    assert os.getsid(started["pid"]) == started["pid"]
    while (peak_memory_bytes([started["pid"]]) or 0) <= 100_000:  # it has only just become another program
        time.sleep(0.01)
    talk.say(do="stop", signal="INT", grace_s=15)
    ended = talk.hear()
    assert (ended["kind"], ended["launch"], ended["exit_status"]) == ("ended", 1, -signal.SIGINT)
    assert ended["counts"]["cpu_ns"] > 0
    assert ended["counts"]["peak_memory_bytes"] > 100_000


def test_a_death_is_said_unasked_and_the_next_launch_is_taken(talk: Talk) -> None:
    """With status and last words; a stop that crosses it gets no second report."""
    talk.start("sh", "-c", "echo goodbye; exit 7")
    died = talk.hear()
    assert (died["kind"], died["exit_status"], died["log_tail"]) == ("died", 7, "goodbye")
    talk.say(do="stop", signal="TERM", grace_s=15)
    assert talk.start("sleep", "600", number=2)["kind"] == "started"


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"command": ["no-such-program"]}, "cannot execute no-such-program"),
        ({"cwd": "/no/such/place"}, "No such file or directory"),
        ({"cores": [100_000]}, "cannot prepare the launch"),
        ({"log": "/no/such/place/log"}, "cannot prepare the launch"),
    ],
    ids=["program", "directory", "cores", "log"],
)
def test_a_launch_that_cannot_be_fails_with_the_reason_and_the_supervisor_lives(
    talk: Talk, other: dict[str, Any], why: str
) -> None:
    """Each fault is named; the next order is obeyed."""
    failed = talk.start("sleep", "600", **other)
    assert failed["kind"] == "failed"
    assert why in failed["why"]
    assert talk.start("sleep", "600", number=2)["kind"] == "started"


def test_an_impossible_cgroup_is_done_without(talk: Talk) -> None:
    """The server starts all the same, and the answer says that there is none."""
    assert talk.start("sleep", "600", cgroup=str(talk.root / "none"))["cgroup"] is None


def test_a_closed_pipe_ends_the_server_and_removes_its_directory_and_log(talk: Talk) -> None:
    """That is all that the supervisor needs to learn of its race's death."""
    started = talk.start("sleep", "600")
    assert talk.close() == 0
    assert not Path(f"/proc/{started['pid']}").exists()
    assert list(talk.root.iterdir()) == []
    assert talk.root.exists()  # not named as a scratch root is


def test_an_orderly_end_leaves_the_directories_to_the_race(talk: Talk) -> None:
    """It is the race's to remove, who may still want to look."""
    started = talk.start("sleep", "600")
    talk.say(do="end")
    assert talk.hear()["kind"] == "ended"
    assert talk.close() == 0
    assert not Path(f"/proc/{started['pid']}").exists()
    assert (talk.root / "launch-1").exists()


@given(pieces=st.lists(st.binary(max_size=3000), max_size=12), limit=st.integers(1024, 4000))
def test_a_bounded_log_keeps_head_and_tail_and_counts_what_it_left_out(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], limit: int
) -> None:
    """Never above its limit; head + counted gap + tail is what was written."""
    path = tmp_path_factory.getbasetemp() / "bounded.log"
    log = BoundedLog(str(path), limit)
    for piece in pieces:
        log.write(piece)
        assert path.stat().st_size <= limit
    log.close()
    written, kept = b"".join(pieces), path.read_bytes()
    if len(written) <= limit:
        assert kept == written
        return
    head, mark_bytes = limit // 2, len(BoundedLog.MARK.format(0))
    left_out = int(kept[head : head + mark_bytes].split()[1])
    tail = kept[head + mark_bytes :]
    assert kept[:head] == written[:head]
    assert written.endswith(tail)
    assert len(tail) >= limit // 4
    assert head + left_out + len(tail) == len(written)


def test_a_log_is_never_written_through_a_symbolic_link(tmp_path: Path) -> None:
    """A server that owns its directory can't make Dragstrip overwrite another user's file."""
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic link"):
        BoundedLog(str(tmp_path / "link"), 4096)


def test_the_family_has_children_and_grandchildren_only() -> None:
    """Neither ourselves nor our parent."""
    with subprocess.Popen(["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        grandchild = int(child.stdout.readline())
        family = descendants(os.getpid())
        assert {child.pid, grandchild} <= set(family)
        assert not {os.getpid(), os.getppid()} & set(family)
        assert set(descendants(child.pid)) == {grandchild}
        while (peak_memory_bytes([grandchild]) or 0) <= 100_000:  # in the middle of its exec it has next to nothing
            time.sleep(0.01)
        os.kill(grandchild, signal.SIGKILL)
    assert peak_memory_bytes([grandchild]) is None


def test_a_server_of_another_user_has_no_key_of_the_users_session() -> None:
    """A key of the session keyring is found before, and not in the keyring that the process then gets."""
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers of keyctl(2)'s relatives are x86-64's")
    script = f"""
import ctypes, importlib.util
spec = importlib.util.spec_from_file_location("supervisor", {supervisor.__file__!r})
supervisor = importlib.util.module_from_spec(spec)
spec.loader.exec_module(supervisor)
libc = ctypes.CDLL(None)
libc.syscall(250, 1, 0)  # KEYCTL_JOIN_SESSION_KEYRING: not the tester's own
added = libc.syscall(248, b"user", b"dragstrip-secret", b"12345", 5, -3)  # add_key(2), KEY_SPEC_SESSION_KEYRING
found = lambda: libc.syscall(250, 10, -3, b"user", b"dragstrip-secret", 0)  # KEYCTL_SEARCH
print(added > 0, found() == added, end=" ")
supervisor._leave_keys()
print(found() == -1)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    if done.stdout.startswith("False"):
        pytest.skip("this kernel has no keys")
    assert done.stdout.split() == ["True", "True", "True"]
