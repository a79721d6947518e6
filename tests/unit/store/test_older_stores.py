"""What a user stored opens in every later version: stores and exports that older code wrote, in ``tests/stores``.

Each was written by the last commit of its schema: two races, the first with a verdict, and from schema 3 on with extra
launches (``why``); and an export of the first.
"""

from __future__ import annotations

import lzma
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import samples
from commands import dragstrip

from dragstrip.analysis.comparison import compare
from dragstrip.errors import BadUsage, StoreError
from dragstrip.racing.request import request_of
from dragstrip.racing.resume import resume
from dragstrip.record import METHOD_VERSION, Race
from dragstrip.report.console import Console
from dragstrip.report.race.headline import headline
from dragstrip.report.race.live import LiveProgress
from dragstrip.report.race.summary import JudgedRace
from dragstrip.store import schema
from dragstrip.store.database import Store

STORES = Path(__file__).parents[2] / "stores"
PUBLISHED = sorted((Path(__file__).parents[3] / "docs" / "claims").glob("*.race.xz"))
FIRST, SECOND = "000000000007", "000000000009"
VERSIONS = range(schema.OLDEST_SCHEMA, schema.SCHEMA_VERSION + 1)


def written(version: int, folder: Path, suffix: str = "sqlite") -> Path:
    """A store, or an export, as that version wrote it."""
    path = folder / f"old.{suffix}"
    path.write_bytes(lzma.decompress((STORES / f"schema-{version}.{suffix}.xz").read_bytes()))
    return path


def as_samples_make(race: Race, like: Race) -> None:
    """Both were made by the same builder, so what was measured is equal."""
    assert [round_.blocks for round_ in race.rounds] == [round_.blocks for round_ in like.rounds]
    assert [round_.launches for round_ in race.rounds] == [round_.launches for round_ in like.rounds]
    assert race.columns == like.columns


@pytest.mark.parametrize("version", VERSIONS)
def test_a_store_of_an_older_schema_opens_with_all_that_was_measured(version: int, tmp_path: Path) -> None:
    """It becomes one of this schema, whose every table reads as in a new store."""
    path = written(version, tmp_path)
    with Store(path, write=False) as store:
        assert [line.race for line in store.runs()] == [SECOND, FIRST]
        one, two = store.load(FIRST), store.load(SECOND)
    as_samples_make(one, samples.race({"quick": 4e4, "slow": 3e4}, rounds=6, passes=3))
    as_samples_make(two, samples.race_of_two(seed=9, rounds=5, passes=3))
    assert len(one.profiles) == (0 if version == 2 else 4)
    with closing(sqlite3.connect(path)) as db, closing(sqlite3.connect(":memory:", isolation_level=None)) as new:
        schema.create(new, Path("new"))
        assert schema.version_of(db) == schema.SCHEMA_VERSION
        assert set(schema._objects(db)) == set(schema._objects(new)) == schema.made_by_us(schema.SCHEMA_VERSION)
    with Store(path) as store:
        store.begin(samples.race(seed=11, rounds=1))
        assert store.load("00000000000b").rounds


def test_a_launchs_columns_become_counts_by_name(tmp_path: Path) -> None:
    """No digit is lost, and what was not known has no name."""
    path = written(4, tmp_path)
    with samples.unguarded(path) as db:
        db.execute("UPDATE launch SET cpu_ns = NULL, served = 0, database_wanted = ?", (0.1 + 0.2,))
    with Store(path) as store:
        (counts,) = {tuple(one.counts.items()) for this in store.load(FIRST).rounds for one in this.launches}
    known = {"peak_memory_bytes": 6 * 2**20, "processes": 2, "threads": 2, "served": 0, "database_wanted": 0.1 + 0.2}
    assert dict(counts) == known


@pytest.mark.parametrize("version", VERSIONS)
def test_an_export_of_an_older_schema_is_imported(version: int, tmp_path: Path) -> None:
    with Store(tmp_path / "races.sqlite") as store:
        assert store.import_race(written(version, tmp_path, "race")) == FIRST
        as_samples_make(store.load(FIRST), samples.race({"quick": 4e4, "slow": 3e4}, rounds=6, passes=3))


@pytest.mark.parametrize("version", VERSIONS[:-1])
def test_a_migration_that_is_cut_off_changes_nothing(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(version, tmp_path)
    before = path.read_bytes()
    statements = schema._statements

    def cut(name: str) -> tuple[str, ...]:
        return (*statements(name)[:-1], "INVALID")

    with monkeypatch.context() as patch:
        patch.setattr(schema, "_statements", cut)
        with pytest.raises(StoreError, match="INVALID"):
            Store(path)
    assert path.read_bytes() == before
    with Store(path) as store:
        assert len(store.runs()) == 2


@pytest.mark.parametrize("version", VERSIONS)
def test_a_race_of_an_older_method_is_shown_with_what_was_said_then(version: int, tmp_path: Path) -> None:
    with Store(written(version, tmp_path)) as store:
        race = store.load(FIRST)
    said = headline(JudgedRace.of(race))
    older = f"It was raced by method {race.method}, and is judged here by method {METHOD_VERSION}; its verdict then: "
    assert (f"{older}FASTER quick 1.33 ×, as it was told then." in said) == (race.method < METHOD_VERSION)
    done = dragstrip("show", FIRST, "--store", str(tmp_path / "old.sqlite"))
    assert done.returncode == 0, done.stderr
    assert (f"raced by method {race.method}," in done.stdout) == (race.method < METHOD_VERSION)


def test_races_of_two_methods_are_neither_compared_nor_mixed(tmp_path: Path) -> None:
    path = written(VERSIONS[0], tmp_path)
    with Store(path) as store:
        old = store.load(FIRST)
        new = samples.changed(samples.race({"quick": 4e4, "slow": 3e4}, rounds=6, passes=3), id="a" * 12)
        store.begin(new)
        assert old.method < new.method
        compared = compare(old, new)
        assert not compared.comparable
        assert compare(old, replace(old, id="b" * 12)).comparable
        with pytest.raises(BadUsage, match=rf"raced by method {old.method}, .* `dragstrip rerun {FIRST}`"):
            resume(FIRST, request_of(old, entries=()), store=store, progress=LiveProgress(Console()), extra_s=10.0)
    done = dragstrip("compare", FIRST, "a" * 12, "--store", str(path))
    assert done.returncode == 3
    assert f"raced by method: {old.method}, then {METHOD_VERSION}" in " ".join(done.stdout.split())


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.name[:12])
def test_a_published_export_is_read_and_judged(path: Path, tmp_path: Path) -> None:
    with Store(tmp_path / "races.sqlite") as store:
        race = store.load(store.import_race(path))
    judged = JudgedRace.of(race)
    assert judged.verdict.pairs
    assert headline(judged)
