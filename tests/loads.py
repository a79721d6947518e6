"""Helpers for tests of ``dragstrip load``: a real nginx with a log, and the command as a user types it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from commands import Done, dragstrip
from hdrh.histogram import HdrHistogram

from dragstrip.process.ports import free_port

SCHEMA = Path(__file__).parents[1] / "src" / "dragstrip" / "data" / "schema" / "load.schema.json"
DRAGSTRIP = [sys.executable, "-m", "dragstrip", "load"]

live = pytest.mark.live
needs_nginx = pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")

NGINX = """
{user}worker_processes 1; daemon off; pid {at}/pid; error_log {at}/error.log; worker_rlimit_nofile 4096;
events {{ worker_connections 2048; }}
http {{
    log_format told '$uri $status $request_method $http_x_mark $http_host $content_length';
    access_log {at}/access.log told; keepalive_requests 1000000000; default_type text/plain;
    client_body_temp_path {at}/a; proxy_temp_path {at}/b; fastcgi_temp_path {at}/c; uwsgi_temp_path {at}/d;
    scgi_temp_path {at}/e;
    server {{
        listen 127.0.0.1:{port} backlog=1024;
        {listen}
        location / {{ return 200 "hello world\\n"; }}
        location = /empty {{ return 204; }}
        location = /500 {{ return 500; }}
        location = /moved {{ return 301 /; }}
    }}
}}
"""


def as_started() -> str:
    """Makes nginx's workers run as its starter: root's would be ``nobody``, without access to test folders."""
    return "user root; " if os.geteuid() == 0 else ""


class Nginx:
    """A running nginx, and its log after it has ended."""

    def __init__(self, at: Path, listen: str = "") -> None:
        self.port = free_port()
        (at / "nginx.conf").write_text(NGINX.format(user=as_started(), at=at, port=self.port, listen=listen))
        words = ["nginx", "-p", str(at), "-c", str(at / "nginx.conf")]
        self.process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        self.log = at / "access.log"
        pid = at / "pid"
        while not (pid.exists() and pid.read_text()):  # written once all of its sockets listen; pytest ends the loop
            assert self.process.poll() is None, (at / "error.log").read_text()
            time.sleep(0.005)

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def ended(self) -> list[str]:
        """Its whole log, after it has finished."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()
        return self.log.read_text().splitlines()


@contextmanager
def starting(script: Path) -> Iterator[Callable[..., str]]:
    """Starts Python servers that print their port first; yields a function that returns their URL."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str) -> str:
        process = subprocess.Popen([sys.executable, str(script), *words], stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        return f"http://127.0.0.1:{process.stdout.readline().removeprefix('port ').strip()}/"

    try:
        yield start
    finally:
        for process in started:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def load(*words: str) -> Done:
    """``dragstrip load``, in the tests' own process."""
    return dragstrip("load", *words)


def load_json(*words: str) -> dict[str, Any]:
    """Runs a load and returns its JSON, after checking its schema and its sums."""
    done = load("--json", "-", *words)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(found, json.loads(SCHEMA.read_text()))
    assert found["sent"] == found["requests"] + found["failed"] + found["unanswered"]
    if found["latency_hdr"]:
        recorded = HdrHistogram.decode(found["latency_hdr"]).get_total_count()
        assert recorded == found["requests"] - found["plain_requests"] - found["late"]
    return found
