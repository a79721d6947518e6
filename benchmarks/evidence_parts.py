"""The measured parts of README and docs: which sections each writes, by which commands, in how many minutes.

A *part* is what one run measures. Its commands write its sections by ``pages.splice``, or by ``pages.stamp`` if the
section is a picture or a whole page. A command that ends with exit code ``GOES_ON`` has stored what it measured so far
and continues at its next start.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import measuring_code as measuring
import stamps
from measuring_code import ANALYSIS, CAUSES, ENGINE, FOLDERS, ROOT
from stamps import Stamp

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
        after: the change that calls for this part, as CONTRIBUTING lists it.
        code: folders of the measuring code that it rests on; empty if a change of them makes it no older.
        pictures: files that it writes, below docs/pictures.
    """

    name: str
    sections: tuple[str, ...]
    commands: tuple[str, ...]
    minutes: int
    after: str
    code: tuple[str, ...] = FOLDERS
    pictures: tuple[str, ...] = ()


_JUDGING = "the method, validity checks or the engine"
_ENGINE = "the engine"

PARTS = (
    Part(
        "simulation",
        ("method/simulation.md#simulate",),
        ("python benchmarks/simulate.py --write docs/method/simulation.md",),
        6,
        "intervals or verdicts",
        code=(ANALYSIS,),
    ),
    Part(
        "league",
        ("method/simulation.md#league",),
        ("python benchmarks/league.py --simulate 200 --record",),
        15,
        "intervals or verdicts",
        code=(ANALYSIS,),
    ),
    Part(
        "change-points",
        ("diff.md#change-points",),
        ("python benchmarks/change_points.py --record",),
        2,
        "how a history is judged",
        code=(ANALYSIS,),
    ),
    Part(
        "why",
        ("why.md#planted",),
        ("python benchmarks/why.py all --minutes {minutes}",),
        65,
        "how functions are compared",
        code=CAUSES,
    ),
    Part(
        "revisions",
        ("diff.md#revisions",),
        ("python benchmarks/revisions.py all --minutes {minutes}",),
        110,
        "how races of revisions end, or `bisect`",
    ),
    Part(
        "variance",
        ("method/details.md#variance",),
        ("python benchmarks/variance.py --minutes {minutes}",),
        15,
        "how long a round's parts take",
    ),
    Part("awake", ("CALIBRATION.md#awake",), (EXAMPLES, "python benchmarks/awake.py"), 5, "waking or polling"),
    Part(
        "cheats", ("biases.md#cheats",), ("python benchmarks/cheats.py --record",), 4, "scrutineering",
        code=(),
    ),
    Part(
        "delay",
        ("workloads.md#delay-factor",),
        ("python benchmarks/delay_factor.py --rounds 5 --record",),
        4,
        _ENGINE,
        code=(ENGINE,),
    ),
    Part(
        "scripts", ("wrk-scripts.md#scripts",), ("python benchmarks/scripts.py --record",), 4, "wrk's scripts",
        code=(ENGINE,),
    ),
    Part(
        "latency",
        ("ENGINE.md#latency", "ENGINE.md#latency-http2", "ENGINE.md#low-tail"),
        ("bash benchmarks/peers.sh", EXAMPLES, "python benchmarks/latency_truth.py --record"),
        5,
        _ENGINE,
        code=(ENGINE,),
    ),
    Part(
        "open-loop",
        ("ENGINE.md#open-loop",),
        ("bash benchmarks/peers.sh", "python benchmarks/open_loop.py --record"),
        4,
        _ENGINE,
        code=(ENGINE,),
    ),
    Part(
        "engine",
        ("ENGINE.md#bench",),
        ("bash benchmarks/peers.sh", "python benchmarks/engine.py --rounds 5 --record"),
        25,
        _ENGINE,
        code=(ENGINE,),
        pictures=("engine.svg",),
    ),
    Part(
        "http2",
        ("ENGINE.md#http2-bench",),
        ("bash benchmarks/peers.sh", "python benchmarks/http2.py --rounds 5 --record"),
        10,
        _ENGINE,
        code=(ENGINE,),
    ),
    Part(
        "request-kinds",
        ("ENGINE.md#kinds",),
        (EXAMPLES, "python benchmarks/request_kinds.py --record"),
        5,
        _ENGINE,
        code=(ENGINE,),
    ),
    Part(
        "instructions",
        ("ENGINE.md#instructions",),
        (EXAMPLES, "python benchmarks/instructions.py --record"),
        8,
        _ENGINE,
        code=(ENGINE,),
    ),
    Part("sanitize", ("ENGINE.md#sanitize",), ("make sanitize",), 5, "unsafe code", code=(ENGINE,)),
    Part(
        "fuzz",
        ("ENGINE.md#fuzz", "ENGINE.md#fuzz-frames", "ENGINE.md#fuzz-messages"),
        (
            "python benchmarks/fuzz.py --runs 3000000 --record",
            "python benchmarks/fuzz.py --target frames --runs 3000000 --record",
            "python benchmarks/fuzz.py --target messages --runs 3000000 --record",
        ),
        15,
        "parsers of the engine",
        code=(ENGINE,),
    ),
    Part(
        "fuzz-files",
        ("testing.md#fuzz-files",),
        ("python benchmarks/fuzz_files.py --cases 10000 --seed 1 --record",),
        6,
        "readers of files",
        code=(),
    ),
    Part(
        "fleet",
        ("FLEET.md#planted", "FLEET.md#timing"),
        (EXAMPLES, "python benchmarks/fleet_check.py --write", "python benchmarks/fleet_timing.py --write"),
        18,
        "races over several machines",
    ),
    Part(
        "lab-spending",
        ("lab.md#lab-spending",),
        ("python benchmarks/lab_spending.py --record",),
        15,
        "intervals, or where a lab's rounds go",
        code=(ANALYSIS,),
    ),
    Part(
        "lab-chaos",
        ("lab.md#lab-chaos",),
        (
            "python benchmarks/lab_chaos.py children",
            "python benchmarks/lab_chaos.py dask",
            "python benchmarks/lab_chaos.py slurm --record",
        ),
        60,
        "how a lab carries and stores its cells",
        code=(),
    ),
    Part(
        "lab-quiet", ("lab.md#lab-quiet",), ("python benchmarks/lab_quiet.py --record",), 5,
        "what runs on a racing machine beside a lab's race",
        code=(),
    ),
    Part(
        "lab-night",
        ("lab.md#lab-night",),
        (EXAMPLES, "python benchmarks/lab_night.py --minutes {minutes} --record"),
        30,
        "where a lab's rounds go",
        code=(ANALYSIS,),
    ),
    Part(
        "lab-makespan", ("lab.md#lab-makespan",), ("python benchmarks/lab_makespan.py --record",), 11,
        "how a lab carries its cells",
        code=(),
    ),
    Part(
        "lab-report", ("lab.md#lab-report",), ("python benchmarks/lab_report.py --record",), 3, "a lab's report",
        code=(),
    ),
    Part(
        "container-engines",
        ("containers.md#engines",),
        ("python benchmarks/container_engines.py --record",),
        3,
        "how images come from engines",
        code=(),
    ),
    Part(
        "killed-containers",
        ("containers.md#killed",),
        ("python benchmarks/kill_check.py --image --kills 100 --minutes {minutes} --record",),
        25,
        "how containers start and end",
        code=(),
    ),
    Part(
        "containers",
        ("containers.md#inside",),
        ("python benchmarks/containers.py --minutes {minutes}",),
        70,
        "how containers start",
    ),
    Part(
        "why-layers",
        ("why.md#why-layers",),
        ("python benchmarks/why_layers.py --minutes {minutes}",),
        15,
        "layers, or the sampler",
        code=CAUSES,
    ),
    Part(
        "why-nulls",
        ("why.md#why-nulls",),
        (
            "python benchmarks/why_nulls.py collect nginx-return go-native node luajit tornado",
            "python benchmarks/why_nulls.py --record",
        ),
        15,
        "how functions are compared",
        code=CAUSES,
    ),
    Part("why-users", ("why.md#why-users",), ("python benchmarks/why_users.py --record",), 7, "`why`", code=CAUSES),
    Part("why-cost", ("why.md#why-cost",), ("python benchmarks/why_cost.py --record",), 4, "the sampler", code=CAUSES),
    Part(
        "why-calls",
        ("why.md#why-calls",),
        ("python benchmarks/why_calls.py --record",),
        9,
        "how `why` counts calls",
        code=CAUSES,
    ),
    Part(
        "mutations",
        ("testing.md#mutations",),
        ("python benchmarks/mutations.py --write",),
        12,
        "statistics, checks or parsers, and their tests",
        code=(),
    ),
    Part(
        "claims",
        ("CLAIMS.md",),
        ("python benchmarks/claims_page.py --minutes {minutes}",),
        45,
        f"{_JUDGING}, or a claim",
        pictures=("claims.svg",),
    ),
    Part(
        "calibration",
        ("CALIBRATION.md#calibration", "CALIBRATION.md#conclusion"),
        (EXAMPLES, "python benchmarks/calibration.py --minutes {minutes} --until-enough"),
        50,
        _JUDGING,
        pictures=("calibration.svg",),
    ),
    Part(
        "calibration-kinds",
        ("CALIBRATION.md#kinds",),
        (EXAMPLES, "python benchmarks/calibration.py --every-kind --minutes {minutes} --until-enough"),
        150,
        _JUDGING,
    ),
    Part(
        "league-equal",
        ("method/simulation.md#league-equal",),
        ("python benchmarks/league.py --equal 10 --minutes {minutes} --record",),
        40,
        _JUDGING,
    ),
    Part(
        "disturbed",
        ("CALIBRATION.md#disturbed", "CALIBRATION.md#disturbed-conclusion", "CALIBRATION.md#disturbed-simulated"),
        (
            EXAMPLES,
            "python benchmarks/answers.py --minutes {minutes} --until-enough",
            "python benchmarks/answers.py --write",
            "python benchmarks/simulate_disturbed.py --write docs/CALIBRATION.md",
        ),
        100,
        _JUDGING,
    ),
    Part(
        "verdict-time",
        ("method/details.md#verdict-time",),
        ("python benchmarks/verdict_time.py --minutes {minutes}",),
        75,
        "when a race ends",
    ),
    Part(
        "pictures",
        ("../README.md#pictures",),
        ("make --no-print-directory race-pictures",),
        6,
        "reports, pages or the method",
        pictures=("first.svg", "race.svg", "columns.png", "page-light.png", "page-dark.png", "page-phone.png"),
    ),
    Part("tier-test", ("testing.md#tier test",), ("python tests/tiers.py test --write",), 7, "tests", code=()),
    Part("tier-check", ("testing.md#tier check",), ("python tests/tiers.py check --write",), 20, "tests", code=()),
    Part("soak", ("testing.md#tier soak",), ("python tests/tiers.py soak --write",), 100, "a release", code=()),
)  # fmt: skip

#: The measuring code of each section.
FOLDERS_OF: Mapping[str, tuple[str, ...]] = {section: part.code for part in PARTS for section in part.sections}


def named(name: str) -> Part:
    """The part of that name.

    Raises:
        SystemExit: no part has that name.
    """
    for part in PARTS:
        if part.name == name:
            return part
    raise SystemExit(f"unknown part {name!r}; parts are {', '.join(part.name for part in PARTS)}")


def older(part: Part, known: Mapping[str, Stamp] | None = None) -> list[str]:
    """Why a part is older than today's code; empty if all its sections are today's."""
    known, today = known or stamps.read(), measuring.today()
    found: list[str] = []
    for section in part.sections:
        stamp = known.get(section)
        measured = stamp is not None and bool(stamp.date)
        found += (
            stamps.reasons(stamp, part.code, today, stamps.METHOD_VERSION) if measured and stamp else ["not measured"]
        )
    return list(dict.fromkeys(found))


def minutes(part: Part, known: Mapping[str, Stamp]) -> float:
    """What a part took when it was last measured, otherwise what it is expected to take."""
    took = [known[section].minutes for section in part.sections if section in known]
    return max(took, default=0.0) or part.minutes


def renew(fresh: Mapping[str, Stamp]) -> None:
    """Replaces the stamps of sections, and writes all stamps into their pages."""
    stamps.write({**stamps.read(), **fresh})
    mark()


def marked() -> dict[str, str]:
    """Each page with stamps, by its path below docs, as its text should be."""
    known, today = stamps.read(), measuring.today()
    texts: dict[str, str] = {}
    for section, code in FOLDERS_OF.items():
        page = section.partition("#")[0]
        stamp = known.get(section, Stamp(date=""))
        line = stamps.sentence(stamp, stamps.reasons(stamp, code, today, stamps.METHOD_VERSION) if stamp.date else [])
        text = texts.get(page) or (ROOT / "docs" / page).read_text("utf-8")
        texts[page] = stamps.stamped(text, section, line)
    texts["../CONTRIBUTING.md"] = _table((ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    return texts


def mark() -> None:
    """Writes stamps into pages: sections older than today's measuring code say so. Mends names of commits first."""
    stamps.write(stamps.with_known_commits(stamps.read()))
    for page, text in marked().items():
        stamps.replace((ROOT / "docs" / page).resolve(), text)


def _table(text: str) -> str:
    """CONTRIBUTING with its table of parts."""
    begin, end = "<!-- parts: begin -->\n", "<!-- parts: end -->"
    lines = ["| after a change of | run `make evidence PART=` | writes into | minutes |", "|-|-|-|-:|"]
    known = stamps.read()
    for part in PARTS:
        pages = ", ".join(dict.fromkeys(section.partition("#")[0].removeprefix("../") for section in part.sections))
        lines.append(f"| {part.after} | `{part.name}` | {pages} | {math.ceil(minutes(part, known))} |")
    before, found, rest = text.partition(begin)
    if not found:
        raise SystemExit(f"CONTRIBUTING.md needs the lines {begin.strip()} and {end}")
    return before + begin + "\n".join(lines) + "\n" + end + rest.partition(end)[2]
