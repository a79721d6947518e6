"""The measured parts of README and docs: which sections each writes, by which commands, in how many minutes.

A *part* is what one run measures. Its commands write its sections by ``pages.splice``, or by ``pages.stamp`` if the
section is a picture or a whole page. A command that ends with exit code ``GOES_ON`` has stored what it measured so far
and continues at its next start.

Evidence is for releases: all parts together are planned for three hours at most. A section that no part lists is a
dated table: it keeps its stamp, and is not measured again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import stamps
from stamps import ROOT, Stamp

#: Exit code of a command that needs another sitting.
GOES_ON = 75

#: Build of the examples, which many parts need.
EXAMPLES = "cargo build --quiet --release --examples -p dragstrip-engine"


@dataclass(frozen=True)
class Part:
    """One measured part.

    Args:
        sections: ``PAGE#NAME`` or ``PAGE``, below docs; ``../README.md`` for the first page.
        commands: for bash, in order, with the environment's programs on PATH; ``{minutes}`` is what is left.
        minutes: of all sittings, on two cores, when nothing was measured before.
        after: the change that calls for this part before the next release, as CONTRIBUTING lists it.
        pictures: files that it writes, below docs/pictures.
    """

    name: str
    sections: tuple[str, ...]
    commands: tuple[str, ...]
    minutes: int
    after: str
    pictures: tuple[str, ...] = ()


_JUDGING = "the method, validity checks or the engine"
_ENGINE = "the engine"

#: All parts together, when nothing was measured before.
MOST_MINUTES = 180

PARTS = (
    Part(
        "simulation",
        ("evidence/simulation.md#simulate",),
        ("python benchmarks/simulate.py --write docs/evidence/simulation.md",),
        1,
        "intervals or verdicts",
    ),
    Part(
        "why",
        ("evidence/why.md#planted",),
        ("python tests/soak/why.py all --minutes {minutes}",),
        11,
        "how functions are compared",
    ),
    Part(
        "revisions",
        ("evidence/revisions.md#revisions",),
        ("python benchmarks/revisions.py all --minutes {minutes}",),
        21,
        "how races of revisions end, or `bisect`",
    ),
    Part(
        "cheats",
        ("evidence/contenders.md#cheats",),
        ("python tests/soak/cheats_race.py --record",),
        1,
        "scrutineering",
    ),
    Part(
        "scripts",
        ("evidence/engine.md#scripts",),
        ("python benchmarks/scripts.py --record",),
        3,
        "wrk's scripts",
    ),
    Part(
        "latency",
        ("evidence/engine.md#latency", "evidence/engine.md#latency-http2", "evidence/engine.md#low-tail"),
        ("bash benchmarks/peers.sh", EXAMPLES, "python benchmarks/latency_truth.py --record"),
        5,
        _ENGINE,
    ),
    Part(
        "open-loop",
        ("evidence/engine.md#open-loop",),
        ("bash benchmarks/peers.sh", "python benchmarks/open_loop.py --record"),
        7,
        _ENGINE,
    ),
    Part(
        "engine",
        ("evidence/engine.md#bench",),
        ("bash benchmarks/peers.sh", "python benchmarks/engine.py --rounds 3 --record"),
        16,
        _ENGINE,
        pictures=("engine.svg",),
    ),
    Part(
        "http2",
        ("evidence/engine.md#http2-bench",),
        ("bash benchmarks/peers.sh", "python benchmarks/http2.py --rounds 3 --record"),
        4,
        _ENGINE,
    ),
    Part(
        "request-kinds",
        ("evidence/engine.md#kinds",),
        (EXAMPLES, "python benchmarks/request_kinds.py --record"),
        1,
        _ENGINE,
    ),
    Part(
        "instructions",
        ("evidence/engine.md#instructions",),
        (EXAMPLES, "python benchmarks/instructions.py --record"),
        1,
        _ENGINE,
    ),
    Part(
        "sanitize",
        ("evidence/engine.md#sanitize",),
        ("make sanitize",),
        2,
        "unsafe code",
    ),
    Part(
        "fuzz",
        ("evidence/engine.md#fuzz", "evidence/engine.md#fuzz-frames", "evidence/engine.md#fuzz-messages"),
        (
            "python tests/soak/fuzz.py --runs 1000000 --record",
            "python tests/soak/fuzz.py --target frames --runs 1000000 --record",
            "python tests/soak/fuzz.py --target messages --runs 1000000 --record",
        ),
        4,
        "parsers of the engine",
    ),
    Part(
        "fuzz-files",
        ("evidence/tests.md#fuzz-files",),
        ("python tests/soak/fuzz_files.py --cases 10000 --seed 1 --record",),
        1,
        "readers of files",
    ),
    Part(
        "fleet",
        ("evidence/fleet.md#planted", "evidence/fleet.md#timing"),
        (EXAMPLES, "python tests/soak/fleet_check.py --races 5 --write", "python tests/soak/fleet_timing.py --write"),
        5,
        "races over several machines",
    ),
    Part(
        "mutations",
        ("evidence/tests.md#mutations",),
        ("python tests/soak/mutations.py --write",),
        2,
        "statistics, checks or parsers, and their tests",
    ),
    Part(
        "claims",
        ("CLAIMS.md",),
        ("python benchmarks/claims_page.py --minutes {minutes}",),
        14,
        f"{_JUDGING}, or a claim",
        pictures=("claims.svg",),
    ),
    Part(
        "calibration",
        ("evidence/verdicts.md#calibration", "evidence/verdicts.md#conclusion"),
        (EXAMPLES, "python benchmarks/calibration.py --minutes {minutes} --until-enough"),
        33,
        _JUDGING,
        pictures=("calibration.svg",),
    ),
    Part(
        "disturbed",
        (
            "evidence/verdicts.md#disturbed",
            "evidence/verdicts.md#disturbed-conclusion",
            "evidence/verdicts.md#disturbed-simulated",
        ),
        (
            EXAMPLES,
            "python benchmarks/answers.py --minutes {minutes} --until-enough",
            "python benchmarks/answers.py --write",
            "python benchmarks/simulate_disturbed.py --write docs/evidence/verdicts.md",
        ),
        42,
        _JUDGING,
    ),
    Part(
        "pictures",
        ("../README.md#pictures",),
        ("make --no-print-directory race-pictures",),
        3,
        "reports, pages or the method",
        pictures=(
            "first.svg",
            "race.svg",
            "columns.png",
            "page-light.png",
            "page-dark.png",
            "page-phone.png",
            "own-1200.png",
            "own-390.png",
            "own-80.svg",
        ),
    ),
)


def named(name: str) -> Part:
    """The part of that name.

    Raises:
        SystemExit: no part has that name.
    """
    for part in PARTS:
        if part.name == name:
            return part
    raise SystemExit(f"unknown part {name!r}; parts are {', '.join(part.name for part in PARTS)}")


def sections() -> set[str]:
    """Sections with a stamp: those of parts, and dated tables."""
    return {*stamps.read(), *(section for part in PARTS for section in part.sections)}


def older(part: Part, known: Mapping[str, Stamp] | None = None) -> list[str]:
    """Why a part is older than today's method and release; empty if all its sections are today's."""
    known = known or stamps.read()
    found: list[str] = []
    for section in part.sections:
        stamp = known.get(section)
        found += stamps.reasons(stamp) if stamp else ["not measured"]
    return list(dict.fromkeys(found))


def renew(fresh: Mapping[str, Stamp]) -> None:
    """Replaces the stamps of sections, and writes all stamps into their pages."""
    stamps.write({**stamps.read(), **fresh})
    mark()


def marked() -> dict[str, str]:
    """Each page with stamps, by its path below docs, as its text should be."""
    known = stamps.read()
    texts: dict[str, str] = {}
    for section in sorted(sections()):
        page = section.partition("#")[0]
        text = texts.get(page) or (ROOT / "docs" / page).read_text("utf-8")
        texts[page] = stamps.stamped(text, section, stamps.sentence(known.get(section, Stamp(date=""))))
    texts["../CONTRIBUTING.md"] = _table((ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    return texts


def mark() -> None:
    """Writes stamps into pages: sections of an earlier method or release say so. Lost commits are dropped first."""
    stamps.write(stamps.without_lost_commits(stamps.read()))
    for page, text in marked().items():
        stamps.replace((ROOT / "docs" / page).resolve(), text)


def _table(text: str) -> str:
    """CONTRIBUTING with its table of parts."""
    begin, end = "<!-- parts: begin -->\n", "<!-- parts: end -->"
    lines = ["| after a change of | run `make evidence PART=` | writes into | minutes |", "|-|-|-|-:|"]
    for part in PARTS:
        pages = ", ".join(dict.fromkeys(section.partition("#")[0].removeprefix("../") for section in part.sections))
        lines.append(f"| {part.after} | `{part.name}` | {pages} | {part.minutes} |")
    before, found, rest = text.partition(begin)
    if not found:
        raise SystemExit(f"CONTRIBUTING.md needs the lines {begin.strip()} and {end}")
    return before + begin + "\n".join(lines) + "\n" + end + rest.partition(end)[2]
