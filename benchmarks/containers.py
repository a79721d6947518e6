"""Do containers cost anything: one program inside and outside of a container, raced by CPU time per request.

    python benchmarks/containers.py --minutes 5          # 20 races of each program; goes on where it ended
    python benchmarks/containers.py --races 5 --only go  # five races of the Go program alone
    python benchmarks/containers.py --record             # writes what is there into docs/containers.md

Needs root, bubblewrap, Go and nginx. Each race has three contenders: the program in a container, and twice outside of
it. So each race also shows what it finds between two equal contenders. A race is by CPU time per request, with a margin
of 1 %. `nginx-file` opens and reads a file for each request, from the image and from the disk. Each race adds a line to
runs/containers.jsonl. Exit code 75: some races are still to be run.

All of it runs in a network of its own with loopback alone: rules of a firewall cost the contenders outside about 2 % of
CPU time, and a container's network has none.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import images  # noqa: E402
import race_lines  # noqa: E402
from evidence_parts import GOES_ON  # noqa: E402
from pages import splice  # noqa: E402
from scipy import stats  # noqa: E402

from dragstrip import analysis  # noqa: E402
from dragstrip.image import namespaces  # noqa: E402
from dragstrip.store.database import Store  # noqa: E402

#: Set for the program in the network of its own.
IN_OWN_NETWORK = "CONTAINERS_IN_OWN_NETWORK"

GO = """\
package main

import (
	"net/http"
	"os"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Write([]byte("hello world\\n"))
	})
	http.ListenAndServe(os.Args[1], nil)
}
"""

NGINX = """\
daemon off;
worker_processes 1;
pid PLACE/nginx.pid;
error_log stderr;
events { worker_connections 16384; }
http {
    access_log off;
    keepalive_requests 1000000000;
    client_body_temp_path PLACE/body;
    proxy_temp_path PLACE/proxy;
    fastcgi_temp_path PLACE/fastcgi;
    uwsgi_temp_path PLACE/uwsgi;
    scgi_temp_path PLACE/scgi;
    server {
        listen ADDRESS backlog=4096;
        location / { default_type text/plain; SERVE }
    }
}
"""


def members(*files: Path) -> list[tuple[tarfile.TarInfo, bytes]]:
    """Files of this machine as members of a layer, at their own places."""
    return [images.entry(str(file).lstrip("/"), file.read_bytes(), mode=0o755) for file in files]


def libraries(program: Path) -> list[Path]:
    """What a program is linked with, its loader included."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [Path(place) for place in dict.fromkeys(re.findall(r"(/\S+) \(0x", said))]


@dataclass(frozen=True)
class Program:
    """A program that is raced against itself.

    Args:
        title: for the table. image: a saved image of it. inside, outside: its commands.
        serve: nginx's directives, inside and outside.
    """

    title: str
    image: Path
    inside: list[str]
    outside: list[str]
    serve: tuple[str, str] = ("", "")


def contender(place: Path, name: str, command: list[str], image: Path | None, serve: str) -> Path:
    """A contender's folder."""
    folder = place / name
    folder.mkdir()
    words = ", ".join(json.dumps(word) for word in command)
    boxed = f'[container]\nimage = "{image}"\nport = 8080\n' if image else ""
    render = 'render = ["nginx.conf"]\n' if serve else ""
    (folder / "contender.toml").write_text(
        f'name = "{name}"\ntitle = "{name}"\nhost = "x"\nlanguage = "none"\nworkloads = ["hello"]\n{boxed}'
        f'[start]\ncommand = [{words}]\n{render}env = {{ GOMAXPROCS = "1" }}\n'
    )
    config = NGINX.replace("PLACE", "{{ scratch }}").replace("ADDRESS", "{{ address }}:{{ port }}")
    (folder / "nginx.conf").write_text(config.replace("SERVE", serve))
    return folder


def programs(place: Path) -> dict[str, Program]:
    """The raced programs, with their images."""
    (place / "main.go").write_text(GO)
    program = place / "hello"
    build = ["go", "build", "-o", str(program), str(place / "main.go")]
    subprocess.run(build, check=True, cwd=place, env={**os.environ, "CGO_ENABLED": "0"})
    images.save(place / "go.tar", [images.layer(images.entry("hello", program.read_bytes(), mode=0o755))])
    nginx = Path(shutil.which("nginx") or "/usr/sbin/nginx").resolve()
    users = images.entry("etc/passwd", b"root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")
    group = images.entry("etc/group", b"root:x:0:\nnogroup:x:65534:\nnobody:x:65534:\n")
    (place / "www").mkdir()
    (place / "www" / "hello.txt").write_text("hello world\n")
    content = images.entry("srv/www/hello.txt", b"hello world\n")
    layer = images.layer(*members(nginx, *libraries(nginx)), users, group, content)
    images.save(place / "nginx.tar", [layer], User="nobody")
    start = [str(nginx), "-p", "{scratch}", "-c", "{scratch}/nginx.conf", "-e", "stderr"]
    fixed = 'return 200 "hello world\\n";'
    file = "root {}; try_files /hello.txt =404;"
    port = "{address}:{port}"
    return {
        "go": Program("a static Go program", place / "go.tar", ["/hello", port], [str(program), port]),
        "nginx": Program("nginx, a fixed response", place / "nginx.tar", start, start, (fixed, fixed)),
        "nginx-file": Program(
            "nginx, a file opened for each request", place / "nginx.tar", start, start,
            (file.format("/srv/www"), file.format(place / "www")),
        ),
    }  # fmt: skip


def race(store: Path, contenders: list[Path], seed: int, budget: str) -> dict[str, object]:
    """One race: its id, and the verdict and interval of inside against outside, and of both outside."""
    words = ["race", *map(str, contenders), "--workload", "hello", "--metric", "cpu", "--margin", "1%", "--quiet"]
    words += ["--seed", str(seed), "--budget", budget, "--store", str(store)]
    done = subprocess.run([sys.executable, "-m", "dragstrip", *words], check=False, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        raise SystemExit(f"a race ended with exit code {done.returncode}: {done.stderr[-1000:]}")
    with Store(store) as opened:
        raced = opened.load("last")
    found: dict[str, object] = {"race": raced.id, "rounds": len(raced.rounds)}
    inside, outside, again = (folder.name for folder in contenders)
    for pair in analysis.judge(raced).pairs:
        for kind, first, second in (("inside", inside, outside), ("floor", outside, again)):
            if {pair.a, pair.b} == {first, second}:
                interval = pair.interval if pair.a == first else pair.interval.inverted()
                found[kind] = {
                    "verdict": str(pair.verdict), "ratio": interval.estimate, "low": interval.low, "high": interval.high
                }  # fmt: skip
    return found


def together(ratios: list[float]) -> str:
    """The mean ratio of all races with its 95 % confidence interval, which takes each race as one observation."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return f"{math.exp(mean):.4f}"
    half = float(stats.t.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return f"{math.exp(mean):.4f} ({math.exp(mean - half):.4f} to {math.exp(mean + half):.4f})"


def table(lines: list[dict[str, Any]], titles: dict[str, str]) -> str:
    """A row for each program and pair: how the races end, and their ratios together."""
    head = "| program | CPU time of | races | *same* | *faster* or *slower* | half width, median | all races together |"
    rows = [head, "|-|-|-:|-:|-:|-:|-|"]
    for name, title in titles.items():
        for kind, words in (("inside", "inside / outside"), ("floor", "outside / outside")):
            found = [line[kind] for line in lines if line["program"] == name and kind in line]
            if not found:
                continue
            verdicts = [one["verdict"] for one in found]
            decided = sum(verdict in ("faster", "slower") for verdict in verdicts)
            widths = [(one["high"] - one["low"]) / 2 for one in found if math.isfinite(one["low"])]
            half = f"{statistics.median(widths):.1%}" if widths else "–"
            # A contender's speed is the inverse of its CPU time.
            rows.append(
                f"| {title} | {words} | {len(found)} | {verdicts.count('same')} | {decided} | {half} "
                f"| {together([1 / one['ratio'] for one in found])} |"
            )
    return "\n".join(rows)


def leave_network() -> None:
    """Starts this program again in a network without the machine's firewall rules."""
    if os.environ.get(IN_OWN_NETWORK) is None:
        os.environ[IN_OWN_NETWORK] = "1"
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        namespaces._set_up_loopback(any_socket)


def main() -> int:
    """Races what is missing, and prints the table."""
    leave_network()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--races", type=int, default=20, help="races of each program")
    parser.add_argument("--budget", default="150s", help="of each race (default 150s)")
    parser.add_argument("--minutes", type=float, default=24 * 60.0, help="begin no race after this")
    parser.add_argument("--only", choices=["go", "nginx", "nginx-file"])
    parser.add_argument("--record", action="store_true", help="write the table into docs/containers.md, race nothing")
    given = parser.parse_args()
    out = ROOT / "runs" / "containers.jsonl"
    out.parent.mkdir(exist_ok=True)
    lines = race_lines.read(out)
    until = time.monotonic() + 60 * given.minutes
    with tempfile.TemporaryDirectory(prefix="containers-", dir="/tmp") as folder:
        place = Path(folder)
        place.chmod(0o755)
        known = programs(place)
        chosen = {
            name: [
                contender(place, f"{name}-inside", program.inside, program.image, program.serve[0]),
                contender(place, f"{name}-outside", program.outside, None, program.serve[1]),
                contender(place, f"{name}-again", program.outside, None, program.serve[1]),
            ]
            for name, program in known.items()
            if given.only in (None, name)
        }
        done = {(line["program"], line["seed"]) for line in lines}
        todo = [(name, seed) for seed in range(1, given.races + 1) for name in chosen if (name, seed) not in done]
        late = False
        for name, seed in [] if given.record else todo:
            if late := time.monotonic() > until:
                break
            raced = race(out.with_suffix(".sqlite"), chosen[name], seed, given.budget)
            lines.append(race_lines.append(out, {"program": name, "seed": seed} | raced))
            print(lines[-1], flush=True)
    text = table(lines, {name: program.title for name, program in known.items()})
    print(text)
    if late:
        return GOES_ON
    splice(ROOT / "docs" / "containers.md", "inside", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
