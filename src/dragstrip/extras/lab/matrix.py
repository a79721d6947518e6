"""``matrix.toml``: which line-ups are raced at which workloads and loads, by which revisions, on which machines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from dragstrip.contender.definition import Source, Strict, read
from dragstrip.quantities import seconds

#: The word of a line-up that each revision replaces.
REVISION = "{revision}"

#: A matrix with more cells is most likely a mistake.
MAX_CELLS = 20_000

#: Rounds that a cell may have at most, and at least in each of its slices.
MOST_ROUNDS, SLICE_ROUNDS = 10_000, 5

NAME = r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,59}$"

Words = Annotated[tuple[str, ...], Field(strict=False)]


class MatrixLoad(Strict):
    """How a cell is loaded."""

    connections: int | None = Field(default=None, ge=1, le=100_000, description="open connections")
    rate: float | Literal["auto"] | None = Field(
        default=None, description="requests per second for each contender, or `auto`; none: a closed loop"
    )
    metric: str = Field(default="auto", description="the metric that decides, as `race --metric` has it")

    @property
    def label(self) -> str:
        """How reports name it."""
        parts = [f"{self.connections} connections"] if self.connections else []
        parts += [f"rate {self.rate if isinstance(self.rate, str) else f'{self.rate:g}'}"] if self.rate else []
        parts += [self.metric] if self.metric != "auto" else []
        return ", ".join(parts) or "default load"


class LabFields(Strict):
    """The lab as a whole."""

    name: str = Field(pattern=NAME, description="letters, digits, . _ + -; its folder has this name")
    budget: str | None = Field(
        default=None, description="machine time of all strips together, like `8h`; none: rounds alone limit it"
    )
    first_rounds: int = Field(default=10, ge=1, le=1000, description="every cell has these before any has more")
    most_rounds: int = Field(
        default=80, ge=10, le=MOST_ROUNDS, description="planned last round of each cell, which its intervals pay for"
    )
    slice_rounds: int = Field(
        default=10, ge=SLICE_ROUNDS, le=1000, description="rounds of each further slice of a cell"
    )
    spend: Literal["undecided", "even"] = Field(
        default="undecided", description="which cells have further rounds: those closest to a decision, or all alike"
    )
    margin: float = Field(default=0.01, ge=0, lt=1, description="equivalence margin; 0.01 is 1 %")
    whole_lab: bool = Field(default=False, description="`true`: one error rate of 5 % for all cells together")
    project: str = Field(default=".", min_length=1, description="folder of the repository of the revisions")


class MatrixLineUp(Strict):
    """Contenders that are raced with each other."""

    name: str = Field(pattern=NAME, description="how reports name it")
    contenders: Words = Field(
        min_length=2,
        description="as `race` accepts them; `name=command {port}` is a command of your own, `{revision}` a revision",
    )


class Axes(Strict):
    """What every line-up is raced at: all combinations."""

    workloads: Words = Field(default=("hello",), min_length=1, description="names of workloads, or workload files")
    loads: tuple[MatrixLoad, ...] = Field(
        default=(MatrixLoad(),), min_length=1, strict=False, description="one table for each"
    )
    revisions: Words = Field(default=(), description="branches, tags or commits that replace `{revision}`")
    machines: Words = Field(default=(), description="classes of strips; none: every class")


class MatrixPart(Strict):
    """Cells that match every key that is set."""

    line_ups: Words = Field(default=(), description="names of line-ups")
    workloads: Words = Field(default=(), description="workloads")
    loads: tuple[MatrixLoad, ...] = Field(default=(), strict=False, description="loads, as the axis has them")
    revisions: Words = Field(default=(), description="revisions")
    machines: Words = Field(default=(), description="classes of strips")

    def has(self, cell: Cell) -> bool:
        """Whether a cell matches."""
        return (
            (not self.line_ups or cell.line_up in self.line_ups)
            and (not self.workloads or cell.workload in self.workloads)
            and (not self.loads or cell.load in self.loads)
            and (not self.revisions or cell.revision in self.revisions)
            and (not self.machines or cell.machine in self.machines)
        )


class Priority(MatrixPart):
    """Cells that have further rounds earlier than others."""

    weight: float = Field(gt=0, le=1000, description="above 1: earlier, below 1: later")


class Strip(Strict):
    """One machine, or one fleet, that runs one race at a time."""

    name: str = Field(pattern=NAME, description="how reports name it")
    machine: str = Field(default="here", alias="class", pattern=NAME, description="strips of one class are alike")
    ssh: str = Field(default="", description="as ssh takes it, like `bench@10.0.0.2`; none: this machine")
    via: Words = Field(default=(), description="instead of ssh: words that run a command on the machine")
    slurm: Words = Field(
        default=(), description='options of `sbatch` that choose the machine, like `["--nodelist=n1"]`'
    )
    ssh_options: Words = Field(default=(), description='options of ssh, like `["-F", "ssh_config"]`')
    dragstrip: str = Field(default="dragstrip", min_length=1, description="how Dragstrip is called there")
    fleet: str = Field(default="", description="a fleet.toml; its races are driven from this machine")
    server_cores: str = Field(default="", description="CPU cores for the servers")
    engine_cores: str = Field(default="", description="CPU cores for the load generator")


class MatrixFile(Strict):
    """One matrix.toml."""

    lab: LabFields = Field(description="the lab as a whole")
    line_ups: tuple[MatrixLineUp, ...] = Field(min_length=1, strict=False, description="one table for each")
    axes: Axes = Field(default=Axes(), description="what every line-up is raced at")
    leave_out: tuple[MatrixPart, ...] = Field(default=(), strict=False, description="cells that are not raced")
    priority: tuple[Priority, ...] = Field(default=(), strict=False, description="weights of cells")
    strips: tuple[Strip, ...] = Field(
        default=(Strip(name="here"),), min_length=1, strict=False, description="one table for each machine or fleet"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One race of the matrix, before its content is known.

    Args:
        contenders: words, of which ``{revision}`` is to be replaced.
        revision: "" if no contender is a revision. machine: the class of strips that it runs on.
        weight: of its priority.
    """

    line_up: str
    contenders: tuple[str, ...]
    workload: str
    load: MatrixLoad
    revision: str
    machine: str
    weight: float = 1.0

    @property
    def label(self) -> str:
        """How messages name it."""
        parts = (self.line_up, self.workload, self.load.label, self.revision, self.machine)
        return " · ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix file that was read.

    Args:
        fields: its keys, checked. source: the file itself.
    """

    fields: MatrixFile
    source: Source

    @property
    def folder(self) -> Path:
        """The file's folder, to which paths and commands are relative."""
        return self.source.file.absolute().parent

    @property
    def budget_s(self) -> float | None:
        """Machine time of all strips together, in seconds; None: no limit."""
        return None if self.fields.lab.budget is None else seconds(self.fields.lab.budget)

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of machines that cells run on."""
        return self.fields.axes.machines or tuple(dict.fromkeys(strip.machine for strip in self.fields.strips))

    def cells(self) -> list[Cell]:
        """Every cell, in the order of the file."""
        return [cell for cell in self._all() if not any(part.has(cell) for part in self.fields.leave_out)]

    def _all(self) -> Iterator[Cell]:
        axes = self.fields.axes
        for line_up in self.fields.line_ups:
            varies = any(_is_revision(word) for word in line_up.contenders)
            revisions = axes.revisions if varies else ("",)
            for workload, load, revision, machine in product(axes.workloads, axes.loads, revisions, self.classes):
                cell = Cell(
                    line_up=line_up.name,
                    contenders=line_up.contenders,
                    workload=workload,
                    load=load,
                    revision=revision,
                    machine=machine,
                )
                yield self._weighted(cell)

    def _weighted(self, cell: Cell) -> Cell:
        weight = 1.0
        for part in self.fields.priority:
            weight *= part.weight if part.has(cell) else 1.0
        return Cell(**{name: getattr(cell, name) for name in Cell.__slots__} | {"weight": weight})


def _is_revision(word: str) -> bool:
    return word.partition("=")[2] == REVISION or word == REVISION


def load(file: Path) -> Matrix:
    """Reads a matrix.

    Raises:
        BadDefinition: file, line, field, the value and what would be valid.
    """
    fields, source = read(file, MatrixFile)
    matrix = Matrix(fields, source)
    if matrix.fields.lab.budget is not None and not matrix.budget_s:
        raise source.bad(("lab", "budget"), f"given {fields.lab.budget!r}", "give a duration, like 8h or 30m")
    _refuse_doubles(source, "line_ups", [line_up.name for line_up in fields.line_ups])
    _refuse_doubles(source, "strips", [strip.name for strip in fields.strips])
    _refuse_unknown(matrix, source)
    if fields.lab.first_rounds > fields.lab.most_rounds:
        problem = f"given {fields.lab.first_rounds}, above most_rounds = {fields.lab.most_rounds}"
        raise source.bad(("lab", "first_rounds"), problem, "give at most most_rounds")
    count = len(matrix.cells())
    if not 1 <= count <= MAX_CELLS:
        raise source.bad(("axes",), f"they make {count:,} cells", f"make 1 to {MAX_CELLS:,}")
    return matrix


def _refuse_doubles(source: Source, table: str, names: Sequence[str]) -> None:
    for at, name in enumerate(names):
        if name in names[:at]:
            raise source.bad((table, at, "name"), f"{name!r} is given twice", "give each its own name")


def _refuse_unknown(matrix: Matrix, source: Source) -> None:
    """Refuses strips that are reached in two ways, classes without a strip, and revisions that nothing uses."""
    fields = matrix.fields
    for at, strip in enumerate(fields.strips):
        ways = [way for way in ("ssh", "via", "slurm", "fleet") if getattr(strip, way)]
        if len(ways) > 1:
            raise source.bad(
                ("strips", at, ways[1]), f"given in addition to {ways[0]}", "give one of ssh, via, slurm, fleet"
            )
        if re.match(r"-|.*[\s\x00-\x1f]", strip.ssh):
            raise source.bad(("strips", at, "ssh"), f"given {strip.ssh!r}", "give a host, like bench@10.0.0.2")
    having = {strip.machine for strip in fields.strips}
    for at, machine in enumerate(fields.axes.machines):
        if machine not in having:
            raise source.bad(
                ("axes", "machines", at), f"no strip has class {machine!r}", "give one of the strips' classes"
            )
    for at, line_up in enumerate(fields.line_ups):
        if any(map(_is_revision, line_up.contenders)) and not fields.axes.revisions:
            raise source.bad(("line_ups", at, "contenders"), f"{REVISION} is given", "list revisions below [axes]")
    _refuse_parts(source, fields)


def _refuse_parts(source: Source, fields: MatrixFile) -> None:
    """Refuses parts that name what the axes don't have: they would match nothing."""
    known = {
        "line_ups": [line_up.name for line_up in fields.line_ups],
        "workloads": list(fields.axes.workloads),
        "revisions": list(fields.axes.revisions),
        "machines": [strip.machine for strip in fields.strips],
    }
    for table, parts in (("leave_out", fields.leave_out), ("priority", fields.priority)):
        for at, part in enumerate(parts):
            for key, valid in known.items():
                for name in getattr(part, key):
                    if name not in valid:
                        raise source.bad((table, at, key), f"given {name!r}", f"give one of {', '.join(valid)}")
            for given in part.loads:
                if given not in fields.axes.loads:
                    raise source.bad(
                        (table, at, "loads"), f"given {given.label}", "give a load of the axes, with all keys"
                    )
