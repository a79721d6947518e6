"""From a matrix to named cells: what each strip has, what can't run where and why, and how long it will take."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from dragstrip.contender.entries import split_label
from dragstrip.errors import BadUsage, DragstripError, MachineLost
from dragstrip.lab.carrier import Carrier, Children
from dragstrip.lab.ledger import CellRow
from dragstrip.lab.matrix import REVISION, Cell, Matrix
from dragstrip.lab.strips import Link
from dragstrip.lab.task import Contestant, Inquiry, Reply, State, Taken, Task
from dragstrip.record import METHOD_VERSION
from dragstrip.revision import difference, project
from dragstrip.revision.repository import Repository
from dragstrip.version import __version__

#: The probability of any wrong verdict in one table.
ALPHA = 0.05

#: What a plan counts with: seconds of qualification for each contender of a slice, and of each round for each.
QUALIFY_S, ROUND_S = 4.0, 1.0

#: Strips that receive their inquiry at the same time.
MOST_AT_ONCE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCell:
    """A cell with its content.

    Args:
        name: the hash of its content. contestants: its contenders.
        able: the strips that can run it. why: the reason if none can.
    """

    name: str
    cell: Cell
    contestants: tuple[Contestant, ...]
    able: frozenset[str]
    why: str = ""

    def row(self, place: int) -> CellRow:
        """The cell as the ledger has it."""
        cell = self.cell
        return CellRow(
            name=self.name, line_up=cell.line_up, workload=cell.workload, load=cell.load.label, revision=cell.revision,
            machine=cell.machine, weight=cell.weight, place=place, why=self.why,
        )  # fmt: skip

    def seconds(self, rounds: int) -> float:
        """A rough forecast of the machine time of one slice."""
        return len(self.contestants) * (QUALIFY_S + ROUND_S * rounds)


@dataclass(slots=True, kw_only=True)
class Planner:
    """Plans a matrix; keeps what strips have replied, so that a matrix that was changed is planned quickly.

    Args:
        folder: the lab's. resources: holds the builds of revisions. say: shows a line about what takes time.
        carrier: reaches strips.
    """

    folder: Path
    resources: ExitStack
    say: Callable[[str], None]
    carrier: Carrier = field(default_factory=Children)
    links: dict[str, Link] = field(default_factory=dict)
    #: Why a strip can't be used now, by its name.
    away: dict[str, str] = field(default_factory=dict)
    _replies: dict[tuple[Link, Inquiry], Reply] = field(default_factory=dict)
    _revisions: dict[str, Contestant | str] = field(default_factory=dict)

    def plan(self, matrix: Matrix) -> list[PlannedCell]:
        """Every cell of the matrix; cells of the same content are one."""
        lab = self.folder.name
        links = {
            strip.name: Link(
                fields=strip,
                folder=matrix.folder,
                work=f"{lab}/{strip.name}"
                if strip.ssh or strip.via or strip.slurm
                else str(self.folder / "strips" / strip.name),
            )
            for strip in matrix.fields.strips
        }
        self.carrier.join(list(links.values()))
        self.links, self.away = links, {}
        cells = matrix.cells()
        replies = self._inquire(matrix, cells)
        planned = [self._planned(matrix, cell, replies, len(cells)) for cell in cells]
        return list({cell.name: cell for cell in reversed(planned)}.values())[::-1]

    def contestant(self, matrix: Matrix, word: str, revision: str) -> Contestant | str:
        """A contender of a cell, or the reason why there is none."""
        label, rest = split_label(word) if "://" not in word else ("", word)
        if rest == REVISION:
            made = self._revision(matrix, revision)
            if isinstance(made, str) or not label:
                return made
            return Contestant(word=f"{label}={made.word.partition('=')[2]}", folder=made.folder, wake_s=made.wake_s)
        if "{port}" in word or "{socket}" in word:
            return Contestant(word=word, folder=str(matrix.folder))
        return Contestant(word=word)

    def _revision(self, matrix: Matrix, name: str) -> Contestant | str:
        if name not in self._revisions:
            try:
                repository = Repository(matrix.folder / matrix.fields.lab.project)
                made = project.load(None, repository.top)
                revision = repository.revision(name)
                entry = difference.entry_of(made, repository, revision, self.resources, set(), self.say)
                self._revisions[name] = Contestant(
                    word=f"{name}={made.fields.serve.command}",
                    folder=str(entry.folder),
                    wake_s=made.fields.serve.wake_s,
                )
            except DragstripError as error:
                self._revisions[name] = str(error)
        return self._revisions[name]

    def _inquire(self, matrix: Matrix, cells: Sequence[Cell]) -> dict[str, tuple[Inquiry, Reply]]:
        """What each strip has of the contenders and workloads of its cells; strips that are away have no entry."""
        inquiries = {name: self._inquiry(matrix, link, cells) for name, link in self.links.items()}
        new = [name for name, inquiry in inquiries.items() if (self.links[name], inquiry) not in self._replies]
        # Strips that are elsewhere reply at the same time; a reply of this machine depends on its working folder.
        with ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="inquiry") as pool:
            elsewhere = [name for name in new if not self.links[name].is_here]
            replies = dict(
                zip(elsewhere, pool.map(lambda name: self._replied(name, inquiries[name]), elsewhere), strict=True)
            )
        replies |= {name: self._replied(name, inquiries[name]) for name in new if self.links[name].is_here}
        for name, reply in replies.items():
            if isinstance(reply, Reply):
                self._replies[self.links[name], inquiries[name]] = reply
            else:
                self.away[name] = reply
        there = [name for name in self.links if name not in self.away]
        known = {name: (inquiries[name], self._replies[self.links[name], inquiries[name]]) for name in there}
        self._refuse_unlike(known)
        return known

    def _inquiry(self, matrix: Matrix, link: Link, cells: Sequence[Cell]) -> Inquiry:
        """The inquiry that a strip receives."""
        own = [cell for cell in cells if cell.machine == link.fields.machine]
        made = (self.contestant(matrix, word, cell.revision) for cell in own for word in cell.contenders)
        return Inquiry(
            contestants=tuple(dict.fromkeys(item for item in made if isinstance(item, Contestant))),
            workloads=tuple(dict.fromkeys(cell.workload for cell in own)),
            fleet=str(matrix.folder / link.fields.fleet) if link.fields.fleet else "",
        )

    def _replied(self, name: str, inquiry: Inquiry) -> Reply | str:
        """A strip's reply, or why it can't be used."""
        link = self.links[name]
        try:
            return self.carrier.missing(link) or self.carrier.inquire(link, inquiry)
        except MachineLost as error:
            return error.why
        except DragstripError as error:
            return str(error)

    def _refuse_unlike(self, replies: dict[str, tuple[Inquiry, Reply]]) -> None:
        """Leaves out strips that differ from the first of their class: their ratios would not be of one machine."""
        first: dict[str, str] = {}
        for name in list(replies):
            machine, reply = self.links[name].fields.machine, replies[name][1]
            known = first.setdefault(machine, name)
            then = replies[known][1]
            facts = dict(then.machine) | {"Dragstrip": then.version}
            now = dict(reply.machine) | {"Dragstrip": reply.version}
            if apart := [key for key in facts if facts[key] != now.get(key)]:
                self.away[name] = (
                    f"its {apart[0]} is {now.get(apart[0])!r} and {known} has {facts[apart[0]]!r}; "
                    "give it a class of its own"
                )
                del replies[name]

    def _planned(
        self, matrix: Matrix, cell: Cell, replies: Mapping[str, tuple[Inquiry, Reply]], count: int
    ) -> PlannedCell:
        made = [self.contestant(matrix, word, cell.revision) for word in cell.contenders]
        contestants = tuple(item for item in made if isinstance(item, Contestant))
        why = next((item for item in made if isinstance(item, str)), "")
        keys: dict[tuple[str, ...], list[str]] = {}
        for name, (inquiry, reply) in replies.items():
            if why or self.links[name].fields.machine != cell.machine:
                continue
            states = [reply.contestants[inquiry.contestants.index(contestant)] for contestant in contestants]
            if _unable(cell, contestants, states):
                continue
            workload = reply.workloads[inquiry.workloads.index(cell.workload)]
            keys.setdefault((*sorted(state.key for state in states), workload), []).append(name)
        content = next(iter(keys), None)
        if content is None:
            why = why or self._why(cell, contestants, replies)
            return PlannedCell(
                name=_name(matrix, cell, (cell.label, *cell.contenders), count), cell=cell, contestants=contestants,
                able=frozenset(), why=why,
            )  # fmt: skip
        return PlannedCell(
            name=_name(matrix, cell, content, count), cell=cell, contestants=contestants, able=frozenset(keys[content])
        )

    def _why(self, cell: Cell, contestants: Sequence[Contestant], replies: Mapping[str, tuple[Inquiry, Reply]]) -> str:
        for name, (inquiry, reply) in replies.items():
            if self.links[name].fields.machine == cell.machine:
                states = [reply.contestants[inquiry.contestants.index(contestant)] for contestant in contestants]
                return _unable(cell, contestants, states)
        away = [
            f"{name}: {self.away[name]}" for name, link in self.links.items() if link.fields.machine == cell.machine
        ]
        return away[0] if away else f"no strip has class {cell.machine!r}"


def _unable(cell: Cell, contestants: Sequence[Contestant], states: Sequence[State]) -> str:
    """Why a strip can't run a cell; "" if it can."""
    for contestant, state in zip(contestants, states, strict=True):
        if state.why:
            return f"{contestant.word.partition('=')[0]}: {state.why}"
        if cell.workload in state.unable:
            return f"{contestant.word} does not support workload {cell.workload}"
    return ""


def _name(matrix: Matrix, cell: Cell, content: Sequence[str], count: int) -> str:
    """The hash that names a cell: of everything that makes its race, but not of seed, machine and attempt."""
    lab = matrix.fields.lab
    parts = [
        *content,
        cell.load.model_dump_json(),
        json.dumps([lab.margin, alpha_of(matrix, count), lab.most_rounds, METHOD_VERSION, __version__, cell.machine]),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def alpha_of(matrix: Matrix, count: int) -> float:
    """The error rate of one cell's table."""
    return ALPHA / count if matrix.fields.lab.whole_lab else ALPHA


def task_of(
    matrix: Matrix,
    planned: PlannedCell,
    link: Link,
    attempt: int,
    rounds: int,
    count: int,
    taken: Sequence[Taken] = (),
) -> Task:
    """What a strip is given for a slice of a cell.

    Raises:
        BadUsage: the strip is elsewhere, and a contender or the workload is a file of this machine.
    """
    cell, fields = planned.cell, link.fields
    if not link.is_here and any(contestant.folder for contestant in planned.contestants):
        raise BadUsage(f"strip {fields.name}: commands and revisions can be raced on this machine only")
    rate = -1.0 if cell.load.rate == "auto" else float(cell.load.rate or 0.0)
    return Task(
        cell=planned.name,
        attempt=attempt,
        contestants=planned.contestants,
        workload=cell.workload,
        rounds=rounds,
        last_round=matrix.fields.lab.most_rounds,
        connections=cell.load.connections,
        rate=rate,
        metric=cell.load.metric,
        margin=matrix.fields.lab.margin,
        alpha=alpha_of(matrix, count),
        server_cores=fields.server_cores,
        engine_cores=fields.engine_cores,
        fleet=str(matrix.folder / fields.fleet) if fields.fleet else "",
        taken=tuple(taken),
    )
