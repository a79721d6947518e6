"""What an import of a suite's entries found: which became definitions, and why others did not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from dragstrip.extras.suites.suite_entries import Cause, Engine, LeftOut
from dragstrip.extras.suites.suites import FoundEntries, import_all
from dragstrip.report.figures import visible
from dragstrip.workload import names as workload_names

#: The reason why an entry or a test is left out; `{}` is its detail.
_REASONS = {
    Cause.UNREADABLE: "can't be read: {}",
    Cause.BROKEN: "its suite marks it as broken",
    Cause.DISABLED: "its suite has disabled it",
    Cause.NO_TESTS: "it has no test",
    Cause.NO_DOCKERFILE: "its file {} is missing",
    Cause.WHOLE_CHECKOUT: "its build gets the folder {} with all that is in it; import that folder if it is a checkout",
    Cause.BUILD_SCRIPT: "its {} builds in a way that Dragstrip does not know",
    Cause.DATABASE: "it needs {}; Dragstrip has PostgreSQL alone",
    Cause.PROTOCOL: "Dragstrip does not speak {}",
    Cause.SEVERAL_CONTAINERS: "it needs several containers ({}); Dragstrip starts one",
    Cause.UNKNOWN_TESTS: "unknown tests: {}",
    Cause.NO_WORKLOAD: "Dragstrip does not have {}",
    Cause.NAME: "its name is not valid; use small letters, digits and . _ + -",
    Cause.TWICE: "another entry has this name, in {}",
}

#: Imported names that are listed with their workloads; of more entries, only the names are listed.
_WITH_WORKLOADS = 12


def imported(folder: Path, engine: Engine) -> tuple[int, list[str]]:
    """Imports the entries of a suite's folder: how many became definitions, and what is said of all.

    Raises:
        BadUsage: the folder has no entry of a suite, or a definition can't be written.
    """
    found = import_all(folder, workload_names(), engine)
    return len(found.entries), list(lines(found))


def reason(left_out: LeftOut, *, entry: bool = True) -> str:
    """Why an entry is left out, or a test of an imported entry."""
    if entry and left_out.cause is Cause.NO_WORKLOAD:
        return "Dragstrip does not have any of its workloads"
    return _REASONS[left_out.cause].format(visible(left_out.detail))


def lines(found: FoundEntries) -> Iterator[str]:
    """What was imported, what was left out of it, and each refusal by name."""
    total = len(found.entries) + len(found.refused)
    yield f"{len(found.entries):,} of {total:,} {'entry is' if total == 1 else 'entries are'} imported:"
    if len(found.entries) <= _WITH_WORKLOADS:
        yield from (f"  {visible(entry.name)}: {', '.join(entry.served)}" for entry in found.entries)
    else:
        yield f"  {visible(', '.join(entry.name for entry in found.entries))}"
    yield from _grouped(
        "tests left out of them", [one for entry in found.entries for one in entry.ignored], entries=False
    )
    yield from _grouped("not imported", found.refused, entries=True)


def _grouped(title: str, parts: Sequence[LeftOut], *, entries: bool) -> Iterator[str]:
    groups: dict[str, list[str]] = {}
    for part in parts:
        groups.setdefault(reason(part, entry=entries), []).append(part.name)
    if groups:
        yield f"{title}:"
    for why, names in sorted(groups.items(), key=lambda group: -len(group[1])):
        yield f"  {why} ({len(names):,}): {visible(', '.join(names))}"
