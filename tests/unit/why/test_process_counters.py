"""Counters of processes and sockets, compared with what a process really did."""

from __future__ import annotations

import mmap
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dragstrip.record import Counter
from dragstrip.why import process_counters, wire
from dragstrip.why.idle_connections import _held
from dragstrip.why.process_counters import CountersReading
from dragstrip.why.socket_memory import buffer_bytes

#: Reads and writes as often as its arguments name, then waits for its end.
WORKER = """
import os, sys
for _ in range(int(sys.argv[1])):
    os.read(3, 1)
for _ in range(int(sys.argv[2])):
    os.write(1, b'x')
os.write(2, b'done')
os.read(0, 1)
"""


def test_reads_and_writes_are_counted_exactly(tmp_path: Path) -> None:
    """The difference of two workers is the difference of their calls."""
    counted = []
    file = tmp_path / "zeros"
    file.write_bytes(bytes(1000))
    for reads, writes in ((10, 20), (110, 70)):
        descriptor = os.open(file, os.O_RDONLY)
        os.set_inheritable(descriptor, True)
        code = WORKER.replace("os.read(3, 1)", f"os.read({descriptor}, 1)")
        with subprocess.Popen(
            [sys.executable, "-IS", "-c", code, str(reads), str(writes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=[descriptor],
        ) as worker:
            assert worker.stderr is not None
            worker.stderr.read(4)
            counted.append(process_counters.read([worker.pid]))
            worker.communicate(b"x")
        os.close(descriptor)
    grown = counted[1].since(counted[0])
    assert grown.totals[Counter.READS] == 100
    assert grown.totals[Counter.WRITES] == 50


def test_what_can_not_be_read_is_missing_and_never_zero() -> None:
    """No process, a process that is gone, and a total that shrank because a thread ended."""
    assert not process_counters.read([]).totals
    assert process_counters.read([]).missing[Counter.READS] == "Dragstrip did not start its processes"
    gone = process_counters.read([2**22 + 1])
    assert not gone.totals
    assert gone.missing[Counter.WAITS] == "/proc/PID/status can't be read (No such file or directory)"
    after = CountersReading(totals={Counter.WAITS: 5}).since(CountersReading(totals={Counter.WAITS: 9}))
    assert not after.totals
    assert after.missing == {Counter.WAITS: "a thread or a process of the server ended"}


def test_page_faults_of_this_process_are_counted() -> None:
    """The first touch of fresh memory is a fault, of a page or of a huge page."""
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    with mmap.mmap(-1, 1024 * page_bytes) as fresh:
        before = process_counters.read([os.getpid()])
        for page in range(1024):
            fresh[page * page_bytes] = 1
        grown = process_counters.read([os.getpid()]).since(before)
    assert grown.totals[Counter.MINOR_FAULTS] >= 1
    assert grown.totals[Counter.WAITS] >= 0


def test_bytes_and_segments_are_read_off_the_sockets_of_this_process() -> None:
    """Three responses of 100 bytes, each in one segment; another server's sockets are not counted."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as other:
        ours = socket.create_connection(server.getsockname())
        theirs = socket.create_connection(other.getsockname())
        accepted, _ = server.accept()
        with ours, theirs, accepted:
            before = wire.sockets_to(*server.getsockname())
            for _ in range(3):
                accepted.sendall(bytes(100))
                assert len(ours.recv(100, socket.MSG_WAITALL)) == 100
            after = wire.sockets_to(*server.getsockname())
            held, connections = buffer_bytes(server.getsockname()[1])
            assert connections == 1
            ours.sendall(bytes(10_000))
            assert buffer_bytes(server.getsockname()[1])[0] >= held + 10_000
            received = wire.received_between(before, after)
            assert received.totals == {Counter.RECEIVED_BYTES: 300, Counter.SEGMENTS: 3}
            assert len(after) == 1
        reopened = wire.received_between(before, wire.sockets_to(*server.getsockname()))
        assert reopened.missing[Counter.SEGMENTS] == "connections were closed and opened again"


def test_connections_are_held_only_as_long_as_they_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that never responds holds none; no descriptor and no limit is left changed."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE), len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr("dragstrip.why.idle_connections.MOST_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent, _held(*silent.getsockname(), b"GET") as held:
        assert held == 0
    assert (resource.getrlimit(resource.RLIMIT_NOFILE), len(list(Path("/proc/self/fd").iterdir()))) == before
