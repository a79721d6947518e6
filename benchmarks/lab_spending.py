"""Share of cells decided: python benchmarks/lab_spending.py [--cells 300] [--seeds 10] [--record]

Two-contender cells with drawn ratios and noise, no servers. Each line has one allowance of rounds per cell: every cell
for itself with that last round, all cells alike up to round 80, and the cells closest to a decision up to round 80.
Choice and intervals are the product's own.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
from pages import ROOT, circumstances, splice

from dragstrip.analysis.interval import decide
from dragstrip.analysis.pairs import Rules, _Draft
from dragstrip.lab.choice import Progress, Spending, next_cell
from dragstrip.lab.ledger import CellRow, Stored
from dragstrip.metrics import PairVerdict

MARGIN, ALPHA, FIRST, MOST, STEP = 0.01, 0.05, 10, 80, 10


class Cells:
    """Cells with true log ratios and noise; rounds are drawn once, so that all ways see the same ones."""

    def __init__(self, count: int, seed: int) -> None:
        drawn = np.random.default_rng(seed)
        equal = drawn.random(count) < 0.15
        self.true = np.where(equal, 0.0, drawn.normal(0, 0.06, count))
        noise = 0.025 * np.exp(drawn.normal(0, 0.5, count))
        self.rounds = self.true[:, None] + noise[:, None] * drawn.standard_normal((count, MOST))

    def look(self, at: int, rounds: int, planned: int) -> tuple[PairVerdict, int | None]:
        """Verdict and forecast of a cell at a round."""
        rules = Rules("throughput", MARGIN, ALPHA, planned, rounds >= planned, False)
        draft = replace(_Draft.of(self.rounds[at, :rounds]), freedom=rounds - 1.0)
        verdict, _ = decide(draft.mean, draft.half(rules), MARGIN)
        return verdict, None if verdict is not PairVerdict.UNDECIDED else draft.more_rounds(rules)

    def wrong(self, at: int, verdict: PairVerdict) -> bool:
        """Whether a verdict contradicts the truth."""
        true = self.true[at]
        return (
            (verdict is PairVerdict.FASTER and true <= 0)
            or (verdict is PairVerdict.SLOWER and true >= 0)
            or (verdict is PairVerdict.SAME and abs(true) > np.log1p(MARGIN))
        )


def alone(cells: Cells, allowance: int) -> tuple[float, int, float]:
    """Every cell for itself: it looks at every round up to its allowance. Share decided, wrong calls, rounds used."""
    decided = wrong = used = 0
    for at in range(len(cells.true)):
        for rounds in range(FIRST, max(allowance, FIRST) + 1):
            verdict, _ = cells.look(at, rounds, max(allowance, FIRST))
            if verdict is not PairVerdict.UNDECIDED:
                break
        used += rounds
        decided += verdict is not PairVerdict.UNDECIDED
        wrong += cells.wrong(at, verdict)
    count = len(cells.true)
    return decided / count, wrong, used / (allowance * count)


def together(cells: Cells, allowance: int, *, even: bool) -> tuple[float, int, float]:
    """One strip that spends all rounds together, as ``lab run`` does; the same three numbers."""
    count = len(cells.true)
    rows = [
        CellRow(name=str(at), line_up="", workload="", load="", revision="", machine="", weight=1.0, place=at)
        for at in range(count)
    ]
    able = {row.name: frozenset({"s"}) for row in rows}
    progress = {row.name: Progress.WAITING for row in rows}
    stored: dict[str, Stored] = {}
    verdicts: dict[str, PairVerdict] = {}
    spent = 0
    while spent < allowance * count:
        found = next_cell("s", rows, able, progress, {}, stored, Spending(FIRST, MOST, STEP, even))
        if found is None:
            break
        name, aim = found
        before = stored[name].rounds if name in stored else 0
        for rounds in range(before + 1, aim + 1):  # the race itself ends when it is decided
            spent += 1
            verdict, more = cells.look(int(name), rounds, MOST) if rounds >= FIRST else (PairVerdict.UNDECIDED, None)
            if verdict is not PairVerdict.UNDECIDED:
                break
        decided = verdict is not PairVerdict.UNDECIDED
        progress[name], verdicts[name] = Progress.STORED, verdict
        stored[name] = Stored(
            cell=name, race=name, strip="s", rounds=rounds, decided=decided, over=rounds >= MOST, void=False, more=more
        )
    wrong = sum(cells.wrong(int(name), verdict) for name, verdict in verdicts.items())
    return sum(one.decided for one in stored.values()) / count, wrong, spent / (allowance * count)


WAYS = ("each cell for itself", "all cells alike", "closest to a decision")


def table(cells: int, seeds: int) -> str:
    """Means over seeds, as Markdown."""
    lines = [f"| rounds for each cell | {' | '.join(WAYS)} |", "|-:|-|-|-|"]
    for allowance in (12, 20, 40):
        results = []
        for seed in range(seeds):
            drawn = Cells(cells, seed)
            ways = (alone(drawn, allowance), together(drawn, allowance, even=True))
            results.append((*ways, together(drawn, allowance, even=False)))
        mean = np.array(results, dtype=float).mean(axis=0)
        fields = [f"{share:.2f} ({wrong:.1f}; {used:.2f})" for share, wrong, used in mean]
        lines.append(f"| {allowance} | {' | '.join(fields)} |")
    said = (
        f"Share of {cells} cells decided, means over {seeds} seeds; in parentheses the cells with an incorrect verdict "
        f"and the share of the allowed rounds that was used ({circumstances()})."
    )
    return "\n".join([said, "", *lines])


def main() -> None:
    """Prints the table, and writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--record", action="store_true", help="write the table into docs/lab.md")
    asked = parser.parse_args()
    text = table(asked.cells, asked.seeds)
    print(text)
    if asked.record:
        splice(ROOT / "docs" / "lab.md", "lab-spending", text)


if __name__ == "__main__":
    main()
