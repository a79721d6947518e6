"""``dragstrip doctor`` on this machine, and what a race makes of its report."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import samples

pytest.importorskip("dragstrip._engine", reason="the engine is not built: make build")
from dragstrip import doctor, inquiry, machine
from dragstrip._engine import FixedServer


def test_doctor_says_what_it_saw_and_a_race_on_this_machine_knows_the_ceiling(tmp_path: Path) -> None:
    """Every limit, both kinds of connection; a race on another machine learns nothing from it."""
    store = tmp_path / "races.sqlite"
    words = ["doctor", "--seconds", "50ms", "--json", "-", "--store", str(store)]
    done = subprocess.run([sys.executable, "-m", "dragstrip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    findings = {finding["name"]: finding for finding in told["findings"]}
    assert {"cores", "clock", "descriptors", "ports", "backlog", "io_uring", "steal", "ceiling"} <= set(findings)
    assert all(finding["remedy"] for finding in told["findings"] if finding["status"] == "warn")
    points = findings["ceiling"]["numbers"]["points"]
    assert [(point["connections"], point["keepalive"]) for point in points] == list(doctor.POINTS)
    assert all(point["ceiling_per_s"] > 0 and point["errors"] == 0 for point in points)

    facts, lanes = machine.facts(), machine.lanes(None, None)
    known = doctor.known_ceiling(store, facts, lanes)["generator_ceiling"]
    assert known["points"] == points
    assert doctor.known_ceiling(store, facts | {"cpu": "another"}, lanes) == {}
    assert doctor.known_ceiling(store, facts, replace(lanes, engine=(99,))) == {}
    assert doctor.known_ceiling(tmp_path / "none" / "races.sqlite", facts, lanes) == {}


@pytest.mark.parametrize(("ceiling_per_s", "status"), [(1e9, "pass"), (1e-6, "warn")])
def test_a_contender_near_the_generators_ceiling_is_marked(ceiling_per_s: float, status: str) -> None:
    """It is measured against the generator: the check says so, and how near it is."""
    race = samples.race()
    points = [{"connections": 32, "keepalive": True, "ceiling_per_s": ceiling_per_s}]
    known = {"generator_ceiling": {"threads": race.load.threads, "points": points}}
    (check,) = (
        one for one in inquiry.inspect(replace(race, machine={**race.machine, **known})) if one.check == "generator"
    )
    assert check.status == status
    assert ("of what the generator can send" in check.detail) == (status == "warn")


def test_the_built_in_server_answers_whole_requests_however_they_are_cut() -> None:
    """Two in one segment, one in single bytes; one that asks for the end is answered and closed."""
    server = FixedServer(machine.lanes(None, None).server)
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n\r\nhello world\n"
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as peer, peer.makefile("rb") as answers:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.sendall(2 * doctor.REQUEST)
            assert answers.read(2 * len(answer)) == 2 * answer
            for byte in doctor.REQUEST:
                peer.sendall(bytes([byte]))
            assert answers.read(len(answer)) == answer
            peer.sendall(doctor.CLOSING)
            assert b"Connection: close" in answers.read()
    finally:
        server.stop()
        server.stop()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", server.port), timeout=10)
