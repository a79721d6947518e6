"""Whatever it is started under: ignored and blocked signals, umask, limits, locale and time zone do no harm."""

from __future__ import annotations

import json
import os
import pty
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_supervisor import Talk

from dragstrip.process.launcher import server_environment

IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1)


def inherit() -> None:
    """In a child, before it becomes the program: what a careless parent may leave."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGTERM, signal.SIGCHLD, signal.SIGALRM, signal.SIGUSR2})
    os.umask(0o077)
    for limit, soft in (
        (resource.RLIMIT_FSIZE, 1 << 20),
        (resource.RLIMIT_CPU, 3000),
        (resource.RLIMIT_STACK, 1 << 20),
    ):
        hard = resource.getrlimit(limit)[1]
        resource.setrlimit(limit, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def facts(pid: int) -> dict[str, str]:
    """A process's status and soft limits, by their names."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    limits = Path(f"/proc/{pid}/limits").read_text().splitlines()[1:]
    status_fields = {key: value.strip() for key, _, value in (line.partition(":") for line in status)}
    return status_fields | {line[:26].strip(): line[26:47].strip() for line in limits}


def test_a_server_gets_default_signals_umask_and_limits(tmp_path: Path) -> None:
    """No signal of any number is ignored or blocked, INT ends it at once, and its log is one that others may read."""
    talk = Talk(tmp_path, preexec_fn=inherit)
    started = talk.start("sleep", "600")
    status_of = facts(started["pid"])
    # Two numbers are the C library's own: no program can set them through it, whoever ignored them before.
    settable = sum(1 << number - 1 for number in signal.valid_signals())
    assert {key: int(status_of[key], 16) & settable for key in ("SigIgn", "SigBlk", "SigCgt")} == dict.fromkeys(
        ("SigIgn", "SigBlk", "SigCgt"), 0
    )
    assert status_of["Umask"] == "0022"
    hard = {limit: resource.getrlimit(limit)[1] for limit in (resource.RLIMIT_CPU, resource.RLIMIT_FSIZE)}
    unlimited = {limit: "unlimited" if value == resource.RLIM_INFINITY else str(value) for limit, value in hard.items()}
    assert status_of["Max cpu time"] in ("unlimited", unlimited[resource.RLIMIT_CPU])
    assert status_of["Max file size"] in ("unlimited", unlimited[resource.RLIMIT_FSIZE])
    assert status_of["Max core file size"] == "0"
    stack = resource.getrlimit(resource.RLIMIT_STACK)[1]
    assert int(status_of["Max stack size"]) == (8 << 20 if stack == resource.RLIM_INFINITY else min(8 << 20, stack))
    assert (tmp_path / "launch-1.log").stat().st_mode & 0o777 == 0o644
    talk.say(do="stop", signal="INT", grace_s=15)
    ended = talk.hear()
    assert ended["exit_status"] == -signal.SIGINT
    assert "SIGINT ended it" in ended["how"]
    assert talk.close() == 0


def test_servers_have_one_locale_and_time_zone_and_else_the_users_environment() -> None:
    """What a definition sets lies over it, LANG alone included."""
    given = {"LC_ALL": "de_DE.UTF-8", "LC_NUMERIC": "de_DE", "LANGUAGE": "de", "TZ": "Asia/Kolkata", "COLOUR": "green"}
    assert server_environment(given) == {"LANG": "C.UTF-8", "TZ": "UTC", "COLOUR": "green"}


def run(code: str, **how: Any) -> list[str]:
    """What a fresh interpreter prints, a word each."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, **how)
    return done.stdout.split()


TELL = """
import os, signal, sys
from dragstrip.commands.signals import undo_unwanted
undo_unwanted()
print(*(getattr(signal.getsignal(getattr(signal, f"SIG{n}")), "name", "handler") for n in sys.argv[1:] or
        ("INT", "TERM", "CHLD", "HUP")), len(signal.pthread_sigmask(signal.SIG_BLOCK, ())))
"""


def test_the_program_can_be_ended_and_sees_its_children_end_and_stays_deaf_to_the_terminal_in_background() -> None:
    """Of a background job INT stays ignored, of nohup HUP; TERM, CHLD and the mask are as in a fresh login."""
    assert run(TELL, preexec_fn=inherit, stdin=subprocess.DEVNULL) == ["SIG_IGN", "SIG_DFL", "SIG_DFL", "SIG_IGN", "0"]
    assert run(TELL, stdin=subprocess.DEVNULL) == ["handler", "SIG_DFL", "SIG_DFL", "SIG_DFL", "0"]


def test_in_the_foreground_of_a_terminal_ctrl_c_works_whatever_was_inherited() -> None:
    """A terminal of its own, whose foreground it is; its parent ignored SIGINT."""
    pid, terminal = pty.fork()
    if pid == 0:  # the child: from here on only another program
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.execv(sys.executable, [sys.executable, "-c", TELL, "INT"])
    output = b""
    try:
        while piece := os.read(terminal, 1024):
            output += piece
    except OSError:
        pass  # how a terminal says that its last user is gone
    os.close(terminal)
    os.waitpid(pid, 0)
    assert output.split() == [b"handler", b"0"]


@pytest.mark.parametrize("locale", ["C", "de_DE.UTF-8"])
def test_a_failing_trial_is_one_also_where_the_kernel_reaps_children(tmp_path: Path, locale: str) -> None:
    """With SIGCHLD ignored every command would seem to succeed; the locale changes no word."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "contender.toml").write_text(
        'name = "mine"\ntitle = "Mine"\nhost = "mine"\nlanguage = "none"\nworkloads = ["hello"]\n'
        '[needs]\ncommands = ["sh"]\nrun = [["sh", "-c", "echo too old; exit 3"]]\n[start]\ncommand = ["sh"]\n'
    )
    done = subprocess.run(
        [sys.executable, "-m", "dragstrip", "contenders", "--contenders", str(tmp_path), "--json"],
        capture_output=True, text=True, preexec_fn=inherit, env={**os.environ, "LC_ALL": locale, "TZ": "Asia/Kolkata"},
    )  # fmt: skip
    (row,) = [row for row in json.loads(done.stdout) if row["name"] == "mine"]
    assert (row["status"], "status 3: too old" in row["reason"]) == ("missing", True)
