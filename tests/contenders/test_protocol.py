"""Every shipped contender, started for real: one launch of each workload, looked at from all sides.

Launches run side by side, since nothing here is timed; each side of one launch is a test of its own. Those of the
default line-up run with `make test`, all with `make check`.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import os
import pwd
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dragstrip import contender
from dragstrip.contender import Entry, Missing, Start
from dragstrip.errors import NotReady, PortTaken
from dragstrip.process.database import Database, Instance
from dragstrip.process.database import find as find_database
from dragstrip.process.launcher import IN_USE, scratch_root
from dragstrip.process.ports import free_port, is_held
from dragstrip.workload import Asking, Data, Exchange
from dragstrip.workload import load as load_workload

DEFAULT = contender.line_up("default").names
#: The default line-up must be ready wherever the tests run; of the others, those that are installed are tried.
#: (`make check` installs all that a registry has; some are only to be had from their own projects.)
SHIPPED = sorted(
    name
    for name, one in contender.shipped().items()
    if name in DEFAULT or not isinstance(contender.check(one), Missing)
)


@functools.cache
def _database_is_here() -> bool:
    try:
        find_database()
    except NotReady:
        return False
    return True


def _can_be_tried(name: str, workload: str) -> bool:
    """Of those that ask the database: whether it is here, and the contender's driver."""
    if not load_workload(workload).asks_database:
        return True
    return _database_is_here() and not isinstance(
        contender.check(contender.find(name).for_workload(workload, asks_database=True)), Missing
    )


SERVED = [
    (name, workload)
    for name in SHIPPED
    for workload in contender.find(name).fields.workloads
    if _can_be_tried(name, workload)
]
NOBODY = pwd.getpwnam("nobody")

#: Launches at a time: their waiting overlaps.
SIDE_BY_SIDE = 4
#: Answers over one connection: more than the thousand or so after which many close by default.
BUSY = 2500
#: Connections open at once: more than any default pool of processes or threads; and more than select knows.
MANY, BEYOND_SELECT = 60, 1100


@dataclass(frozen=True)
class Launched:
    """A contender that listens."""

    name: str
    workload: str
    start: Start
    server: subprocess.Popen[bytes]

    def asking(self, seed: int = 0) -> Asking:
        workload, data = load_workload(self.workload), data_of(self.workload)
        return Asking(workload, seed=seed, mark=self.mark, data=data, own_form=self.own_form)

    @property
    def own_form(self) -> bool:
        return self.workload in contender.entry(self.name).own_forms

    @property
    def mark(self) -> str:
        return contender.find(self.name).fields.mark if load_workload(self.workload).needs_mark else ""

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.start.port), timeout=30)


def data_of(workload: str) -> Data:
    """What the launches here find: the same files in all of them, and the same database."""
    data = load_workload(workload).data("test")
    return replace(data, tables=DATABASE[0].tables) if asks_database(workload) else data


#: The one instance of the database that all launches here ask, while there are such.
DATABASE: list[Instance] = []


def asks_database(workload: str) -> bool:
    return load_workload(workload).asks_database


@contextlib.contextmanager
def serving(text: str, workload: str) -> Iterator[tuple[Start, subprocess.Popen[bytes]]]:
    """Starts a contender directly from its Start, as ``nobody`` if root, and waits until it listens."""
    scratch = Path(tempfile.mkdtemp(prefix="contender-"))
    try:
        entry: Entry = contender.entry(text)
        where = DATABASE[0].values(text) if asks_database(workload) else {}
        entry = entry.for_workload(workload, asks_database=bool(where))
        files = data_of(workload).files
        start = contender.prepare(
            entry, scratch=scratch, port=free_port(), cores=(0,), workload=workload, data=files, database=where
        )
        who = {}
        if os.geteuid() == 0 and start.unprivileged:
            for place in (scratch, *scratch.rglob("*")):
                os.chown(place, NOBODY.pw_uid, NOBODY.pw_gid, follow_symlinks=False)
            who = {"user": NOBODY.pw_uid, "group": NOBODY.pw_gid, "extra_groups": []}
        log = (scratch.parent / f"{scratch.name}.log").open("w+b")
        server = subprocess.Popen(
            start.command, cwd=start.cwd, env={**os.environ, **start.env}, stdin=subprocess.DEVNULL,
            stdout=log, stderr=log, start_new_session=True, **who,
        )  # fmt: skip
        try:
            _await_listening(start, server, Path(log.name))
            yield start, server
        finally:
            # By its own signal first: a back end in a session of its own (PHP-FPM) is out of killpg's reach.
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                server.send_signal(getattr(signal, f"SIG{start.stop_signal}"))
                server.wait(15)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)
            server.wait()
            log.close()
            Path(log.name).unlink()
    finally:
        shutil.rmtree(scratch)


def _await_listening(start: Start, server: subprocess.Popen[bytes], log: Path) -> None:
    # Several start at once, on a machine that others use: three times as long as a race would wait.
    end = time.monotonic() + 3 * start.wake_s
    while True:
        with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", start.port), timeout=5):
            return
        _refuse_taken(start, server)
        if server.poll() is not None and re.search(IN_USE, text := log.read_text(errors="replace"), re.IGNORECASE):
            raise PortTaken(text)
        assert server.poll() is None, log.read_text(errors="replace")
        assert time.monotonic() < end, f"not listening after {3 * start.wake_s} s: {log.read_text(errors='replace')}"
        time.sleep(0.01)


def _await_no_group(leader: int) -> None:
    """Until no process of a group is left; the 30 s only bound a failing test."""
    end = time.monotonic() + 30
    with contextlib.suppress(ProcessLookupError):
        while os.killpg(leader, 0) is None:
            assert time.monotonic() < end, f"processes of group {leader} are left"
            time.sleep(0.01)


def _answer(connection: socket.socket, request: bytes) -> tuple[http.client.HTTPResponse, bytes]:
    connection.sendall(request)
    response = http.client.HTTPResponse(connection, method="GET")
    response.begin()
    return response, response.read()


def _assert_right(response: http.client.HTTPResponse, body: bytes, exchange: Exchange) -> None:
    assert response.status == exchange.status
    if exchange.any_body:
        return
    assert (response.getheader("Content-Type") or "").split(";")[0] == exchange.content_type
    if exchange.compare == "json":
        assert json.loads(body) == json.loads(exchange.body)
    else:
        assert body == exchange.body
    # A file may come in chunks as it is read; what is made in memory has a known length.
    assert response.getheader("Content-Length") == str(len(body)) or (response.chunked and len(body) >= 1024)


def _byte_for_byte(one: Launched) -> None:
    """Over one connection in order, back and again; then a connection each, which the server closes."""
    keep = [*one.asking(1).exchanges(), *one.asking(1).probes(count=30)]
    with one.connect() as connection:
        for exchange in [*keep, *reversed(keep)]:
            response, body = _answer(connection, exchange.request)
            _assert_right(response, body, exchange)
            assert not response.will_close
    for exchange in one.asking(2).probes(count=10, keepalive=False):
        with one.connect() as connection:
            response, body = _answer(connection, exchange.request)
            _assert_right(response, body, exchange)
            assert connection.recv(1) == b""


def _keeps_a_busy_connection(one: Launched) -> None:
    """Limits of 1000 requests or so are lifted."""
    (exchange,) = one.asking().exchanges()
    with one.connect() as connection:
        for _ in range(BUSY):
            response, body = _answer(connection, exchange.request)
            assert body == exchange.body
            assert not response.will_close


def _lets_no_connection_own_a_worker(one: Launched) -> None:
    """Each of many open connections gets its responses in turn, twice: none starves behind another (uWSGI's
    http11-socket, kept upstream connections, too few processes)."""
    (exchange,) = one.asking().exchanges()
    with contextlib.ExitStack() as stack:
        many = [stack.enter_context(one.connect()) for _ in range(MANY)]
        for _ in range(2):
            for connection in many:
                response, body = _answer(connection, exchange.request)
                _assert_right(response, body, exchange)
                assert not response.will_close


def _refuses_what_is_no_product(one: Launched) -> None:
    """A status of 400 or more ("//" as the stack likes); the next right request is answered right."""
    for path in ("/multiply", "/multiply?a=x&b=3", "/nowhere", "//"):
        with one.connect() as connection:
            asked = f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            response, _ = _answer(connection, asked.encode())
            assert response.status >= 400 or path == "//"
    exchange = one.asking().exchanges()[0]
    with one.connect() as connection:
        _assert_right(*_answer(connection, exchange.request), exchange)


def _reads_split_glued_and_old_requests(one: Launched) -> None:
    """A request in two pieces, three in one piece, and an HTTP/1.0 one, after which the connection is closed."""
    (exchange,) = one.asking().exchanges()
    with one.connect() as connection:
        connection.sendall(exchange.request[:20])
        _assert_right(*_answer(connection, exchange.request[20:]), exchange)
        connection.sendall(exchange.request * 3)
        got = b""
        while got.count(exchange.body) < 3:
            piece = connection.recv(4096)
            assert piece, got
            got += piece
    with one.connect() as connection:
        response, body = _answer(connection, b"GET / HTTP/1.0\r\n\r\n")
        _assert_right(response, body, exchange)
        assert connection.recv(1) == b""


def _closes_more_connections_than_select_knows(one: Launched) -> None:
    """Those beyond the descriptor set are closed, the first one still gets its answers."""
    (exchange,) = one.asking().exchanges()
    with contextlib.ExitStack() as open_ones:
        many = [open_ones.enter_context(one.connect()) for _ in range(BEYOND_SELECT)]
        with contextlib.suppress(ConnectionError):
            assert many[-1].recv(1) == b""
        _assert_right(*_answer(many[0], exchange.request), exchange)
        assert one.server.poll() is None


def _ends_by_its_signal(one: Launched) -> None:
    """By the signal that its definition names."""
    os.kill(one.server.pid, signal.Signals[f"SIG{one.start.stop_signal}"])
    one.server.wait(30)


def _always(_name: str, _workload: str) -> bool:
    return True


def _at_hello(_name: str, workload: str) -> bool:
    return workload == "hello"


def _waits_with_select(name: str, workload: str) -> bool:
    return workload == "hello" and "most connections" in contender.find(name).fields.parity


def _is_ours(name: str, workload: str) -> bool:
    return workload == "hello" and name.startswith("lua")


#: What is looked at of each launch, in this order, and of which launches.
Side = Callable[[Launched], None]
SIDES: dict[str, tuple[Side, Callable[[str, str], bool]]] = {
    "answers byte for byte": (_byte_for_byte, _always),
    "keeps a busy connection": (_keeps_a_busy_connection, _at_hello),
    "lets no connection own a worker": (_lets_no_connection_own_a_worker, _at_hello),
    "refuses what is no product": (_refuses_what_is_no_product, lambda _name, workload: workload == "multiply"),
    "reads split, glued and old requests": (_reads_split_glued_and_old_requests, _is_ours),
    "closes more connections than select knows": (_closes_more_connections_than_select_knows, _waits_with_select),
    "ends by its signal": (_ends_by_its_signal, _at_hello),
}


def _marked(name: str, *more: str) -> Any:
    return pytest.param(name, *more, marks=pytest.mark.live if name in DEFAULT else pytest.mark.contenders)


def _seen(name: str, workload: str) -> dict[str, BaseException | None]:
    """What became of each side of one launch; of a second one where another program took the first one's port."""
    try:
        return _seen_once(name, workload)
    except PortTaken:
        return _seen_once(name, workload)


def _seen_once(name: str, workload: str) -> dict[str, BaseException | None]:
    found: dict[str, BaseException | None] = {}
    with serving(name, workload) as (start, server):
        one = Launched(name, workload, start, server)
        for title, (side, suits) in SIDES.items():
            if suits(name, workload):
                try:
                    side(one)
                    found[title] = None
                except Exception as error:
                    _refuse_taken(start, server)
                    found[title] = error
    return found


def _refuse_taken(start: Start, server: subprocess.Popen[bytes]) -> None:
    """A server that has died answers nothing: whoever is at its port had taken it before.

    Raises:
        PortTaken: that is so.
    """
    if server.poll() is not None and is_held(start.port):
        raise PortTaken(f"{server.args}: another program holds port {start.port}")


@contextlib.contextmanager
def _database_up(wanted: bool) -> Iterator[None]:
    if not wanted:
        yield
        return
    with scratch_root() as root, contextlib.ExitStack() as resources:
        database = Database(find_database(), seed=1, cores=(0,), scratch=root, resources=resources)
        with database.launch() as instance:
            DATABASE.append(instance)
            try:
                yield
            finally:
                DATABASE.clear()


@pytest.fixture(scope="module")
def launches(request: pytest.FixtureRequest) -> Iterator[Callable[[str, str], dict[str, BaseException | None]]]:
    """What each launch came to that the chosen tests ask for; they run side by side."""
    chosen = {
        (item.callspec.params["name"], item.callspec.params["workload"])
        for item in request.session.items
        if item.path == request.path and isinstance(item, pytest.Function) and "side" in item.callspec.params
    }
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = SIDE_BY_SIDE * (BEYOND_SELECT + 100)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
    try:
        with (
            _database_up(any(asks_database(workload) for _, workload in chosen)),
            ThreadPoolExecutor(SIDE_BY_SIDE) as pool,
        ):
            under_way = {of: pool.submit(_seen, *of) for of in sorted(chosen)}
            yield lambda name, workload: under_way[name, workload].result()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "workload", "side"),
    [
        _marked(name, workload, title)
        for name, workload in SERVED
        for title, (_, suits) in SIDES.items()
        if suits(name, workload)
    ],
)
def test_every_contender(launches: Any, name: str, workload: str, side: str) -> None:
    """As ``nobody``, started by its definition: this side of one launch is correct."""
    error = launches(name, workload)[side]
    if error is not None:
        raise error


@pytest.mark.parametrize("name", [_marked(n) for n in SHIPPED])
def test_every_shipped_contender_is_ready_here(name: str) -> None:
    """CI installs them: one that is missing fails, with its remedy. A packaged program says its package's version."""
    row = contender.status(contender.entry(name))
    assert row["status"] == "ready", f"{row['reason']}; {row['remedy']}"
    assert row["version"] not in ("", "unknown")
    ready, owned = contender.check(contender.entry(name)), Path("/var/lib/dpkg/info/nginx.list")
    assert isinstance(ready, contender.Ready)
    place = str(ready.programs.get("nginx", ""))  # another than Debian's where the user's own build is on PATH
    if name.startswith("nginx") and owned.exists() and place in owned.read_text().splitlines():
        told = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "nginx"], capture_output=True, text=True)
        assert f"({told.stdout}" in row["version"]


@pytest.mark.parametrize(
    "name", [_marked(name) for name in SHIPPED if "workers" in contender.find(name).fields.parameters]
)
def test_several_workers_answer_and_end_together(name: str) -> None:
    """`workers=2` serves, and after the stop signal nothing of its process group is left."""
    (exchange,) = Asking(load_workload("hello")).exchanges(keepalive=False)
    with serving(f"{name}:workers=2", "hello") as (start, server):
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", start.port), timeout=30) as connection:
                _assert_right(*_answer(connection, exchange.request), exchange)
        os.kill(server.pid, signal.Signals[f"SIG{start.stop_signal}"])
        server.wait(30)
        _await_no_group(server.pid)
