"""Shipped contenders that can be started for HTTP/2 or TLS: real launches, asked in frames and over TLS."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

from dragstrip import contender
from dragstrip.contender import Missing
from dragstrip.contender.entries import HTTP, TLS
from dragstrip.process import certificate
from dragstrip.process.launcher import Launcher, ServerProcess, scratch_root
from dragstrip.process.ports import free_port
from dragstrip.scrutiny import Encryption, Findings, Server, check_correctness, is_right, plainest, resumption
from dragstrip.workload import Asking, Data, load

CORE = max(os.sched_getaffinity(0))
DEFAULT = contender.line_up("default").names
HAVING = [name for name, one in contender.shipped().items() if HTTP in one.fields.choices]
ENCRYPTED = [name for name, one in contender.shipped().items() if TLS in one.fields.choices]
READY = [name for name in HAVING if not isinstance(contender.check(contender.find(name)), Missing)]

#: What can't be asked over HTTP/2 (pipelining, chunks), or wants a database, which has tests of its own.
NOT_HERE = {"pipelined", "post", "db", "queries"}

#: The stacks whose definitions must have it: what can speak HTTP/2 is raced over it.
EXPECTED = {
    "apache-static", "axum", "caddy", "deno", "fastcgi-lua51", "go-native", "granian", "h2o-mruby", "haproxy-lua",
    "lighttpd-magnet", "nginx-lua", "nginx-return", "nginx-static", "node", "openresty", "uwsgi-lua51",
}  # fmt: skip


def marked(name: str) -> object:
    return pytest.param(name, marks=pytest.mark.live if name in DEFAULT else pytest.mark.contenders)


def proved(name: str, workload: str, http: str, tls: str = "") -> Findings:
    """What scrutineering finds of a launch that is started for a version, and for TLS."""
    entry, asked = contender.entry(f"{name}:http={http}{tls}"), load(workload)
    data = asked.data("a launch")
    asking = Asking(asked, mark=mark_of(entry, workload), data=data, own_form=True)
    with launched(entry, workload, data) as (running, encryption):
        keepalive, closing = (
            (
                *asking.exchanges(keepalive=keep, http=http),
                *asking.probes(keepalive=keep, http=http),
            )
            for keep in (True, False)
        )
        server = Server(running.host, running.port, encryption)
        found = check_correctness(server, keepalive=keepalive, closing=closing)
        if found.problems or encryption is None:
            return found
        taken_up = {"resumed": resumption(server, plainest(keepalive))}
        return replace(found, facts=found.facts | taken_up)


def mark_of(entry: contender.Entry, workload: str) -> str:
    return entry.mark if load(workload).needs_mark else ""


@contextlib.contextmanager
def launched(entry: contender.Entry, workload: str, data: Data) -> Iterator[tuple[ServerProcess, Encryption | None]]:
    """One launch, as a race makes it, and how it is reached over TLS."""
    with scratch_root() as root, Launcher(name=entry.name, scratch_root=root) as launcher:
        scratch = root / "launch"
        scratch.mkdir()
        authority = certificate.make(root) if entry.tls else None
        encryption = Encryption(authority.file, entry.http("1.1")) if authority else None
        start = contender.prepare(
            entry, scratch=scratch, port=free_port(), cores=(CORE,), workload=workload, data=data.files,
            identity=authority.identity if authority else None,
        )  # fmt: skip
        asking = Asking(load(workload), mark=mark_of(entry, workload), data=data, own_form=True)
        first = plainest(asking.exchanges(http=entry.http("1.1"), keepalive=False))
        probe = is_right(first, within_s=60, tls=encryption)
        yield launcher.launch(start, scratch=scratch, cores=(CORE,), is_right=probe), encryption


def test_what_can_speak_http_2_says_so() -> None:
    """By a parameter, whose choices are the versions that it can be started for."""
    assert set(HAVING) >= EXPECTED
    for name in HAVING:
        assert contender.find(name).fields.choices[HTTP] == ("1.1", "2"), name


@pytest.mark.thorough
@pytest.mark.timeout(900)  # the first launch of all may have to be compiled
@pytest.mark.parametrize("name", [marked(name) for name in READY])
def test_every_workload_is_answered_in_frames(name: str) -> None:
    """Byte for byte, over kept connections and with one each; an answer in HTTP/1.1 would be wrong."""
    state = contender.check(contender.entry(f"{name}:http=2"))
    if isinstance(state, Missing):
        pytest.skip(state.reason)  # Go 1.19 of Debian 12, say
    for workload in contender.find(name).fields.workloads:
        if workload in NOT_HERE:
            continue
        found = proved(name, workload, "2")
        assert found.problems == (), workload
        assert str(found.facts["HTTP version"]) == "HTTP/2"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("http", ["1.1", "2"])
@pytest.mark.parametrize("name", [marked(name) for name in READY if name in ENCRYPTED])
def test_its_smallest_workload_is_answered_over_tls(name: str, http: str) -> None:
    """By the race's own certificate, in the version that was offered alone; and sessions are taken up again."""
    found = proved(name, "hello", http, ",tls=on")
    assert found.problems == ()
    assert str(found.facts["HTTP version"]) == f"HTTP/{http}"
    assert str(found.facts["TLS version"]) in ("TLSv1.2", "TLSv1.3")
    assert "GCM" in str(found.facts["cipher suite"])
    assert found.facts["resumed"] == "yes"
