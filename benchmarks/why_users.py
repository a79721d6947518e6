"""What ``dragstrip why`` shows each user, and of which servers: cases raced briefly, then launched once more.

    sudo python benchmarks/why_users.py --record     # the table of docs/why.md

Needs root, setpriv, bubblewrap and Node. Cases are users, settings of the kernel, containers, HTTP/2, TLS, and servers
that start another program, fork, or die during the extra launches. Settings of the kernel are put back at the end.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from pages import ROOT, circumstances, splice

from dragstrip.record import Counter, Profile
from dragstrip.store.database import Store

sys.path.insert(0, str(ROOT / "tests"))

import images

PAGE = ROOT / "docs" / "why.md"
PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]

#: A Python that other users may execute, of the same version.
PYTHON = "/usr/bin/python3"

#: Numbers of system calls on this machine's architecture.
CALLS = {"x86_64": {"perf_event_open": 298, "ptrace": 101}, "aarch64": {"perf_event_open": 241, "ptrace": 117}}

#: A server in Python that changes while it runs, by its first argument.
SERVER = """
import http.server, os, sys, threading, time
how, port, marker = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if how == "exec":
    os.execv(sys.executable, [sys.executable, sys.argv[0], "plain", *sys.argv[2:]])
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = b"hello world\\n"
        self.send_response_only(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 1024
server = Server(("127.0.0.1", port), Handler)
if how == "fork":
    def work():
        while True:
            if os.fork() == 0:
                sum(range(1000000))
                os._exit(0)
            os.wait()
            time.sleep(0.05)
    threading.Thread(target=work, daemon=True).start()
if how in ("die", "two") and os.path.exists(marker):
    threading.Timer(1.2 if how == "die" else 2.0, lambda: os._exit(3)).start()
server.serve_forever()
"""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row.

    Args:
        words: contenders, as ``race`` has them. prefix: a program that becomes another user.
        paranoid: of the kernel's setting; None: as it is. refused: system calls that Dragstrip may not use.
    """

    name: str
    words: Sequence[str] = ("nginx-return", "node")
    prefix: Sequence[str] = ()
    paranoid: int | None = None
    refused: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)


def cases(folder: Path) -> Iterator[Case]:
    """All cases; files that they need are made in the folder."""
    yield Case(name="root, perf_event_open refused", refused=["perf_event_open"])
    yield Case(name="root, perf_event_open and ptrace refused", refused=["perf_event_open", "ptrace"])
    yield Case(name="root, tracefs not mounted")
    yield Case(name="user `nobody`, perf_event_paranoid 2", prefix=NOBODY, paranoid=2)
    yield Case(name="user `nobody`, perf_event_paranoid 4", prefix=NOBODY, paranoid=4)
    yield Case(name="HTTP/2", words=("node", "n2=node:http=2"))
    yield Case(name="TLS", words=("node", "tls=node:tls=on"))
    if (server := images.compiled_server(folder / "static")) is not None:
        images.save(folder / "mine.tar", [images.layer(images.entry("srv/server", server, mode=0o755))],
                    Entrypoint=["/srv/server"], Cmd=["serve"], WorkingDir="/srv")  # fmt: skip
        yield Case(name="a container", words=("--image", f"boxed={folder / 'mine.tar'}", "nginx-return"))
    (folder / "server.py").write_text(SERVER)
    for how, name in (
        ("exec", "a server that becomes another program"),
        ("fork", "a server that forks during the load"),
        ("die", "a server that dies during the extra launch"),
        ("two", "a server that lives for two seconds"),
    ):
        serve = f"{how}={sys.executable} {folder / 'server.py'} {how} {{port}} {folder / 'marker'}"
        yield Case(name=name, words=("--serve", serve, "nginx-return"))


def refusing(names: Sequence[str]) -> Callable[[], None]:
    """Makes the calling process, and what it starts, unable to use these system calls (seccomp(2))."""
    numbers = [CALLS[os.uname().machine][name] for name in names]
    load, equal, give = 0x20, 0x15, 0x06
    program = [(load, 0, 0, 0)]
    for number in numbers:
        program += [(equal, 0, 1, number), (give, 0, 0, 0x00050001)]
    program += [(give, 0, 0, 0x7FFF0000)]
    code = b"".join(struct.pack("=HBBI", *step) for step in program)

    def refuse() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        buffer = ctypes.create_string_buffer(code)
        described = struct.pack("=HxxxxxxQ", len(program), ctypes.addressof(buffer))
        if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.c_char_p(described), 0, 0):
            raise OSError(ctypes.get_errno(), "seccomp")

    return refuse


@contextmanager
def paranoid(level: int | None) -> Iterator[None]:
    """Sets the kernel's level, and puts it back."""
    before = PARANOID.read_text()
    if level is not None:
        PARANOID.write_text(str(level))
    try:
        yield
    finally:
        PARANOID.write_text(before)


def profiles(case: Case, folder: Path) -> tuple[list[Profile], str]:
    """The extra launches of a case, and the command's last words if it has none."""
    marker, store = folder / "marker", folder / "store" / re.sub(r"\W+", "-", case.name) / "races.sqlite"
    marker.unlink(missing_ok=True)
    store.parent.mkdir()
    store.parent.chmod(0o777)
    env = {**os.environ, "DRAGSTRIP_STORE": str(store), "HOME": str(folder / "home"), **case.env}
    if case.prefix:
        env["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    said = ""
    for words in (["race", *case.words, "--rounds", "2", "-q"], ["why", "last", "--launches", "1", "-q"]):
        done = subprocess.run(
            [*case.prefix, PYTHON if case.prefix else sys.executable, "-m", "dragstrip", *words],
            env=env,
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            preexec_fn=refusing(case.refused) if case.refused else None,
        )
        said = f"{done.stdout}\n{done.stderr}"
        if words[0] == "race" and done.returncode:
            return [], said
        marker.touch()
    with Store(store) as opened:
        return list(opened.load("last").profiles), said


def row(name: str, found: Sequence[Profile], said: str) -> str:
    """A row: what was measured of all contenders, and each gap with its reason."""
    if not found:
        return f"| {name} | – | – | – | – | no launch: {_last(said)} |"
    counts = [set(profile.counts) for profile in found]
    calls = "by name" if all(p.calls for p in found) else "by class" if any(p.traced_calls for p in found) else "no"
    stacks = (
        "no" if not all(Counter.SAMPLES in one for one in counts)
        else "user mode and kernel" if all(Counter.KERNEL_SAMPLES in one for one in counts) else "user mode"
    )  # fmt: skip
    rooted = [
        p.counts[Counter.ROOTED_SAMPLES] / p.counts[Counter.USER_SAMPLES]
        for p in found
        if p.counts.get(Counter.USER_SAMPLES)
    ]
    reach = f"{min(rooted):.0%}" if rooted else "–"
    gaps = dict.fromkeys(
        f"{counter.replace('_', ' ')}: {reason}" for profile in found for counter, reason in profile.missing.items()
    )
    if len({profile.contender for profile in found}) < 2:
        gaps[f"only {found[0].contender} has a launch"] = None
    cpu = "yes" if all(Counter.CPU_NS in one for one in counts) else "no"
    return f"| {name} | {cpu} | {calls} | {stacks} | {reach} | {'; '.join(gaps) or 'none'} |"


def _last(said: str) -> str:
    return next((line for line in reversed(said.splitlines()) if line.strip()), "")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write the table into docs/why.md")
    parser.add_argument("--skip", type=int, default=0, help="leaves out this many cases")
    parser.add_argument("--minutes", type=float, default=60.0, help="no case begins later")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    wanted = parser.parse_args()
    lines = [
        f"{circumstances()}; the last column has each gap as `why` reports it.\n",
        "| case | CPU time | system calls | stacks | reach their root, at least | gaps |",
        "|-|-|-|-|-:|-|",
    ]
    until_s = time.monotonic() + 60 * wanted.minutes
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        for name in ("store", "home"):
            (folder / name).mkdir()
            (folder / name).chmod(0o777)
        for case in islice(cases(folder), wanted.skip, None):
            if wanted.only not in case.name or time.monotonic() > until_s:
                continue
            with paranoid(case.paranoid):
                lines.append(row(case.name, *profiles(case, folder)))
            print(lines[-1], flush=True)
    if wanted.record:
        splice(PAGE, "why-users", "\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
