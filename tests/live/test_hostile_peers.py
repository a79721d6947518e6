"""Servers that turn hostile under load: ``load`` ends, Ctrl-C ends it, and its memory stays small.

Each kind over each protocol and back end, with few connections and many. The limits only end a test that hangs: what
took longest is printed.
"""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from races import DRAGSTRIP
from servers.floods import MODES as FLOODS
from servers.rogue import MODES as ROGUE
from together import peak_mb

from dragstrip.process.certificate import make

SERVERS = Path(__file__).parents[1] / "servers"
#: By program: HTTP's version and what it can do, apart from what needs another set-up or ends the server.
HOSTILE = {
    "rogue.py": ("1.1", [mode for mode in ROGUE if mode not in ("right", "memory-hog", "dies", "freezes")]),
    "floods.py": ("2", list(FLOODS)),
}
CASES = [
    (program, mode, scheme)
    for program, (_, modes) in HOSTILE.items() for mode in modes for scheme in ("http", "https")
]  # fmt: skip
#: Seconds after which a load of two seconds hangs, and one that is interrupted; and its memory.
ENDS_S, STOPS_S, MAX_MB = 60, 30, 200


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate and its key in one file."""
    folder = tmp_path_factory.mktemp("tls")
    made = make(folder).identity
    (folder / "both.pem").write_bytes(made.certificate + made.key)
    return folder / "both.pem"


@contextmanager
def hostile(program: str, mode: str, scheme: str, pem: Path) -> Iterator[str]:
    """The address of a server that is correct for forty responses."""
    words = [
        sys.executable,
        "-S",
        str(SERVERS / program),
        "0",
        mode,
        "40",
        *([f"tls={pem}"] if scheme == "https" else []),
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout
            yield f"{scheme}://127.0.0.1:{server.stdout.readline().split()[1]}/"
        finally:
            server.kill()


@pytest.mark.soak
@pytest.mark.parametrize(("program", "mode", "scheme"), CASES)
def test_a_load_ends_and_can_be_ended(
    program: str, mode: str, scheme: str, pem: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its time and by SIGINT, over both back ends, with 8 connections and with 100."""
    version, _ = HOSTILE[program]
    for io, connections, interrupted in itertools.product(("uring", "epoll"), ("8", "100"), (False, True)):
        with hostile(program, mode, scheme, pem) as url:
            lasts = "60s" if interrupted else "2s"
            words = ["load", url, "--http", version, "-c", connections, "-d", lasts, "--io", io, "-q"]
            words += ["--insecure"] if scheme == "https" else []
            begun, most_mb = time.monotonic(), 0.0
            command = subprocess.Popen([*DRAGSTRIP, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            while command.poll() is None:
                took = time.monotonic() - begun
                if interrupted and took > 3 and lasts:
                    command.send_signal(signal.SIGINT)
                    lasts, begun = "", time.monotonic()
                most_mb = max(most_mb, peak_mb(command.pid))
                if took > (STOPS_S if not lasts else ENDS_S):
                    command.kill()
                    pytest.fail(f"{' '.join(words)}: hangs{'' if lasts else ' after SIGINT'}")
                time.sleep(0.02)
            said = command.communicate()[0].decode()
            took = time.monotonic() - begun
        what = f"{mode} over HTTP/{version}, {scheme}, {io}, {connections} connections"
        with capsys.disabled():
            sys.stdout.write(f"\n{what}: {took:.1f} s{' after SIGINT' if not lasts else ''}, {most_mb:.0f} MB")
        assert "Traceback" not in said, said
        # -2: SIGINT came before the program had begun.
        assert command.returncode in ((1, 2, 130, -2) if interrupted else (0, 1, 2)), said
        assert most_mb < MAX_MB, what


@pytest.mark.live
@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_acknowledgements_that_a_server_does_not_read_hold_little_memory(scheme: str, pem: Path) -> None:
    """Over TLS they waited in rustls, where nothing bounded them: 430 MB in two seconds."""
    with hostile("floods.py", "pings", scheme, pem) as url:
        words = ["load", url, "--http", "2", "-c", "8", "-d", "2s"]
        words += ["--insecure"] if scheme == "https" else []
        command, most_mb = subprocess.Popen([*DRAGSTRIP, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT), 0.0
        while command.poll() is None:
            most_mb = max(most_mb, peak_mb(command.pid))
            time.sleep(0.01)
        said = command.communicate()[0].decode()
    assert command.returncode == 1, said
    assert "faster than it reads the acknowledgements" in " ".join(said.split()), said
    assert most_mb < MAX_MB
