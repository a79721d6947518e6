"""Shows stored races by the code of another commit and by this checkout's, and lists what differs.

    python tests/golden.py d686b83b                           # the published races, and an older store's
    python tests/golden.py d686b83b --races mine.race,folder  # further exports
    python tests/golden.py d686b83b --make 28 --engine FILE   # and 28 short races, made by the other commit's code

Each code has a store of its own, into which it imports the same exports, so both judge the same records. Every race's
verdict is compared as text and as JSON, every form of ``FORMS`` for ten of the races, and all races together in
those of ``TOGETHER``; each in a process of its own. A form that the older code can't write is named and left out.
Nothing is compiled: what is stored is shown without the engine.
Only ``--make`` needs the other commit's: a ``_engine.abi3.so`` that was built from it, or from a commit with the same
interface. Its races are short, of contenders that this machine has; a line that fails is named and left out.

All texts stay in runs/golden/old and runs/golden/new, the races in runs/golden/races, where the next run finds them.
Exit code 1 if a text differs. ``make golden OLD=d686b83b RACES=28 ENGINE=FILE`` is the same.
"""

from __future__ import annotations

import argparse
import difflib
import json
import lzma
import os
import runpy
import shutil
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "runs" / "golden"

#: The stored races of every checkout; of the older stores' exports, one that each earlier commit can read.
PUBLISHED = (*sorted((ROOT / "docs" / "claims").glob("*.race.xz")), ROOT / "tests" / "stores" / "schema-2.race.xz")

#: Command lines that show one race, by the name of what they write: of every race, and of ten.
VERDICTS = {"terminal": "show RUN", "verdict.json": "show RUN --json"}
FORMS = {
    "verbose": "show RUN --verbose --pairs",
    "parity": "show RUN --parity",
    "page.html": "report RUN --html FILE",
    "blocks.csv": "export RUN FILE",
    "rounds.csv": "export RUN FILE --rounds",
    "record.json": "export RUN FILE",
    "junit.xml": "export RUN FILE",
    "openmetrics.prom": "export RUN FILE",
    "go.bench": "export RUN FILE",
    "race.md": "export RUN FILE",
    "bencher": "export RUN FILE --as bencher",
    "bigger": "export RUN FILE --as github-bigger",
    "histograms.hlog": "export RUN FILE",
    "other.md": "compare OTHER RUN --markdown FILE --json BESIDE --anyway",
}
#: Forms that came later: older code refuses them.
LATER = ("race.md",)

TOGETHER = {"runs": "runs", "runs.json": "runs --json", "history": "history", "history.json": "history --json FILE"}

#: How many races are shown in every form.
SAMPLE = 10

#: Short races of contenders that are often installed; together they have every kind of load and several verdicts.
RACES = (
    "nginx-return lua --rounds 10",
    "nginx-return nginx-return --rounds 10 -n one -n two",
    "node go-native --rounds 10 --metric cpu",
    "nginx-static apache-static --rounds 4 --workload static",
    "node axum --rounds 3 --workload json,multiply",
    "node go-native fasthttp --rounds 3",
    "node go-native --rounds 3 --rate 2000",
    "node go-native --rounds 3 --rate auto --metric latency-p99",
    "node axum --rounds 3 --efficiency",
    "node go-native --rounds 3 --no-keepalive",
    "node caddy --rounds 3 --http 2",
    "node caddy --rounds 3 --http 2 --streams 4",
    "node caddy --rounds 3 --tls",
    "nginx-return haproxy-lua --rounds 3 --http 1.0",
    "uvicorn granian --rounds 3 -c 8",
    "uvicorn granian tornado --rounds 4 --workload multiply",
    "node go-native --rounds 3 --workload post",
    "node go-native --rounds 3 --workload delay",
    "node go-native --rounds 3 --workload pipelined",
    "node caddy --rounds 3 --workload handshakes --tls",
    "node axum --rounds 3 --typical",
    "node axum --rounds 3 --io epoll --awake off",
    "node axum --rounds 3 -t 1 -c 1",
    "lua luajit --rounds 3 -n interpreter -n compiler",
    "bun deno --rounds 3",
    "nginx-lua nginx-njs --rounds 3 --margin 5%",
    "node axum --rounds 12 --metric throughput",
    "lua lua51 lua52 lua53 --rounds 3",
)


def extracted(commit: str, folder: Path) -> Path:
    """The sources of a commit."""
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def environment(sources: Path, data: Path) -> dict[str, str]:
    """For a process of this code with a store of its own."""
    fixed = {"TZ": "UTC", "COLUMNS": "100", "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return {**os.environ, **fixed, "PYTHONPATH": str(sources), "XDG_DATA_HOME": str(data)}


def made(sources: Path, engine: Path, count: int) -> None:
    """Races with another commit's code and engine; its exports stay in ``OUT/races``."""
    shutil.copy(engine, sources / "dragstrip" / "_engine.abi3.so")
    env = environment(sources, OUT / "racing")
    for number, line in enumerate(RACES[:count]):
        target = OUT / "races" / f"{number:02}.race"
        if target.exists():
            continue
        began, words = time.monotonic(), [*line.split(), "--seed", str(number), "--quiet"]
        race = subprocess.run(
            [sys.executable, "-m", "dragstrip", "race", *words], env=env, text=True, capture_output=True, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        said = (race.stderr or race.stdout).strip().splitlines()[-1:] if race.returncode in (2, 70) else []
        export = [sys.executable, "-m", "dragstrip", "export", "last", str(target)]
        if not said:
            subprocess.run(export, env=env, check=True, capture_output=True)
        print(f"{time.monotonic() - began:5.0f} s  {line}  {' '.join(said)}", flush=True)


def unpacked(given: Sequence[Path], folder: Path) -> list[Path]:
    """Exports as files that every code imports."""
    files = []
    for path in given:
        target = folder / path.name.removesuffix(".xz")
        target.write_bytes(lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes())
        files.append(target)
    return files


def call(words: Sequence[str], out: Path) -> None:
    """One command line in a process of its own, as ``python -m dragstrip`` runs it; what it prints is in the file."""
    if child := os.fork():
        os.waitpid(child, 0)
        return
    with out.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.argv = ["dragstrip", *words]
    code: object = 0
    try:
        runpy.run_module("dragstrip", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code
    print("exit code", code or 0, flush=True)
    os._exit(0)


def render(files: Sequence[Path], out: Path) -> None:
    """Imports the races into this process's store, and writes each in every form."""
    import dragstrip.report.race.terminal  # noqa: F401 - what every child would import again

    out.mkdir(parents=True)
    names = []
    for file in files:
        call(["import", str(file)], out / f"import-{file.stem}")
        names.append(file.stem)
    call(["runs", "--json"], out / "ids.json")
    rows = json.loads((out / "ids.json").read_text().rpartition("exit code")[0])
    named = {row["race"]: (row["workload"], *row["contenders"][:2]) for row in rows}
    ids = sorted(named)
    sample = ids[:: max(len(ids) // SAMPLE, 1)][:SAMPLE]
    for run in ids:
        for form, line in (VERDICTS | (FORMS if run in sample else {})).items():
            file = out / f"{run}-{form}"
            other = next((one for one in ids if named[one] == named[run] and one != run), run)
            swapped = {"RUN": run, "OTHER": other, "FILE": str(file), "BESIDE": f"{file}.json"}
            call([swapped.get(word, word) for word in line.split()], out / f"{run}-{form}.said")
    for form, line in TOGETHER.items():
        call([word.replace("FILE", str(out / form)) for word in line.split()], out / f"{form}.said")
    for path in out.iterdir():  # a text that names its own folders would differ
        text = path.read_bytes().replace(str(out).encode(), b"OUT")
        path.write_bytes(text.replace(os.environb[b"XDG_DATA_HOME"], b"STORE"))


def differences(old: Path, new: Path) -> Iterator[tuple[str, list[str]]]:
    """Each text that differs, with the lines of the difference."""
    for name in sorted({path.name for folder in (old, new) for path in folder.iterdir()}):
        texts = [
            path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
            for path in (old / name, new / name)
        ]
        if texts[0] != texts[1]:
            yield name, list(difflib.unified_diff(*texts, "old", "new", n=0, lineterm=""))[2:]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="the commit whose code is compared with this checkout's")
    parser.add_argument("--races", default="", help="further exports, or folders of them, separated by commas")
    parser.add_argument("--make", type=int, default=0, metavar="N", help=f"at most {len(RACES)} races, made now")
    parser.add_argument("--engine", type=Path, help="the other commit's _engine.abi3.so, for --make")
    parser.add_argument("--lines", type=int, default=6, help="lines of each difference that are shown")
    given = parser.parse_args()
    if given.make and given.engine is None:
        parser.error("--make needs --engine FILE, the engine of that commit")
    for name in ("old", "new", "store-old", "store-new", "sources"):
        shutil.rmtree(OUT / name, ignore_errors=True)
    (OUT / "races").mkdir(parents=True, exist_ok=True)
    (OUT / "sources").mkdir()
    sources = extracted(given.old, OUT / "sources")
    if given.make:
        made(sources, given.engine, given.make)
    further = [Path(word) for word in given.races.split(",") if word] + [OUT / "races"]
    exports = [file for path in further for file in (sorted(path.glob("*.race*")) if path.is_dir() else [path])]
    files = unpacked([*PUBLISHED, *exports], OUT / "sources")
    rendering = []
    for name, code in (("old", sources), ("new", ROOT / "src")):
        env = environment(code, OUT / f"store-{name}")
        words = [sys.executable, __file__, "--render", str(OUT / name), *map(str, files)]
        rendering.append(subprocess.Popen(words, env=env))
    codes = [process.wait() for process in rendering]
    if any(codes):
        return 2
    return report(given.old, given.lines)


def report(commit: str, lines: int) -> int:
    """Prints what differs, and how many races and texts there are."""
    said = tuple(f"-{form}.said" for form in VERDICTS)
    for form in LATER:
        if not list((OUT / "old").glob(f"*-{form}")):
            print(f"{form}: not compared, because {commit} can't write it")
            for path in OUT.glob(f"*/*-{form}*"):
                path.unlink()
    texts = [path.name for path in (OUT / "new").iterdir()]
    races = len({name.partition("-")[0] for name in texts if name.endswith(said)})
    found = dict(differences(OUT / "old", OUT / "new"))
    for name, difference in found.items():
        print(f"{name}: {len(difference)} lines")
        print("".join(f"    {line[:160]}\n" for line in difference[:lines]), end="")
    forms = Counter(name.partition("-")[2] or name for name in found)
    verdicts = sum(name.endswith(said) for name in found)
    print(f"{races} races, {len(texts)} texts, {len(found)} differ from those of {commit}; {verdicts} verdicts")
    print("\n".join(f"  {count:3} {form}" for form, count in forms.most_common()))
    return 1 if found else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--render"]:
        render([Path(word) for word in sys.argv[3:]], Path(sys.argv[2]))
    else:
        sys.exit(main())
