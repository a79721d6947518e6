"""TechEmpower's and HttpArena's workloads with a database: a right server passes, and each way to cheat is named.

Three PostgreSQLs, and for each one process with all its servers, each with a fault of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from races import HERE
from suites import load_for, loaded

from dragstrip.errors import NotReady
from dragstrip.process.database import Database, Instance, find, spent
from dragstrip.process.launcher import scratch_root
from dragstrip.racing import database_proof, proving
from dragstrip.record import LaunchCount
from dragstrip.scrutiny import Server, caching
from dragstrip.workload import Asking, Schema, Written
from dragstrip.workload import load as load_workload


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

FAULTS: dict[str, tuple[str, ...]] = {
    "hello_world": (
        "none", "cached", "kept", "unsorted", "unescaped", "undated", "stale", "favourite", "invented", "joined",
    ),
    "written": ("none", "unwritten", "same"),
    "items": (
        "none", "cheap", "floats",
        "forever", "prolonged", "deaf", "uncached", "copied", "imagined", "unpaged", "remembered",
    ),
}  # fmt: skip

#: The instance and the role of each workload.
PLACES = {"tfb-updates": "written", "arena-async-db": "items", "arena-api-4": "items", "arena-crud": "items"}


@dataclass
class Place:
    """A running database, and the ports of its servers by their faults."""

    instance: Instance
    ports: dict[str, int]
    folder: Path
    written: dict[int, Written] = field(default_factory=dict)

    def asking(self, name: str, fault: str = "none") -> Asking:
        """All servers of a place write into the same tables, but for one that does not write."""
        workload = load_workload(name)
        written = dict(self.written) if fault == "imagined" else self.written
        data = replace(workload.data("a launch"), tables=self.instance.tables, written=written)
        for file, content in data.files.items():
            (self.folder / file).write_bytes(content)
        return Asking(workload, seed=3, data=data)

    def reason(self, name: str, fault: str) -> str:
        """Why a server is out; "" if it passes. The steps are scrutineering's, in its order."""
        asking, server, load = (
            self.asking(name, fault),
            Server("127.0.0.1", self.ports[fault]),
            load_for(load_workload(name)),
        )
        before = self.instance.usage()["servers"]
        own_numbers = (lambda: self.instance.own_numbers("servers")) if asking.workload.writes else None
        findings = proving.prove(asking, load, server, own_numbers)
        if findings.problems:
            return findings.problems[0]
        used = spent(before, self.instance.usage()["servers"])
        if reason := database_proof.served_from_elsewhere(used[LaunchCount.DATABASE_STATEMENTS], findings.statements):
            return reason
        if asking.workload.queries:
            return self.stale(name, fault)
        return ""

    def stale(self, name: str, fault: str) -> str:
        """Why a server sends old rows; "" if it does not."""
        asked = {fault: (self.asking(name), Server("127.0.0.1", self.ports[fault]))}
        return database_proof.stale_after(self.instance.change_rows, asked).get(fault, "")

    def kept(self, name: str, fault: str) -> str:
        """What is wrong with a server's cache; "" if nothing is."""
        exchanges = self.asking(name).probes()
        return next(iter(caching.check_caching(Server("127.0.0.1", self.ports[fault]), exchanges).problems), "")


@contextmanager
def placed(database: Database, schema: Schema, name: str, folder: Path) -> Iterator[Place]:
    with database.launch(schema, writes=name != "hello_world") as instance:
        where = {key.upper(): str(value) for key, value in instance.values("servers").items()}
        env = os.environ | where | {
            "PGHOST": where["DATABASE_HOST"], "PGPORT": where["DATABASE_PORT"], "PGUSER": where["DATABASE_USER"],
            "PGPASSWORD": where["DATABASE_PASSWORD"],
            "PGDATABASE": where["DATABASE_NAME"], "DATA": str(folder),
        }  # fmt: skip
        words = [word for fault in FAULTS[name] for word in ("0", fault)]
        command = [sys.executable, str(HERE / "servers" / "suites_database.py"), *words]
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                ports = map(int, process.stdout.readline().split())
                yield Place(instance, dict(zip(FAULTS[name], ports, strict=True)), folder)
            finally:
                process.kill()


@pytest.fixture(scope="module")
def places() -> Iterator[dict[str, Place]]:
    cores = tuple(os.sched_getaffinity(0))
    with scratch_root() as root, ExitStack() as resources:
        schemas: dict[str, Schema] = {"hello_world": "hello_world", "written": "hello_world", "items": "items"}
        made = {}
        for name, schema in schemas.items():
            (root / name).mkdir()
            database = Database(find(), seed=7, cores=cores, scratch=root / name, resources=resources)
            made[name] = resources.enter_context(placed(database, schema, name, root / name))
        yield made


def place_of(places: dict[str, Place], name: str) -> Place:
    return places[PLACES.get(name, "hello_world")]


@pytest.mark.parametrize(
    "name",
    [
        "tfb-cached",
        "tfb-db",
        "tfb-queries",
        "tfb-fortunes",
        "tfb-updates",
        "arena-async-db",
        "arena-api-4",
        "arena-crud",
    ],
)
def test_a_right_server_passes_before_and_under_load(places: dict[str, Place], name: str) -> None:
    """Also after all rows have changed; under load, the engine accepts any numbers, and nothing else that differs."""
    place = place_of(places, name)
    assert place.reason(name, "none") == ""
    before = place.instance.usage()["servers"]
    asking, server = place.asking(name), Server("127.0.0.1", place.ports["none"])
    assert loaded(asking, server, 200) == {}
    exchanges = asking.exchanges()
    needs = [exchanges[at].statements for at in asking.workload.sequence(exchanges, 3) or range(len(exchanges))]
    used = spent(before, place.instance.usage()["servers"])[LaunchCount.DATABASE_STATEMENTS]
    assert used >= sum((needs * 200)[:200])


@pytest.mark.parametrize(
    ("name", "fault", "words"),
    [
        ("tfb-fortunes", "cached", "did not query the database for its responses"),
        ("tfb-fortunes", "kept", "as the table has it"),
        ("tfb-fortunes", "unsorted", "did not sort the messages"),
        ("tfb-fortunes", "unescaped", "did not escape the message '<script>"),
        ("tfb-fortunes", "undated", "sent 12 rows; expected 13"),
        ("tfb-db", "stale", "which the table does not have"),
        ("tfb-db", "favourite", "chose only 1 different rows in 8 cases"),
        ("tfb-db", "invented", "which the table does not have"),
        ("tfb-queries", "joined", "did not query the database for its responses"),
        ("tfb-updates", "unwritten", "did not write what it returned"),
        ("tfb-updates", "same", "returned the old numbers"),
        ("arena-async-db", "cheap", "sent an item with the price"),
        ("arena-async-db", "floats", "as the table has it"),
        ("arena-crud", "unpaged", "in the order of ids"),
        ("arena-crud", "copied", "did not query the database for its responses"),
        ("arena-crud", "imagined", "did not write what it returned"),
    ],
)
def test_a_cheat_is_out_and_named(places: dict[str, Place], name: str, fault: str, words: str) -> None:
    reason = place_of(places, name).reason(name, fault)
    assert words in reason, reason


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("deaf", "as the table has it"),
        ("uncached", "less than 200 ms before; expected HIT"),
        ("forever", "s before; expected MISS after 200 ms"),
        ("prolonged", "s before; expected MISS after 200 ms"),
        ("remembered", "responds from a copy of the database's rows"),
    ],
)
def test_a_wrong_cache_is_out_and_named(
    places: dict[str, Place], monkeypatch: pytest.MonkeyPatch, fault: str, words: str
) -> None:
    monkeypatch.setattr(caching, "TRIES", 100)  # a busy machine may take too long for the first ones
    place = places["items"]
    reason = place.kept("arena-crud", fault) or place.stale("arena-crud", fault)
    assert words in reason, reason


def test_the_items_of_the_table_are_those_of_the_program(places: dict[str, Place]) -> None:
    """Both are made from one hash, in SQL and in Python."""
    instance = places["items"].instance
    rows = instance.ask("SELECT id, name, category, price, active, tags FROM items WHERE id % 9973 = 5 ORDER BY id")
    made = [instance.tables.item(number) for number in range(5, 100_001, 9973)]
    assert rows == [tuple(item[key] for key in ("id", "name", "category", "price", "active", "tags")) for item in made]
    (counted,) = instance.ask("SELECT count(*) FROM items WHERE price BETWEEN 17 AND 63")[0]
    assert counted == instance.tables.items_within(17, 63)
