"""Would another test of functions raise more false alarms? Launches of one server, split at random into two sides.

    python benchmarks/why_nulls.py collect node tornado   # 24 launches of each, about two minutes for a server
    python benchmarks/why_nulls.py --record               # the table of docs/why.md, from the launches so far

Both sides of a split are the same server, so any function that differs is a false alarm. Then a function is planted in
the second side, by giving it a share of the samples and of the CPU time: how often is it named? Two tests are compared:
Welch's, and Student's, whose variance is of both sides together. Launches are kept in docs/calibration/why-nulls.jsonl.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import race_lines
from measuring_code import CAUSES
from pages import ROOT, splice
from scipy.special import stdtr

from dragstrip.analysis.launch_differences import LaunchNumbers, differences, shares
from dragstrip.analysis.layers import LEAST_OF_FUNCTION, by_function
from dragstrip.store.database import Store

LINES, PAGE = ROOT / "docs" / "calibration" / "why-nulls.jsonl", ROOT / "docs" / "why.md"
DRAGSTRIP = [sys.executable, "-m", "dragstrip"]

#: Launches of each server, random splits for each cell, and launches of a side.
LAUNCHES, SPLITS, SIDES = 24, 2000, (4, 6)

#: Planted shares of the CPU time per response, and how much a launch's own share differs from it.
PLANTED, SCATTER = (0.10, 0.05), 0.05

#: Functions are one of four families that share 5 %.
ALPHA = 0.05 / 4


@dataclass(frozen=True)
class Launches:
    """Launches of one server: samples by launch and function, and CPU µs per response of each launch."""

    server: str
    samples: np.ndarray
    whole_us: np.ndarray


def collect(server: str) -> dict[str, Any]:
    """Launches a server many times by ``why``, after a short race."""
    with tempfile.TemporaryDirectory(prefix="dragstrip-why-") as folder:
        store = Path(folder) / "races.sqlite"
        other = "nginx-return" if server != "nginx-return" else "luajit"
        race = ["race", server, other, "--rounds", "2", "-q", "--store", str(store)]
        launches = ["--contender", server, "--launches", str(LAUNCHES), "--budget", "20m", "-q", "--store", str(store)]
        for words in (race, ["why", "last", *launches]):
            done = subprocess.run([*DRAGSTRIP, *words], capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"{done.stdout}{done.stderr}")
        with Store(store) as opened:
            parts = by_function(opened.load("last").profiles)
    if parts is None:
        raise SystemExit(f"{server} was not sampled")
    names = sorted(parts.names)
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "server": server,
        "functions": names,
        "whole_us": [round(us, 4) for us in parts.whole_us],
        "samples": [[counts.get(name, 0) for name in names] for counts in parts.counts],
    }


def known() -> list[Launches]:
    """All launches so far, by server; the last line of a server counts."""
    last = {line["server"]: line for line in race_lines.read(LINES, CAUSES)}
    return [
        Launches(line["server"], np.array(line["samples"], dtype=float), np.array(line["whole_us"]))
        for line in last.values()
    ]


def planted(launches: Launches, share: float, rng: np.random.Generator) -> Launches:
    """The same launches with another function, the last, that takes this share more CPU time per response."""
    samples, whole_us = launches.samples.astype(int), launches.whole_us
    mine = share * np.exp(rng.normal(0, SCATTER, len(samples)))
    taken = rng.binomial(samples, (mine / (1 + mine))[:, None])
    grown = np.column_stack([samples - taken, taken.sum(axis=1)])
    return Launches(launches.server, grown.astype(float), whole_us * (1 + mine))


def found(one: Launches, other: Launches) -> dict[str, np.ndarray]:
    """By test, which functions differ between two sides; the last function is missing on a side that has fewer."""
    width = max(one.samples.shape[1], other.samples.shape[1])
    sides = [(np.pad(s.samples, ((0, 0), (0, width - s.samples.shape[1]))), s.whole_us) for s in (one, other)]
    tested = (sides[0][0].sum(axis=0) + sides[1][0].sum(axis=0)) >= LEAST_OF_FUNCTION
    means, variances = [], []
    for samples, whole_us in sides:
        total = samples.sum(axis=1, keepdims=True)
        share = samples[:, tested] / total
        values = share * whole_us[:, None]
        likely = np.maximum(share, 1 / total)
        counting = (whole_us[:, None] ** 2 * likely * (1 - likely) / total).mean(axis=0)
        means.append(values.mean(axis=0))
        variances.append(np.maximum(values.var(axis=0, ddof=1), counting))
    launches = len(one.whole_us)
    statistic = np.abs(means[1] - means[0]) / np.sqrt((variances[0] + variances[1]) / launches)
    welch = (variances[0] + variances[1]) ** 2 / ((variances[0] ** 2 + variances[1] ** 2) / (launches - 1))
    named = {}
    for name, freedom in (("Welch", welch), ("Student", np.full(len(statistic), 2 * launches - 2.0))):
        whole = np.zeros(width, dtype=bool)
        whole[tested] = holm(2 * stdtr(freedom, -statistic))
        named[name] = whole
    return named


def holm(p: np.ndarray) -> np.ndarray:
    """Which of a family Holm's method finds."""
    order = np.argsort(p)
    passes = p[order] < ALPHA / (len(p) - np.arange(len(p)))
    first = len(p) if passes.all() else int(np.argmin(passes))
    rejected = np.zeros(len(p), dtype=bool)
    rejected[order[:first]] = True
    return rejected


def split(launches: Launches, count: int, rng: np.random.Generator) -> tuple[Launches, Launches]:
    """Two sides of this many different launches each."""
    drawn = rng.permutation(len(launches.whole_us))[: 2 * count]
    sides = (drawn[:count], drawn[count:])
    one, other = (Launches(launches.server, launches.samples[at], launches.whole_us[at]) for at in sides)
    return one, other


def cell(launches: Launches, count: int, share: float) -> dict[str, float]:
    """By test, the share of splits with any alarm; or with a planted share, in which the planted function is named."""
    rng = np.random.default_rng(32)
    hits = dict.fromkeys(("Welch", "Student"), 0)
    for _ in range(SPLITS):
        one, other = split(launches, count, rng)
        other = planted(other, share, rng) if share else other
        for test, named in found(one, other).items():
            hits[test] += bool(named[-1] if share else named.any())
    return {test: count / SPLITS for test, count in hits.items()}


def of_function(side: Launches, at: int) -> LaunchNumbers:
    """CPU time of a function, for each launch."""
    return shares(side.samples[:, at].tolist(), side.samples.sum(axis=1).tolist(), side.whole_us.tolist())


def check(launches: Launches) -> None:
    """That the test in use finds here what it finds in Dragstrip.

    Raises:
        SystemExit: it does not.
    """
    rng = np.random.default_rng(1)
    for _ in range(20):
        one, other = split(launches, 4, rng)
        other = planted(other, 0.1, rng)
        grown = Launches(one.server, np.pad(one.samples, ((0, 0), (0, 1))), one.whole_us)
        kept = np.flatnonzero(grown.samples.sum(axis=0) + other.samples.sum(axis=0) >= LEAST_OF_FUNCTION)
        pairs = [(of_function(grown, at), of_function(other, at)) for at in map(int, kept)]
        ours = [difference.significant for difference in differences(pairs, alpha=ALPHA, scatter_alike=True)]
        if ours != list(found(one, other)[IN_USE][kept]):
            raise SystemExit("the test here is not the test of dragstrip.analysis")


#: The test that Dragstrip uses.
IN_USE = "Student"


def table() -> str:
    """False alarms and named functions by server, launches of a side, and test."""
    lines = [
        f"{SPLITS:,} random splits of {LAUNCHES} launches of one server for each cell. *Alarms*: any function differs "
        "between both sides, although they are the same. *Named*: a function that was planted on one side is found.\n",
        "| server | launches of a side | functions tested | alarms, Welch | alarms, Student "
        + "".join(f"| {share:.0%} named, Welch | {share:.0%} named, Student " for share in PLANTED)
        + "|",
        "|-|-:|-:|-:|-:" + "|-:|-:" * len(PLANTED) + "|",
    ]
    for launches in known():
        check(launches)
        for count in SIDES:
            expected = launches.samples.mean(axis=0) * 2 * count >= LEAST_OF_FUNCTION
            cells = [f"{launches.server}", f"{count}", f"{int(expected.sum())}"]
            for share in (0.0, *PLANTED):
                rates = cell(launches, count, share)
                cells += [f"{rates[test]:.1%}" for test in ("Welch", "Student")]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Collects launches, or writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collect", nargs="*", help="the word collect, then servers")
    parser.add_argument("--record", action="store_true", help="write the table into docs/why.md")
    options = parser.parse_args()
    servers: Sequence[str] = options.collect[1:]
    for server in servers:
        line = race_lines.append(LINES, collect(server), CAUSES)
        sys.stdout.write(f"{server}: {len(line['samples'])} launches, {len(line['functions'])} functions\n")
    if servers:
        return
    text = table()
    sys.stdout.write(text + "\n")
    if options.record:
        splice(PAGE, "why-nulls", text)


if __name__ == "__main__":
    main()
