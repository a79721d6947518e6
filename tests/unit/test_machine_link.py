"""Counters of a link: loopback carries what is sent over it, and nothing is made up."""

from __future__ import annotations

import os
import socket

from dragstrip.machine.link import device_of, device_towards, line_mbps, read_link


def test_what_is_sent_over_loopback_is_counted_both_ways() -> None:
    """A megabyte over TCP: at least as much was carried, in segments, and time has passed."""
    device, cores = device_of("127.0.0.1"), sorted(os.sched_getaffinity(0))
    assert device_towards("127.0.0.1") == device
    before = read_link(device, cores)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        near = socket.create_connection(listening.getsockname())
        far, _ = listening.accept()
        with near, far:
            for _ in range(16):
                near.sendall(bytes(65536))
                left = 65536
                while left:
                    left -= len(far.recv(left))
    after = read_link(device, cores)
    assert after.at_ns > before.at_ns
    assert after.received_bytes - before.received_bytes >= 2**20
    assert after.sent_bytes - before.sent_bytes >= 2**20
    assert after.segments > before.segments
    assert after.retransmitted >= before.retransmitted
    assert len(after.interrupt_ns) == len(cores)
    assert all(last >= first for first, last in zip(before.interrupt_ns, after.interrupt_ns, strict=True))


def test_what_is_not_there_is_told_as_unknown() -> None:
    """No such interface: nothing carried, no line rate; loopback's driver says none either."""
    assert device_of("192.0.2.1") == ""
    assert line_mbps("no-such-device") == 0
    assert line_mbps("lo") == 0
    assert read_link("no-such-device", []).received_bytes == 0
