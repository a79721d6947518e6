"""Writes tables from the sources: `make docs`, or --check to compare.

The tables of docs/CONTENDERS.md, docs/diff.md, docs/lab.md and docs/workloads.md come from the models that read the
files, the tables of docs/other-tools.md from the command line's own table of other tools' flags. The options of
``dragstrip.race`` in docs/commands.md come from its signature and from the command's help.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from dragstrip import api
from dragstrip.commands.main import cli
from dragstrip.contender.entries import LineUp, shipped
from dragstrip.contender.fields import BUILDING, MEANING, SETTING, ContenderFile
from dragstrip.extras.compat import flags
from dragstrip.extras.lab.matrix import MatrixFile
from dragstrip.racing.request import Request
from dragstrip.revision.project import ProjectFile
from dragstrip.workload import MixFile, WorkloadFile, load, names
from dragstrip.workload.fields import MixedRequest, RequestFields

HERE = Path(__file__).parent

_PLAIN = {str: "text", int: "whole number", float: "number", bool: "true or false"}


def kind(annotation: Any) -> str:
    """A type as a person says it: "list of texts", "table", "number"."""
    origin, parts = get_origin(annotation), [part for part in get_args(annotation) if part not in (type(None), ...)]
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if origin is tuple:
        return "two numbers" if parts == [int, int] else f"list of {many(kind(parts[0]))}"
    if origin is dict:
        return f"table of {many(kind(parts[1]))}"
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(kind(part) for part in parts))
    if hasattr(annotation, "__metadata__"):
        return kind(parts[0])
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "table"
    return " or ".join(f"`{part}`" for part in parts)


def many(one: str) -> str:
    """A kind's plural."""
    known = {"two numbers": "pairs of numbers"}
    if " or " in one:
        return "plain values"
    return known.get(one, one.replace(" of", "s of", 1) if " of " in one else f"{one}s")


def inner(annotation: Any) -> type[BaseModel] | None:
    """The model within an annotation, if one is."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := inner(part))), None)


def usual(field: FieldInfo) -> str:
    """What stands where the file has nothing."""
    if field.is_required():
        return "**needed**"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:g}"
    return f"`{value}`" if isinstance(value, str) and value else ""


def tables(model: type[BaseModel], path: str = "", told: set[type[BaseModel]] | None = None) -> list[str]:
    """A model's keys as one table, then each table within it that was not ``told`` before."""
    told = set() if told is None else told
    lines = [f"`[{path}]`: {(model.__doc__ or '').strip().replace('``', '`')}", ""] if path else []
    lines += ["| key | type | default | |", "|-|-|-|-|"]
    below = []
    for name, field in model.model_fields.items():
        key = field.alias or name
        lines.append(f"| `{key}` | {kind(field.annotation)} | {usual(field)} | {field.description or ''} |")
        if (found := inner(field.annotation)) and found not in told:
            told.add(found)
            below += ["", *tables(found, f"{path}.{key}" if path else key, told)]
    return [*lines, *below]


def placeholders() -> list[str]:
    """The names in braces and where each may stand."""
    lines = ["| name | meaning | in |", "|-|-|-|"]
    for name, meaning in MEANING.items():
        where = (
            "`needs`, `version`, `build`, `start`"
            if name in SETTING
            else "`build`, `start`"
            if name in BUILDING
            else "`start`"
        )
        lines.append(f"| `{{{name}}}` | {meaning} | {where} |")
    return [*lines, "| each parameter | its value | `start`, `parity` |"]


def mix_tables() -> list[str]:
    """What a file of several requests has that one of a single request has not."""
    request = MixFile.model_fields["request"]
    lines = ["| key | type | default | |", "|-|-|-|-|"]
    lines.append(f"| `request` | {kind(request.annotation)} | {usual(request)} | {request.description} |")
    own = {name: field for name, field in MixedRequest.model_fields.items() if name not in RequestFields.model_fields}
    lines += ["", f"`[[request]]`: {(MixedRequest.__doc__ or '').strip()} In addition to the keys of `[request]`:", ""]
    lines += ["| key | type | default | |", "|-|-|-|-|"]
    lines += [
        f"| `{name}` | {kind(field.annotation)} | {usual(field)} | {field.description or ''} |"
        for name, field in own.items()
    ]
    return lines


def served() -> list[str]:
    """Which shipped contender serves which workload that any serves; below, why the others do not."""
    by_any = {workload for one in shipped().values() for workload in one.fields.workloads}
    asked, lines = [name for name in names() if load(name).served_as == name and name in by_any], []
    lines += [f"| | {' | '.join(f'`{name}`' for name in asked)} |", f"|-|{'-|' * len(asked)}"]
    whys: dict[tuple[str, ...], list[str]] = {}
    for name, one in shipped().items():
        form = {workload: "own form" for workload, how in one.fields.workload.items() if how.form == "own"}
        cells = [form.get(workload, "yes") if workload in one.fields.workloads else "–" for workload in asked]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
        for why in dict.fromkeys(one.fields.unable.values()):
            whys.setdefault((why, *(key for key, own in one.fields.unable.items() if own == why)), []).append(name)
    lines += ["", "*Own form*: its JSON has other spacing, or another order of keys than the workload's.", ""]
    lines += ["| | does not serve | reason |", "|-|-|-|"]
    for (why, *missing), who in whys.items():
        cells = [", ".join(f"`{name}`" for name in group) for group in (who, missing)]
        lines.append(f"| {' | '.join(cells)} | {why} |")
    return lines


def releases() -> list[str]:
    """What packaging/releases.py found in fresh roots: versions by release, and why others are missing."""
    known = json.loads((HERE / "releases.json").read_text())
    heads = [f"{name} ({one['date']})" for name, one in known.items()]
    lines = [f"| | {' | '.join(heads)} |", f"|-|{'-|' * len(known)}"]
    for name in shipped():
        cells = [one["contenders"].get(name, {"version": "", "reason": "not tried"}) for one in known.values()]
        lines.append(f"| `{name}` | {' | '.join(_installed(cell) for cell in cells)} |")
    counts = []
    for name, one in known.items():
        cells = [cell for cell in one["contenders"].values() if cell["version"]]
        counts.append(f"{len(cells)} install on {name}, and {sum(not cell['reason'] for cell in cells)} were verified")
    return [*lines, "", f"Of {len(shipped())} contenders, {'; '.join(counts)}."]


def _installed(cell: dict[str, str]) -> str:
    reason = cell["reason"].replace("\t", " ").replace("|", "or")
    return ", ".join(filter(None, (cell["version"] or "–", reason)))


#: Options of ``dragstrip.race`` whose meaning isn't the help of the option of the same name.
IN_PYTHON = {
    "http": "HTTP version",
    "streams": "HTTP/2: concurrent requests per connection, if all contenders have `:http=2`",
    "metric": "`throughput`, `cpu`, `latency-p99` and others; the prefix `typical-` judges by medians",
    "timeout_s": "time limit for one response, in seconds",
    "budget_s": "seconds for all rounds",
    "alpha": "probability of any wrong verdict in the whole table",
    "wait": "how the engine waits: `sleep` or `poll`",
    "explicit": "a contender that is not ready is an error; False: it is left out",
    "pause_after": "pause the race after this many rounds of each column",
    "fresh_scrutiny": "repeat scrutiny of contenders that have not changed",
    "workload": 'a name, a file or a path; several with commas: `result.columns["multiply"]` is the result of one. '
    'None is "hello", or "/" if all contenders are your own',
    "rate_per_s": "open loop: requests per second for each contender, or `auto`; None: closed loop",
}


def python_options() -> list[str]:
    """The options of ``dragstrip.race``: names and defaults by its signature, meanings by the command's help."""
    command = cli.get_command(click.Context(cli), "race")
    assert command is not None
    known = {option.name: option.help or "" for option in command.params if isinstance(option, click.Option)}
    defaults = {field.name: field.default for field in dataclasses.fields(Request)}
    defaults |= {"workload": None}
    lines = ["| option | default | meaning |", "|-|-|-|"]
    for name in [*get_type_hints(api.PlanOptions), "workload"]:
        meaning, _, usual = known.get(name, "").partition(" [default: ")
        default = defaults[name]
        shown = f'"{default}"' if isinstance(default, str) else usual.rstrip("]") if default is None else str(default)
        lines.append(f"| `{name}` | {shown or None} | {_lower(IN_PYTHON.get(name) or meaning.rstrip('.'))} |")
    return lines


def _lower(text: str) -> str:
    """A text without its first capital, unless that begins an abbreviation."""
    return text if text[1:2].isupper() else text[0].lower() + text[1:]


#: By page, what stands between its markers.
PAGES: dict[str, dict[str, Callable[[], list[str]]]] = {
    "CONTENDERS.md": {
        "served": served,
        "releases": releases,
        "contender": lambda: tables(ContenderFile),
        "names": placeholders,
        "line-up": lambda: tables(LineUp),
    },
    "commands.md": {"python": python_options},
    "diff.md": {"project": lambda: tables(ProjectFile)},
    "lab.md": {"matrix": lambda: tables(MatrixFile)},
    "workloads.md": {"workload": lambda: tables(WorkloadFile), "mix": mix_tables},
    "other-tools.md": {"flags": flags.tables},
}


def written(page: str, text: str) -> str:
    """The page with what stands between its markers replaced."""
    for name, make in PAGES[page].items():
        lines = make()
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = "".join((before, begin, "\n\n", "\n".join(lines), "\n\n", end, after))
    return text


def main() -> None:
    """Writes the pages; with --check exits 1 instead where one is out of date."""
    for name in PAGES:
        page = HERE / name
        before = page.read_text(encoding="utf-8")
        after = written(name, before)
        if "--check" not in sys.argv[1:]:
            page.write_text(after, encoding="utf-8")
        elif before != after:
            sys.exit(f"{page} is out of date: `make docs` writes it")


if __name__ == "__main__":
    main()
