"""Loads and races of thirty kinds of servers beside the servers' own logs: what was counted is what was done."""

from __future__ import annotations

import json
import re
import socket
import ssl
from collections import defaultdict
from pathlib import Path

import pytest
from live.test_load_servers import loaded, serving
from races import PYTHON, dragstrip_run, settings, until
from servers.kinds import KINDS, RIGHT, Log

from dragstrip.loading.request_pool import PoolRequest
from dragstrip.process.certificate import make
from dragstrip.store.database import Store

pytestmark = pytest.mark.thorough

SERVER = Path(__file__).parents[1] / "servers" / "kinds.py"
SENT = 60
#: How each kind is loaded, if not by GET over two connections that are kept.
CLOSED = {"keepalive": False}
LOADS: dict[str, dict[str, object]] = {
    "until the end": CLOSED,
    "HTTP/1.0, until the end": CLOSED,
    "closes, and says so": CLOSED,
    "late": {"requests": 20},
    "no content": {"expect_status": 204},
    "upload": {"method": "POST", "body": b"x" * 200_000},
    "upload, not read": {
        "method": "POST", "body": b"x" * 20_000_000, "requests": 8, "check": "status", "expect_status": 200,
    },
}  # fmt: skip
#: Other ways to reach a server: its kind, more words for ``serving``, and how it is loaded.
WAYS: dict[str, tuple[str, dict[str, object], dict[str, object]]] = {
    **{name: (name, {}, LOADS.get(name, {})) for name in KINDS},
    "pipelined": ("right", {}, {"pipeline": 4}),
    "asked to close": ("right", {}, {"headers": (("Connection", "close"),)}),
    "raw requests": ("right", {}, {"pool": (PoolRequest(raw=b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n"),)}),
    "a pool": ("right", {}, {"pool": (PoolRequest(path="/a"), PoolRequest(path="/b"))}),
    "IPv6": ("right", {"host": "::1"}, {"host": "[::1]"}),
    "by name": ("right", {"host": "::1"}, {"host": "localhost"}),
    "a short backlog": ("right", {"backlog": 5}, {"connections": 50, "requests": 500}),
    "TLS": ("right", {}, {"insecure": True}),
    "TLS, errors": ("errors", {}, {"insecure": True}),
}


@pytest.mark.parametrize("io", ["epoll", "uring"])
@pytest.mark.parametrize("name", WAYS)
def test_a_load_counts_what_the_server_did(name: str, io: str, tmp_path: Path) -> None:
    of, listens, load = WAYS[name]
    kind, log, tls = KINDS[of], Log(), "insecure" in load
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if tls:
        made = make(tmp_path).identity
        (tmp_path / "both.pem").write_bytes(made.certificate + made.key)
        context.load_cert_chain(tmp_path / "both.pem")

    def handle(plain: socket.socket) -> None:
        with context.wrap_socket(plain, server_side=True) if tls else plain as stream:
            kind.serve(stream, log)

    with serving(handle, **listens) as port:  # type: ignore[arg-type]
        url = f"{'https' if tls else 'http'}://{load.get('host', '127.0.0.1')}:{port}/"
        more = {"requests": SENT, "io": io} | {key: value for key, value in load.items() if key != "host"}
        result = loaded(port, url=url, **more)
        until(lambda: "asked" not in log.counts(), 20, f"not ended: {log.counts()}")
        counts = log.counts()
    assert counts["right"] == result.requests, counts
    # A request that meets its connection's end on the way is sent and fails, and its server never reads it.
    unread = result.sent - counts.total()
    assert counts["failing"] + counts["cut"] + unread == result.failed, (counts, result.errors)
    assert unread == 0 or (kind.limit and not result.errors.keys() - {"reset", "closed_early"}), result.errors


@pytest.mark.parametrize("keepalive", [pytest.param(True, marks=pytest.mark.soak), False])
def test_a_race_counts_what_its_servers_did(keepalive: bool, tmp_path: Path) -> None:
    """In each round, for each kind whose responses are correct; those that close their connections race closed ones."""
    names = {name: re.sub(r"[^a-z0-9]+", "-", name.lower()) for name in RIGHT}
    racing = [name for name in RIGHT if name not in LOADS or not keepalive or name == "late"]
    racing = [name for name in racing if keepalive or name in LOADS]
    for name in racing:
        folder = tmp_path / names[name]
        folder.mkdir()
        (folder / "contender.toml").write_text(
            f'name = "{names[name]}"\ntitle = "{name}"\nhost = "Python"\nlanguage = "Python"\nworkloads = ["ok"]\n'
            f'[served]\npath = "/served"\npattern = "served (\\\\d+)"\n'
            f"[start]\ncommand = {json.dumps([PYTHON, '-S', str(SERVER), '{port}', name])}\nunprivileged = false\n"
        )
    (tmp_path / "ok.toml").write_text(
        'name = "ok"\ntitle = "two bytes"\n[request]\npath = "/"\n[answer]\ncontent_type = "text/plain"\nbody = "ok"\n'
    )
    env = settings(tmp_path)
    words = [*(names[name] for name in racing), "--contenders", str(tmp_path), "--workload", str(tmp_path / "ok.toml")]
    words += ["--rounds", "2", "--json", str(tmp_path / "race.json"), *([] if keepalive else ["--no-keepalive"])]
    done = dragstrip_run(env, "race", *words)
    assert (tmp_path / "race.json").exists(), done.stderr
    with Store(Path(env["DRAGSTRIP_STORE"]), write=False) as store:
        race = store.load("last")
    counted: dict[tuple[str, int], int] = defaultdict(int)
    for round_ in race.rounds:
        for block in round_.blocks:
            counted[block.contender, round_.index] += block.answered
    served = {(launch.contender, round_.index): launch.served for round_ in race.rounds for launch in round_.launches}
    assert {name for name, _ in served} == {names[name] for name in racing}, done.stdout + done.stderr
    assert counted == served
