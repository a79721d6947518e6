"""A lab under random kill -9: python benchmarks/lab_chaos.py [--cells 1000] [--strips 8] [--kills 50] [--seed 1]

Strips race samples (``tests/stub_strip.py``), because 1,000 real races would take hours; all else is real. Ends with
an error if a cell is lost or doubled, or if two races met on a strip.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import labs


def main() -> None:
    """Runs it and prints one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, usual in (("cells", 1000), ("strips", 8), ("kills", 50), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dragstrip-chaos-") as folder:
        file = labs.matrix(Path(folder), cells=asked.cells, strips=asked.strips)
        begun = time.monotonic()
        killed = labs.chaos(file, kills=asked.kills, seed=asked.seed, pause_s=3.0)
        lost = labs.assert_each_once(file, asked.cells)
        print(
            f"{asked.cells} cells over {asked.strips} strips: {killed['races']} races and {killed['clients']} clients "
            f"killed; each cell stored once, 0 lost, 0 double, 0 races met; {lost} attempts lost; "
            f"{time.monotonic() - begun:.0f} s"
        )


if __name__ == "__main__":
    main()
