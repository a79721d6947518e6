"""From a matrix to named cells: what each strip has, what can't run where and why, and how long it will take."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from dragstrip import __version__
from dragstrip.contender.entries import split_label
from dragstrip.errors import BadUsage, DragstripError, MachineLost
from dragstrip.extras.lab.carrier import Carrier, Children
from dragstrip.extras.lab.ledger import CellRow
from dragstrip.extras.lab.matrix import REVISION, Cell, Matrix
from dragstrip.extras.lab.strips import REPLY_S, StripLink
from dragstrip.extras.lab.task import Contestant, Inquiry, State, Taken, Task, TaskReply
from dragstrip.record import METHOD_VERSION
from dragstrip.revision import difference, project
from dragstrip.revision.repository import Repository

#: The probability of any wrong verdict in one table.
ALPHA = 0.05

#: What a plan counts with: seconds of qualification for each contender of a slice, and of each round for each.
QUALIFY_S, ROUND_S = 4.0, 1.0

#: Seconds before a strip that was away is sent a further inquiry.
AGAIN_S = 30.0

#: Threads that wait for strips.
MOST_STRIPS = 256


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


@dataclass(frozen=True, slots=True)
class _Ask:
    """An inquiry that was sent; at_s: when (monotonic seconds)."""

    reply: Future[TaskReply]
    at_s: float


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
    links: dict[str, StripLink] = field(default_factory=dict)
    #: Why a strip can't be used now, by its name.
    away: dict[str, str] = field(default_factory=dict)
    #: Replies that the last plan has not waited for, by the strip's name.
    unheard: Mapping[str, Future[TaskReply]] = field(default_factory=dict)
    _asks: dict[tuple[StripLink, Inquiry], _Ask] = field(default_factory=dict)
    _waiting: Sequence[Future[TaskReply]] = ()
    _pool: ThreadPoolExecutor | None = None
    _revisions: dict[str, Contestant | str] = field(default_factory=dict)

    def plan(self, matrix: Matrix, patience_s: float = REPLY_S) -> list[PlannedCell]:
        """Every cell of the matrix; cells of the same content are one.

        Args:
            patience_s: seconds for strips to reply; later ones are away until the next plan.
        """
        lab = self.folder.name
        links = {
            strip.name: StripLink(
                fields=strip,
                folder=matrix.folder,
                work=f"{lab}/{strip.name}"
                if strip.ssh or strip.via or strip.slurm
                else str(self.folder / "strips" / strip.name),
            )
            for strip in matrix.fields.strips
        }
        self.carrier.join(list(links.values()))
        former, self.links, self.away = self.away, links, {}
        cells = matrix.cells()
        replies = self._inquire(matrix, cells, former, patience_s)
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

    def _inquire(
        self, matrix: Matrix, cells: Sequence[Cell], former: Mapping[str, str], patience_s: float
    ) -> dict[str, tuple[Inquiry, TaskReply]]:
        """What each strip has of the contenders and workloads of its cells; strips that are away have no entry."""
        asks = dict[str, tuple[Inquiry, _Ask]]()
        for name, link in self.links.items():
            inquiry = self._inquiry(matrix, link, cells)
            known = self._asks.get((link, inquiry))
            replied = known and known.reply.done() and not known.reply.exception()
            if not replied and (why := self.carrier.missing(link)):
                self.away[name] = why
            else:
                asks[name] = inquiry, self._ask(link, inquiry)
        wait([ask.reply for _, ask in asks.values()], timeout=patience_s)
        self.unheard = {name: ask.reply for name, (_, ask) in asks.items() if not ask.reply.done()}
        replies: dict[str, tuple[Inquiry, TaskReply]] = {}
        for name, (inquiry, ask) in asks.items():
            try:
                if name in self.unheard:
                    raise MachineLost(name, former.get(name, "it has not replied yet"))
                replies[name] = inquiry, ask.reply.result()
            except MachineLost as error:
                self.away[name] = error.why
            except DragstripError as error:
                self.away[name] = str(error)
        self._refuse_unlike(replies)
        return replies

    def _inquiry(self, matrix: Matrix, link: StripLink, cells: Sequence[Cell]) -> Inquiry:
        """The inquiry that a strip receives."""
        own = [cell for cell in cells if cell.machine == link.fields.machine]
        made = (self.contestant(matrix, word, cell.revision) for cell in own for word in cell.contenders)
        return Inquiry(
            contestants=tuple(dict.fromkeys(item for item in made if isinstance(item, Contestant))),
            workloads=tuple(dict.fromkeys(cell.workload for cell in own)),
            fleet=str(matrix.folder / link.fields.fleet) if link.fields.fleet else "",
        )

    def _ask(self, link: StripLink, inquiry: Inquiry) -> _Ask:
        """Asks a strip, unless it has replied, or has failed just now."""
        known = self._asks.get((link, inquiry))
        if known and (not known.reply.done() or not known.reply.exception() or known.at_s + AGAIN_S > time.monotonic()):
            return known
        made = self._asks[link, inquiry] = _Ask(self.ask(link, inquiry), time.monotonic())
        return made

    def ask(self, link: StripLink, inquiry: Inquiry) -> Future[TaskReply]:
        """A strip's reply: at once if the strip is here, because that changes this process's folder for a moment."""
        if not link.is_here:
            if self._pool is None:
                self._pool = self.resources.enter_context(ThreadPoolExecutor(MOST_STRIPS, thread_name_prefix="ask"))
                self.resources.callback(self._end)
            reply = self._pool.submit(self.carrier.inquire, link, inquiry)
            self._waiting = [*(other for other in self._waiting if not other.done()), reply]
            return reply
        reply = Future[TaskReply]()
        try:
            reply.set_result(self.carrier.inquire(link, inquiry))
        except DragstripError as error:
            reply.set_exception(error)
        return reply

    def _end(self) -> None:
        """Ends what still waits for replies."""
        if not all(reply.done() for reply in self._waiting):
            self.carrier.interrupt()

    def _refuse_unlike(self, replies: dict[str, tuple[Inquiry, TaskReply]]) -> None:
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
        self, matrix: Matrix, cell: Cell, replies: Mapping[str, tuple[Inquiry, TaskReply]], count: int
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

    def _why(
        self, cell: Cell, contestants: Sequence[Contestant], replies: Mapping[str, tuple[Inquiry, TaskReply]]
    ) -> str:
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
    link: StripLink,
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
