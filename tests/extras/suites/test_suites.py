"""TechEmpower's and HttpArena's workloads without a database: a right server passes, and each way to cheat is named.

All servers run in this process, on one event loop in a thread of their own.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest
from servers import websocket
from servers.suites import Suites, encryption, started
from suites import HANGS_S, load_for, loaded

from dragstrip.process import certificate
from dragstrip.racing.proving import prove
from dragstrip.scrutiny import Encryption, Findings, Server, check_correctness, with_own_form
from dragstrip.workload import Asking
from dragstrip.workload import load as load_workload

pytestmark = [pytest.mark.live, pytest.mark.thorough]

Result = TypeVar("Result")


@dataclass
class Loop:
    """An event loop in its own thread, with the servers that were started on it."""

    folder: Path
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    def __post_init__(self) -> None:
        self.authority = certificate.make(self.folder)
        (self.folder / "certificate.pem").write_bytes(self.authority.identity.certificate)
        (self.folder / "key.pem").write_bytes(self.authority.identity.key)
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def wait_for(self, work: Coroutine[object, object, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(HANGS_S)

    def end(self) -> None:
        async def cancel() -> None:
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

        self.wait_for(cancel())
        self.loop.call_soon_threadsafe(self.loop.stop)

    def serve(self, asking: Asking, fault: str = "none", *, tls: bool = False) -> Server:
        """A server of this launch's files with a fault."""
        assert asking.data is not None
        tls = tls or asking.workload.traffic.tls != "any"
        files = ("certificate.pem", "key.pem")
        context = encryption(*(str(self.folder / name) for name in files)) if tls else None
        starting = websocket.started(fault, tls=context) if not asking.workload.traffic_kind.over_http else None
        listening = self.wait_for(starting or started(Suites(asking.data.files, fault), tls=context))
        trusted = Encryption(self.authority.file, asking.workload.version("1.1")) if tls else None
        return Server("127.0.0.1", listening.sockets[0].getsockname()[1], trusted)


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    made = Loop(tmp_path_factory.mktemp("suites"))
    yield made
    made.end()


def asking_of(name: str) -> Asking:
    workload = load_workload(name)
    return Asking(workload, seed=3, framed=workload.version("1.1") == "2", data=workload.data("a launch"))


def proved(loop: Loop, name: str, fault: str = "none") -> tuple[Asking, Server, Findings]:
    asking = asking_of(name)
    server = loop.serve(asking, fault)
    return asking, server, prove(asking, load_for(asking.workload), server)


WITHOUT_DATABASE = [
    "tfb-plaintext", "tfb-json", "arena-baseline", "arena-limited-conn", "arena-pipelined", "arena-json",
    "arena-json-comp", "arena-static", "arena-json-tls", "arena-baseline-h2", "arena-static-h2", "arena-baseline-h2c",
    "arena-json-h2c", "arena-upload", "arena-echo-ws",
]  # fmt: skip


@pytest.mark.parametrize("name", WITHOUT_DATABASE)
def test_a_right_server_passes_before_and_under_load(loop: Loop, name: str) -> None:
    """Every byte that the engine gets is what scrutineering learnt, over the connections that the suite has."""
    asking, server, findings = proved(loop, name)
    assert findings.problems == ()
    assert loaded(asking, server, 8 if name == "arena-upload" else 200) == {}
    expected = {"arena-json-comp": "br", "arena-static": "br, identity", "arena-static-h2": "br, identity"}
    assert findings.facts.get("content encodings") == expected.get(name)


def test_gzip_with_the_time_in_it_is_right_and_compared_by_its_length(loop: Loop) -> None:
    """Python writes the time into the header of gzip, so that bytes change from second to second."""
    asking, server, findings = proved(loop, "arena-json-comp", "timed")
    assert findings.problems == ()
    learned = with_own_form(server, asking.exchanges())
    assert {exchange.compare for exchange in learned} == {"length"}
    assert loaded(asking, server, 100) == {}


@pytest.mark.parametrize(
    ("name", "fault", "words"),
    [
        ("tfb-json", "dateless", "has no header Date; expected Server and Date"),
        ("arena-baseline", "pool", "sent a body of 1 bytes that differs from the correct 10 bytes"),
        ("arena-json", "ones", "differs from the correct"),
        ("arena-json-comp", "uncoded", "is plain, although the request accepts gzip, br"),
        ("arena-json-comp", "always", "without Accept-Encoding: /json/"),
        ("arena-json-comp", "deflated", "is sent as deflate, although the request accepts gzip, br"),
        ("arena-json-comp", "mislabelled", "is sent as br, but its"),
        ("arena-json-comp", "torn", "is sent as gzip, but its"),
        ("arena-json-comp", "stored", "which is not shorter than the plain"),
        ("arena-echo-ws", "constant", "sent a body of 5 bytes that differs from the correct 5 bytes"),
        ("arena-echo-ws", "short", "sent a body of 125 bytes that differs from the correct 126 bytes"),
        ("arena-echo-ws", "binary", "sent a binary message; expected a text message"),
        ("arena-echo-ws", "masked", "breaks WebSocket (client received unexpected masked frame)"),
        ("arena-echo-ws", "double", "bytes follow the complete response"),
        ("arena-echo-ws", "endless", "expected a close frame as the answer to one"),
        ("arena-echo-ws", "proofless", "fails the upgrade to WebSocket (Bad accept token)"),
        ("arena-echo-ws", "extended", "fails the upgrade to WebSocket (unrecognized extension"),
        ("arena-echo-ws", "careless", "a GET request without an upgrade: switches protocols (status 101)"),
        ("arena-echo-ws", "old", "an upgrade to version 12: switches protocols (status 101)"),
        ("arena-upload", "announced", "(2m-chunked) sent a body of 1 bytes that differs from the correct 7 bytes"),
    ],
)
def test_a_cheat_is_out_and_named(loop: Loop, name: str, fault: str, words: str) -> None:
    _, _, findings = proved(loop, name, fault)
    assert any(words in problem for problem in findings.problems), findings.problems


@pytest.mark.parametrize("tls", [False, True])
def test_messages_in_fragments_are_right_also_over_tls(loop: Loop, tls: bool) -> None:
    """With a ping between the fragments, which wants a reply."""
    asking = asking_of("arena-echo-ws")
    server = loop.serve(asking, "pieces", tls=tls)
    assert prove(asking, load_for(asking.workload), server).problems == ()
    assert loaded(asking, server, 100) == {}


@pytest.mark.parametrize(("fault", "kind"), [("constant", "wrong_body"), ("binary", "wrong_head")])
def test_who_cheats_only_under_load_has_no_right_message(loop: Loop, fault: str, kind: str) -> None:
    asking = asking_of("arena-echo-ws")
    assert loaded(asking, loop.serve(asking, fault), 100) == {kind: 100}


def test_who_responds_before_a_body_has_come_is_out(loop: Loop) -> None:
    """By the length in the head; the end of the body is held back until a response comes."""
    asking = asking_of("arena-upload")
    server = loop.serve(asking, "early")
    kept, closing = (
        [exchange for exchange in asking.exchanges(keepalive=keepalive) if exchange.kind_name == "500k"]
        for keepalive in (True, False)
    )
    findings = check_correctness(server, keepalive=kept, closing=closing, held_s=HANGS_S)
    problem = r"responded \(.*\) before the end of the request's body was sent: [0-9,]+ of its 512,000 bytes had left"
    assert any(re.search(problem, reason, re.DOTALL) for reason in findings.problems), findings.problems
