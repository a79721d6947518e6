"""What is shown next to a verdict: how quiet the machine was, what matters most, and which budget would decide more."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dragstrip.quantities import two_digits
from dragstrip.record import Ending, Race
from dragstrip.report import figures
from dragstrip.report.race.summary import JudgedRace, Part
from dragstrip.report.race.wording import contradiction_text, pauses_text
from dragstrip.requested import again_words
from dragstrip.validity import Check, CheckName, Status, noise

#: This many notes are shown unasked. One longer than this many characters is cut at a word, what was seen after the
#: second number of them at the earliest.
MAX_NOTES, MAX_CHARACTERS, LEAST_SEEN = 3, 240, 100

#: How much a check matters for reading the result, the weightiest first. A void check outweighs any warning.
_WEIGHTS = {
    CheckName.ERRORS: 95,
    CheckName.GENERATOR: 90,
    CheckName.DATABASE: 89,
    CheckName.OFFERED_RATE: 88,
    CheckName.SERVERS_COUNT: 86,
    CheckName.ANSWERS_LENGTH: 84,
    CheckName.SATURATION: 70,
    CheckName.TURNAROUND: 65,
    CheckName.LINKS: 64,
    CheckName.CONNECTIONS: 62,
    CheckName.LANES: 60,
    CheckName.LITTLES_LAW: 60,
    CheckName.ROUNDS: 58,
    CheckName.LAUNCHES: 55,
    CheckName.TREND: 55,
    CheckName.MEMORY: 50,
    CheckName.BLOCK_LENGTH: 50,
}
_VOID, _CONTRADICTION, _PAUSE, _OTHER = 1000, 82, 75, 45

#: The noise level reports these already, if it is "disturbed" or "very disturbed".
_NOISE = frozenset(
    (CheckName.ENGINE_WAIT, CheckName.SERVER_WAIT, CheckName.STEAL, CheckName.OTHER_PROGRAMS, CheckName.VOID_PASSES)
)

_LEVELS = {"quiet": Status.PASS, "disturbed": Status.WARN, "very disturbed": Status.VOID}


@dataclass(frozen=True, slots=True)
class RaceNote:
    """One thing to know; ``head``: the checks that it comes from ("" if none).

    ``remedy``: what to do, if the text ends in it.
    """

    status: Status
    head: str
    text: str
    weight: int = 0
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class NoiseLevel:
    """How disturbed the machine was, in a sentence; ``status`` chooses mark and colour, None: it is unknown."""

    status: Status | None
    text: str


def noise_level(race: Race) -> NoiseLevel:
    """The level, what was lost, and by which factor that widened the intervals."""
    measured = noise(race)
    if measured.level == "quiet":
        return NoiseLevel(Status.PASS, "quiet machine")
    if measured.lost is None:
        return NoiseLevel(None, "how disturbed the machine was is unknown")
    lost = f"other programs and the hypervisor took {figures.percent(round(measured.lost, 3))} of its cores' time"
    wider = ""
    if measured.factor is not None:
        about = f"about {two_digits(measured.factor)} times as wide as"
        often = "hardly wider than" if measured.factor < 1.15 else about
        wider = f"; intervals are {often} on a quiet machine"
    return NoiseLevel(_LEVELS[measured.level], f"{measured.level} machine: {lost}{wider}")


def worst_noise_level(parts: Sequence[Part]) -> NoiseLevel:
    """The noise level of the most disturbed column."""
    levels = [noise_level(part.race) for part in parts]
    return max(levels, key=lambda level: level.status.rank if level.status else -1)


def undecided_hint(judged: JudgedRace, run: str) -> str:
    """What is still open, and the command that would decide it; "" if nothing is, or the race has no numbers.

    Args:
        run: how the race is named in the command: its id, or "last".
    """
    race, verdict = judged.record, judged.verdict
    pairs = [pair for pair in verdict.pairs if figures.finite(pair.ratio) is not None]
    open_ = sum(not pair.decided and not pair.unfit for pair in pairs)
    if not open_ or not race.finished or race.finished in (Ending.VOID, Ending.TOO_FEW):
        return ""
    which = "The pair is" if len(pairs) == 1 else f"{open_} of {len(pairs)} pairs {'is' if open_ == 1 else 'are'}"
    if verdict.more_s is None or race.plan.rounds_fixed:
        return f"{which} open" if race.plan.rounds_fixed else f"{which} undecided; the time needed can't be predicted"
    it = "it" if open_ == 1 else "them"
    needed, about = figures.as_budget(verdict.more_s), figures.more_time(verdict.more_s)
    words = shlex.join(["--budget", f"+{needed}", *again_words(race)])
    return f"{which} open; about {about} more would decide {it}: dragstrip race --resume {run} {words}"


def notes(part: Part) -> list[RaceNote]:
    """Everything that warns, heaviest first, each remedy once; the first void check is in the headline already."""
    disturbed = noise_level(part.race).status in (Status.WARN, Status.VOID)
    in_headline = next((check.label for check in part.void_checks), "")
    listed = [
        RaceNote(Status.WARN, "", contradiction_text(both), _CONTRADICTION) for both in part.verdict.contradictions
    ]
    listed += [RaceNote(Status.WARN, "", pauses_text(pauses, part.verdict), _PAUSE) for pauses in part.verdict.pauses]
    for check in part.checks:
        if check.status is not Status.PASS and check.label != in_headline:
            weight = _WEIGHTS.get(check.name, _OTHER)
            if check.name in _NOISE or _says_only_disturbed(check):
                weight = 5 if disturbed else 40
            weight += _VOID if check.status is Status.VOID else 0
            listed.append(RaceNote(check.status, figures.check(check.label), check.detail, weight, check.remedy))
    return sorted(grouped(listed), key=lambda note: -note.weight)


def _says_only_disturbed(check: Check) -> bool:
    """Whether all that a check found is that the machine was too disturbed for it."""
    return bool(check.findings) and all(finding.unjudged for finding in check.findings)


def all_notes(parts: Sequence[Part]) -> list[RaceNote]:
    """Every column's notes, heaviest first; notes that several columns share once."""
    alike: dict[tuple[str, str, str], list[tuple[str, RaceNote]]] = {}
    for part in parts:
        for note in notes(part):
            alike.setdefault((note.status, note.head, note.text), []).append((part.name, note))
    merged = []
    for noted in alike.values():
        note, where = noted[0][1], tuple(name for name, _ in noted)
        at = "" if len(where) == len(parts) else f"at {figures.several(where)}: "
        merged.append(replace(note, text=f"{at}{note.text}"))
    return sorted(merged, key=lambda note: -note.weight)


def grouped(ungrouped: Sequence[RaceNote]) -> list[RaceNote]:
    """Notes that end in the same remedy ("seen: what to do") as one, with the remedy once."""
    alike: dict[tuple[str, str], list[RaceNote]] = {}
    for at, note in enumerate(ungrouped):
        alike.setdefault((note.status, note.remedy) if note.remedy else (note.text, str(at)), []).append(note)
    notes = []
    for (_, remedy), together in alike.items():
        if len(together) == 1:
            notes.append(together[0])
            continue
        texts = "; ".join(note.text.removesuffix(remedy).rstrip(" :;") for note in together)
        heads = ", ".join(dict.fromkeys(note.head for note in together if note.head))
        weight = max(note.weight for note in together)
        notes.append(RaceNote(together[0].status, heads, f"{texts}: {remedy}", weight, remedy))
    return notes


def clipped(note: RaceNote) -> str:
    """A note's text, shortened before its remedy, which stays whole; the page and ``--verbose`` show all of it.

    Of several contenders with the same remedy, those after the first are left out.
    """
    if len(note.text) <= MAX_CHARACTERS:
        return note.text
    seen, _, others = note.text.partition(note.remedy) if note.remedy else (note.text, "", "")
    most = max(MAX_CHARACTERS - len(note.remedy), LEAST_SEEN)
    if len(seen) > most:
        seen = f"{seen[:most].rsplit(' ', 1)[0].rstrip(' ,;:')} …{' ' if note.remedy else ''}"
    return f"{seen}{note.remedy}{' …' if others else ''}"
