"""How long ``dragstrip serve`` takes to list 500 stored races, over HTTP: median and worst of 20.

python benchmarks/list_races.py [--races 500]
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import samples

from dragstrip.store.database import Store


def main() -> None:
    """The command line."""
    wanted = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted.add_argument("--races", type=int, default=500)
    told = wanted.parse_args()
    rates = {f"contender-{k}": 10_000.0 * k for k in range(1, 9)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "races.sqlite"
        with Store(path) as store:
            for number in range(told.races):
                store.begin(samples.race(rates, seed=number + 1, rounds=12, passes=2))
        words = [sys.executable, "-u", "-m", "dragstrip", "serve", "--port", "0", "--store", str(path)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout
                found = re.match(r"(http://\S+)", process.stdout.readline())
                assert found
                taken_ms = []
                for _ in range(21):
                    began = time.perf_counter()
                    with urllib.request.urlopen(found[1]) as answer:
                        text = answer.read().decode()
                    taken_ms.append(1000 * (time.perf_counter() - began))
                assert text.count("as then") == told.races
            finally:
                process.terminate()
    later = taken_ms[1:]
    print(f"{told.races} races of 8, 12 rounds: first {taken_ms[0]:.0f} ms (templates are read), then")
    print(f"median {statistics.median(later):.0f} ms, worst {max(later):.0f} ms of {len(later)}")


if __name__ == "__main__":
    main()
