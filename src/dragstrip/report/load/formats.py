"""Formats of ``dragstrip export`` for a stored load: a table of its parts as CSV, and the result as Markdown."""

from __future__ import annotations

import csv
import io

from dragstrip.report import figures
from dragstrip.report.comparison import cell
from dragstrip.report.load import terminal
from dragstrip.report.load.report import LoadReport

#: Columns of the CSV; a cell without a number is empty.
COLUMNS = ("at_s", "duration_s", "requests", "rate_per_s", "p50_us", "p99_us", "max_us", "failures")


def csv_text(report: LoadReport) -> str:
    """A row for each part of about a second; latencies in µs, ``at_s`` since the load began."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for at_s, part in report.intervals:
        numbers = (part.duration_s, part.requests, part.rate_per_s, part.p50_us, part.p99_us, part.max_us)
        writer.writerow((round(at_s, 9), *numbers, sum(part.errors.values())))
    return out.getvalue()


def markdown(report: LoadReport, load_id: str) -> str:
    """The sentence, the latencies, limits and warnings; nothing that comes from outside is taken for markup."""
    said, heads = report.sentences, list(report.histograms)
    lines = [f"**{cell(said.headline)}**", ""]
    lines += [f"{cell(said.offered)}", ""] if said.offered else []
    lines += [f"- {'met' if limit.met else '**missed**'}: {cell(limit.text)}" for limit in report.limits]
    lines += [f"- {cell(note)}" for note in terminal.noted(report)]
    lines += [f"- {cell(terminal.check_sentence(report))}"]
    lines += [f"  - {count} {kind}: {cell(means)}" for count, kind, means, _ in terminal.failures(report)]
    if report.latencies:
        lines += ["", f"| latency | {' | '.join(heads)} | above |", f"|-|{'-:|' * (len(heads) + 1)}"]
        lines += [f"| {' | '.join(row)} |" for row in terminal.percentiles(report)]
    lines += ["", f"load {load_id}, {cell(report.subject)}, {figures.local(report.started)}"]
    return "\n".join(lines) + "\n"
