"""Extra launches of two races compared: functions that changed are named, unless the machine has changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import samples
from click.testing import CliRunner

from dragstrip.analysis.comparison import compare
from dragstrip.commands.main import cli
from dragstrip.record import Profile, Race
from dragstrip.report import changed_causes
from dragstrip.store.database import Store

RATES = {"yardstick": 50_000.0, "mine": 30_000.0}


def launches(sides: Mapping[str, str], slower: float = 1.0) -> tuple[Profile, ...]:
    """Extra launches of these contenders, like the ones in ``samples.planted``; all cost ``slower`` times."""
    made: list[Profile] = []
    for name, side in sides.items():
        for launch in samples.planted().profiles:
            if launch.contender == side:
                cpu = {key: slower * launch.counts[key] for key in ("cpu_ns", "user_ns", "kernel_ns")}
                made.append(replace(launch, contender=name, index=len(made), counts={**launch.counts, **cpu}))
    return tuple(made)


def raced(number: int, profiles: tuple[Profile, ...]) -> Race:
    """A race with these extra launches."""
    return samples.race(RATES, seed=number, rounds=12, id=f"{number:012x}", profiles=profiles)


OLD = raced(1, launches({"yardstick": "quick", "mine": "quick"}))


def test_the_function_that_became_slower_is_named(tmp_path: Path) -> None:
    """In the terminal, Markdown and JSON of ``compare``; the unchanged contender shows that the machine is the same."""
    store = tmp_path / "races.sqlite"
    with Store(store) as kept:
        for race in (OLD, raced(2, launches({"yardstick": "quick", "mine": "steady"}))):
            kept.begin(race)

    def compared(*words: str) -> str:
        invoked = CliRunner(catch_exceptions=False).invoke(
            cli, ["compare", OLD.id, f"{2:012x}", "--reference", "yardstick", "--store", str(store), *words]
        )
        assert invoked.exit_code == 0
        return invoked.output

    for text in (compared(), compared("--markdown", "-")):
        flat = " ".join(text.replace("\\", "").split())
        assert "mine now is slower in planted [app]: 0.6" in flat
        assert "The machine: no difference in CPU time was found for yardstick, which did not change." in flat
    why = json.loads(compared("--json", "-"))["why"]
    assert (why["reference"], why["drift"]["significant"]) == ("yardstick", False)
    ((explained,),) = (table["explained"] for table in why["tables"])
    assert [found["name"] for found in explained["found"]] == ["planted [app]"]


def test_no_function_is_named_if_the_machine_has_changed() -> None:
    """The contender that did not change costs a tenth more now."""
    new = raced(3, launches({"yardstick": "quick", "mine": "steady"}, 1.1))
    found = changed_causes.of_races(OLD, new, reference=compare(OLD, new, reference="yardstick").reference)
    assert found is not None
    assert "yardstick, which did not change, takes 0.6" in changed_causes.machine(found)
    assert not found.tables[0].functions
    alone = changed_causes.of_races(OLD, new, reference=None)
    assert alone is not None
    assert "the machine's own change is in each difference" in changed_causes.machine(alone)
    assert len(alone.tables) == 2


def test_only_contenders_with_extra_launches_in_both_races_are_shown() -> None:
    """The reference alone, or launches of one race, show nothing."""
    for profiles in ((), launches({"yardstick": "quick"})):
        assert changed_causes.of_races(OLD, raced(4, profiles), reference="yardstick") is None
    assert changed_causes.as_json(None) is None
    assert changed_causes.markdown(None) == ""
