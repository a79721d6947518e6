"""Claims of one source, workload and load share a race, so that all claims take half an hour on two cores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dragstrip.contender import Entry
from dragstrip.extras.claims.contenders import contenders_of
from dragstrip.extras.claims.definition import FAIR, PUBLISHED, Claim, ClaimLoad
from dragstrip.racing import schedule
from dragstrip.record import EventKind, Purpose

#: Assumed responses per second of a field's slowest server on one core; block lengths are estimated from it.
GUESS_PER_S = 3000.0

#: Seconds that one contender takes in a round in addition to its blocks: launch, warm-up, stop.
LAUNCH_S = 0.8

#: Seconds that scrutineering and calibrating one contender take, before the first round.
SCRUTINY_S = 2.5


@dataclass(frozen=True, slots=True)
class Group:
    """Claims that one race can decide, in one setting, and its contenders."""

    setting: str
    workload: str
    load: ClaimLoad
    claims: tuple[Claim, ...]
    entries: tuple[Entry, ...]

    @property
    def purpose(self) -> Purpose:
        """The purpose in the race's record: the setting and the claims."""
        return Purpose(kind=EventKind.CLAIMS, subject=self.setting, names=tuple(claim.id for claim in self.claims))

    def __str__(self) -> str:
        """For a message: the setting, then the claims."""
        return " ".join([self.setting, *(claim.id for claim in self.claims)])

    @property
    def need_s(self) -> float:
        """A guess at the seconds that a verdict takes; only the share of the budget depends on it."""
        count = len(self.entries)
        lead_ns, counted_ns = schedule.block_lengths({"": int(self.load.connections / GUESS_PER_S * 1e9)})
        block_s = (lead_ns + counted_ns) / 1e9
        few = schedule.PASSES_FLOOR if block_s > 0.1 else schedule.usual_passes(block_s)
        return schedule.ROUNDS_WANTED * count * (LAUNCH_S + few * block_s)

    @property
    def before_s(self) -> float:
        """Seconds before its first round."""
        return SCRUTINY_S * len(self.entries)


def groups(claims: Iterable[Claim], settings: Sequence[str] = (PUBLISHED, FAIR)) -> tuple[Group, ...]:
    """Every race that the claims need here, the quickest first; a claim with a missing contender needs none."""
    alike: dict[tuple[str, str, str, *tuple[object, ...]], list[tuple[Claim, tuple[Entry, ...]]]] = {}
    for claim in claims:
        for setting in settings:
            if setting == FAIR and claim.fields.kind == "ends":
                continue  # it is about a run to a count, which Dragstrip's own settings don't have
            play = contenders_of(claim, setting)
            if not play.missing:
                load, fields = claim.load(setting), claim.fields
                served = (str(claim.folder), *sorted(fields.serve.items())) if fields.serve else ()
                shared = (load.http, load.keepalive, load.connections, served)
                alike.setdefault((setting, fields.source, workload_of(claim), *shared), []).append(
                    (claim, play.entries)
                )
    made = [
        Group(
            setting=setting,
            workload=workload,
            load=together[0][0].load(setting),
            claims=tuple(claim for claim, _ in together),
            entries=tuple({entry.name: entry for _, entries in together for entry in entries}.values()),
        )
        for (setting, _, workload, *_), together in alike.items()
    ]
    return tuple(sorted(made, key=lambda group: group.need_s))


def workload_of(claim: Claim) -> str:
    """A workload's name, or its file's path, which the claim gives from its own folder."""
    word = claim.fields.workload
    return str(claim.source.file.parent / word) if word.endswith(".toml") else word
