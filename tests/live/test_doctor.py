"""``dragstrip doctor`` on this machine, and what a race makes of its report."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from commands import process

pytest.importorskip("dragstrip._engine", reason="the engine is not built: make build")
from dragstrip import machine
from dragstrip._engine import ReferenceServer
from dragstrip.doctor import examine, reference_load
from dragstrip.store import machine_profile
from dragstrip.store.json_values import encode


@pytest.mark.thorough
def test_doctor_says_what_it_saw_and_a_race_on_this_machine_knows_the_ceiling(tmp_path: Path) -> None:
    """Every limit, both kinds of connection; a race on another machine learns nothing from it."""
    store = tmp_path / "races.sqlite"
    words = ["doctor", "--seconds", "250ms", "--json", "-", "--store", str(store)]
    done = process(*words)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    findings = {finding["name"]: finding for finding in report["findings"]}
    assert {"cores", "clock", "descriptors", "ports", "backlog", "io_uring", "steal", "ceiling"} <= set(findings)
    sees = findings["noise"]["numbers"]
    assert 0 < sees["smallest_in_300_s"] < sees["smallest_in_60_s"]
    both = findings["awake"]["numbers"]
    assert {"steal_share", "round_sd", "steal_share_off", "round_sd_off"} < set(both)
    assert both["round_sd"] == sees["round_sd"]
    assert all(finding["remedy"] for finding in report["findings"] if finding["status"] == "warn")
    points = findings["ceiling"]["numbers"]["points"]
    assert all(point["ceiling_per_s"] > 0 and point["errors"] == 0 for point in points)
    measured = [(point["connections"], point["keepalive"]) for point in points]
    assert measured == [point for point in examine.POINTS if point in measured]
    assert (findings["ceiling"]["status"] == "pass") == (measured == list(examine.POINTS)), findings["ceiling"]

    facts, lanes = machine.facts(), machine.lanes(None, None)
    known = machine_profile.with_profile(facts, store, lanes).generator_ceiling
    assert known is not None
    assert encode(known)["points"] == points
    other = replace(facts, cpu="another")
    assert machine_profile.with_profile(other, store, lanes) == other
    assert machine_profile.with_profile(facts, store, replace(lanes, engine=(99,))) == facts
    assert machine_profile.with_profile(facts, tmp_path / "none" / "races.sqlite", lanes) == facts


def test_the_built_in_server_answers_whole_requests_however_they_are_cut() -> None:
    """Two in one segment, one in single bytes; one that asks for the end is answered and closed."""
    server = ReferenceServer(machine.lanes(None, None).server)
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\nhello world\n"
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as peer, peer.makefile("rb") as answers:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.sendall(2 * reference_load.REQUEST)
            assert answers.read(2 * len(answer)) == 2 * answer
            for byte in reference_load.REQUEST:
                peer.sendall(bytes([byte]))
            assert answers.read(len(answer)) == answer
            peer.sendall(reference_load.CLOSING)
            assert b"Connection: close" in answers.read()
    finally:
        server.stop()
        server.stop()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", server.port), timeout=10)
