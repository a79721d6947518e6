"""The race's database, with real PostgreSQL: its life, its counts, and what a race says of who does not ask it."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from races import (
    HERE,
    SCHEMA,
    assert_nothing_left,
    begin,
    begun,
    dragstrip_run,
    rounds_in,
    servers,
    settings,
    until,
)

from dragstrip.errors import NotReady
from dragstrip.process.database import CONNECTIONS, Database, DatabaseGoneError, Instance, drawn_rows, find, spent
from dragstrip.process.launcher import scratch_root


def _is_here() -> bool:
    try:
        find()
    except NotReady:
        return False
    return True


pytestmark = [
    pytest.mark.live,
    pytest.mark.thorough,  # `make check` installs PostgreSQL, `make test` does not
    pytest.mark.timeout(600),
    pytest.mark.skipif(not _is_here(), reason="PostgreSQL is not installed"),
]


def planted(name: str, mode: str) -> list[str]:
    """The words that add a server of `db` in a mode of ``servers/database.py``."""
    return ["--serve", f"{name}={sys.executable} {HERE}/servers/database.py {{port}} {mode}"]


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    begun.clear()
    yield
    assert_nothing_left()


@pytest.fixture
def database() -> Iterator[Database]:
    cores = tuple(os.sched_getaffinity(0))
    with scratch_root() as root, ExitStack() as resources:
        yield Database(find(), seed=7, cores=cores, scratch=root, resources=resources)


def as_contender(instance: Instance, name: str) -> psycopg.Connection[Any]:
    where = instance.values(name)
    return psycopg.connect(
        host=str(where["database_host"]), port=int(where["database_port"]), user=str(where["database_user"]),
        password=str(where["database_password"]), dbname=str(where["database_name"]), autocommit=True,
    )  # fmt: skip


def test_an_instance_has_the_seeds_rows_counts_by_contender_and_leaves_nothing(database: Database) -> None:
    with database.launch() as instance, as_contender(instance, "one") as one, as_contender(instance, "two") as two:
        rows = drawn_rows(7)
        assert drawn_rows(8) != rows
        before = instance.usage()
        for number in (1, 17, 10_000):
            assert one.execute("SELECT n FROM rows WHERE id = %s", (number,)).fetchone() == (rows[number - 1],)
        two.execute("SELECT count(*), pg_sleep(0.05) FROM rows")
        two.execute("SELECT 1")
        after = instance.usage()
        first, second = (spent(before[name], after[name]) for name in ("one", "two"))
        assert (first["database_statements"], second["database_statements"]) == (3, 1)
        assert (first["database_connections"], second["database_connections"]) == (1, 1)
        assert second["database_exec_ns"] > 50_000_000 > second["database_cpu_ns"] > 0
        assert first["database_cpu_ns"]

        instance.change_rows()
        fresh = one.execute("SELECT n FROM rows ORDER BY id").fetchall()
        assert [n for (n,) in fresh] == instance.rows
        assert not any(now == was for now, was in zip(instance.rows, rows, strict=True))

        with pytest.raises(psycopg.Error):
            one.execute("UPDATE rows SET n = 1")
        folder, process = instance.folder, psutil.Process(instance.process.pid)
        assert process.uids().real != 0
        data = (folder / "data").stat()
        assert data.st_mode & 0o777 == 0o700
    assert not folder.exists()
    assert not process.is_running()


def test_nobody_else_can_log_in_and_no_contender_reaches_the_machine(database: Database, tmp_path: Path) -> None:
    """Any other login fails, on both sockets and over TCP; a contender may read its rows, and nothing of the host."""
    stolen = tmp_path / "stolen"
    with database.launch() as instance, as_contender(instance, "one") as one:
        own = instance.values("one")
        port, password = int(own["database_port"]), str(own["database_password"])
        other = str(instance.values("two")["database_user"])
        assert password != instance.values("two")["database_password"]
        assert len(password) == 64
        hosts = [str(own["database_host"]), str(own["database_socket"]), str(instance.folder / "own")]
        users = ["dragstrip", "postgres", "contenders", "nobody", "root", other, ""]
        for host, user, word in itertools.product(hosts, users, ["", password, "dragstrip"]):
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(host=host, port=port, user=user or None, password=word, dbname="postgres").close()
        for base in ("template0", "template1"):
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(
                    host=hosts[0], port=port, user=str(own["database_user"]), password=password, dbname=base
                ).close()
        for statement in [
            f"COPY (SELECT 1) TO PROGRAM 'cat > {stolen}'",
            "COPY (SELECT 1) FROM PROGRAM 'id'",
            "CREATE TEMP TABLE t (line text); COPY t FROM PROGRAM 'id'",
            "CREATE TEMP TABLE t (line text); COPY t FROM '/etc/passwd'",
            f"COPY rows TO '{stolen}'",
            "SELECT pg_read_file('/etc/passwd')",
            "SELECT pg_read_binary_file('/etc/passwd')",
            "SELECT pg_ls_dir('/')",
            "SELECT pg_stat_file('/etc/passwd')",
            "SELECT lo_import('/etc/passwd')",
            f"SELECT lo_export(lo_create(0), '{stolen}')",
            "CREATE EXTENSION file_fdw",
            "CREATE FUNCTION f() RETURNS integer LANGUAGE C AS 'libc.so.6', 'getpid'",
            "LOAD '/usr/lib/libc.so'",
            "ALTER SYSTEM SET archive_command = 'id'",
            "ALTER ROLE CURRENT_USER SUPERUSER",
            "SET ROLE dragstrip",
            "SET SESSION AUTHORIZATION dragstrip",
            "GRANT pg_execute_server_program TO CURRENT_USER",
            "CREATE ROLE more LOGIN",
            "CREATE TABLE public.mine (n integer)",
            "CREATE FUNCTION public.pg_prewarm(text, text) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'",
            "SELECT rolpassword FROM pg_authid",
            "SELECT pg_stat_statements_reset()",
            "UPDATE rows SET n = 1",
            "DROP TABLE rows",
        ]:
            with pytest.raises(psycopg.Error), one.transaction():
                one.execute(statement)
        assert one.execute("SELECT count(*) FROM rows").fetchone() == (10_000,)
        assert (instance.folder / "own").stat().st_mode & 0o777 == 0o700
        told = "".join(file.read_text(errors="replace") for file in (instance.folder / "data").glob("*.conf"))
        assert instance.password not in told + instance.process.log_tail()
    assert not stolen.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="as an ordinary user there is one user alone")
def test_the_data_that_root_copies_for_each_round_is_roots(database: Database) -> None:
    """A contender runs as the database's user: a link that it planted there would be followed by root."""
    with database.launch():
        made = next(database._scratch.glob("*-template"))
        assert {path.lstat().st_uid for path in (made, *made.rglob("*"))} == {0}


def segments() -> set[str]:
    """System V shared memory of this machine, by its numbers (proc(5))."""
    return {line.split()[1] for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]}


def test_each_instance_is_fresh_and_one_that_was_killed_is_told(database: Database) -> None:
    with database.launch() as instance:
        instance.change_rows()
    with database.launch() as instance, as_contender(instance, "one") as client:
        assert client.execute("SELECT n FROM rows WHERE id = 5").fetchone() == (drawn_rows(7)[4],)
        segment = (instance.folder / "data" / "postmaster.pid").read_text().splitlines()[6].split()[1]
        assert segment in segments()
        os.kill(instance.process.pid, signal.SIGKILL)
        until(lambda: not instance.alive(), 20, "it is thought to be alive")
        with pytest.raises(DatabaseGoneError, match="PostgreSQL is gone"):
            instance.usage()
    assert segment not in segments()


def shown(env: dict[str, str]) -> dict[str, Any]:
    done = dragstrip_run(env, "show", "last", "--json")
    assert done.returncode == 0, done.stderr
    race: dict[str, Any] = json.loads(done.stdout)
    return race


def test_servers_that_answer_from_memory_are_named_and_commits_equal_answers(tmp_path: Path) -> None:
    """Two right ones beside one that read the table at its start, and one that asks for each row once."""
    env = settings(tmp_path)
    words = [
        *planted("one", "right"),
        *planted("two", "right"),
        *planted("knows", "memory"),
        *planted("keeps", "caches"),
    ]
    done = dragstrip_run(env, "race", *words, "--workload", "db", "--rounds", "2")
    shown_race = shown(env)
    assert done.returncode == 0, done.stdout + done.stderr
    import jsonschema

    jsonschema.validate(shown_race, SCHEMA)
    out = {entry["name"]: entry["out"] for entry in shown_race["contenders"]}
    assert out["one"] == out["two"] == ""
    assert "did not query the database for its responses" in out["knows"]
    assert "did not query the database for its responses" in out["keeps"]
    for entry in shown_race["columns"][0]["contenders"]:
        if not entry["out"]:
            used = entry["database"]
            assert used["statements"] == pytest.approx(used["wanted_statements"], rel=0.001)
            assert used["statements"] >= entry["requests"]
            assert used["cpu_us_per_request"] > 1
    facts = shown_race["machine"]["database"]
    assert facts["connections"] == CONNECTIONS
    assert facts["version"] == find().version
    assert facts["settings"]["fsync"] == "off"
    assert any(event["kind"] == "database" for event in shown_race["events"])
    (check,) = (entry for entry in shown_race["validity"] if entry["check"] == "database")
    assert check["status"] == "pass", check
    assert "CPU µs per request, server + its own database processes: " in done.stdout


def test_a_slow_database_is_called_the_limit(tmp_path: Path) -> None:
    env = settings(tmp_path)
    words = [*planted("one", "sleeps"), *planted("two", "sleeps")]
    done = dragstrip_run(env, "race", *words, "--workload", "db", "--rounds", "3")
    shown_race = shown(env)
    assert done.returncode == 0, done.stdout + done.stderr
    (check,) = (entry for entry in shown_race["validity"] if entry["check"] == "database")
    assert check["status"] == "warn"
    assert check["detail"].startswith("the database is the limit: ")
    # The first answers come at once: a block as short as those ask for would count none of the others.
    (column,) = shown_race["columns"]
    assert all(entry["throughput_per_s"] and entry["requests"] > 100 for entry in column["contenders"]), column
    assert [pair["verdict"] for pair in shown_race["pairs"] if pair["metric"] == column["metric"]] == ["undecided"]


def postgres_of(race: subprocess.Popen[str]) -> list[psutil.Process]:
    """The main processes of a race's databases."""
    processes = []
    for child in psutil.Process(race.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            words = child.cmdline()
            if words and words[0].endswith("/postgres") and "-D" in words:
                processes.append(child)
    return processes


def test_a_database_that_dies_while_it_is_filled_leaves_room_for_the_next(database: Database) -> None:
    """Otherwise every further round of the race would be void."""
    instance = database.launch()
    psutil.Process(instance.process.pid).kill()
    with pytest.raises(DatabaseGoneError), instance:
        pass
    with database.launch() as after:
        assert after.alive()


def test_a_database_that_dies_voids_its_round_and_one_that_is_orphaned_goes(tmp_path: Path) -> None:
    """Killed in the second round, which is void and repeated; no contender is out. Then ``kill -9`` of the race."""
    env = settings(tmp_path)
    words = [*planted("one", "right"), *planted("two", "right")]
    race = begin(
        env, "race", *words, "--workload", "db", "--rounds", "500", stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    until(lambda: rounds_in(env) >= 1 or race.poll() is not None, 120, "no round was recorded")
    until(lambda: bool(postgres_of(race)) or race.poll() is not None, 60, "no database came up")
    postgres_of(race)[0].kill()
    before = rounds_in(env)
    until(lambda: rounds_in(env) >= before + 2 or race.poll() is not None, 120, "it did not go on")
    assert race.poll() is None, race.communicate()[0]
    race.kill()
    race.communicate()
    until(lambda: not servers(), 20, "something outlives the race")
    assert_nothing_left()
    shown_race = shown(env)
    void = [entry for entry in shown_race["void_rounds"] if any("database" in reason for reason in entry["reasons"])]
    assert len(void) == 1, shown_race["void_rounds"]
    assert not any(entry["out"] for entry in shown_race["contenders"])


def test_a_race_without_the_database_says_how_to_install_it(tmp_path: Path) -> None:
    env = settings(tmp_path) | {"PATH": str(tmp_path)}
    code = (
        "from pathlib import Path; import dragstrip.process.database.programs as p; p._VERSIONS = Path('/nonexistent');"
        "from dragstrip.commands.main import main; main()"
    )
    words = ["race", *planted("one", "right"), *planted("two", "right"), "--workload", "db"]
    done = subprocess.run([sys.executable, "-c", code, *words], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "`dragstrip install postgresql` installs it" in done.stderr
