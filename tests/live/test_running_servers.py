"""Servers that run already: raced by their URLs, read by their processes, reached with their own certificates."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dragstrip._engine", reason="the engine is not built: make build")
import commands
import psutil
from races import HERE, PYTHON, settings

from dragstrip.process import certificate

pytestmark = pytest.mark.live

WORKLOAD = """\
name = "users"
title = "one user"
[request]
path = "/users?x=1"
[answer]
status = 200
content_type = "text/plain"
body = "hello"
"""

#: node's cluster: the first process accepts connections and hands them to workers, which don't listen.
CLUSTER = """
const cluster = require("cluster"), http = require("http");
cluster.schedulingPolicy = cluster.SCHED_RR;
if (cluster.isPrimary) {
  for (let i = 0; i < 2; i++) cluster.fork();
  cluster.on("listening", (worker, at) => { if (worker.id === 2) console.log(at.port); });
} else http.createServer((request, response) => {
  response.writeHead(200, {"Content-Type": "text/plain", "Content-Length": 5});
  response.end("hello");
}).listen(0, "127.0.0.1");
"""

Starts = Callable[..., tuple[int, int]]


@pytest.fixture
def start() -> Iterator[Starts]:
    """Starts a command that prints its port, and returns its pid and the port; all end with the test."""
    started: list[subprocess.Popen[str]] = []

    def run(*words: str, **more: Any) -> tuple[int, int]:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True, **more)
        started.append(process)
        assert process.stdout is not None
        return process.pid, int(process.stdout.readline())

    yield run
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def running(*words: str) -> tuple[str, ...]:
    """The words of one of our servers."""
    return (PYTHON, f"{HERE}/servers/running.py", *words)


def workload(folder: Path) -> str:
    (folder / "users.toml").write_text(WORKLOAD)
    return str(folder / "users.toml")


def raced(folder: Path, *words: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """A race's JSON, and its contenders by name."""
    out = folder / "out.json"
    done = commands.dragstrip(
        "race", *words, "--workload", workload(folder), "-c", "4", "--json", str(out), env=settings(folder)
    )
    assert out.exists(), done.stdout + done.stderr
    race = json.loads(out.read_text())
    return race, {entrant["name"]: entrant for entrant in race["columns"][0]["contenders"]}


def cpu_s(pid: int) -> float:
    used = psutil.Process(pid).cpu_times()
    return float(used.user + used.system)


@pytest.mark.thorough
def test_two_running_servers_are_raced_by_url_and_told_apart_by_cpu_time(tmp_path: Path, start: Starts) -> None:
    """Their CPU time is theirs: no more than the process used meanwhile, and none of the time while the other ran."""
    pid, port = start(*running("127.0.0.1", "hello"))
    slow_pid, slow_port = start(*running("::1", "hello", "work=20000"))
    before = {each: cpu_s(each) for each in (pid, slow_pid)}
    words = [f"quick=http://127.0.0.1:{port}/users?x=1", f"localhost:{slow_port}/v2/users", "--rounds", "10"]
    race, by_name = raced(tmp_path, *words, "--metric", "cpu")
    slow = f"http://[::1]:{slow_port}/v2/users"
    assert list(by_name) == ["quick", slow]
    for name, each in (("quick", pid), (slow, slow_pid)):
        found = by_name[name]
        assert not found["out"], found
        assert found["parity"]["cores"] == "not pinned: started by another user or program, before the race"
        assert found["parity"]["process"] == f"{Path(f'/proc/{each}/comm').read_text().strip()}, pid {each}"
        assert found["parity"]["processes, threads"].startswith("1, ")
        assert found["peak_memory_bytes"] > 0
        counted_s = found["server_cpu_us_per_request"]["estimate"] * found["requests"] / 1e6
        assert 0 < counted_s <= 1.2 * (cpu_s(each) - before[each])
    assert race["contenders"][1]["parameters"] == {"url": slow}
    assert race["columns"][0]["groups"] == [["quick"], [slow]]
    costs = [by_name[name]["server_cpu_us_per_request"]["estimate"] for name in ("quick", slow)]
    assert costs[1] > 2 * costs[0]
    assert psutil.pid_exists(pid)
    more = commands.dragstrip(
        "race", "--resume", "last", "--budget", "+1s", "--workload", workload(tmp_path), env=settings(tmp_path)
    )
    assert "has its number of rounds fixed" in more.stderr


def test_workers_that_share_the_socket_are_counted(tmp_path: Path, start: Starts) -> None:
    """All of them are one server."""
    pid, port = start(*running("127.0.0.1", "hello", "workers=2"))
    done = commands.dragstrip("verify", f"mine=127.0.0.1:{port}", "--parity", "--workload", workload(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f", pid {pid} and 2 more\n" in done.stdout
    assert "processes, threads: 3, 3\n" in done.stdout


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_workers_that_get_connections_handed_are_counted(tmp_path: Path, start: Starts) -> None:
    """node's cluster, whose workers don't listen."""
    (tmp_path / "cluster.js").write_text(CLUSTER)
    pid, port = start("node", str(tmp_path / "cluster.js"))
    done = commands.dragstrip("verify", f"127.0.0.1:{port}/users?x=1", "--parity", "--workload", workload(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"process: node, pid {pid} and 2 more\n" in done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start another user's server")
def test_another_users_server_is_read_by_root(tmp_path: Path, start: Starts) -> None:
    """Its user is on the sheet."""
    (tmp_path / "running.py").write_text((HERE / "servers" / "running.py").read_text())
    script = (HERE / "servers" / "running.py").read_text()
    pid, port = start(PYTHON, "-c", script, "127.0.0.1", "hello", user=4242)
    done = commands.dragstrip("verify", f"127.0.0.1:{port}", "--parity", "--workload", workload(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f", pid {pid}\n" in done.stdout
    assert "runs as: 4242\n" in done.stdout


@pytest.mark.thorough
def test_https_is_raced_with_the_certificate_named_or_with_any(tmp_path: Path, start: Starts) -> None:
    """A certificate that nobody signed, for localhost alone; the sheet says how it was checked."""
    authority = certificate.make(tmp_path)
    pem = tmp_path / "server.pem"
    pem.write_bytes(authority.identity.certificate + authority.identity.key)
    ports = [start(*running("127.0.0.1", "hello", f"pem={pem}"))[1] for _ in range(2)]
    first, second = (f"https://localhost:{port}/users?x=1" for port in ports)
    file = str(authority.file)
    race, by_name = raced(tmp_path, first, f"b={second}", "--cacert", file, "--rounds", "2")
    assert race["contenders"][0]["parameters"] == {"url": first, "address": "127.0.0.1", "cacert": file}
    for found in by_name.values():
        assert not found["out"], found
        assert not found["errors"]
        assert found["parity"]["certificate"] == f"the server's own, checked with {file}"
        assert found["parity"]["TLS version"] == "TLSv1.3"
        assert found["server_cpu_us_per_request"]["estimate"] > 0
    asked = ["verify", first, "--parity", "--workload", workload(tmp_path)]
    unknown = commands.dragstrip(*asked)
    assert unknown.returncode == 1
    assert "certificate has an unknown issuer" in unknown.stdout
    assert "--insecure" in unknown.stdout
    anybody = commands.dragstrip(*asked, "--insecure")
    assert anybody.returncode == 0, anybody.stdout
    assert "certificate: the server's own, not checked (--insecure)" in anybody.stdout
    plain = commands.dragstrip("verify", first.replace("https", "http"), "--workload", workload(tmp_path))
    assert plain.returncode == 1


def test_a_server_in_the_clear_is_not_reached_over_https(tmp_path: Path, start: Starts) -> None:
    """The reason is in the message, and when it ends the race says so."""
    _, port = start(PYTHON, "-u", "-c", "import http.server as h; s = h.ThreadingHTTPServer(('127.0.0.1', 0), "
                    "h.SimpleHTTPRequestHandler); print(s.server_port); s.serve_forever()", cwd=tmp_path)  # fmt: skip
    done = commands.dragstrip("verify", f"https://127.0.0.1:{port}/", "--insecure", "--workload", workload(tmp_path))
    assert done.returncode == 1
    assert "TLS fails" in done.stdout
    assert "as its URL begins with https://" in done.stdout


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_a_site_is_asked_by_its_name(tmp_path: Path) -> None:
    """nginx chooses among its sites by the header Host, and its workers are counted."""
    port = 20000 + os.getpid() % 10000
    (tmp_path / "nginx.conf").write_text(
        f"daemon off; worker_processes 2; pid {tmp_path}/pid; error_log {tmp_path}/log; events {{}} http {{ "
        f"access_log off; default_type text/plain; server {{ listen 127.0.0.1:{port}; return 404; }} server {{ "
        f'listen 127.0.0.1:{port}; server_name app.localhost; return 200 "hello"; }} }}'
    )
    with subprocess.Popen(["nginx", "-c", str(tmp_path / "nginx.conf"), "-p", str(tmp_path)]) as server:
        while not (tmp_path / "pid").exists() or len(psutil.Process(server.pid).children()) < 2:
            time.sleep(0.01)
        asked = ["verify", f"http://app.localhost:{port}/users", "--parity", "--workload", workload(tmp_path)]
        done = commands.dragstrip(*asked)
        server.terminate()
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Host: app.localhost:{port}\n" in done.stdout
    assert f"process: nginx, pid {server.pid} and 2 more\n" in done.stdout
