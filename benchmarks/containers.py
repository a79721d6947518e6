"""Do containers cost anything: one program inside and outside of a container, raced by CPU time per request.

    python benchmarks/containers.py --races 20 --budget 20s            # a static Go program and nginx
    python benchmarks/containers.py --races 5 --only go --first 6      # races 6 to 10 of the Go program alone

Needs root, bubblewrap, Go and nginx. Each race is by CPU time per request, with a margin of 1 %, and adds a line to
runs/containers.jsonl: its id, ratio, interval and verdict. The last lines count the races whose verdict is *same*.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import images  # noqa: E402

from dragstrip import analysis  # noqa: E402
from dragstrip.store.database import Store  # noqa: E402

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
        location / { default_type text/plain; return 200 "hello world\\n"; }
    }
}
"""


def members(*files: Path) -> list[tuple[object, bytes]]:
    """Files of this machine as members of a layer, at their own places."""
    return [images.entry(str(file).lstrip("/"), file.read_bytes(), mode=0o755) for file in files]


def libraries(program: Path) -> list[Path]:
    """What a program is linked with, its loader included."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [Path(place) for place in dict.fromkeys(re.findall(r"(/\S+) \(0x", said))]


def definition(name: str, place: Path, command: list[str], image: Path | None) -> Path:
    """A contender's folder."""
    folder = place / name
    folder.mkdir()
    words = ", ".join(json.dumps(word) for word in command)
    boxed = f'[container]\nimage = "{image}"\nport = 8080\n' if image else ""
    render = 'render = ["nginx.conf"]\n' if "nginx" in name else ""
    (folder / "contender.toml").write_text(
        f'name = "{name}"\ntitle = "{name}"\nhost = "x"\nlanguage = "none"\nworkloads = ["hello"]\n{boxed}'
        f'[start]\ncommand = [{words}]\n{render}env = {{ GOMAXPROCS = "1" }}\n'
    )
    config = NGINX.replace("PLACE", "{{ scratch }}").replace("ADDRESS", "{{ address }}:{{ port }}")
    (folder / "nginx.conf").write_text(config)
    return folder


def pairs(place: Path) -> dict[str, tuple[Path, Path]]:
    """The definitions of each program, inside and outside of a container."""
    (place / "main.go").write_text(GO)
    program = place / "hello"
    build = ["go", "build", "-o", str(program), str(place / "main.go")]
    subprocess.run(build, check=True, cwd=place, env={**os.environ, "CGO_ENABLED": "0"})
    images.save(place / "go.tar", [images.layer(images.entry("hello", program.read_bytes(), mode=0o755))])
    nginx = Path(shutil.which("nginx") or "/usr/sbin/nginx").resolve()
    users = images.entry("etc/passwd", b"root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")
    group = images.entry("etc/group", b"root:x:0:\nnogroup:x:65534:\nnobody:x:65534:\n")
    images.save(place / "nginx.tar", [images.layer(*members(nginx, *libraries(nginx)), users, group)], User="nobody")
    start = [str(nginx), "-p", "{scratch}", "-c", "{scratch}/nginx.conf", "-e", "stderr"]
    return {
        "go": (
            definition("go-inside", place, ["/hello", "{address}:{port}"], place / "go.tar"),
            definition("go-outside", place, [str(program), "{address}:{port}"], None),
        ),
        "nginx": (
            definition("nginx-inside", place, start, place / "nginx.tar"),
            definition("nginx-outside", place, start, None),
        ),
    }


def race(store: Path, both: tuple[Path, Path], seed: int, budget: str) -> dict[str, object]:
    """One race; its id, ratio, interval and verdict."""
    words = [
        "race",
        *map(str, both),
        "--workload",
        "hello",
        "--metric",
        "cpu",
        "--margin",
        "1%",
        "--seed",
        str(seed),
        "--quiet",
    ]
    words += ["--budget", budget, "--store", str(store)]
    subprocess.run([sys.executable, "-m", "dragstrip", *words], check=False, capture_output=True)
    with Store(store) as opened:
        raced = opened.load("last")
    (pair,) = analysis.judge(raced).pairs
    interval = pair.interval
    return {
        "race": raced.id, "rounds": len(raced.rounds), "verdict": str(pair.verdict),
        "ratio": round(interval.estimate, 4), "low": round(interval.low, 4), "high": round(interval.high, 4),
    }  # fmt: skip


def main() -> None:
    """Races, and prints the count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--races", type=int, default=20)
    parser.add_argument("--first", type=int, default=1, help="number, and seed, of the first race")
    parser.add_argument("--budget", default="20s")
    parser.add_argument("--only", choices=["go", "nginx"])
    given = parser.parse_args()
    out = ROOT / "runs" / "containers.jsonl"
    out.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="containers-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        for name, both in pairs(Path(folder)).items():
            for seed in range(given.first, given.first + given.races) if given.only in (None, name) else ():
                result = {"program": name, "seed": seed, **race(out.with_suffix(".sqlite"), both, seed, given.budget)}
                print(result, flush=True)
                with out.open("a") as file:
                    file.write(json.dumps(result) + "\n")
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    for name in sorted({line["program"] for line in lines}):
        verdicts = [line["verdict"] for line in lines if line["program"] == name]
        print(f"{name}: {verdicts.count('same')} of {len(verdicts)} races end with the verdict same")


if __name__ == "__main__":
    main()
