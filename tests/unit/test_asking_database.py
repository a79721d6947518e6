"""What a workload that asks the database wants of definitions, of the machine's cores and of `dragstrip install`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from dragstrip import contender
from dragstrip.commands.install import install_command
from dragstrip.contender import Missing, install
from dragstrip.errors import BadDefinition, NotReady
from dragstrip.machine import Lanes, with_database
from dragstrip.process import database
from dragstrip.workload import TABLE_ROWS, load

OWN = """
name = "own"
title = "Own"
host = "own"
language = "C"
workloads = ["hello", "db"]

[needs]
commands = ["sh"]

[database]
needs.files = ["/nonexistent/driver.so"]
install.debian = ["own-driver"]

[database.parity]
driver = "own {threads}"

[parameters]
threads = 4

[start]
command = ["sh", "-c", "exec own {port}"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "contender.toml").write_text(OWN)
    return tmp_path


def test_a_driver_is_wanted_only_where_the_database_is_asked(folder: Path) -> None:
    plain = contender.entry(str(folder))
    assert not isinstance(contender.check(plain), Missing)
    assert "driver" not in plain.parity
    asking = plain.for_workload("db", asks_database=True)
    state = contender.check(asking)
    assert isinstance(state, Missing)
    assert state.remedy == f"`dragstrip install {folder} --workload db` installs it"
    assert asking.parity["driver"] == "own 4"
    assert asking.for_workload("db", asks_database=True) == asking
    (step,) = [
        step for step in install.plan([asking], root=True, apt=True, candidates=set).steps if "install" in step.command
    ]
    assert step.command[-1] == "own-driver"
    assert install.plan([plain], root=True, apt=True, candidates=set).impossible


def test_where_the_database_is_stands_in_templates_and_in_the_environment(folder: Path, tmp_path: Path) -> None:
    """Also of an ad hoc server; without one the names are empty, and the environment has none of it."""
    where = {"database_host": "127.0.0.1", "database_port": 5, "database_user": "u", "database_name": "d",
             "database_socket": "/s", "database_connections": 16, "database_password": "p"}  # fmt: skip
    mine = contender.serve_entry("mine=./own {port} {database_port}", tmp_path)
    (tmp_path / "scratch").mkdir()
    start = contender.prepare(
        mine, scratch=tmp_path / "scratch", port=1, cores=(0,), workload="db", database=where
    )  # fmt: skip
    assert start.command[-1] == "5"
    assert (start.env["PGHOST"], start.env["PGPORT"], start.env["DATABASE_CONNECTIONS"]) == ("127.0.0.1", "5", "16")
    alone = contender.prepare(mine, scratch=tmp_path / "scratch", port=1, cores=(0,), workload="db")
    assert (alone.command[-1], alone.env) == ("", {"PORT": "1", "HOST": "127.0.0.1"})
    text = OWN.replace("exec own {port}", "exec own {port} {database_colour}")
    (folder / "contender.toml").write_text(text)
    with pytest.raises(BadDefinition, match="database_colour"):
        contender.entry(str(folder))


def alone(core: int) -> tuple[int]:
    return (core,)


def test_a_database_has_cores_of_its_own_where_there_are_enough() -> None:
    """The remaining cores; otherwise half of the servers' cores if not set by the user; a single core is shared."""

    def lane(server: tuple[int, ...], engine: tuple[int, ...], count: int, divisible: bool) -> Lanes:
        lanes = Lanes(server, engine, bool(set(server) & set(engine)), "")
        return with_database(lanes, divisible=divisible, allowed=range(count), threads_of=alone)

    assert lane((1,), (0,), 2, True) == Lanes((1,), (0,), False, "", (1,))
    assert lane((1,), (0,), 2, True).servers_share
    assert lane((2, 3), (0, 1), 4, True) == Lanes((2,), (0, 1), False, "", (3,))
    assert not lane((2, 3), (0, 1), 4, True).servers_share
    assert lane((2, 3), (0, 1), 4, False) == Lanes((2, 3), (0, 1), False, "", (2, 3))
    assert lane((2,), (0,), 4, False) == Lanes((2,), (0,), False, "", (1, 3))
    assert lane((2,), (0,), 4, False).all == (0, 1, 2, 3)
    assert lane((0,), (0,), 1, True).database == (0,)


def test_the_database_is_installed_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> database.Programs:
        raise NotReady("it is not here")

    monkeypatch.setattr(database, "find", nowhere)
    monkeypatch.setattr(install, "lists_step", lambda *_: None)
    monkeypatch.setattr(install, "_candidates", frozenset)
    done = CliRunner().invoke(install_command, ["postgresql"], input="n\n")
    assert "install -y --no-install-recommends --no-remove postgresql-15" in done.output or "need root" in done.output


@pytest.mark.parametrize("words", [["--all"], ["--all", "--workload", "db"]])
def test_all_that_is_installed_has_the_database_and_its_drivers(
    monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """After `install --all` nothing that `verify` of all, or `race --workload db`, needs is missing."""
    checked: list[contender.Entry] = []

    def missing(entry: contender.Entry) -> contender.Missing:
        checked.append(entry)
        return contender.Missing("planted", "")

    def nowhere() -> database.Programs:
        raise NotReady("it is not here")

    monkeypatch.setattr(database, "find", nowhere)
    monkeypatch.setattr(install, "lists_step", lambda *_: None)
    monkeypatch.setattr(install, "_candidates", frozenset)
    monkeypatch.setattr(contender, "check", missing)
    done = CliRunner().invoke(install_command, words, input="n\n")
    assert database.DEBIAN in done.output
    for name in ("node", "tornado"):
        for workload in contender.shipped()[name].fields.workloads if words == ["--all"] else ("db",):
            needed = contender.entry(name).for_workload(workload, asks_database=load(workload).asks_database)
            assert any(known.contender == needed.contender for known in checked), (name, workload)


def test_tables_that_are_large_or_written_need_more_memory() -> None:
    needs = [database.room_of(schema, writes=writes) for schema, writes in (("rows", False), ("items", False))]
    assert needs[0] < needs[1] < database.room_of("hello_world", writes=True)


def test_rows_are_the_seeds_and_of_one_length() -> None:
    rows = database.drawn_rows(1)
    assert len(rows) == TABLE_ROWS
    assert rows == database.drawn_rows(1) != database.drawn_rows(2)
    assert {len(str(n)) for n in rows} == {5}
