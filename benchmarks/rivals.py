"""Load generators as ``make bench`` runs them, servers whose own count is the truth, and one run against the other.

Everything is pinned; CPU time is the whole process's (user and system, from the kernel at its end), requests are the
server's own count, memory is the highest VmHWM seen (``ru_maxrss`` would inherit the launcher's).
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pages import ROOT

RELEASE = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
DRIVE, PROOF = RELEASE / "examples" / "drive", RELEASE / "examples" / "proof"
#: Where `make bench` puts what it builds of others: outside the project.
TOOLS = Path(os.environ.get("DRAGSTRIP_BENCH_TOOLS", Path.home() / ".cache" / "dragstrip-bench"))
#: Seconds that a generator may run beyond its set time.
PATIENCE_S = 30

NGINX = """
worker_processes 1; daemon off; pid {at}/pid; error_log {at}/error.log; worker_rlimit_nofile 20000;
events {{ worker_connections 16384; }}
http {{
    access_log off; keepalive_requests 1000000000; keepalive_timeout 1h; default_type text/plain;
    client_body_temp_path {at}/a; proxy_temp_path {at}/b; fastcgi_temp_path {at}/c; uwsgi_temp_path {at}/d;
    scgi_temp_path {at}/e;
    server {{
        listen 127.0.0.1:{port} {listen};
        location / {{ return 200 "hello world\\n"; }}
    }}
    server {{
        listen 127.0.0.1:{counting};
        location = /count {{ stub_status; }}
    }}
}}
"""
#: By server: what nginx's `listen` says, and whether it wants a certificate.
NGINX_LISTEN = {
    "nginx": "backlog=16384",
    "nginx h2c": "backlog=16384 http2",
    "nginx TLS": "backlog=16384 ssl http2; ssl_certificate {at}/cert.pem; ssl_certificate_key {at}/key.pem",
}
CERTIFICATE = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"


@dataclass(frozen=True)
class Cell:
    """One case: ``server`` is "minimal" or one of ``NGINX_LISTEN``; ``apart``: server on another core.

    ``options`` are the minimal server's. ``streams`` of each connection: HTTP/2; 0: HTTP/1.1.
    """

    name: str
    connections: int
    server: str = "minimal"
    options: tuple[str, ...] = ()
    keepalive: bool = True
    apart: bool = False
    seconds: int = 1
    streams: int = 0

    @property
    def encrypted(self) -> bool:
        """Over TLS."""
        return self.server == "nginx TLS"


@dataclass(frozen=True)
class Ran:
    """What one run left: by the server's own count, and by the generator's word on it (None: it says nothing)."""

    requests: int
    said: int | None
    cpu_us: float
    seconds: float
    peak_kb: int
    failed: bool


#: Makes a generator's command: cell, port, core.
Command = Callable[[Cell, int, int], list[str]]


def _wrk(cell: Cell, port: int, core: int) -> list[str]:
    close = [] if cell.keepalive else ["-H", "Connection: close"]
    return ["wrk", "-t1", f"-c{cell.connections}", f"-d{cell.seconds}s", *close, f"http://127.0.0.1:{port}/"]


def _wrk2(cell: Cell, port: int, core: int) -> list[str]:
    return ["wrk2", "-R1000000", *_wrk(cell, port, core)[1:]]


def _ab(cell: Cell, port: int, core: int) -> list[str]:
    count = 20_000 * cell.seconds if cell.keepalive else 8_000 * cell.seconds
    keep = ["-k"] if cell.keepalive else []
    return ["ab", "-q", *keep, "-c", str(cell.connections), "-n", str(count), f"http://127.0.0.1:{port}/"]


def _hey(cell: Cell, port: int, core: int) -> list[str]:
    close = [] if cell.keepalive else ["-disable-keepalive"]
    words = ["-cpus", "1", "-z", f"{cell.seconds}s", "-c", str(cell.connections)]
    return ["hey", *words, *close, f"http://127.0.0.1:{port}/"]


def _h2load(cell: Cell, port: int, core: int) -> list[str]:
    words = [f"-m{cell.streams}"] if cell.streams else ["--h1"]
    words += ["-t1", f"-c{cell.connections}", f"-D{cell.seconds}"]
    return ["h2load", *words, f"http{'s' * cell.encrypted}://127.0.0.1:{port}/"]


def _oha(cell: Cell, port: int, core: int) -> list[str]:
    close = [] if cell.keepalive else ["--disable-keepalive"]
    # -w: waits for requests in flight at the end; otherwise oha counts them as errors.
    words = ["--no-tui", "-w", "-z", f"{cell.seconds}s", "-c", str(cell.connections)]
    return ["oha", *words, *close, f"http://127.0.0.1:{port}/"]


def _weighttp(cell: Cell, port: int, core: int) -> list[str]:
    count, keep = 20_000 * cell.seconds, ["-k"] if cell.keepalive else []
    return ["weighttp", *keep, "-t1", "-c", str(cell.connections), "-n", str(count), f"http://127.0.0.1:{port}/"]


def _httpress(cell: Cell, port: int, core: int) -> list[str]:
    count, keep = 20_000 * cell.seconds, ["-k"] if cell.keepalive else []
    return ["httpress", *keep, "-t1", "-c", str(cell.connections), "-n", str(count), f"http://127.0.0.1:{port}/"]


def _gcannon(cell: Cell, port: int, core: int) -> list[str]:
    words = ["-c", str(cell.connections), "-t", "1", "-d", f"{cell.seconds}s"]
    return ["gcannon", f"http://127.0.0.1:{port}/", *words]


def _zrk(cell: Cell, port: int, core: int) -> list[str]:
    return ["zrk", "-t1", f"-c{cell.connections}", f"-d{cell.seconds}s", f"http://127.0.0.1:{port}/"]


def engine(cell: Cell, port: int, core: int, io: str = "auto") -> list[str]:
    """This engine, as it chooses for itself."""
    more = [] if cell.keepalive else ["--close"]
    if cell.streams:
        more += ["--streams", str(cell.streams), "--answer", str(len("hello world\n"))]
    more += ["--tls"] * cell.encrypted
    words = [str(cell.connections), str(cell.seconds), str(core), "0", io]
    return [str(DRIVE), "127.0.0.1", str(port), "/", *words, *more]


def raw(how: str) -> Command:
    """The floor: ``epoll``, ``uring`` or ``coalesced``."""

    def command(cell: Cell, port: int, core: int) -> list[str]:
        streams = [str(cell.streams)] if cell.streams else []
        return [str(raw_program()), str(port), str(cell.connections), str(cell.seconds), str(core), how, *streams]

    return command


def raw_program() -> Path:
    """The newest build of ``benches/raw.rs``; cargo puts a hash behind its name."""
    built = [path for path in (RELEASE / "deps").glob("raw-*") if not path.suffix]
    if not built:
        raise SystemExit("benches/raw.rs is not built: cargo build --release --benches -p dragstrip-engine")
    return max(built, key=lambda path: path.stat().st_mtime)


#: By name; (command, what may be measured with it: keep-alive, closing).
RIVALS: dict[str, tuple[Command, bool, bool]] = {
    "wrk": (_wrk, True, True),
    "wrk2": (_wrk2, True, False),
    "ab": (_ab, True, True),
    "hey": (_hey, True, True),
    "h2load": (_h2load, True, False),
    "oha": (_oha, True, True),
    "weighttp": (_weighttp, True, True),
    "httpress": (_httpress, True, True),
    "gcannon": (_gcannon, True, False),
    "zrk": (_zrk, True, False),
}

#: How a generator says how many were answered.
SAYS = (
    r"answered (\d+)",
    r"(\d+) requests in",
    r"Complete requests: +(\d+)",
    r"\[200\]\s+(\d+) responses",
    r"(\d+) done",
)
WRONG = r"Non-2xx|Socket errors|Failed requests: +[1-9]|failed [1-9]|Error distribution"


def found() -> dict[str, str]:
    """The rivals that are here, with their programs."""
    path = f"{TOOLS / 'bin'}:{os.environ['PATH']}"
    here = {name: shutil.which(name, path=path) for name in RIVALS}
    return {name: program for name, program in here.items() if program}


def room() -> None:
    """Raises this process's limit on open files, which its children inherit, as far as it may."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def serve(cell: Cell, core: int, extra: tuple[str, ...] = ()) -> Iterator[tuple[int, Callable[[], int]]]:
    """The cell's server on one core: its port, and how many requests it has answered. Ended when left."""
    with tempfile.TemporaryDirectory(prefix="dragstrip-bench-") as scratch:
        port, counting, counted = _free_port(), _free_port(), Path(scratch) / "count"
        if cell.server in NGINX_LISTEN:
            if cell.encrypted:
                files = ["-keyout", "key.pem", "-out", "cert.pem"]
                subprocess.run(["openssl", *CERTIFICATE.split(), *files], cwd=scratch, check=True, capture_output=True)
            config = Path(scratch) / "nginx.conf"
            listen = NGINX_LISTEN[cell.server].format(at=scratch)
            config.write_text(NGINX.format(at=scratch, port=port, counting=counting, listen=listen))
            command = ["nginx", "-p", scratch, "-c", str(config)]
        else:
            command = [str(PROOF), str(port), "--count", str(counted), *cell.options, *extra]
        process = subprocess.Popen(["taskset", "-c", str(core), *command], stderr=subprocess.DEVNULL)
        asked = 0

        def count() -> int:
            nonlocal asked
            if cell.server not in NGINX_LISTEN:
                return int(struct.unpack("<Q", counted.read_bytes())[0])
            asked += 1
            with urllib.request.urlopen(f"http://127.0.0.1:{counting}/count", timeout=10) as answer:
                return int(answer.read().split()[9]) - asked

        try:
            until = time.monotonic() + 10
            while True:
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit(f"{' '.join(command)} does not serve")
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                    break
                time.sleep(0.01)
            yield port, count
        finally:
            process.terminate()
            process.wait()


def run(command: list[str], core: int, count: Callable[[], int], seconds: int) -> Ran:
    """Runs a generator to its end, or ends it when it takes far too long (which counts as failed)."""
    began, before = time.monotonic(), count()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(["taskset", "-c", str(core), *command], stdout=output, stderr=subprocess.STDOUT)
        peak_kb, status = 0, 0
        while True:
            with suppress(OSError, AttributeError, TypeError):
                told = Path(f"/proc/{process.pid}/status").read_text()
                peak_kb = max(peak_kb, int(re.search(r"VmHWM:\s+(\d+)", told)[1]))  # type: ignore[index]
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - began > seconds + PATIENCE_S:
                process.kill()
            time.sleep(0.02)
        process.returncode = os.waitstatus_to_exitcode(status)
        took_s = time.monotonic() - began
        output.seek(0)
        text = output.read()
    said = [int(match[1]) for pattern in SAYS if (match := re.search(pattern, text))]
    return Ran(
        requests=count() - before,
        said=said[0] if said else None,
        cpu_us=(usage.ru_utime + usage.ru_stime) * 1e6,
        seconds=took_s,
        peak_kb=peak_kb,
        failed=process.returncode != 0 or re.search(WRONG, text) is not None,
    )
