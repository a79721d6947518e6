"""What changed between the extra launches of two races: sentences, tables for the terminal, Markdown and JSON."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from dragstrip.analysis.causes import CausesBetween, causes_between
from dragstrip.record import Race
from dragstrip.report.comparison import cell
from dragstrip.report.race import causes
from dragstrip.report.race.layer_file import layers
from dragstrip.store.json_values import JsonObject


def of_races(old: Race, new: Race, *, reference: str | None) -> CausesBetween | None:
    """What changed for each contender with extra launches in both races; None if no contender has.

    Args:
        old, new: of one column. reference: a contender that did not change.
    """
    return causes_between(old, new, layers(), reference=reference)


def machine(found: CausesBetween) -> str:
    """Whether the machine itself changed between the launches of both races."""
    if found.reference is None or found.drift is None:
        return (
            "The races' extra launches ran at different times, and no contender that stayed the same has some in both. "
            "So the machine's own change is in each difference."
        )
    if found.is_other_machine:
        return (
            f"The machine changed: {found.reference}, which did not change, takes {causes.more(found.drift)} CPU time "
            "per response now. So a difference may be the machine's, and functions are not compared."
        )
    return f"The machine: no difference in CPU time was found for {found.reference}, which did not change."


def lines(found: CausesBetween) -> list[RenderableType]:
    """For the terminal."""
    tables = [compared for table in found.tables for compared in causes.compared_in(table)]
    return [Text(), Text(machine(found)), *causes.lines_of(tables)]


def markdown(found: CausesBetween | None) -> str:
    """Sentences, and rows that differ; empty without extra launches in both races."""
    if found is None:
        return ""
    tables = [compared for table in found.tables for compared in causes.compared_in(table)]
    return "\n".join([*causes.markdown_of(tables), "", cell(machine(found))]) + "\n"


def as_json(found: CausesBetween | None) -> JsonObject | None:
    """A table of causes for each contender; None without extra launches in both races."""
    if found is None:
        return None
    return {
        "reference": found.reference,
        "drift": causes.tested_json(found.drift) if found.drift else None,
        "tables": [causes.table_json(table) for table in found.tables],
    }
