"""Whole races between real servers, through the command line, as a user types it.

One race, ``crowd``, holds every well- and ill-behaved server that can race beside the others; each test looks at one
side of what came of it. Interrupts are in ``test_interrupt.py``.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest
from browser import Watched, browser
from commands import process
from races import (
    HERE,
    PYTHON,
    SCHEMA,
    assert_nothing_left,
    begun,
    dragstrip_run,
    misbehaving,
    running_server,
    settings,
)

from dragstrip._engine import Engine, Exchange, ReferenceServer, SessionPlan, Target
from dragstrip.contender.entries import entry_of, serve_entry
from dragstrip.errors import EngineError
from dragstrip.racing import schedule
from dragstrip.racing.setup import watch_cpu_time
from dragstrip.record import EventKind

pytestmark = pytest.mark.timeout(600)

HOSTILE = "<script>alert(1)</script>"
#: After how many answers the mortal ones die, in any launch but their first: as they are warmed up, or in a block.
DIES_AFTER = ("20", "600", "block")
HOLDING = ("one", "two", "three")
#: Each of these yields no number, and the report says why in these words.
OUT = {
    "wrong-byte": ["differs", "byte 10"],
    "fast-500": ["status 500"],
    "exits": ["no configuration found"],
    "never": ["within 30 s of its start", "--wake"],
    **{name: ["over keep-alive"] for name in HOLDING},
    **{f"dies-{count}": ["dying now, as told", "died under load (exit status 9)"] for count in DIES_AFTER},
    "crashes-9": ["died in scrutineering (killed by SIGSEGV (Segmentation fault))", "dying now, by a crash"],
    "crashes-999": ["died under load (killed by SIGSEGV (Segmentation fault))", "dying now, by a crash"],
    "daemonizes": ["ended with exit status 0 while process ", "start the server in the foreground"],
}
#: Two servers of the user's own; a command line that shows afterwards which of Dragstrip's modules it imported; and at
#: most how many it may: a race should not wait for what it does not use, and what the heart of a race is stays visible.
OWN_TWO = [*misbehaving("one", "none"), *misbehaving("two", "none")]
IMPORTED = """
import sys
from dragstrip.commands.main import run
code = run(sys.argv[1:])
print(code)
print(*sorted(name for name in sys.modules if name.startswith("dragstrip.")))
"""
MOST_MODULES = 130
#: Rooms of which it may import none.
FOR_SOME = (
    "extras",
    "image",
    "why",
    "doctor",
    "revision",
    "sweep",
    "site",
    "loading",
    "process.database",
    "report.load",
)

#: In the first round some die, and the second is whole.
SEED, ROUNDS = 7, 2


@dataclass(frozen=True)
class Raced:
    """What a race said and left: its JSON, its terminal, its page, its store."""

    told: dict[str, Any]
    code: int
    said: str
    page: Path
    env: dict[str, str]
    url: str

    def contender(self, name: str) -> dict[str, Any]:
        """Who it is, and what it did in the race's only column."""
        (column,) = self.told["columns"]
        (entrant,) = [one for one in self.told["contenders"] if one["name"] == name]
        (found,) = [one for one in column["contenders"] if one["name"] == name]
        return {**entrant, **found}

    def names_left(self) -> list[str]:
        return [one["name"] for one in self.told["contenders"] if not one["out"]]


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """After each test: no scratch directory of a race begun in it, and no process with a foot in one."""
    begun.clear()
    yield
    assert_nothing_left()


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Raced:
    """Two nginx, servers at a socket, at ::1 and running already, a restless and a hostile one; all others fall out."""
    folder = tmp_path_factory.mktemp("crowd")
    out, page, env = folder / "out.json", folder / "race.html", settings(folder)
    words = ["race", "nginx-return", "nginx-static", "--rounds", str(ROUNDS), "--seed", str(SEED)]
    words += ["--json", str(out), "--html", str(page)]
    words += misbehaving("socket", "none", address="{socket}")
    words += misbehaving("restless", "restless")
    words += misbehaving(HOSTILE, "hostile")
    for fault in ("wrong-byte", "fast-500", "exits", "never", "daemonizes", "six"):
        words += misbehaving(fault, fault)
    for count in ("9", "999"):
        words += misbehaving(f"crashes-{count}", "crashes", count)
    for name in HOLDING:
        words += misbehaving(name, "holds")
    for count in DIES_AFTER:
        words += misbehaving(f"dies-{count}", "dies", str(folder / f"launched-{count}"), count)
    begun.clear()
    with running_server() as (url, server):
        done = dragstrip_run(env, *words, url)
        assert out.exists(), done.stdout + done.stderr
        assert server.poll() is None, "a server that was running before is nobody's to end"
    assert_nothing_left()
    return Raced(json.loads(out.read_text()), done.returncode, done.stdout + done.stderr, page, env, url)


@pytest.mark.thorough
def test_its_record_follows_the_schema_and_its_exit_code_says_whether_there_is_an_answer(crowd: Raced) -> None:
    """A disturbed machine may void the race; then it must say so. Each round is there, for all that are left."""
    jsonschema.validate(crowd.told, SCHEMA)
    assert crowd.code == (3 if crowd.told["void"] else 0), crowd.said
    left = crowd.names_left()
    assert set(left) == {"nginx-return", "nginx-static", "socket", "six", "restless", HOSTILE, crowd.url}
    assert len(crowd.told["order"]) >= ROUNDS
    paired = {name for pair in crowd.told["pairs"] for name in (pair["a"], pair["b"])}
    assert paired == set(left)


@pytest.mark.parametrize("name", OUT)
@pytest.mark.thorough
def test_a_contender_that_is_wrong_or_dies_is_named_with_what_it_did(crowd: Raced, name: str) -> None:
    """It yields no number and is in no pair, the report says why, and the others race on.

    One that never listens is reported with the time waited for it; one that dies, with its last words, wherever it
    died: as it was warmed up, in a lead-in, in a block.
    """
    bad = crowd.contender(name)
    for word in OUT[name]:
        assert word in bad["out"]
    assert bad["throughput_per_s"] is None or bad["throughput_per_s"]["estimate"] is None
    assert bad["requests"] == 0 or name.startswith("dies")
    assert all(name not in (pair["a"], pair["b"]) for pair in crowd.told["pairs"])
    assert name in crowd.said
    assert "dying now" in crowd.said
    for never in ("sent no correct response under load", "Connection refused"):
        assert never not in bad["out"] or name == "never"


@pytest.mark.thorough
def test_the_seed_and_the_plan_give_the_order_of_blocks(crowd: Raced) -> None:
    """What was loaded is what they draw, to the last block; another seed would have drawn another order.

    How many passes there are and who takes part in how many is calibration's, which differs from race to race. Rounds
    that lost one in their midst are left out.
    """
    names, whole = [one["name"] for one in crowd.told["contenders"]], 0
    for index, passes in enumerate(crowd.told["order"]):
        own = Counter(name for names_of in passes for name in names_of)
        if set(own) != set(crowd.names_left()):
            continue
        here = [name for name in names if name in own]
        drawn = {of: schedule.round_order(of, index, here, len(passes), takes=own).passes for of in (SEED, SEED + 1)}
        assert [tuple(names_of) for names_of in passes] == list(drawn[SEED])
        assert drawn[SEED] != drawn[SEED + 1]
        whole += 1
    assert whole


@pytest.mark.thorough
def test_a_contender_that_asks_for_a_socket_is_reached_there(crowd: Raced) -> None:
    """Beside others at ports: all are proved, loaded and stopped alike; the record says where each was."""
    assert not any(crowd.contender(name)["errors"] for name in crowd.names_left())
    with sqlite3.connect(crowd.env["DRAGSTRIP_STORE"]) as store:
        addresses = dict(store.execute("SELECT contender, address FROM launch").fetchall())
    assert addresses["socket"].startswith("unix:/tmp/dragstrip-")
    assert addresses[HOSTILE].startswith("127.0.0.1:")


@pytest.mark.thorough
def test_a_running_server_is_raced_by_its_address(crowd: Raced) -> None:
    """A URL joins as a contender (that it is not ended is asserted where the race is run)."""
    assert crowd.contender(crowd.url)["requests"] > 0
    assert any(crowd.url in (pair["a"], pair["b"]) for pair in crowd.told["pairs"])


@pytest.mark.thorough
def test_a_restless_leaking_contender_is_frozen_while_idle_and_its_growth_is_told(crowd: Raced) -> None:
    """It works for a third of the time without requests: the sheet says that it is frozen, and it still serves."""
    quiet, restless = crowd.contender("nginx-return"), crowd.contender("restless")
    assert "frozen but for its own blocks" in restless["parity"]["while idle"]
    assert "while idle" not in quiet["parity"]
    assert "short blocks" in quiet["parity"]
    assert min(restless["blocks"], quiet["blocks"]) > 0
    grew = [one["detail"] for one in crowd.told["events"] if one["kind"] == EventKind.GROWING]
    assert len(grew) >= crowd.told["rounds"] / 2
    assert all(detail.startswith("restless: ") for detail in grew)


@pytest.mark.thorough
def test_a_hostile_name_and_hostile_headers_are_shown_as_text(crowd: Raced) -> None:
    """Named as a script, answering with headers that attack terminal and page: text in both, from race to report."""
    told = crowd.said + dragstrip_run(crowd.env, "show", "last", "--parity").stdout
    assert not set("\x1b\x9b\x9d") & set(told)
    assert r"\x9b2J" in told
    with browser() as running:
        watched = Watched(running, crowd.page.as_uri())
        watched.page.goto(crowd.page.as_uri())
        watched.page.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)")
        text = watched.page.locator("main").inner_text()  # of what is folded it has nothing
        assert HOSTILE in text
        assert r"\x9b2J" in text
        assert watched.said == []
        watched.close()


@pytest.mark.thorough
def test_what_a_program_reads_stands_alone_on_the_standard_output(tmp_path: Path) -> None:
    """`--json -` may be piped on: the report is on the other output. Each that is out is named once in its reason."""
    two = ("--serve", "one=false {port}", "--serve", "two=false {port}", "--store", str(tmp_path / "races.sqlite"))
    two = (*two, "--workload", "hello")  # nothing is learned of servers that don't respond
    done = process("race", *two, "--json", "-")
    told = json.loads(done.stdout)
    assert (done.returncode, told["finished"]) == (1, "too few contenders")
    assert [one["out"].startswith("died ") for one in told["contenders"]] == [True, True]
    assert "No verdict: fewer than two contenders are left" in " ".join(done.stderr.split())
    assert process("race", *two, "--export-markdown", "-").stdout.startswith("**No verdict")


def test_a_race_of_two_ends_in_a_verdict(tmp_path: Path) -> None:
    """nginx-lua against tornado at hello: the pair decided, by every metric; or void, with exit code 3.

    Its seed is another one than the crowd's, and gives who begins each round.
    """
    out, env = tmp_path / "out.json", settings(tmp_path)
    seed, names = SEED + 1, ["nginx-lua", "tornado"]
    done = dragstrip_run(env, "race", *names, "--json", str(out), "--seed", str(seed), "--rounds", "10")
    told = json.loads(out.read_text())
    jsonschema.validate(told, SCHEMA)
    drawn = {
        of: [schedule.round_order(of, n, names, 1).passes[0][0] for n in range(len(told["order"]))]
        for of in (SEED, seed)
    }
    both = [next(names_of for names_of in passes if len(names_of) == 2) for passes in told["order"]]
    assert [names_of[0] for names_of in both] == drawn[seed] != drawn[SEED]
    assert told["seed"] == seed
    # A disturbed machine may void the race; then it must say so, and never exit as if it had an answer.
    assert done.returncode == (3 if told["void"] else 0), done.stdout + done.stderr
    # CPU time per request decides where other programs spoil the throughput.
    (pair,) = [pair for pair in told["pairs"] if pair["metric"] == told["columns"][0]["metric"]]
    assert told["void"] or {pair["metric"] for pair in told["pairs"]} == {"throughput", "cpu", "memory"}
    assert {pair["a"], pair["b"]} == {"nginx-lua", "tornado"}
    assert told["void"] or pair["verdict"] in ("faster", "slower")
    assert "nginx-lua" in done.stdout
    assert "tornado" in done.stdout


@pytest.mark.thorough
@pytest.mark.parametrize("raced", [OWN_TWO, ["node", "nginx-return"]], ids=["own", "shipped"])
def test_a_usual_race_imports_only_what_it_uses(tmp_path: Path, raced: list[str]) -> None:
    """At most ``MOST_MODULES`` of Dragstrip's own: what is for some races alone is imported by those."""
    words = ["race", *raced, "--rounds", "2", "-c", "4", "--quiet", "--store", str(tmp_path / "races.sqlite")]
    done = subprocess.run([sys.executable, "-c", IMPORTED, *words], capture_output=True, text=True, timeout=280)
    *_, code, names = done.stdout.splitlines()
    imported = names.split()
    assert code in ("0", "3"), done.stderr  # 3: the machine was disturbed
    assert "dragstrip.racing.race_loop" in imported
    assert len(imported) <= MOST_MODULES, imported
    alone = {name for name in imported for room in FOR_SOME if f"{name}.".startswith(f"dragstrip.{room}.")}
    assert not alone


def counting(tmp_path: Path, name: str, fault: str) -> str:
    """A definition of a server that says at /served how many requests it had; its folder."""
    folder = tmp_path / name
    folder.mkdir()
    (folder / "contender.toml").write_text(
        f"""
        name = "{name}"
        title = "{name}"
        host = "Python"
        language = "Python"
        workloads = ["hello"]
        [start]
        command = ["{PYTHON}", "{HERE}/servers/misbehaving.py", "{{port}}", "{fault}"]
        unprivileged = false
        [served]
        path = "/served"
        pattern = 'served (\\d+)'
        """
    )
    return str(folder)


@pytest.mark.thorough
def test_a_server_that_lies_about_its_count_voids_the_race_also_in_http_1_0(tmp_path: Path) -> None:
    """Its own count, read around each launch's blocks, is held against what the engine sent; honest ones are exact.

    In HTTP/1.0, as ab -k speaks it: nginx keeps connections alive, Python's server does not, and neither is an error.
    """
    out, env = tmp_path / "out.json", settings(tmp_path)
    mine = [counting(tmp_path, "honest", "counts"), counting(tmp_path, "liar", "lies")]
    words = ["--http", "1.0", "--rounds", "2", "-c", "4", "--json", str(out)]
    done = dragstrip_run(env, "race", "nginx-return", *mine, *words)
    told = json.loads(out.read_text())
    jsonschema.validate(told, SCHEMA)
    assert done.returncode == 3, done.stdout + done.stderr
    (check,) = [one for one in told["validity"] if one["check"] == "server's count"]
    assert check["status"] == "void"
    assert "by its own count liar received" in check["detail"]
    assert "fewer than the engine got responses to" in check["detail"]
    assert "honest" not in check["detail"]
    with sqlite3.connect(env["DRAGSTRIP_STORE"]) as store:
        launches = store.execute(
            "SELECT l.contender, json_extract(l.counts, '$.served'), sum(b.answered), sum(b.sent)"
            " FROM launch l JOIN block b USING (race, round, contender) GROUP BY l.contender, l.round"
        ).fetchall()
    assert len(launches) >= 6
    for name, served, answered, sent in launches:
        if name == "nginx-return" and served is None:
            continue  # an nginx of PyPI counts nothing
        assert (served < 0.95 * answered) if name == "liar" else (answered <= served <= sent), launches

    assert told["load"]["http"] == "1.0"
    assert all(not one["errors"] for one in told["columns"][0]["contenders"]), done.stdout
    assert ", HTTP/1.0" in done.stdout
    sheet = dragstrip_run(env, "show", "last", "--parity").stdout
    assert " 0 of " in sheet.split("keep-alive on the wire")[1].splitlines()[0], sheet


def test_one_that_dies_as_its_cpu_time_is_looked_for_ends_no_race(tmp_path: Path) -> None:
    """Its cgroup has gone with it, and its blocks will tell; of one that is alive it is an error."""
    core = min(os.sched_getaffinity(0))
    server, engine = ReferenceServer([core]), Engine([core], "epoll")
    try:
        hello = Exchange(b"GET / HTTP/1.1\r\n\r\n", 200, b"hello world\n")
        plan = SessionPlan(
            Target("127.0.0.1", server.port), [hello], connections=1, keepalive=True, timeout_ns=1_000_000_000
        )
        session = engine.open(plan)
        nowhere = str(tmp_path / "cpu.stat")
        gone, there = (
            SimpleNamespace(cpu_stat=lambda: nowhere, schedstats=lambda: (), alive=lambda alive=alive: alive)
            for alive in (False, True)
        )
        watch_cpu_time(engine, gone, session)  # type: ignore[arg-type]
        with pytest.raises(EngineError, match=r"cpu\.stat can't be opened"):
            watch_cpu_time(engine, there, session)  # type: ignore[arg-type]
    finally:
        server.stop()


@pytest.mark.thorough
def test_a_command_of_ones_own_gets_more_time_to_start(tmp_path: Path) -> None:
    """Out with the default's 10 s; raced with --wake, and a resumed race keeps it."""
    env, slow = settings(tmp_path), misbehaving("slow", "sleeps", "2")
    refused = dragstrip_run(env, "verify", *slow, "--wake", "1s")
    text = " ".join((refused.stdout + refused.stderr).split())
    assert (refused.returncode, "no correct response within 1 s of its start" in text) == (1, True), text
    assert dragstrip_run(env, "verify", *slow, "--wake", "60s").returncode == 0
    assert "may take up to 120 s" in dragstrip_run(env, "verify", *slow, "--wake", "1h").stderr
    entry = serve_entry(f"slow={slow[1].partition('=')[2]}", wake_s=60.0)
    assert entry_of(entry.name, entry.kind, entry.parameters).wake_s == 60.0
