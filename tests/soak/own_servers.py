"""Pairs of servers from the registries, each raced by one line, as people start them.

    .venv/bin/python tests/soak/own_servers.py --keep /tmp/own    # the first run installs for minutes
    .venv/bin/python tests/soak/own_servers.py --keep /tmp/own --only post,urls

The servers' programs are in tests/soak/own_servers. Their packages are installed by npm, pip, go and cargo into a
folder that is removed afterwards, unless ``--keep`` names one; Java, PHP and Sinatra are the system's. Prints a
Markdown table: the line, what was learned of the response, seconds, and the headline or the message. ``--record``
writes it into docs/evidence/own-servers.md. Exit status 1 if a pair was not raced. The numbers prove nothing about
these servers: other programs may run.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from pages import ROOT, circumstances, splice

PAGE = ROOT / "docs" / "evidence" / "own-servers.md"
SERVERS = Path(__file__).resolve().with_suffix("")
NODE = "express fastify hono @hono/node-server koa @koa/router koa-bodyparser compression @fastify/compress"
NODE += " bun deno http-server"
PYTHON = "fastapi litestar flask django uvicorn granian hypercorn gunicorn aiohttp tornado sanic"
CRATES = {
    "axum": (["axum"], ["tokio", "--features", "rt-multi-thread,net,macros"], ["serde_json"]),
    "actix": (["actix-web"], ["serde_json"]),
}
PACKAGE = '{"private": true, "type": "module", "scripts": {"start": "node server.js"}}'
RACE = "dragstrip race -c 8 "


@dataclass(frozen=True)
class Pair:
    """Two servers and how they are raced.

    Args:
        tries: what this pair is there for.
        line: typed after ``RACE``, by a shell.
        needs: programs without which the pair can't be raced.
        running: commands of servers that run already, by the port that they listen on.
    """

    tries: str
    line: str
    needs: tuple[str, ...] = ()
    running: Mapping[int, str] = field(default_factory=dict)


def npm(*names: str) -> str:
    """Commands that are started by ``npm start``, each in its folder."""
    return " ".join(f'--serve "{name}=npm start" --in {name}={name}' for name in names)


UVICORN = "uvicorn app:app --port $PORT --app-dir"
PAIRS = {
    "query": Pair("`npm start`, a query", npm("express", "fastify") + " --path '/users?limit=2'"),
    "post": Pair(
        "`cd … &&`, POST of JSON with a secret, 201",
        """--serve "hono=cd hono && npm start" --serve "koa=cd koa && npm start" --path /orders """
        """-b '{"item":"book"}' -T application/json -H 'Authorization: Bearer t0ken'""",
    ),
    "changing": Pair(
        "a time and a request's ID in the body",
        f"--serve 'fastapi={UVICORN} fast' --serve 'litestar={UVICORN} star' --path /status",
    ),
    "gunicorn": Pair(
        "gunicorn as it is: one worker, no keep-alive",
        "--serve 'flask=gunicorn app:app' --in flask=flask --serve 'django=gunicorn app:app' --in django=django"
        " --path /",
    ),
    "not-found": Pair(
        "404",
        "--serve 'flask=gunicorn app:app' --in flask=flask --serve 'django=gunicorn app:app' --in django=django"
        " --path /nowhere --status 404 --check status",
    ),
    "hosts": Pair(
        "one app by two servers, 201",
        "--serve 'granian=cd fast && granian --interface asgi app:app --port $PORT' --serve 'hypercorn=cd fast && "
        'hypercorn app:app --bind 127.0.0.1:$PORT\' --path /orders -T application/json -b \'{"item":"book"}\'',
    ),
    "go": Pair(
        "`go run`", "--serve 'nethttp=go run ./nethttp' --serve 'chi=go run ./chi' --path /users/7", needs=("go",)
    ),
    "gin": Pair(
        "`go run`, a log of each request",
        "--serve 'gin=go run ./gin' --serve 'fiber=go run ./fiber' --path /users/7",
        needs=("go",),
    ),
    "bun": Pair("another runtime", "--serve 'bun=bun bun/server.js' --serve 'node=node node/server.js' --path /"),
    "deno": Pair(
        "another runtime",
        "--serve 'deno=deno run --allow-net --allow-env deno/server.js' --serve 'node=node node/server.js' --path /",
    ),
    "php": Pair(
        "PHP's built-in server",
        "--serve 'php=php -S 127.0.0.1:$PORT -t php' --serve 'node=node node/server.js' --path /",
        needs=("php",),
    ),
    "java": Pair(
        "`java` with a source file",
        "--serve 'java=java java/Server.java' --serve 'go=go run ./nethttp' --path /users/7",
        needs=("java", "go"),
    ),
    "fixed-port": Pair(
        "port 3000 in both",
        "--serve 'express=node fixed-express/server.js' --serve 'node=node fixed-node/server.js' --path /",
    ),
    "loopback6": Pair("`::1` only", npm("loopback6") + " --serve 'aiohttp=python six/server.py' --path /"),
    "slow-start": Pair(
        "a start of 20 s",
        f"--serve 'fastapi=LOADING_S=20 {UVICORN} fast' --serve 'litestar={UVICORN} star' --path /status",
    ),
    "gzip": Pair("gzip", npm("express", "fastify") + " --path /long -H 'Accept-Encoding: gzip'"),
    "empty": Pair("204", npm("express", "fastify") + " --path /empty"),
    "sinatra": Pair(
        "Sinatra of Debian",
        "--serve 'sinatra=ruby sinatra/app.rb' --serve 'sanic=python sanic/server.py' --path /",
        needs=("ruby",),
    ),
    "tornado": Pair(
        "`python`", "--serve 'aiohttp=python aiohttp/server.py' --serve 'tornado=python tornado/server.py' --path /"
    ),
    "files": Pair(
        "a folder of files",
        "--serve 'python=python -m http.server $PORT --directory site' --serve 'npm=http-server -p $PORT site'"
        " --path /index.html",
    ),
    "urls": Pair(
        "servers that run already",
        "express=http://127.0.0.1:4310/users?limit=2 fastify=localhost:4320/users?limit=2",
        running={4310: "PORT=4310 node express/server.js", 4320: "PORT=4320 node fastify/server.js"},
    ),
    "cargo": Pair(
        "`cargo run --release`",
        '--serve "axum=cargo run --release" --in axum=axum --serve "actix=cargo run --release" --in actix=actix'
        " --path /users/7",
        needs=("cargo",),
    ),
}


def install(folder: Path, only: list[str]) -> None:
    """Copies the servers' programs, and installs packages that are not there yet."""
    shutil.copytree(SERVERS, folder, dirs_exist_ok=True)
    for program in folder.glob("*/server.js"):
        (program.parent / "package.json").write_text(PACKAGE)
    if not (folder / "node_modules").exists():
        _run(f"npm install --no-audit --no-fund --prefix . {NODE}", folder)
    if not (folder / "venv").exists():
        _run(f"{sys.executable} -m venv venv && venv/bin/pip install --quiet {PYTHON}", folder)
    if shutil.which("go") and not (folder / "go.mod").exists():
        _run("go mod init servers && go mod tidy && go build -o built/ ./chi ./fiber ./gin ./nethttp", folder)
    for name, packages in CRATES.items():
        if "cargo" in only and shutil.which("cargo") and not (folder / name / "Cargo.toml").exists():
            _run(f"cargo init --quiet --vcs none --name own-{name}", folder / name)
            for words in packages:
                _run(f"cargo add --quiet {' '.join(words)}", folder / name)
            _run("cargo build --quiet --release", folder / name)


def _run(command: str, folder: Path) -> None:
    print(f"$ {command}", file=sys.stderr, flush=True)
    subprocess.run(command, shell=True, cwd=folder, check=True, stdout=sys.stderr)


@contextmanager
def started(running: Mapping[int, str], folder: Path, env: Mapping[str, str]) -> Iterator[None]:
    """Servers that run while their pair is raced; each leads a session of its own, which is ended."""
    servers = [
        subprocess.Popen(
            command,
            shell=True,
            cwd=folder,
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for command in running.values()
    ]
    try:
        time.sleep(2 if servers else 0)
        yield
    finally:
        for server in servers:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait()


@dataclass(frozen=True)
class Raced:
    """What a line printed, in short."""

    learned: str
    seconds: float
    result: str
    fine: bool


def race(pair: Pair, folder: Path) -> Raced:
    """Types a pair's line in the folder of the servers."""
    missing = [need for need in pair.needs if not shutil.which(need)]
    if missing:
        return Raced("", 0, f"not raced: this machine has no `{missing[0]}`", fine=False)
    places = [Path(sys.executable).parent, folder / "venv" / "bin", folder / "node_modules" / ".bin"]
    only = folder / "bin"  # dragstrip alone: the other programs of its environment would hide the servers' own
    only.mkdir(exist_ok=True)
    (only / "dragstrip").unlink(missing_ok=True)
    (only / "dragstrip").symlink_to(places[0] / "dragstrip")
    path = os.pathsep.join(map(str, [only, *places[1:], os.environ["PATH"]]))
    env = {**os.environ, "PATH": path, "DRAGSTRIP_STORE": str(folder / "races.sqlite"), "COLUMNS": "1000"}
    with started(pair.running, folder, env):
        begun_s = time.monotonic()
        done = subprocess.run(
            RACE + pair.line, shell=True, cwd=folder, env=env, text=True, capture_output=True, check=False
        )
        seconds = time.monotonic() - begun_s
    told = done.stdout + done.stderr
    learned = re.search(r"^dragstrip: (\S+ /.*?), learned from .*?; compared: (.*)", told, re.MULTILINE)
    headline = re.search(r"^ ((?:[A-Z]+ )+ \S.*)", told, re.MULTILINE)
    out = re.findall(r"^\S+: out: .*", told, re.MULTILINE)
    refused = re.findall(r"^dragstrip: (.*)", done.stderr, re.MULTILINE)[-1:]
    result = "; ".join(out) or (headline[1].strip() if headline else "".join(refused))
    return Raced(
        f"{learned[1]}: {learned[2]}" if learned else "",
        seconds,
        re.sub(r"\s+", " ", result),
        fine=done.returncode == 0 and not out,
    )


def table(raced: Mapping[str, Raced]) -> str:
    """All pairs, as Markdown."""
    fine = sum(one.fine for one in raced.values())
    rows = [f"{fine} of {len(raced)} pairs were raced ({circumstances()}).", ""]
    rows += [
        f"| for | typed after `{RACE.strip()}` | learned; compared | seconds | result |",
        "|-|-|-|-:|-|",
    ]
    for name, one in raced.items():
        cells = (PAIRS[name].tries, f"`{PAIRS[name].line}`", one.learned, f"{one.seconds:.0f}", one.result)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


def main() -> int:
    """Races all pairs, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PAIRS), help="pairs, separated by commas; empty: installs only")
    parser.add_argument("--keep", type=Path, help="a folder that keeps what is installed")
    parser.add_argument("--record", action="store_true", help="write the table into docs/evidence/own-servers.md")
    given = parser.parse_args()
    only = given.only.split(",") if given.only else []
    folder = (given.keep or Path(tempfile.mkdtemp(prefix="own-servers-"))).resolve()
    raced = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        install(folder, only)
        for name in only:
            raced[name] = one = race(PAIRS[name], folder)
            print(f"{name}: {one.seconds:.0f} s; {one.learned}; {one.result}", file=sys.stderr, flush=True)
    finally:
        if given.keep is None:
            shutil.rmtree(folder)
    print(table(raced))
    if given.record:
        splice(PAGE, "own-servers", table(raced))
    return int(not all(one.fine for one in raced.values()))


if __name__ == "__main__":
    sys.exit(main())
