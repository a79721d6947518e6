"""Where processes listen, as the kernel's tables have it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tracemalloc
from pathlib import Path

from dragstrip.process import ports


def test_where_a_process_listens() -> None:
    """Both kinds of addresses, as a URL would have them."""
    with (
        socket.create_server(("127.0.0.1", 0)) as plain,
        socket.create_server(("::1", 0), family=socket.AF_INET6) as six,
    ):
        places = {f"127.0.0.1:{plain.getsockname()[1]}", f"[::1]:{six.getsockname()[1]}"}
        assert places <= set(ports.listening([os.getpid()]))
    assert not places & set(ports.listening([os.getpid()]))


def test_an_address_is_reached_in_these_ways() -> None:
    """IPv4 first; every address is loopback's, too, and a mapped one is IPv4 (RFC 4291, 2.5.5.2)."""
    ways = ports.ways_to(["[::1]:1", "0.0.0.0:3", "[::]:2", "[::ffff:127.0.0.1]:4", "127.0.0.2:5"])
    assert ways == (
        ("127.0.0.1", 2), ("127.0.0.1", 3), ("127.0.0.1", 4), ("127.0.0.2", 5), ("::1", 1), ("::1", 2),
    )  # fmt: skip


def test_a_port_that_is_shared_is_not_alone() -> None:
    """SO_REUSEPORT gives another process a part of the connections (socket(7))."""
    script = "import socket, sys; s = socket.create_server(('127.0.0.1', int(sys.argv[1])), reuse_port=True)"
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as own:
        port = own.getsockname()[1]
        assert ports.listens_alone([os.getpid()], port)
        command = [sys.executable, "-c", f"{script}; print(flush=True); sys.stdin.read()", str(port)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            other.stdout.readline()
            assert not ports.listens_alone([os.getpid()], port)
            assert ports.listens_alone([os.getpid(), other.pid], port)
            other.communicate()
    assert not ports.listens_alone([os.getpid()], port)


def test_connections_of_the_last_minute_take_no_memory(tmp_path: Path) -> None:
    """A table of 50,000 closed connections (7 MB) is never held whole: launches that fail together read it together."""
    closed = f"{'0: 0100007F:1F90 0100007F:9C40 06 00000000:00000000 03:00001770 00000000     0        0 0 3 0':<149}\n"
    with socket.create_server(("127.0.0.1", 0)) as sock:
        heading, *real = Path("/proc/net/tcp").read_text().splitlines(keepends=True)
        (tmp_path / "tcp").write_text("".join([heading, *real, closed * 50_000]))
        (tmp_path / "tcp6").write_text(heading)
        tracemalloc.start()
        try:
            addresses = ports.listening([os.getpid()], tmp_path)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert f"127.0.0.1:{sock.getsockname()[1]}" in addresses
    assert peak < 1_000_000


def test_free_ports_are_free_and_never_given_twice() -> None:
    """The kernel chooses; a port handed out is not handed out again."""
    given = [ports.free_port() for _ in range(50)]
    assert len(set(given)) == 50
    with socket.create_server(("127.0.0.1", given[0])):
        pass
