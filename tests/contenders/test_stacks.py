"""Traps of the shipped stacks that the general tests of definitions don't show; every server here is real."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragstrip import contender
from dragstrip.contender import Missing
from dragstrip.errors import StageError
from dragstrip.process.launcher import Launcher, ServerProcess, scratch_root
from dragstrip.process.ports import free_port
from dragstrip.scrutiny import (
    Server,
    check_correctness,
    connection_behaviour,
    fairness,
    fault,
    fetch,
    is_right,
)
from dragstrip.scrutiny.server_count import count_from_now
from dragstrip.workload import Asking, Exchange, load

CORE = max(os.sched_getaffinity(0))
WRITE_UPS = [f"write-up-{number}" for number in range(1, 6)]
SHIPPED = contender.shipped()
READY = [name for name, one in SHIPPED.items() if not isinstance(contender.check(one), Missing)]


def right_ones(entry: contender.Entry, workload: str = "multiply") -> tuple[Exchange, ...]:
    return Asking(load(workload), mark=entry.mark if load(workload).needs_mark else "").exchanges()


@contextlib.contextmanager
def serving(text: str, workload: str = "multiply") -> Iterator[tuple[contender.Entry, ServerProcess]]:
    """A contender's launch on one core, as a race would make it."""
    entry = contender.entry(text)
    with scratch_root() as root, Launcher(name=entry.name, scratch_root=root) as launcher:
        scratch = root / "launch"
        scratch.mkdir()
        start = contender.prepare(entry, scratch=scratch, port=free_port(), cores=(CORE,), workload=workload)
        exchange = right_ones(entry, workload)[0]
        yield entry, launcher.launch(start, scratch=scratch, cores=(CORE,), is_right=is_right(exchange))


def changed(folder: Path, name: str, file: str, before: str, after: str) -> Path:
    """A user's copy of a shipped definition, its siblings' files beside it, with one thing done otherwise."""
    source, target = SHIPPED[name].folder, folder / "changed"
    shutil.copytree(source, target)
    for path in SHIPPED[name].files():
        (target / path).parent.mkdir(exist_ok=True)
        if path.startswith("../"):
            shutil.copy(source / path, target / path)
    definition = target / "contender.toml"
    definition.write_text(re.sub(r"wake_s = \d+", "wake_s = 5", definition.read_text()))  # it never will be right
    text = (target / file).read_text()
    assert before in text
    (target / file).write_text(text.replace(before, after))
    return definition


def test_a_product_of_strings_is_6_point_0_in_lua_53_and_refused(tmp_path: Path) -> None:
    """The program as one would carelessly write it serves every other Lua rightly; scrutineering names the bytes."""
    careless = changed(
        tmp_path, "haproxy-lua", "app.lua",
        'tonumber(query:match("%f[%w]a=(%d+)")), tonumber(query:match("%f[%w]b=(%d+)"))',
        'query:match("%f[%w]a=(%d+)"), query:match("%f[%w]b=(%d+)")',
    )  # fmt: skip
    with pytest.raises(StageError, match=r"differs from the correct .*=\d+\.0</p>"), serving(str(careless)):
        pass
    with serving("haproxy-lua") as (entry, running):
        asked = load("multiply")
        asking = Asking(asked, mark=entry.mark)
        found = check_correctness(
            Server(running.host, running.port),
            keepalive=asking.probes(), closing=asking.probes(keepalive=False),
        )  # fmt: skip
        assert found.problems == ()


@pytest.mark.parametrize("name", [n for n in READY if SHIPPED[n].fields.served])
def test_a_servers_own_count_is_exact(name: str) -> None:
    """Thirty requests over one connection and ten with one each are forty by its own count, readings apart.

    Apache counts a moment after it has answered: the last one, and a reading, may be missing.
    """
    served, asked_for = SHIPPED[name].fields.served, "count" in SHIPPED[name].fields.parameters
    assert served is not None
    with serving(f"{name}:count=on" if asked_for else name, "hello") as (entry, running):
        at = served.socket.format(scratch=running.scratch)
        asked = contender.OwnCount(f"unix:{at}" if at else "", served.path, served.pattern)
        since = count_from_now(asked, Server(running.host, running.port))
        kept, closing = (Asking(load("hello"), mark=entry.mark).exchanges(keepalive=keep)[0] for keep in (True, False))
        with Server(running.host, running.port).connect() as sock:
            assert [fetch(sock, kept).status for _ in range(30)] == [200] * 30
        for _ in range(10):
            with Server(running.host, running.port).connect() as sock:
                fetch(sock, closing)
        told = since()
        assert told == 40 or (asked_for and told in range(38, 43))


def test_a_dead_backends_fast_502s_are_refused(tmp_path: Path) -> None:
    """nginx alone answers at once, and wrongly: it never comes to a number."""
    lone = changed(tmp_path, "fastcgi-lua51", "nginx.conf", "/app{{ number }}.sock", "/nobody.sock")
    with pytest.raises(StageError, match="sent status 502; expected 200"), serving(str(lone)):
        pass


@pytest.mark.parametrize("name", [n for n in READY if any("hold.sh" in f for f in SHIPPED[n].files())])
@pytest.mark.parametrize("victim", ["nginx", "backend"])
def test_a_front_and_its_backend_end_together(name: str, victim: str) -> None:
    """Whichever is killed takes the other along, and the launch counts as dead."""
    with serving(name) as (_, running):
        own = next(pid for pid in running.pids() if is_main(pid, running.pid) and is_nginx(pid) == (victim == "nginx"))
        os.kill(own, signal.SIGKILL)
        end = time.monotonic() + 15
        while running.alive():
            assert time.monotonic() < end, f"{name} goes on without its {victim}"
            time.sleep(0.01)
        assert running.stop().died


def test_a_front_waits_until_its_backend_listens(tmp_path: Path) -> None:
    """A socket's file exists before connections are accepted; nginx would answer 502."""
    place, script = tmp_path / "app.sock", contender.find("nginx-php-fpm").folder / "hold.sh"
    words = ["sh", "-c", f". {script}; await_sockets {place}; echo listens"]
    with (
        socket.socket(socket.AF_UNIX) as backend,
        subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as waiting,
    ):
        try:
            backend.bind(str(place))
            with pytest.raises(subprocess.TimeoutExpired):
                waiting.wait(0.5)
            backend.listen()
            assert waiting.communicate(timeout=30)[0] == b"listens\n"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(waiting.pid, signal.SIGKILL)


def is_main(pid: int, launcher: int) -> bool:
    """A program that the launcher's watching shells hold: not a shell, and a shell's child."""
    if command(pid) in ("sh", "dash", "bash") or pid == launcher:
        return False
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return command(parent) in ("sh", "dash", "bash")


def is_nginx(pid: int) -> bool:
    return command(pid) == "nginx"


def command(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


@pytest.mark.skipif("uwsgi-lua51" not in READY, reason="uWSGI is not installed")
def test_a_server_that_lets_a_connection_own_its_worker_is_named_as_unfair() -> None:
    """uWSGI's http11-socket answers every plain request rightly, and would look fast: the others get nothing."""
    with serving("uwsgi-lua51:front=http11-socket", "hello") as (entry, running):
        (exchange,) = right_ones(entry, "hello")
        (problem,) = fairness(Server(running.host, running.port), exchange, connections=8).problems
    assert problem.startswith("starves connections: while one was kept busy, 7 of 7 others got no response within 2 s")


@pytest.mark.parametrize(
    ("before", "after", "fact", "told"),
    [
        ("ngx.header.content_length = 12", "", "body framing", "chunked"),
        ("keepalive_requests 1000000000;", "", "keep-alive limit found", "1,000 requests"),
    ],
)
def test_what_a_careless_configuration_does_is_seen_on_the_wire(
    tmp_path: Path, before: str, after: str, fact: str, told: str
) -> None:
    """Without a length nginx sends chunks; as it is built it closes after 1000 requests: right, and on the sheet."""
    careless = changed(tmp_path, "nginx-lua", "nginx.conf", before, after)
    with serving(str(careless), "hello") as (entry, running):
        (exchange,) = right_ones(entry, "hello")
        (closing,) = Asking(load("hello")).exchanges(keepalive=False)
        found = check_correctness(Server(running.host, running.port), keepalive=[exchange], closing=[closing])
        assert found.problems == ()
        facts = found.facts | connection_behaviour(Server(running.host, running.port), exchange)
        assert str(facts[fact]) == told


#: As much of ngx_mruby as our handlers use, for H2O's mruby: it notes what they set, and sends no length of its own.
NGX_MRUBY = """\
module Nginx
  HTTP_OK, HTTP_BAD_REQUEST = 200, 400
  class << self
    attr_accessor :asked, :said, :status, :sent
    def begin(env)
      @asked, @said, @status, @sent = env, "", 0, {}
    end
    def rputs(text)
      @said += text
    end
    def return(status)
      @status = status
    end
  end
  class Request
    def args
      Nginx.asked["QUERY_STRING"]
    end
    def uri
      Nginx.asked["PATH_INFO"]
    end
    def content_type=(type)
      Nginx.sent["Content-Type"] = type
    end
    def headers_out
      Nginx.sent
    end
  end
end
lambda do |env|
  Nginx.begin(env)
  HANDLER
  [Nginx.status, {"content-type" => Nginx.sent["Content-Type"], "x-set" => Nginx.sent.keys.join(",")}, [Nginx.said]]
end
"""


@pytest.mark.skipif("h2o-mruby" not in READY, reason="H2O, whose mruby stands in for ngx_mruby, is not installed")
@pytest.mark.parametrize(("workload", "file"), [("hello", "hello.rb"), ("multiply", "multiply.rb")])
def test_ngx_mrubys_handlers_answer_right_and_leave_the_length_to_it(tmp_path: Path, workload: str, file: str) -> None:
    """It adds up what is put out and sends one Content-Length; a second one, set by hand, would stand beside it."""
    mark = SHIPPED["ngx-mruby"].fields.mark
    handler = (SHIPPED["ngx-mruby"].folder / file).read_text().replace("{{ mark }}", mark)
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        (Path(place) / "handler.rb").write_text(NGX_MRUBY.replace("HANDLER", handler))
        copy = tmp_path / "h2o-mruby"
        shutil.copytree(SHIPPED["h2o-mruby"].folder, copy)
        text = (copy / "h2o.yaml").read_text()
        cut = text.index("mruby.handler:")
        (copy / "h2o.yaml").write_text(f"{text[:cut]}mruby.handler-file: {place}/handler.rb\n")
        definition = copy / "contender.toml"
        definition.write_text(definition.read_text().replace('mark = "H2MR"', f'mark = "{mark}"'))
        with serving(str(definition), workload) as (entry, running):
            for exchange in right_ones(entry, workload):
                with Server(running.host, running.port).connect() as sock:
                    answer = fetch(sock, exchange)
                assert fault(exchange, answer) is None
                assert answer.header("x-set") == "Content-Type"


#: Those that by default close a connection that is idle for 5 or 10 s, as it is between two blocks of a round.
IDLE = [name for name in ("node", "apache-static", "lighttpd-magnet", "h2o-mruby") if name in READY]


def test_a_connection_that_waits_for_its_next_block_is_kept() -> None:
    """Idle limits are lifted: after 11 s each still answers over the connection that it answered on before."""
    with contextlib.ExitStack() as stack:
        asked = []
        for name in IDLE:
            entry, running = stack.enter_context(serving(name, "hello"))
            (exchange,) = right_ones(entry, "hello")
            sock = stack.enter_context(socket.create_connection((running.host, running.port), timeout=10))
            assert fault(exchange, fetch(sock, exchange)) is None
            asked.append((name, sock, exchange))
        time.sleep(11)
        for name, sock, exchange in asked:
            assert fault(exchange, fetch(sock, exchange)) is None, name


#: What redbean does at its end, in Python: one process per connection, and SIGTERM for its whole process group.
KILLS_ITS_GROUP = """\
import os, signal, socketserver, sys
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        while line := self.rfile.readline():
            keep = True
            while (header := self.rfile.readline()) not in (b"\\r\\n", b""):
                keep = keep and header.lower() != b"connection: close\\r\\n"
            self.wfile.write(b"HTTP/1.1 200 OK\\r\\nContent-Type: text/plain\\r\\nContent-Length: 12\\r\\n"
                             + (b"" if keep else b"Connection: close\\r\\n") + b"\\r\\nhello world\\n")
            if not keep:
                return
class Server(socketserver.ForkingTCPServer):
    allow_reuse_address, request_queue_size = True, 128
def end(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    os._exit(0)
signal.signal(signal.SIGTERM, end)
Server((sys.argv[2], int(sys.argv[4])), Handler).serve_forever()
"""


def test_a_server_that_takes_its_process_group_along_ends_only_itself() -> None:
    """A stand-in under redbean's own definition and launcher, which can't be installed here: the supervisor outlives it
    and launches it again."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        (Path(place) / "server.py").write_text(KILLS_ITS_GROUP)
        program = Path(place) / "redbean.com"
        program.write_text(
            f'#!/bin/sh\n[ "$1" = -e ] && exec echo redbean 2.2.0\nexec /usr/bin/python3 {place}/server.py "$@"\n'
        )
        program.chmod(0o755)
        entry = contender.entry(f"redbean:program={program}")
        with scratch_root() as root, Launcher(name=entry.name, scratch_root=root) as launcher:
            for number in range(2):
                scratch = root / f"launch-{number}"
                scratch.mkdir()
                start = contender.prepare(entry, scratch=scratch, port=free_port(), cores=(CORE,), workload="hello")
                (exchange,) = right_ones(entry, "hello")
                running = launcher.launch(start, scratch=scratch, cores=(CORE,), is_right=is_right(exchange))
                with socket.create_connection((running.host, running.port), timeout=10) as open_one:
                    assert fault(exchange, fetch(open_one, exchange)) is None
                    pids = running.pids()
                    assert len(pids) >= 2, "a process for the connection"
                    ended = running.stop()
                assert not ended.died
                assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.skipif("redbean" not in READY, reason="redbean is not on PATH")
def test_redbean_queues_more_connections_than_it_does_by_itself() -> None:
    """It listens for 10, and forks for each: of many at once the rest would wait for a second try of the kernel's."""
    with serving("redbean", "hello") as (_, running):
        asked = ["ss", "-Hltn", f"sport = :{running.port}"]
        listening = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
        assert int(listening[2]) >= 64, listening


@pytest.mark.parametrize(
    "text",
    [
        "apache-mod-lua:scope=once", "go-luajit:mode=file", "go-luajit:mode=string", "uwsgi-lua51:front=http-socket",
        "uwsgi-lua54:front=http-socket", "uwsgi-luajit:front=http-socket",
    ],
)  # fmt: skip
def test_what_was_published_otherwise_is_a_variant_and_right(text: str) -> None:
    """A Lua state per request, a file per request, a text parsed per request: the same answers."""
    with serving(text) as (entry, running):
        probes = Asking(load("multiply"), mark=entry.mark).probes()
        closing = Asking(load("multiply"), mark=entry.mark).probes(keepalive=False)
        assert check_correctness(Server(running.host, running.port), keepalive=probes, closing=closing).problems == ()
        assert entry.name == text


def test_whatever_waits_with_select_declares_how_many_connections_it_takes() -> None:
    """LuaSocket's select knows 1024 descriptors; the general tests try what is declared here."""
    waiting = [name for name, one in SHIPPED.items() if "LuaSocket" in one.fields.host]
    assert set(waiting) >= {"lua", "lua51", "lua52", "lua53", "luajit", "lua-copas"}
    assert all("most connections" in SHIPPED[name].fields.parity for name in waiting)


def test_each_definition_says_its_workers_limits_log_and_compression() -> None:
    """The parity sheet has them for all, because they differ by default (workers above all)."""
    for name, one in SHIPPED.items():
        assert {"workers", "keep-alive limit", "access log", "compression"} <= set(one.fields.parity), name


@pytest.mark.parametrize("name", WRITE_UPS)
def test_a_write_ups_field_is_defined_and_serves_its_workload(name: str) -> None:
    """Every name is a definition (or variant of one); whoever no registry holds says where to get it."""
    line_up = contender.line_up(name)
    entries = [contender.entry(text) for text in line_up.names]
    for one in entries:
        assert one.contender is not None
        one.refuse_unless_it_serves(line_up.workload)
        how = one.contender.fields.install
        assert how.debian or how.pip or how.npm or how.hint.startswith("https://")
    obtainable = [one for one in entries if one.contender and one.contender.fields.install.debian]
    assert len(obtainable) >= 2, "without the user's own builds there must be a verdict too"
