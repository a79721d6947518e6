"""Workloads beyond hello against real servers: who is right passes, and who cheats is found out and told so."""

from __future__ import annotations

import json
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from commands import dragstrip
from races import HERE, PYTHON, settings

from dragstrip import contender, machine
from dragstrip.commands.options import EXIT_VOID
from dragstrip.contender import Entry
from dragstrip.errors import StageError
from dragstrip.racing.launching import Servers
from dragstrip.racing.request import Request, load_of
from dragstrip.racing.setup import race_setup
from dragstrip.racing.verify import Proof, verify
from dragstrip.scrutiny import Server, check_correctness
from dragstrip.workload import Exchange
from dragstrip.workload import load as load_workload

DEFINITION = """
name = "planted"
title = "Planted"
host = "asyncio"
language = "Python"
workloads = ["json", "post", "static", "delay", "pipelined"]
{form}
[start]
command = ["{python}", "{{scratch}}/workloads.py", "{{port}}", "{{data}}", "{fault}", "{place}"]
copy = ["workloads.py"]
wake_s = {wake_s}
unprivileged = false
"""
OWN = '[workload.json]\nform = "own"'


def planted(folder: Path, fault: str, form: str = "") -> Entry:
    """A contender that answers every workload, with this fault."""
    place = folder / fault
    place.mkdir()
    # A right server is ready at once unless other programs take the cores; a wrong one is waited for to the end.
    wake_s = 60 if fault == "none" or (fault, form) == ("blanks", OWN) else 3
    shutil.copyfile(HERE / "servers" / "workloads.py", place / "workloads.py")
    (place / "contender.toml").write_text(
        DEFINITION.format(form=form, python=PYTHON, fault=fault, place=place, wake_s=wake_s)
    )
    return contender.entry(str(place / "contender.toml"))


def proved(folder: Path, fault: str, workload: str, form: str = "") -> Proof:
    (proof,) = verify([planted(folder, fault, form)], [load_workload(workload)])
    return proof


@pytest.mark.thorough
def test_a_right_server_passes_at_each_of_them(tmp_path: Path) -> None:
    """With its files, its bodies in pieces, a thousand waits at once, sixteen requests at a time."""
    proofs = list(verify([planted(tmp_path, "none")]))
    assert [(proof.workload, proof.reason) for proof in proofs] == [
        (name, "") for name in ("json", "post", "static", "delay", "pipelined")
    ]
    facts = {proof.workload: proof.facts for proof in proofs}
    assert facts["json"]["JSON form"] == "as the workload has it"
    assert facts["delay"]["fairness"].startswith("all of 64 served")
    assert facts["static"]["body bytes"] == "10–65536"


@pytest.mark.parametrize(
    ("fault", "workload", "words"),
    [
        ("cached", "json", "/json?n="),
        ("early", "delay", "too early; expected 15 ms or more"),
        ("unchunked", "post", "(chunked) sent a body of"),
        ("pool", "post", "expected '2145000000'"),
        ("blanks", "json", "sent the correct JSON in another form"),
    ],
)
def test_a_cheat_is_found_out_and_told(tmp_path: Path, fault: str, workload: str, words: str) -> None:
    """Before it yields any number."""
    proof = proved(tmp_path, fault, workload)
    assert proof.status == "failed"
    assert words in proof.reason


def test_a_declared_form_passes_and_is_on_the_sheet(tmp_path: Path) -> None:
    """Its own bytes are what the engine holds its answers to."""
    proof = proved(tmp_path, "blanks", "json", OWN)
    assert (proof.status, proof.reason) == ("passed", "")
    assert proof.facts["JSON form"] == "its own, declared"


def test_a_form_that_changes_is_no_form(tmp_path: Path) -> None:
    """Right as JSON each time, and other bytes."""
    proof = proved(tmp_path, "changing", "json", OWN)
    assert "in one form and then in another" in proof.reason


@pytest.mark.parametrize("workload", ["json", "static"])
def test_copies_of_an_earlier_launchs_files_are_told_as_such(tmp_path: Path, workload: str) -> None:
    """Every launch finds other files: what was built in, or kept, is right only once."""
    entry = planted(tmp_path, "kept")
    lanes = machine.lanes(None, None)
    request = Request(entries=(entry,), workload=load_workload(workload))
    with (
        race_setup(request.workload, load_of(request, lanes), lanes, seed=1) as setup,
        Servers(setup.engine) as servers,
    ):
        first = servers.add(setup.launch(entry))
        servers.stop([first])
        with pytest.raises(StageError, match="from the files of an earlier launch"):
            setup.launch(entry)


@contextmanager
def answering_in_disorder() -> Iterator[int]:
    """A server that reads several requests at once, and answers the last of them first."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with connection:
            while given := connection.recv(65536):
                paths = [line.split()[1] for line in given.split(b"\r\n") if line.startswith(b"GET ")]
                head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n%b\r\n%b"
                close = b"Connection: close\r\n" if b"Connection: close" in given else b""
                connection.sendall(b"".join(head % (len(path), close, path) for path in reversed(paths)))
                if close:
                    return

    def accept() -> None:
        while True:
            try:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
            except OSError:
                return

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def test_answers_in_another_order_than_the_requests_are_found() -> None:
    """Only where several are sent at once: one by one this server is right."""

    def asked(path: str, words: bytes = b"") -> Exchange:
        request = b"GET %b HTTP/1.1\r\nHost: a\r\n%b\r\n" % (path.encode(), words)
        return Exchange(path=path, request=request, status=200, content_type="text/plain", body=path.encode())

    keepalive = [asked(f"/{number}") for number in range(4)]
    closing = [asked(f"/{number}", b"Connection: close\r\n") for number in range(4)]
    with answering_in_disorder() as port:
        alone = check_correctness(Server("127.0.0.1", port), keepalive=keepalive, closing=closing)
        together = check_correctness(Server("127.0.0.1", port), keepalive=keepalive, closing=closing, together=4)
    assert alone.problems == ()
    assert len(together.problems) == 1
    assert together.problems[0].startswith("with several requests at once: /0 sent a body")


@pytest.mark.thorough
def test_a_race_tells_each_kind_of_request(tmp_path: Path) -> None:
    """Share and latency of each, in the record, in JSON and on the terminal."""
    planted(tmp_path, "none")
    done = dragstrip(
        "race", "--workload", "post", f"one={tmp_path}/none/contender.toml", f"two={tmp_path}/none/contender.toml",
        "--rounds", "2", "--budget", "5s", "-c", "8", "--json", str(tmp_path / "race.json"),
        env=settings(tmp_path),
    )  # fmt: skip
    race = json.loads((tmp_path / "race.json").read_text())
    assert done.returncode in (0, EXIT_VOID), done.stderr
    for entrant in race["columns"][0]["contenders"]:
        kinds = {kind["name"]: kind for kind in entrant["requests_by_kind"]}
        assert set(kinds) == {"length", "chunked"}
        # Five standard errors: a launch sends the beginning of a shuffled sequence, the second launch the same one.
        drawn = sum(kind["requests"] for kind in kinds.values()) / 2
        assert abs(kinds["length"]["share"] - 0.5) < 5 * 0.5 / drawn**0.5
        assert kinds["chunked"]["failed"] == 0
        latency_us = kinds["chunked"]["latency_us"]
        assert 0 < latency_us["p50"] <= latency_us["p99"]
    assert "chunked" in done.stdout
