"""The calibration's page: shares, times and checks are what the races' lines say; nothing is typed by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import calibration as script
import pytest
import race_lines

from dragstrip.validity import CheckName

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def calibration() -> ModuleType:
    """The script as a module."""
    return script


def line(module: ModuleType, kind: str, verdict: str, ratio: float, **changes: Any) -> dict[str, Any]:
    """One race's line, made by the script itself from a race's JSON."""
    pair = {"ratio": ratio, "low": ratio * 0.99, "high": ratio * 1.01, "verdict": verdict, "rounds": 12}
    pair |= {"spent_s": 9.0, "median_ratio": ratio}
    told = {
        "race": "0" * 12, "started": "2026-01-02T03:04:05+00:00", "software": "0", "seed": 1, "finished": "decided",
        "method": {"version": module.METHOD_VERSION}, "machine": {"cpu": "C", "kernel": "K"},
        "void": False, "rounds": 12,
        "columns": [
            {"name": "a", "metric": "throughput", "pauses": []}
            | {"plan": {"passes": 8, "lead_ns": 1e7, "counted_ns": 25e6}},
        ],
        "pairs": [pair | {"metric": metric, "column": "a"} for metric in ("throughput", "cpu")],
        "validity": [{"check": "steal", "status": "warn", "detail": "seen"}],
    }  # fmt: skip
    (found,) = [one for one in (*module.KINDS, *module.EVERY_KIND) if one.name == kind]
    made: dict[str, Any] = module._line(found, told | changes, 20.0) | {"host": 0.0}
    return made


def test_the_page_counts_wrong_calls_found_differences_voids_and_warnings(calibration, tmp_path: Path) -> None:
    """Of ten races against itself one is called and one void; of two planted ones both are found, after 9 s."""
    same = [line(calibration, "same: luajit", "same", 1.0) for _ in range(8)]
    same += [line(calibration, "same: luajit", "faster", 1.02), line(calibration, "same: luajit", "same", 1, void=True)]
    planted = [line(calibration, "planted 3 %", "faster", 1.03) for _ in range(2)]
    assert [one["wrong"] for one in same] == [False] * 8 + [True, False]
    page = tmp_path / "evidence" / "verdicts.md"
    page.parent.mkdir()
    kinds = [kind.name for kind in calibration.KINDS]
    foretold = [
        {"kind": "forecast", "noise": {"seconds_to_3_percent": soon, "seconds_to_1_percent": None}}
        for soon in (8.0, 7.5, 12.0)
    ]
    calibration.write_page([*same, *planted, {"kind": "same: luajit", "failed": "no"}, *foretold], kinds, page)
    text = page.read_text()
    assert "| luajit | 10 | 1 | 1 of 9, 11.1 % (0.3–48.2) | 1 of 9, 11.1 % (0.3–48.2) | 9.0 s |" in text
    found = "| 3 % | 2 | 0 | 2 of 2, 100.0 % (15.8–100.0) | 0 | 2 of 2 | 1.0300; true: 1.0300 |"
    assert f"{found} 9.0 s | 9.0 s | 8.0 s (7.5 s to 12.0 s) |" in text
    steal = "| steal | 0 of 10, 0.0 % (0.0–30.8) | 10 of 10, 100.0 % (69.2–100.0) | 0 of 10, 0.0 % (0.0–30.8) |"
    assert f"{steal} `test_each_planted_fault_is_found_and_said_what_to_do` |" in text
    assert "Start, scrutineering and calibration took 11.0 s per race (median)" in text
    assert "1 races failed to run at all." in text
    assert (tmp_path / "pictures" / "calibration.svg").read_text().startswith("<svg")
    calibration.write_page(same, kinds, page)
    assert "| 3 % |" not in page.read_text()


def test_a_check_that_speaks_in_a_clean_race_is_told_apart_from_one_in_a_disturbed_one(calibration) -> None:
    """By what the host took meanwhile, as the script reads it."""

    def raced(host: float, **changes: object) -> dict[str, Any]:
        return line(calibration, "same: luajit", "same", 1.0, **changes) | {"host": host}

    quiet, loud = {"validity": []}, {"validity": [{"check": "void passes", "status": "void", "detail": "many"}]}
    races = [raced(0.0, **quiet), raced(0.005, **quiet), raced(0.001), raced(0.04, **loud), raced(0.02, **quiet)]
    kinds = [kind.name for kind in calibration.KINDS]
    from calibration_page import report

    text = report(races, kinds)
    assert (
        "at most 0.5 % of the cores, all checks passed in 2 of 3, 66.7 % (9.4–99.2); "
        "checks that did not pass: steal (1)." in text
    )
    assert (
        "(median 3.0 %), all checks passed in 1 of 2, 50.0 % (1.3–98.7); checks that did not pass: void passes (1)."
        in text
    )
    assert "There were no others." in report(races[:3], kinds)


def test_what_the_host_took_is_read_from_the_machine(calibration) -> None:
    """A number of seconds that only grows."""
    first = calibration.stolen_s()
    assert 0 <= first <= calibration.stolen_s()


def test_every_kind_gets_its_share(calibration) -> None:
    """The kind furthest behind comes next, whatever earlier runs did."""
    done = calibration.Counter({"planted 3 %": 5})
    drawn = calibration.cycle(calibration.KINDS, done)
    seen = calibration.Counter(next(drawn).name for _ in range(132))
    assert abs(seen["same: nginx-return"] / 20 - seen["same: luajit"] / 3) <= 1
    assert sum(count for name, count in seen.items() if name.startswith("same")) > 0.8 * 132
    assert seen["planted 3 %"] == 0


def test_the_table_of_every_kind_counts_races_by_kind_and_a_race_of_columns_once(calibration) -> None:
    """A race of two columns is wrong if one of them is, and has found a difference only if both have."""
    both = line(calibration, "hello and json: injected 10%", "faster", 1.1)
    assert both["right"]
    column = {"name": "b", "metric": "cpu", "pauses": [], "plan": {"passes": 8, "lead_ns": 1e7, "counted_ns": 25e6}}
    columns = [column | {"name": "a", "metric": "throughput"}, column]
    pairs = [
        {"ratio": 1.1, "low": 1.0, "high": 1.2, "rounds": 12, "spent_s": 9.0, "median_ratio": 1.1}
        | {"column": name, "metric": metric, "verdict": verdict}
        for name, metric, verdict in (("a", "throughput", "faster"), ("b", "cpu", "undecided"))
    ]
    half = line(calibration, "hello and json: injected 10%", "", 1.1, columns=columns, pairs=pairs)
    assert (half["right"], half["wrong"]) == (False, False)
    assert half["columns"]["b"]["cpu"]["verdict"] == "undecided"
    lines = [both, half, *(line(calibration, "TLS: same", verdict, 1.0) for verdict in ("same", "slower"))]
    text = calibration.calibration_kinds.table(lines)
    assert "| hello and json | – | – | 1 of 2, 50.0 % (1.3–98.7) | 0 | 0 | 20 |" in text
    assert "| TLS | 1 of 2, 50.0 % (1.3–98.7) | – | – | 0 | 0 | 20 |" in text


def test_every_check_has_a_test_that_plants_its_fault(calibration) -> None:
    """The page names it, and it is there; a check without one fails here."""
    from calibration_page import PLANTS

    assert set(PLANTS) == set(CheckName)
    for test in {test for tests in PLANTS.values() for test in tests}:
        file, _, name = test.partition("::")
        assert f"def {name}(" in (Path(__file__).parents[1] / file).read_text(), test


def test_a_calibration_may_be_cut_off_at_any_moment(calibration, tmp_path: Path, monkeypatch: Any) -> None:
    """Ctrl-C in the third race: two lines are on the disk and on the page; the next call counts them and goes on.

    A line that was left half is skipped, and takes no other with it.
    """
    file, page, begun = tmp_path / "kept" / "races.jsonl", tmp_path / "evidence" / "verdicts.md", list[str]()
    page.parent.mkdir()

    def race(kind: Any, folder: Path, core: int) -> dict[str, Any]:
        begun.append(kind.name)
        if len(begun) == 3:
            raise KeyboardInterrupt
        return line(calibration, kind.name, "same", 1.0)

    monkeypatch.setattr(calibration, "race", race)
    monkeypatch.setattr(
        calibration, "forecast", lambda: {"kind": "forecast", "method": calibration.METHOD_VERSION, "noise": {}}
    )
    monkeypatch.setattr(calibration, "PLANTED", Path(__file__))
    monkeypatch.setattr(calibration, "ready", lambda kinds: list(kinds))
    monkeypatch.setattr(calibration.signal, "signal", lambda *_: None)
    words = ["calibration.py", "--kinds", "^same: (node|luajit)$", "--file", str(file), "--page", str(page)]
    monkeypatch.setattr(sys, "argv", words)
    calibration.main()
    assert begun == ["same: luajit", "same: node", "same: luajit"]
    assert [one["kind"] for one in race_lines.read(file)] == ["forecast", *begun[:2]]
    assert "2 races from" in page.read_text()
    with file.open("a") as kept:
        kept.write('{"kind": "same: no')
    monkeypatch.setattr(sys, "argv", [*words, "--races", "2"])
    calibration.main()
    assert len(race_lines.read(file)) == 6
    assert len(file.read_text().splitlines()) == 7
    assert "4 races from" in page.read_text()
