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

pytestmark = pytest.mark.soak

SERVERS = Path(__file__).parents[1] / "servers"
#: By program: HTTP's version and what it can do, apart from what needs another set-up or ends the server.
HOSTILE = {
    "rogue.py": ("1.1", [mode for mode in ROGUE if mode not in ("right", "memory-hog", "dies", "freezes")]),
    "floods.py": ("2", list(FLOODS)),
}
CASES = [(program, mode) for program, (_, modes) in HOSTILE.items() for mode in modes]
#: Seconds after which a load of two seconds hangs, and one that is interrupted; and its memory.
ENDS_S, STOPS_S, MAX_MB = 60, 30, 200


@contextmanager
def hostile(program: str, mode: str) -> Iterator[str]:
    """The address of a server that is correct for forty responses."""
    words = [sys.executable, "-S", str(SERVERS / program), "0", mode, "40"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout
            yield f"http://127.0.0.1:{server.stdout.readline().split()[1]}/"
        finally:
            server.kill()


@pytest.mark.parametrize(("program", "mode"), CASES)
def test_a_load_ends_and_can_be_ended(program: str, mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    """By its time and by SIGINT, over both back ends, with 8 connections and with 100."""
    version, _ = HOSTILE[program]
    for io, connections, interrupted in itertools.product(("uring", "epoll"), ("8", "100"), (False, True)):
        with hostile(program, mode) as url:
            lasts = "60s" if interrupted else "2s"
            words = ["load", url, "--http", version, "-c", connections, "-d", lasts, "--io", io, "-q"]
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
        what = f"{mode} over HTTP/{version}, {io}, {connections} connections"
        with capsys.disabled():
            sys.stdout.write(f"\n{what}: {took:.1f} s{' after SIGINT' if not lasts else ''}, {most_mb:.0f} MB")
        assert "Traceback" not in said, said
        assert command.returncode in ((1, 2, 130) if interrupted else (0, 1, 2)), said
        assert most_mb < MAX_MB, what
