"""Servers that misbehave (``servers/rogue.py``): each is named in time and in bounded memory, and harms no other.

A part of the modes goes through the whole commands; ``make soak`` (``pytest -m soak``) takes all of them, on both back
ends.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from servers.rogue import MODES
from test_scrutiny import exchange
from together import Done, peak_mb, run_all

from dragstrip.errors import DragstripError
from dragstrip.loading.learn import learn
from dragstrip.loading.request import LoadRequest, request_bytes, target
from dragstrip.scrutiny import Findings, Server, check_correctness
from dragstrip.store.database import Store

ROGUE = Path(__file__).parents[1] / "servers" / "rogue.py"

#: Our own process may take so much memory, whatever servers send.
MAX_MB = 300
#: What the command has when it has started.
STARTED_MB = 110

LENGTH = "sent an invalid Content-Length"
UNSOUND = "sends invalid headers"
#: What scrutineering says of each mode; "" where it is odd and right.
TOLD = {
    "endless-body": "announces a body of 4,611,686,018,427,387,904 bytes; expected 12",
    "endless-chunked": "sends a body of more than 65,548 bytes; expected 12",
    "endless-until-close": "sends a body of more than 65,548 bytes; expected 12",
    "endless-status-500": "sent status 500; expected 200",
    "endless-head": "sends a head of more than 65,536 bytes",
    "endless-header-line": "sends a head of more than 65,536 bytes",
    "many-headers": "sends a head of more than 65,536 bytes",
    "many-short-headers": "sends 1,002 header fields; expected at most 128",
    "endless-100-continue": "sends interim responses (status 100) without end",
    "endless-trailers": "sends a chunk's extension or trailers of more than 65,536 bytes",
    "extension-flood": "sends a chunk's extension or trailers of more than 65,536 bytes",
    "tiny-chunks": "bytes of chunk sizes and extensions; expected larger chunks, or Content-Length",
    "drip": "did not complete its response within",
    "drip-body": "did not complete its response within",
    "silent": "did not respond within",
    "stuck-in-head": "still in its head",
    "stuck-in-body": "5 bytes of body of the 12 in its Content-Length",
    "head-without-body": "0 bytes of body of the 12 in its Content-Length",
    "accept-close": "closed the connection before it responded",
    "reset": "reset the connection before it responded",
    "reset-in-head": "reset the connection in the middle of its head",
    "reset-in-body": "reset the connection in the middle of its response, after 5 bytes of body",
    "huge-length": "announces a body of 9,223,372,036,854,775,807 bytes; expected 12",
    "larger-length": f"{LENGTH}, '99999999999999999999999999'",
    "negative-length": f"{LENGTH}, '-12'",
    "plus-length": f"{LENGTH}, '+12'",
    "blank-in-length": f"{LENGTH}, '1 2'",
    "two-lengths": f"{LENGTH}, '13, 12'",
    "length-and-chunked": "sends both Content-Length and Transfer-Encoding",
    "huge-chunk": "invalid body framing (illegal chunk header",
    "negative-chunk": "invalid body framing (illegal chunk header",
    "wrong-status": "sent status 500; expected 200",
    "redirect": "sent status 302; expected 200",
    "204-with-body": "sent status 204; expected 200",
    "304-with-body": "sent status 304; expected 200",
    "switches-protocols": "switches protocols (status 101)",
    "wrong-body": "differs from the correct 12 bytes at byte 10",
    "wrong-type": "sent content type text/html; expected text/plain",
    "short-body": "closed the connection in the middle of its response, after 11 bytes",
    "extra-bytes": "bytes follow the complete response, 'junk'",
    "two-answers": "bytes follow the complete response, 'HTTP/1.1 200 OK",
    "answers-early": "expected nothing more",
    "http-0.9": "sent something that is not HTTP/1: 'hello world",
    "http-2": "responds in HTTP/2",
    "binary": "sent something that is not HTTP/1",
    "no-colon": f"{UNSOUND} (illegal header line, 'this is no header')",
    "nul-in-header": f"{UNSOUND} (illegal header line",
    "control-in-reason": "sends control characters in its head",
    "gzip": "is sent as gzip",
    "keeps-and-closes": "closed the connection after a response without announcing it",
    "never-closes": "it did not close within 2 s",
    "dies": "",
    "freezes": "",
    "never-accepts": "did not respond within | accepts no connections",
    "right": "",
    "odd-case": "",
    "odd-reason": "",
    "no-reason": "",
    "chunked": "",
    "closes-after-first": "",
    "doubled-headers": "",
    "memory-hog": "",
}  # fmt: skip
#: What load reports of the reference responses, if that differs: it has no expected response yet.
LOAD_TOLD = {
    "endless-body": "announces a body of 4,611,686,018,427,387,904 bytes",
    "endless-chunked": "sends a body of more than 67,174,400 bytes",
    "endless-until-close": "sends a body of more than 67,174,400 bytes",
    "endless-status-500": "sends a body of more than 67,174,400 bytes",
    "huge-length": "announces a body of 9,223,372,036,854,775,807 bytes",
    "304-with-body": "sends bytes after its complete response, 'hello world",
    **dict.fromkeys(["wrong-status"], "responds with status 500"),
    **dict.fromkeys(["redirect"], "responds with status 302"),
    **dict.fromkeys(["wrong-body", "wrong-type", "gzip", "keeps-and-closes", "never-closes"], ""),
    "204-with-body": "sends bytes after its complete response, 'hello world",
    "extra-bytes": "sends bytes after its complete response, 'junk'",
    "two-answers": "sends bytes after its complete response",
    "answers-early": "sends bytes after its complete response",
    # One connection more than its backlog takes: the kernel takes that one in, or lets it wait for ever.
    "never-accepts": "does not respond (timed out) | did not respond within",
}
#: Bytes sent a moment after the response may or may not have arrived when it is read.
LOAD_MAY_TELL = {"answers-early"}
#: Those that go through whole commands by default; each stands for its kind.
PART = [
    "endless-body", "endless-head", "endless-100-continue", "drip", "huge-length", "reset-in-body", "binary",
    "never-closes", "keeps-and-closes", "dies", "freezes", "doubled-headers", "odd-case", "right",
]  # fmt: skip
#: Requests that are answered right before a server dies or stands still: after scrutineering, before the load's end.
LATER = {"dies": 400, "freezes": 400}


#: Whole commands on a part of the modes; all of them take many minutes.
EACH = pytest.mark.parametrize(
    "whole",
    [
        pytest.param(False, marks=[pytest.mark.live, pytest.mark.thorough, pytest.mark.timeout(400)], id="part"),
        pytest.param(True, marks=[pytest.mark.soak, pytest.mark.timeout(3600)], id="all"),
    ],
)


def test_every_mode_has_its_words() -> None:
    """At least 30 ways to go wrong, each named here."""
    assert set(TOLD) == {*MODES, "never-accepts"}
    assert sum(bool(words) for words in TOLD.values()) >= 30


def said(words: str, text: str) -> bool:
    """Whether a text has one of the expressions."""
    return any(one in text for one in words.split(" | "))


def from_now() -> None:
    """Begins to watch the memory of this process, which other tests may have filled already."""
    Path("/proc/self/clear_refs").write_text("5")
    BEFORE[0] = peak_mb()


def grown() -> float:
    """By how many MB it grew since, at most."""
    return peak_mb() - BEFORE[0]


BEFORE = [0.0]


@contextlib.contextmanager
def rogues(modes: list[str], *more: str) -> Iterator[dict[str, int]]:
    """The ports of a server for each mode; all are ended."""
    words = [sys.executable, "-S", str(ROGUE), "0"]
    started = {
        mode: subprocess.Popen(
            [*words, mode, *more], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1
        )
        for mode in modes
    }
    try:
        yield {mode: int(one.stdout.readline().split()[1]) for mode, one in started.items() if one.stdout}
    finally:
        for one in started.values():
            one.kill()
        for one in started.values():
            one.communicate()


def side_by_side(call, of: dict[str, int]) -> dict[str, object]:  # type: ignore[no-untyped-def]
    """What ``call`` gives or raises for each port, all at once."""
    found: dict[str, object] = {}

    def one(mode: str, port: int) -> None:
        try:
            found[mode] = call(port)
        except Exception as error:
            found[mode] = error

    threads = [threading.Thread(target=one, args=item) for item in of.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.fixture(scope="module")
def found() -> dict[str, object]:
    """All modes scrutineered side by side."""
    exchanges = {"keepalive": [exchange()] * 3, "closing": [exchange(False)] * 3}
    with rogues([mode for mode in TOLD if mode not in LATER]) as ports:
        from_now()
        told = side_by_side(lambda port: check_correctness(Server("127.0.0.1", port), **exchanges), ports)
    return {**told, "grown by MB": grown()}


@pytest.mark.parametrize("mode", [mode for mode in TOLD if mode not in LATER])
def test_scrutineering_names_what_a_server_did(found: dict[str, object], mode: str) -> None:
    """Once, in words that say what was expected; odd but correct responses pass."""
    findings = found[mode]
    assert isinstance(findings, Findings), findings
    assert bool(findings.problems) == bool(TOLD[mode]), findings.problems
    told = "; ".join(findings.problems)
    assert said(TOLD[mode], told)
    assert not told or "expected" in told
    assert all(len(quoted) <= 90 for quoted in re.findall(r"'[^']*'", told))
    assert ("doubled headers" in findings.facts) == (mode == "doubled-headers")


def test_scrutineering_of_all_of_them_at_once_stays_small(found: dict[str, object]) -> None:
    """Endless answers too: none is held beyond its cap."""
    assert found["grown by MB"] < MAX_MB - STARTED_MB  # type: ignore[operator]


def test_load_names_what_a_server_did_before_it_loads_it() -> None:
    """Its two plain requests have the deadline and the caps, too."""

    def first(port: int, timeout_s: float = 2.0) -> str:
        request = LoadRequest(url=f"http://127.0.0.1:{port}/", timeout_s=timeout_s)
        to = target(request.url, None)
        try:
            learn(request, to, request_bytes(request, to))
        except DragstripError as error:
            return str(error)
        return ""

    from_now()
    # Those that need most memory come one by one, as they would, and have the time to send so much.
    with rogues([mode for mode in TOLD if mode not in LATER]) as ports:
        large = {mode: ports.pop(mode) for mode, words in LOAD_TOLD.items() if "67,174,400" in words}
        told = side_by_side(first, ports)
        for item in large.items():
            told |= side_by_side(partial(first, timeout_s=60.0), dict([item]))
    for mode, words in told.items():
        expected = LOAD_TOLD.get(mode, TOLD[mode])
        assert isinstance(words, str), words
        if words or mode not in LOAD_MAY_TELL:
            assert bool(words) == bool(expected), (mode, words)
            assert said(expected, words), (mode, words)
    assert grown() < MAX_MB - STARTED_MB


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one contender whose parameter is the mode; it has two seconds to become right."""
    at = tmp_path / "rogue"
    at.mkdir()
    (at / "contender.toml").write_text(f"""
name = "rogue"
title = "a server that misbehaves"
host = "Python"
language = "Python"
workloads = ["hello"]
[parameters]
mode = "right"
after = "0"
[warm_up]
least_s = 0.05
most_s = 0.5
[start]
command = ["{sys.executable}", "-S", "{ROGUE}", "{{port}}", "{{mode}}", "{{after}}", "{tmp_path}"]
wake_s = 2.0
unprivileged = false
""")
    return tmp_path


def entry(mode: str) -> str:
    return f"{mode}=rogue:mode={mode},after={LATER.get(mode, 0)}"


def left_over(folder: Path) -> list[str]:
    """Command lines of servers of this test that still run: each has the folder among its words."""
    found = []
    for at in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if str(folder).encode() in (words := at.read_bytes()) and b"rogue.py" in words:
                found.append(words.decode())
    return found


def sound(done: Done) -> None:
    """No traceback, no more memory than may be, whatever came."""
    assert "Traceback" not in done.said, done.said
    assert done.peak_mb < MAX_MB, done.words


@EACH
def test_verify_names_each_and_leaves_nothing(folder: Path, whole: bool) -> None:
    """Exit code 1 where a mode is wrong, 0 where it is only odd; no server stays."""
    modes = list(TOLD) if whole else PART
    commands = [["verify", entry(mode), "--workload", "hello", "--contenders", str(folder)] for mode in modes]
    for mode, done in zip(modes, run_all(commands, folder / "store"), strict=True):
        sound(done)
        wrong = bool(TOLD[mode]) or mode in LATER
        assert done.code == int(wrong), done.said
        assert said(TOLD[mode] if mode not in LATER else f"FAILED {mode} at hello", done.said), mode
    assert left_over(folder) == []


@EACH
def test_a_race_goes_on_beside_those_that_misbehave(folder: Path, whole: bool) -> None:
    """They are out, each with its reason; the good ones race on. Both back ends at once, for no rate is looked at."""
    modes = [mode for mode in (TOLD if whole else PART) if mode != "right"]
    wrong = [mode for mode in modes if TOLD[mode] or mode in LATER]
    raced = {"uring": wrong, "epoll": wrong if whole else wrong[:4]}
    good = ["right", "odd-case"]
    rest = ["--rounds", "2", "--contenders", str(folder), "-c", "8"]
    commands = [["race", *map(entry, [*bad, *good]), "--io", io, *rest] for io, bad in raced.items()]
    for number, (done, bad) in enumerate(zip(run_all(commands, folder / "store"), raced.values(), strict=True)):
        sound(done)
        assert done.code in (0, 3), done.said
        with Store(folder / f"store-{number}.sqlite") as store:
            race = store.load("last")
        out = {one.name: one.out for one in race.entrants}
        assert not any(out[name] for name in good), out
        assert len(race.rounds) >= 2
        for mode in bad:
            assert out[mode], mode
            assert said(TOLD[mode], " ".join(out[mode].split())), (mode, out[mode])
    assert left_over(folder) == []


@EACH
def test_load_ends_whatever_a_server_begins_to_do_meanwhile(tmp_path: Path, whole: bool) -> None:
    """From its 40th response on it misbehaves: failures are reported by kind, and the exit code is 1."""
    usual = [mode for mode in TOLD if TOLD[mode] and mode != "never-accepts"]
    modes = [*(usual if whole else [mode for mode in PART if TOLD[mode]]), *LATER]
    # As far as load goes: its answers' types and the server's closing are not looked at.
    fine = {"never-closes", "wrong-type", "gzip"}
    rest = ["-c", "4", "-n", "600", "-d", "3s", "--timeout", "2s", "--max-errors", "1%"]
    with rogues(modes, "40") as uring, rogues(modes, "40") as epoll:
        pairs = [(mode, port, io) for io, ports in (("uring", uring), ("epoll", epoll)) for mode, port in ports.items()]
        commands = [["load", f"http://127.0.0.1:{port}/", "--io", io, *rest] for _, port, io in pairs]
        for (mode, _, io), done in zip(pairs, run_all(commands, tmp_path / "store"), strict=True):
            sound(done)
            assert done.code == int(mode not in fine), (mode, io, done.said)
            assert mode in fine or "missed errors" in done.said, (mode, io, done.said)
