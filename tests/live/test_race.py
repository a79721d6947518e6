"""Whole races between real servers, through the command line, as a user types it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import psutil
import pytest

import dragstrip
from dragstrip._engine import Engine, EngineError, FixedServer
from dragstrip.racing import round as racing_round
from dragstrip.racing import schedule

HERE = Path(__file__).parents[1]
DRAGSTRIP = [sys.executable, "-m", "dragstrip"]
SCHEMA = json.loads((Path(dragstrip.__file__).parent / "data" / "schema" / "race.schema.json").read_text())
PYTHON = "/usr/bin/python3"  # one that an unprivileged user may execute

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]


def misbehaving(name: str, fault: str, *more: str) -> list[str]:
    return ["--serve", f"{name}={PYTHON} {HERE}/servers/misbehaving.py {{port}} {fault} {' '.join(more)}"]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {
        **os.environ,
        "DRAGSTRIP_STORE": str(tmp_path / "races.sqlite"),
        "COLUMNS": "140",
    }


#: Directors that the running test has started, by process: what they leave is told by their number in its name.
begun: set[int] = set()


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """After each test: no scratch directory of a race begun in it, and no process with a foot in one."""
    begun.clear()
    yield
    until(lambda: not scratches(), 20, f"left: {scratches()}")
    assert not servers()


def begin(env: dict[str, str], *words: str, **more: Any) -> subprocess.Popen[str]:
    """A command that runs on; its process is noted."""
    process = subprocess.Popen([*DRAGSTRIP, *words], env=env, text=True, **more)
    begun.add(process.pid)
    return process


def scratches() -> list[Path]:
    return [place for pid in begun for place in Path("/tmp").glob(f"dragstrip-{pid}-*") if place.is_dir()]


def servers() -> list[str]:
    """Processes whose command line or working directory lies in the scratch directory of a race begun here."""
    found, ours = [], tuple(f"/tmp/dragstrip-{pid}-" for pid in begun)
    for process in psutil.process_iter():
        try:
            words, cwd = " ".join(process.cmdline()), process.cwd()
        except psutil.Error:
            continue
        if any(place in words or cwd.startswith(place) for place in ours):
            found.append(f"{process.pid} {cwd} {words}")
    return found


def until(condition: Any, seconds: float, otherwise: str) -> None:
    """Waits for an event that must come; ``seconds`` only bounds a failing test."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, otherwise
        time.sleep(0.02)


def dragstrip_run(env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    with begin(env, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            out, err = process.communicate(timeout=280)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def test_a_race_of_two_follows_the_schema_and_ends_in_a_verdict(env: dict[str, str], tmp_path: Path) -> None:
    """nginx-lua against node at hello: JSON by the published schema, the pair decided; or void, with exit code 3."""
    out = tmp_path / "out.json"
    done = dragstrip_run(env, "race", "nginx-lua", "node", "--json", str(out), "--seed", "7", "--rounds", "10")
    told = json.loads(out.read_text())
    jsonschema.validate(told, SCHEMA)
    # A disturbed machine may void the race; then it must say so, and never exit as if it had an answer.
    assert done.returncode == (3 if told["void"] else 0), done.stdout + done.stderr
    # CPU time per request decides where other programs spoil the throughput.
    (pair,) = [pair for pair in told["pairs"] if pair["metric"] == told["metric"]]
    assert told["void"] or {pair["metric"] for pair in told["pairs"]} == {"throughput", "cpu", "memory"}
    assert {pair["a"], pair["b"]} == {"nginx-lua", "node"}
    assert told["void"] or pair["verdict"] in ("faster", "slower")
    assert "nginx-lua" in done.stdout
    assert "node" in done.stdout


def test_a_race_in_http_1_0_says_who_keeps_connections_alive(env: dict[str, str], tmp_path: Path) -> None:
    """As ab -k speaks it, for write-ups of old: nginx keeps them, Python's server does not, and neither is an error."""
    out = tmp_path / "out.json"
    words = ["--http", "1.0", "--rounds", "2", "-c", "4", "--json", str(out)]
    done = dragstrip_run(env, "race", "nginx-return", *misbehaving("old", "none"), *words)
    told = json.loads(out.read_text())
    jsonschema.validate(told, SCHEMA)
    assert told["load"]["http"] == "1.0"
    assert all(not one["errors"] for one in told["contenders"]), done.stdout
    assert ", HTTP/1.0" in done.stdout
    sheet = dragstrip_run(env, "show", "last", "--parity").stdout
    assert " 0 of " in sheet.split("keep-alive on the wire")[1].splitlines()[0], sheet


def test_a_contender_that_asks_for_a_socket_is_reached_there(env: dict[str, str], tmp_path: Path) -> None:
    """Beside the same server at a port: both are proved, loaded and stopped alike; the record says where each was."""
    out = tmp_path / "out.json"
    at_socket = ["--serve", f"socket={PYTHON} {HERE}/servers/misbehaving.py {{socket}} none"]
    words = [*at_socket, *misbehaving("port", "none"), "--rounds", "2", "-c", "4", "--json", str(out)]
    done = dragstrip_run(env, "race", *words)
    told = json.loads(out.read_text())
    assert {one["name"]: one.get("out") or "" for one in told["contenders"]} == {"socket": "", "port": ""}, done.stdout
    assert not any(one["errors"] for one in told["contenders"])
    with sqlite3.connect(env["DRAGSTRIP_STORE"]) as store:
        addresses = dict(store.execute("SELECT contender, address FROM launch").fetchall())
    assert addresses["socket"].startswith("unix:/tmp/dragstrip-")
    assert addresses["port"].startswith("127.0.0.1:")


def test_the_seed_and_the_plan_give_the_order_of_blocks(env: dict[str, str], tmp_path: Path) -> None:
    """What was loaded is what they draw, to the last block; another seed draws another order.

    How many passes there are and who takes part in how many is calibration's, which differs from race to race.
    """
    out, names = tmp_path / "out.json", ["nginx-return", "nginx-static", "nginx-lua"]
    for seed in (7, 8):
        done = dragstrip_run(env, "race", *names, "--rounds", "2", "--seed", str(seed), "--json", str(out))
        assert out.exists(), done.stdout + done.stderr
        told = json.loads(out.read_text())
        out.unlink()
        assert len(told["order"]) >= 2
        for index, passes in enumerate(told["order"]):
            own = Counter(name for names_of in passes for name in names_of)
            assert set(own) == set(names)
            drawn = {of: schedule.round_order(of, index, names, len(passes), own=own).passes for of in (seed, seed + 1)}
            assert [tuple(names_of) for names_of in passes] == list(drawn[seed])
            assert drawn[seed] != drawn[seed + 1]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("wrong-byte", ["differs", "byte 10"]),
        ("fast-500", ["status 500"]),
        ("exits", ["no configuration found"]),
    ],
)
def test_a_contender_that_is_wrong_is_named_and_the_others_race_on(
    env: dict[str, str], tmp_path: Path, fault: str, words: list[str]
) -> None:
    """It yields no number, the report says why, and the two others get their verdict."""
    out = tmp_path / "out.json"
    done = dragstrip_run(
        env, "race", "nginx-return", "nginx-static", *misbehaving("bad", fault), "--rounds", "2", "--json", str(out)
    )
    told = json.loads(out.read_text())
    jsonschema.validate(told, SCHEMA)
    (bad,) = [entry for entry in told["contenders"] if entry["name"] == "bad"]
    for word in words:
        assert word in bad["out"]
    assert bad["requests"] == 0
    assert bad["throughput_per_s"] is None or bad["throughput_per_s"]["estimate"] is None
    assert [(p["a"], p["b"]) for p in told["pairs"]] != []
    assert all("bad" not in (p["a"], p["b"]) for p in told["pairs"])
    assert "bad" in done.stdout


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


def test_a_server_that_lies_about_its_count_voids_the_race_and_honest_ones_count_exactly(
    env: dict[str, str], tmp_path: Path
) -> None:
    """Its own count, read around each launch's blocks, is held against what the engine sent; nginx's is exact."""
    out = tmp_path / "out.json"
    mine = [counting(tmp_path, "honest", "counts"), counting(tmp_path, "liar", "lies")]
    done = dragstrip_run(env, "race", "nginx-return", *mine, "--rounds", "2", "--json", str(out))
    told = json.loads(out.read_text())
    assert done.returncode == 3, done.stdout + done.stderr
    (check,) = [one for one in told["validity"] if one["check"] == "server's count"]
    assert check["status"] == "void"
    assert "by its own count liar had" in check["detail"]
    assert "fewer than the engine had answers to" in check["detail"]
    assert "honest" not in check["detail"]
    with sqlite3.connect(env["DRAGSTRIP_STORE"]) as store:
        launches = store.execute(
            "SELECT l.contender, l.served, sum(b.answered), sum(b.sent) FROM launch l JOIN block b"
            " USING (race, round, contender) GROUP BY l.contender, l.round"
        ).fetchall()
    assert len(launches) >= 6
    for name, served, answered, sent in launches:
        assert (served < 0.95 * answered) if name == "liar" else (answered <= served <= sent), launches


def test_one_that_never_serves_is_out_with_how_long_it_was_waited_for(env: dict[str, str], tmp_path: Path) -> None:
    """It started and never listened: named, with the wait; the others race on."""
    out = tmp_path / "out.json"
    dragstrip_run(
        env, "race", "nginx-return", "nginx-static", *misbehaving("mute", "never"), "--rounds", "2", "--json", str(out)
    )
    (mute,) = [c for c in json.loads(out.read_text())["contenders"] if c["name"] == "mute"]
    assert "10" in mute["out"]
    assert mute["requests"] == 0


@pytest.mark.parametrize("answers", [20, 600, 5000])
def test_one_that_dies_under_load_is_named_with_its_last_words(
    env: dict[str, str], tmp_path: Path, answers: int
) -> None:
    """It passes scrutineering, dies as it is warmed up or in a block, lead-ins included, and yields no number."""
    out = tmp_path / "out.json"
    mortal_words = misbehaving("mortal", "dies", str(tmp_path / "launched"), str(answers))
    done = dragstrip_run(
        env, "race", "nginx-return", "nginx-static", *mortal_words, "--rounds", "2", "--json", str(out)
    )
    assert done.returncode in (0, 3), done.stderr
    told = json.loads(out.read_text())
    (mortal,) = [c for c in told["contenders"] if c["name"] == "mortal"]
    assert "dying now, as told" in mortal["out"]
    assert "died under load" in mortal["out"]
    assert len(told["order"]) >= 2
    assert all("mortal" not in (p["a"], p["b"]) for p in told["pairs"])
    assert "dying now" in done.stdout


def test_one_that_dies_as_its_cpu_time_is_looked_for_ends_no_race(tmp_path: Path) -> None:
    """Its cgroup has gone with it, and its blocks will tell; of one that is alive it is an error."""
    core = min(os.sched_getaffinity(0))
    server, engine = FixedServer([core]), Engine([core], "epoll")
    try:
        request = (b"GET / HTTP/1.1\r\n\r\n", 200, b"hello world\n")
        session = engine.open(
            "127.0.0.1", server.port, [request], connections=1, keepalive=True, timeout_ns=1_000_000_000
        )
        track, nowhere = SimpleNamespace(engine=engine), str(tmp_path / "cpu.stat")
        gone, there = (
            SimpleNamespace(cpu_stat=lambda: nowhere, schedstats=lambda: (), alive=lambda alive=alive: alive)
            for alive in (False, True)
        )
        racing_round.watch(track, gone, session)  # type: ignore[arg-type]
        with pytest.raises(EngineError, match=r"cpu\.stat can't be opened"):
            racing_round.watch(track, there, session)  # type: ignore[arg-type]
    finally:
        server.stop()


def _racing(env: dict[str, str], *more: str) -> subprocess.Popen[str]:
    """A race of two nginx variants that has at least one round in its store."""
    words = ["race", "nginx-return", "nginx-static", "--rounds", "500", *more]
    race = begin(env, *words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    until(lambda: _rounds(env) >= 2 or race.poll() is not None, 60, "no round was recorded")
    assert race.poll() is None, race.stdout.read() if race.stdout else ""
    return race


def _rounds(env: dict[str, str]) -> int:
    try:
        with sqlite3.connect(f"file:{env['DRAGSTRIP_STORE']}?mode=ro", uri=True) as store:
            return int(store.execute("select count(distinct round) from block").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def test_kill_9_leaves_no_server_and_a_store_that_shows_every_finished_round(env: dict[str, str]) -> None:
    """The keepers end what the director left behind; `show` prints what was committed."""
    race = _racing(env)
    race.kill()
    race.wait()
    until(lambda: not servers(), 20, "servers outlive the race")
    finished = _rounds(env)
    shown = dragstrip_run(env, "show", "last", "--json")
    assert shown.returncode == 0, shown.stderr
    assert len(json.loads(shown.stdout)["order"]) == finished >= 2


def test_ctrl_c_keeps_what_was_measured_and_exits_130(env: dict[str, str]) -> None:
    """The interrupt reaches the foreground only; servers are stopped, the race is kept as interrupted."""
    race = _racing(env)
    race.send_signal(signal.SIGINT)
    out, _ = race.communicate(timeout=60)
    assert race.returncode == 130, out
    (run,) = json.loads(dragstrip_run(env, "runs", "--json").stdout)
    assert run["finished"] == "interrupted"
    assert run["rounds"] >= 2


def test_ctrl_c_while_servers_are_asked_side_by_side_leaves_nothing(env: dict[str, str]) -> None:
    """Two that hold every request are waited for in threads; the interrupt ends them with their servers."""
    words = ["race", "nginx-return", *misbehaving("one", "holds"), *misbehaving("two", "holds")]
    race = begin(env, *words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    below = psutil.Process(race.pid)

    def held() -> int:
        count = 0
        for one in below.children(recursive=True):
            with contextlib.suppress(psutil.Error):  # a version command that has just ended
                count += "misbehaving.py" in " ".join(one.cmdline())
        return count

    until(lambda: held() >= 2, 60, "they were never up together")
    race.send_signal(signal.SIGINT)
    out, _ = race.communicate(timeout=60)
    assert race.returncode == 130, out
    assert "Traceback" not in out
    assert json.loads(dragstrip_run(env, "runs", "--json").stdout) == []


def test_several_that_hold_their_requests_are_out_and_the_others_race_on(env: dict[str, str], tmp_path: Path) -> None:
    """Asked side by side: each is named with what it did not do, and none of them is left running."""
    out = tmp_path / "out.json"
    held = [word for name in ("one", "two", "three") for word in misbehaving(name, "holds")]
    words = ["race", "nginx-return", "nginx-static", *held, "--rounds", "2", "-c", "4", "--json", str(out)]
    done = dragstrip_run(env, *words)
    told = {one["name"]: one["out"] for one in json.loads(out.read_text())["contenders"]}
    assert not told["nginx-return"], done.stdout
    assert not told["nginx-static"], done.stdout
    for name in ("one", "two", "three"):
        assert "over keep-alive" in told[name]


def test_an_interrupted_race_goes_on_where_it_stopped(env: dict[str, str], tmp_path: Path) -> None:
    """--resume keeps seed, plan and rounds, and counts on."""
    race = _racing(env)
    race.send_signal(signal.SIGINT)
    race.communicate(timeout=60)
    before = _rounds(env)
    again = begin(env, "race", "--resume", "last", stdout=subprocess.DEVNULL)
    until(lambda: _rounds(env) > before or again.poll() is not None, 60, "no round was added")
    again.send_signal(signal.SIGINT)
    assert again.wait(60) == 130
    assert len(json.loads(dragstrip_run(env, "runs", "--json").stdout)) == 1


def test_one_that_is_no_longer_right_at_a_resume_is_out_and_the_others_go_on(env: dict[str, str]) -> None:
    """A server that was already running has gone in the meantime: named in the record, not silently left out."""
    from dragstrip.process.launcher import free_port

    port = free_port()
    server = subprocess.Popen([PYTHON, str(HERE / "servers" / "misbehaving.py"), str(port), "none"])
    try:
        url = f"http://127.0.0.1:{port}/"
        until(lambda: _listens(port), 20, "the server never listened")
        race = _racing(env, url)
        race.send_signal(signal.SIGINT)
        race.communicate(timeout=60)
    finally:
        server.kill()
        server.wait()
    before = _rounds(env)
    again = begin(env, "race", "--resume", "last", stdout=subprocess.DEVNULL)
    until(lambda: _rounds(env) > before or again.poll() is not None, 60, "no round was added")
    again.send_signal(signal.SIGINT)
    assert again.wait(60) == 130
    told = json.loads(dragstrip_run(env, "show", "last", "--json").stdout)
    out = {entry["name"]: entry["out"] for entry in told["contenders"]}
    assert "refused" in out[url].lower()
    assert not out["nginx-return"]
    assert all(url not in (pair["a"], pair["b"]) for pair in told["pairs"])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_running_server_is_raced_by_its_address(env: dict[str, str], tmp_path: Path) -> None:
    """A URL joins as a contender; its page says that it was not launched afresh."""
    from dragstrip.process.launcher import free_port

    port = free_port()
    server = subprocess.Popen([PYTHON, str(HERE / "servers" / "misbehaving.py"), str(port), "none"])
    try:
        until(lambda: _listens(port), 20, "the server never listened")
        out = tmp_path / "out.json"
        url = f"http://127.0.0.1:{port}/"
        done = dragstrip_run(env, "race", "nginx-return", url, "--rounds", "2", "--json", str(out))
        told = json.loads(out.read_text())
        assert len(told["pairs"]) == 1, done.stdout + done.stderr
        assert server.poll() is None
    finally:
        server.kill()
        server.wait()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["race", "nginx-retrun", "node"], "nginx-return"),
        (["race", "nginx-return"], "at least two"),
        (["race", "nginx-return", "nginx-return"], "twice"),
        (["race", "nginx-return", "nginx-static", "--workload", "multiply"], "multiply"),
        (["race", "nginx-return:wrokers=2", "node"], "workers"),
        (["race", "--serve", "mine=./server", "node"], "{port}"),
        (["race", "nginx-return", "http://192.0.2.1/"], "127.0.0"),
        (["race", "nginx-return", "node", "--budget", "soon"], "duration"),
        (["show", "feedfeed"], "feedfeed"),
    ],
)
def test_wrong_words_are_refused_with_what_would_do_and_exit_2(
    env: dict[str, str], words: list[str], told: str
) -> None:
    """Names the word, says what would do; nothing is started."""
    done = dragstrip_run(env, *words)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
