"""A server that was already running: which processes get its connections, and what is said if they aren't known."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragstrip.process.found_server import NOT_PINNED, FoundServer, found_at
from dragstrip.process.ports import holders, sockets_at

#: Listens at argv's host and forks a worker that shares the socket and has a child that doesn't.
FORKS = """
import os, socket, subprocess, sys, time
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
server = socket.create_server((sys.argv[1], 0), family=family, dualstack_ipv6=sys.argv[1] == "::")
if os.fork() == 0:
    subprocess.Popen(["sleep", "600"])
    time.sleep(600)
print(server.getsockname()[1], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def forked(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    """The pid and port of such a server; its parameter is its host."""
    words = [sys.executable, "-c", FORKS, getattr(request, "param", "127.0.0.1")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        pids: tuple[int, ...] = ()
        while len(pids) < 3:
            time.sleep(0.01)
            pids = max((found_at(host, port).pids() for host in ("127.0.0.1", "::1")), key=len)
        yield server.pid, port
        for pid in reversed(pids):
            os.kill(pid, 9)


@pytest.mark.parametrize("forked", ["127.0.0.1", "0.0.0.0", "::", "::1"], indirect=True)
def test_those_that_share_the_socket_and_their_children_are_the_server(
    forked: tuple[int, int], request: pytest.FixtureRequest
) -> None:
    """Wherever it is bound; a connection to IPv4 finds a socket of IPv6 at every address."""
    pid, port = forked
    reached = ["127.0.0.1", "::1"] if request.node.callspec.params["forked"] == "::" else []
    for host in reached or [request.node.callspec.params["forked"].replace("0.0.0.0", "127.0.0.1")]:
        found = found_at(host, port)
        assert found.listening[0] == pid
        assert len(found.listening) == 2
        assert len(found.pids()) == 3
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        assert found.facts() == {"process": f"{name}, pid {pid} and 2 more", "cores": NOT_PINNED}
        assert found.counts() == (3, 3)
        assert found.resident_bytes() > 0
        assert found.usable_cores() == len(os.sched_getaffinity(pid))
        assert found.alive()
        assert not found.freezes
        assert (found.stop().how, found.stop().died) == ("left running", False)
    assert Path(f"/proc/{pid}").exists()


def test_a_server_that_ended_is_dead(forked: tuple[int, int]) -> None:
    """Once all of its processes have ended."""
    _, port = forked
    found = found_at("127.0.0.1", port)
    ended = FoundServer("127.0.0.1", port, listening=(2**22 + 1,))
    assert found.alive()
    assert not ended.alive()
    assert ended.stop().died


def test_a_socket_at_the_address_comes_before_one_at_every_address() -> None:
    """As the kernel chooses."""
    with socket.create_server(("127.0.0.1", 0)) as exact:
        port = exact.getsockname()[1]
        with socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=False) as every:
            inodes = {sock: f"socket:[{os.fstat(sock.fileno()).st_ino}]" for sock in (exact, every)}
            assert sockets_at("127.0.0.1", port) == {inodes[exact]: os.geteuid()}
            assert sockets_at("::1", port) == {inodes[every]: os.geteuid()}
            assert holders({inodes[exact]}) == (os.getpid(),)
    assert sockets_at("127.0.0.1", port) == {}


def test_what_is_not_known_is_said_with_its_reason() -> None:
    """No socket here; Dragstrip's own process; another machine; a program that only forwards."""
    with socket.create_server(("127.0.0.1", 0)) as own:
        port = own.getsockname()[1]
        mine = found_at("127.0.0.1", port)
        assert mine.unknown.startswith("Dragstrip's own process listens at 127.0.0.1:")
        assert mine.pids() == ()
        assert mine.alive()
        assert mine.facts()["CPU time"] == f"not known: {mine.unknown}"
    assert "no process of this machine's own network listens" in found_at("127.0.0.1", port).unknown
    assert found_at("192.0.2.1", port).unknown == "it runs on another machine"


def test_a_forwarder_is_not_the_server(tmp_path: Path) -> None:
    """docker-proxy's CPU time is not that of the server in the container."""
    script = (
        "import socket, sys; open('/proc/self/comm', 'w').write('docker-proxy'); "
        "s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", script]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        found = found_at("127.0.0.1", int(server.stdout.readline()))
        server.kill()
    assert found.unknown.startswith(f"docker-proxy (pid {server.pid}) listens at 127.0.0.1:")
    assert found.cpu_source == "none"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_users_server_is_known_to_root_and_not_to_a_third_user() -> None:
    """Who may not read is told whose it is, and who could."""
    script = (
        "import socket, sys; s = socket.create_server(('127.0.0.1', 0)); "
        "print(s.getsockname()[1], flush=True); sys.stdin.read()"
    )
    words = ["/usr/bin/python3", "-c", script]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, user=4242) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        assert found_at("127.0.0.1", port).users() == ("4242",)
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            os.setuid(4243)
            os.write(writing, found_at("127.0.0.1", port).unknown.encode())
            os._exit(0)
        os.waitpid(child, 0)
        said = os.read(reading, 4096).decode()
        for number in (reading, writing):
            os.close(number)
        server.kill()
    assert "is 4242's, which 4243 may not read; as that user or as root, Dragstrip may" in said
