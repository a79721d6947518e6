"""Races of known truth at every kind of race: the same server twice, and with 3 % and 10 % more CPU per request.

`benchmarks/calibration.py --every-kind` runs them, each kind in turn, and writes the table into evidence/verdicts.md.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from calibration_page import races, share
from stamps import ROOT

Line = dict[str, Any]

CONTENDERS = ROOT / "benchmarks" / "contenders"
SHIPPED = ROOT / "src" / "dragstrip" / "data" / "contenders"

#: Files of shipped contenders that `planted-nginx` renders.
SHARED = (
    "nginx-lua/workloads.conf", "nginx-lua/items.lua", "nginx-lua/database.conf", "nginx-static/static.conf",
    "lua/database.lua", "nginx-return/listen.conf",
)  # fmt: skip

#: Both servers of a race burn so much, one of them the injected share more: reading its clocks costs CPU at all.
BURN = 0.05

#: Injected shares; 0 for the same server twice.
SHARES = (0.0, 0.03, 0.10)

#: Of any kind, at most this share of its races of the same server twice may be wrong.
MOST_WRONG = 0.15


@dataclass(frozen=True)
class Case:
    """One kind of race.

    Args:
        server: the contender, which has the parameter ``burn``.
        words: the race's options.
        columns: how many columns it has; each needs its own rounds.
        same, injected: races of the same server twice, and of each injected share.
        needs: programs without which it is left out.
    """

    name: str
    server: str = "planted-nginx"
    words: tuple[str, ...] = ()
    columns: int = 1
    budget_s: int = 15
    needs: tuple[str, ...] = ("nginx",)
    same: int = 20
    injected: int = 5

    def races(self, planted: float) -> int:
        """How many races there are of an injected share."""
        return self.injected if planted else self.same

    def arguments(self, planted: float, contenders: Path) -> tuple[str, ...]:
        """A race's arguments."""
        slow = (1 + BURN) * (1 + planted) - 1
        both = (f"base={self.server}:burn={BURN:.6g}", f"slow={self.server}:burn={slow:.6g}")
        return (*both, "--contenders", str(contenders), *self.words)


#: Node, whose launches differ most.
NODE = Case("JIT server", server="planted-node", budget_s=30, needs=("node",), same=60, injected=10)

#: A server that waits is not at its limit, so that CPU time decides there.
CASES = (
    Case("hello"),
    Case("json", words=("--workload", "json")),
    Case("post", words=("--workload", "post")),
    Case("static", words=("--workload", "static")),
    Case("delay, by CPU", words=("--workload", "delay", "--metric", "cpu"), budget_s=60),
    Case("db, by CPU", words=("--workload", "db", "--metric", "cpu"), budget_s=20, needs=("nginx", "psql")),
    Case("pipelined", words=("--workload", "pipelined")),
    Case("HTTP/2", words=("--http", "2")),
    Case("TLS", words=("--tls",)),
    Case("--efficiency", words=("--efficiency",), columns=2, budget_s=30),
    Case("hello and json", words=("--workload", "hello,json"), columns=2, budget_s=30),
    Case("native server", server="planted", needs=("planted",)),
    NODE,
    Case("interpreted server", server="planted-python", needs=("/usr/bin/python3",)),
)


def name_of(case: Case, planted: float) -> str:
    """The name of a kind of race in the file of races."""
    return f"{case.name}: {f'injected {planted:.0%}' if planted else 'same'}"


def prepared(folder: Path) -> Path:
    """A folder with the contenders, complete."""
    shutil.copytree(CONTENDERS, folder)
    for name in SHARED:
        shutil.copy2(SHIPPED / name, folder / "planted-nginx")
    return folder


def table(lines: Sequence[Line]) -> str:
    """The table by kind, and a sentence about all of them."""
    good = races(lines)
    rows = [
        "| kind of race | same server twice: wrong | 3 % found | 10 % found | wrong direction | void | s, median |",
        "|-|-|-|-|-:|-:|-:|",
    ]
    for case in CASES:
        if mine := [line for line in good if line["kind"].rpartition(":")[0] == case.name]:
            rows.append(_row(case.name, mine))
    if not good:
        return "No race yet."
    rows.append(_row("**all**", good))
    many = []
    for case in CASES:
        wrong = [line["wrong"] for line in good if line["kind"] == name_of(case, 0.0) and not line["void"]]
        if sum(wrong) > MOST_WRONG * len(wrong):
            many.append(case.name)
    over = f"More than {MOST_WRONG:.0%} of the same server twice were wrong at: {', '.join(many)}." if many else ""
    text = (
        f"{len(good)} races. A race with several columns is wrong if any column is, and found if all columns "
        f"find the difference. {over}"
    )
    return "\n".join([text.strip(), "", *rows])


def _row(name: str, mine: Sequence[Line]) -> str:
    valid = [line for line in mine if not line["void"]]
    same, *planted = ([line for line in valid if line["truth"] == 1 + injected] for injected in SHARES)
    cells = [name, share(sum(line["wrong"] for line in same), len(same))]
    cells += [share(sum(line["right"] for line in of), len(of)) for of in planted]
    cells += [str(sum(line["wrong"] for of in planted for line in of)), str(len(mine) - len(valid))]
    cells.append(f"{median(line['took_s'] for line in mine):.0f}")
    return f"| {' | '.join(cells)} |"
