"""The local page, really served: what it lists and draws, which requests it refuses, and a live race in a browser."""

from __future__ import annotations

import asyncio
import http.client
import os
import re
import resource
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import samples
import uvicorn
from browser import Watched, browser, contrast_and_names

from dragstrip.record import Ending, Event, Race
from dragstrip.report import figures
from dragstrip.report.race import badge
from dragstrip.site import connections, views
from dragstrip.site.app import MAX_STREAMS
from dragstrip.store.database import Store

HOSTILE = "<script>alert(1)</script>"


def fill(path: Path, races: int) -> None:
    with Store(path) as store:
        for number in range(races):
            race = samples.race({"quick": 4e4, HOSTILE: 3e4}, seed=number + 1, rounds=11, passes=3)
            race = replace(race, started=f"2026-02-{number % 28 + 1:02}T03:04:05+00:00")
            store.begin(_newer(race) if number > 1 else race)
            if number == 0:
                left = Event(at_ns=1, kind=badge.KIND, text=f"FASTER quick +33 %, 32 to 34, not {HOSTILE}")
                store.append_event(race.id, left)


def _newer(race: Race) -> Race:
    return samples.changed(race, entrants=tuple(replace(entrant, version="2.0") for entrant in race.entrants))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("site") / "races.sqlite"
    fill(path, 4)
    return path


@pytest.fixture(scope="module")
def served(store: Path) -> Iterator[str]:
    with serving(store) as address:
        yield address


@contextmanager
def serving(store: Path) -> Iterator[str]:
    """The address of a real server."""
    with process_of(store) as (address, _):
        yield address


@contextmanager
def process_of(store: Path) -> Iterator[tuple[str, int]]:
    """The address of a real server, ended by its own process id, and that."""
    words = [sys.executable, "-m", "dragstrip", "serve", "--port", "0", "--store", str(store)]
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout
            found = re.match(r"(http://127\.0\.0\.1:\d+)/", process.stdout.readline())
            assert found
            yield found[1], process.pid
        finally:
            process.terminate()
            process.wait(60)


@pytest.fixture(scope="module")
def running() -> Iterator[Any]:
    with browser() as started:
        yield started


def ask(served: str, path: str, *, method: str = "GET", host: str | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection(served.removeprefix("http://"), timeout=120)
    connection.request(method, path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_only_this_machines_own_names_are_answered(served: str) -> None:
    """A page elsewhere whose name was turned to 127.0.0.1 gets nothing."""
    port = served.rsplit(":", 1)[1]
    for host in (f"127.0.0.1:{port}", f"localhost:{port}"):
        assert ask(served, "/", host=host)[0] == 200
    for host in ("evil.example", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}", "0.0.0.0"):
        status, text = ask(served, "/", host=host)
        assert (status, "quick" in text) == (400, False)


def test_nothing_can_be_written(served: str, store: Path) -> None:
    """No method but GET and HEAD is known anywhere, and asking leaves the store as it was."""
    with sqlite3.connect(store) as db:
        before = db.execute("SELECT count(*), (SELECT count(*) FROM event) FROM race").fetchone()
    for path in ("/", "/race/last", "/compare", "/contender/quick"):
        for method in ("POST", "PUT", "DELETE"):
            assert ask(served, path, method=method)[0] == 405
    assert ask(served, "/nowhere")[0] == 404
    assert ask(served, "/race/ffffffffffff")[0] == 404
    with sqlite3.connect(store) as db:
        assert db.execute("SELECT count(*), (SELECT count(*) FROM event) FROM race").fetchone() == before


#: Requests that are never completed; a byte follows now and then.
SLOW = {
    "nothing": b"",
    "half a head": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ",
    "half a second head": b"GET /live.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET / HTTP/1.1\r\nX-A: ",
    "half a body": b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n\r\n",
}


@pytest.mark.thorough
def test_a_thousand_slow_clients_are_ended_and_others_are_answered(store: Path) -> None:
    """Each gets a byte through every now and then, and is closed all the same; no more are open than may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    open_: set[socket.socket] = set()
    try:
        with process_of(store) as (address, pid):
            port, begun, most = int(address.rsplit(":", 1)[1]), time.monotonic(), 0
            for number in range(1000):
                open_.add(client := socket.create_connection(("127.0.0.1", port), 60))
                client.sendall(list(SLOW.values())[number % len(SLOW)])
                client.setblocking(False)
            while open_:
                assert time.monotonic() < begun + 120, f"{len(open_)} of them are open still"
                most = max(most, len(list(Path(f"/proc/{pid}/fd").iterdir())))
                assert ask(address, "/")[0] == 200
                open_ -= {client for client in open_ if _is_closed(client)}
            assert most < 3 * connections.MAX_CONNECTIONS
            assert ask(address, "/race/last")[0] == 200
    finally:
        for client in open_:
            client.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.thorough
def test_live_views_leave_connections_for_pages(tmp_path: Path) -> None:
    """Each holds one; those that leave make room for others."""
    with Store(tmp_path / "races.sqlite") as begun_:
        begun_.begin(replace(samples.race({"quick": 4e4, "slow": 3e4}, rounds=5, passes=3), finished=Ending.NONE))
    with serving(tmp_path / "races.sqlite") as address, ExitStack() as held:

        def begun() -> http.client.HTTPResponse:
            connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=120)
            held.callback(connection.close)
            connection.request("GET", "/events/last")
            return connection.getresponse()

        for _ in range(MAX_STREAMS):
            response = begun()
            assert (response.status, response.readline()) == (200, b"event: round\n")
        refused = begun()
        assert (refused.status, b"live views already" in refused.read()) == (503, True)
        assert ask(address, "/")[0] == 200
        held.close()
        while begun().status == 503:  # pytest's own time limit ends it
            held.close()
            time.sleep(0.05)


def _is_closed(client: socket.socket) -> bool:
    """Whether the server has ended a connection, which is read to its end; sends one more byte if not."""
    try:
        while client.recv(65536):
            pass
    except BlockingIOError:
        with suppress(OSError):
            client.send(b"x")
        return False
    except OSError:
        pass
    client.close()
    return True


def test_a_client_that_never_reads_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real event loop, a real connection."""
    monkeypatch.setattr(connections, "READ_S", 0.5)

    async def serve_much(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1000):
            await send({"type": "http.response.body", "body": b"x" * 2**16, "more_body": True})

    async def run() -> None:
        made = uvicorn.Server(
            uvicorn.Config(serve_much, http=connections.Bounded, ws="none", port=0, log_level="error")
        )
        with socket.create_server(("127.0.0.1", 0)) as listening:
            running = asyncio.create_task(made.serve([listening]))
            while not made.started:
                await asyncio.sleep(0.01)
            _, writer = await asyncio.open_connection(*listening.getsockname(), limit=1024)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            while not made.server_state.total_requests and not made.server_state.connections:
                await asyncio.sleep(0.01)
            while made.server_state.connections:
                await asyncio.sleep(0.05)
            writer.close()
            made.should_exit = True
            await running

    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.thorough
def test_a_race_of_several_workloads_has_its_pages(tmp_path: Path) -> None:
    """Standings as a table of columns, the comparison by column, and a point of a contender's history for each."""
    path = tmp_path / "races.sqlite"
    with Store(path) as store:
        for seed in (5, 7):
            store.begin(samples.race_of_two(seed=seed, rounds=11, passes=3))
        rates = {"1,000/s": 1e3, "5,000/s": 5e3}
        store.begin(samples.race_of_two({rate: {"quick": 1e3, "slow": 1e3} for rate in rates}, seed=9, per_s=rates))
    with serving(path) as address:
        assert "hello, multiply" in ask(address, "/")[1]
        assert 'id="chart-columns"' in ask(address, "/race/000000000007")[1]
        live = ask(address, "/live/000000000007")[1]
        assert "multiply<br>by throughput" in live
        assert "22 of at most 22 rounds" in live
        compared = ask(address, "/compare?old=000000000005&new=000000000007")[1]
        assert [head in compared for head in ("<h2>hello</h2>", "<h2>multiply</h2>")] == [True, True]
    points = views.history(path, "quick", "")
    assert [(point.race, point.workload) for point in points] == [
        (race, workload) for race in ("000000000005", "000000000007") for workload in ("hello", "multiply")
    ]
    assert {point.workload for point in views.history(path, "quick", "multiply")} == {"multiply"}


def test_listing_asks_the_store_as_often_for_fifty_races_as_for_five(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No query per race, and no block is read: what 500 races cost is rows, not round trips."""
    asked: list[str] = []
    connect = sqlite3.connect

    def watching(*words: Any, **more: Any) -> sqlite3.Connection:
        db = connect(*words, **more)
        db.set_trace_callback(asked.append)
        return db

    counts = []
    for races in (5, 50):
        fill(tmp_path / f"{races}.sqlite", races)
        monkeypatch.setattr(sqlite3, "connect", watching)
        asked.clear()
        assert len(views.listed(tmp_path / f"{races}.sqlite", "")) == races
        monkeypatch.undo()
        counts.append(len(asked))
        assert not [query for query in asked if "block" in query]
    assert counts[0] == counts[1]


def test_search_finds_races_with_all_words(store: Path) -> None:
    """Id, contender, workload, date and end are searched; words are joined by and."""
    assert len(views.listed(store, "")) == 4
    assert [line.race for line in views.listed(store, "QUICK 02-03")] == ["000000000003"]
    assert views.listed(store, "quick nobody") == []


def test_a_contenders_history_marks_what_changed(store: Path) -> None:
    """The version changed with the third race, and only there."""
    points = views.history(store, "quick", "")
    assert [point.race[-1] for point in points] == ["1", "2", "3", "4"]
    assert [point.changes for point in points] == [(), (), ("version 1.2.3 → 2.0",), ()]


def test_commands_of_one_name_are_two_servers(tmp_path: Path) -> None:
    """``--serve "mine=…"`` of another day: neither its history nor its series goes on in this one's."""
    path = tmp_path / "races.sqlite"
    with Store(path) as kept:
        for number in range(4):
            race = samples.race({"mine": 4e4, "steady": 3e4}, seed=number + 1, rounds=11)
            mine, steady = race.entrants
            mine = replace(mine, kind="serve", definition_hash=f"{number // 2:064x}")
            race = replace(race, started=f"2026-03-0{number + 1}T12:00:00+00:00")
            kept.begin(samples.changed(race, entrants=(mine, steady)))
    assert [point.race[-1] for point in views.history(path, "mine", "")] == ["3", "4"]
    assert {len(one.points) for one in views.series(path, "mine")} == {2}


@pytest.mark.thorough
def test_every_page_opens_in_a_browser(running: Any, served: str) -> None:
    """List, search, race, comparison, history: no error, nothing asked of others, nothing hostile run, axe content."""
    watched = Watched(running, served, theme="dark")
    shown = watched.page
    shown.goto(served)
    assert shown.locator("tbody tr").count() == 4
    assert contrast_and_names(shown) == []
    shown.get_by_label("Search").fill("02-02")
    shown.get_by_role("button", name="search").click()
    assert shown.locator("tbody tr").count() == 1
    shown.get_by_role("link", name="Dragstrip: races").click()
    shown.get_by_label("000000000001 as then").check()
    shown.get_by_label("000000000002 as now").check()
    shown.get_by_role("button", name="compare then and now").click()
    assert "Race 000000000002 against 000000000001" in shown.locator("h1").inner_text()
    assert shown.locator("tbody tr").count() >= 1
    assert contrast_and_names(shown) == []
    shown.goto(served)
    shown.locator("tbody a", has_text=HOSTILE).first.click()
    assert HOSTILE in shown.locator("h1").inner_text()
    assert shown.locator(".chart svg").is_visible()
    assert contrast_and_names(shown) == []
    shown.locator("tbody a").first.click()
    shown.wait_for_selector("#chart-ranking[data-drawn] svg", timeout=20_000)
    assert watched.said == []
    watched.close()


def test_on_a_phone_the_list_is_whole(running: Any, served: str) -> None:
    """Verdict and local time of each race, nothing cut, axe content, in both themes."""
    for theme in ("light", "dark"):
        watched = Watched(running, served, width=390, theme=theme)
        shown = watched.page
        shown.goto(served)
        row = shown.locator("tbody tr", has_text="000000000001")
        assert f"FASTER quick +33 %, 32 to 34, not {HOSTILE}" in row.inner_text()
        assert figures.local("2026-02-01T03:04:05+00:00") in row.inner_text()
        assert shown.evaluate("document.documentElement.scrollWidth") <= 390
        wider = "[...document.querySelectorAll('.scroll')].filter((one) => one.scrollWidth > one.clientWidth).length"
        assert shown.evaluate(wider) == 0
        assert contrast_and_names(shown) == []
        assert watched.said == []
        watched.close()


@pytest.mark.thorough
def test_a_race_is_shown_as_it_runs(running: Any, served: str, store: Path) -> None:
    """A real race: it appears in the list, its standings change round by round, and its end is shown."""
    words = ["race", "nginx-return", "nginx-static", "--rounds", "4", "-q", "--store", str(store)]
    watched = Watched(running, served)
    shown = watched.page
    with subprocess.Popen([sys.executable, "-m", "dragstrip", *words], stdout=subprocess.DEVNULL) as process:
        try:
            live = shown.locator("a.live-row")
            while not live.count():
                assert process.poll() is None, "the race ended before it was seen"
                shown.goto(served)
            live.first.click()
            shown.wait_for_selector("body[data-rounds]:not([data-rounds='0'])", timeout=60_000)
            assert "nginx-return" in shown.locator("#standings").inner_text()
            shown.wait_for_selector("#state:has-text('ended')", timeout=90_000)
            with Store(store) as kept:  # a disturbed machine voids rounds, which are shown and run again
                assert int(shown.evaluate("document.body.dataset.rounds")) == len(kept.load("last").rounds) >= 4
        finally:
            process.terminate() if process.poll() is None else None
    assert watched.said == []
    watched.close()
