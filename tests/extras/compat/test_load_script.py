"""wrk's scripts: twelve of our own by real wrk and by ``dragstrip load -s``, on the same nginx; and what is refused.

What ``done`` prints has the same words from both, and its counts are those of nginx's own log.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dragstrip._engine", reason="the engine is not built: make build")
from loads import DRAGSTRIP, Nginx, live, load, load_json, needs_nginx

from dragstrip import _engine

pytestmark = pytest.mark.live

pytestmark = [
    live,
    needs_nginx,
    pytest.mark.skipif(not hasattr(_engine, "Script"), reason="this engine was built without Lua"),
]

SCRIPTS = Path(__file__).parents[2] / "scripts"
WRK = shutil.which("wrk")

PLACES = """
        location = /token { add_header X-Token sesame; return 200 "token\\n"; }
        location = /private { if ($http_x_token != sesame) { return 401; } return 200 "granted\\n"; }
"""

#: Which of them only repeat themselves: their requests are made before the load.
FIXED = {"args", "pipeline", "post", "report"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    """One nginx for all of them; each looks at its own part of the log."""
    server = Nginx(tmp_path_factory.mktemp("scripts"), PLACES)
    yield server
    server.ended()


@pytest.fixture(scope="module")
def wrks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    """One for wrk: what it leaves unanswered at its end is still served and logged while another test counts."""
    server = Nginx(tmp_path_factory.mktemp("wrk"), PLACES)
    yield server
    server.ended()


class Part:
    """What the log gained since this was made."""

    def __init__(self, server: Nginx) -> None:
        self.log, self.start = server.log, server.log.stat().st_size

    def lines(self, at_least: int) -> list[str]:
        """The whole log once it has this many lines: nginx writes a line after its response."""
        deadline = time.monotonic() + 20
        while len(found := self.log.read_bytes()[self.start :].splitlines()) < at_least:
            assert time.monotonic() < deadline, f"{len(found)} of {at_least} lines"
            time.sleep(0.01)
        return [line.decode() for line in found]


def ours(server: Nginx, name: str, *words: str) -> dict[str, Any]:
    """The JSON of a short run with a script."""
    return load_json(
        server.url(), "-t", "1", "-c", "10", "-s", str(SCRIPTS / f"{name}.lua"), *words, "--", "one", "two"
    )


def shape(text: str) -> str:
    """Printed words with every number taken for the same, and spaces, which numbers move."""
    return re.sub(r"\d+(?:\.\d+)?", "#", text)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in ("report", "post") else pytest.mark.thorough)
        for name in sorted(path.stem for path in SCRIPTS.glob("*.lua"))
    ],
)
def test_a_script_prints_what_wrk_prints_and_counts_what_the_server_counts(
    served: Nginx, wrks: Nginx, name: str
) -> None:
    """By time, as wrk's runs end."""
    part = Part(served)
    found = ours(served, name, "-d", "1s")
    script = found["script"]
    assert script["made_under_load"] is (name not in FIXED)
    answered = sum(found["status_codes"].values())
    assert (answered, found["unanswered"]) == (found["sent"], 0)
    assert len(part.lines(answered)) == answered
    if WRK is None:
        pytest.skip("wrk is not installed: its own words could not be compared")
    words = [WRK, "-t1", "-c10", "-d1s", "-s", str(SCRIPTS / f"{name}.lua"), wrks.url(), "--", "one", "two"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    before, _, rest = done.stdout.partition("Running ")
    theirs = before + re.split(r"Transfer/sec: .*\n", rest)[1]
    assert shape(script["printed"]) == shape(theirs)
    assert "Running" in done.stdout


def test_counts_of_a_script_are_the_servers(served: Nginx) -> None:
    """Exactly as many as asked for, each number once: none is lost to looking whether requests differ."""
    part = Part(served)
    found = ours(served, "counter", "-n", "500")
    lines = part.lines(500)
    assert Counter(line.split()[0] for line in lines) == {f"/n/{number}": 1 for number in range(1, 501)}
    assert found["script"]["printed"] == "counted\t500\tanswered\t500\n"
    assert (found["right_answer"]["checked"], found["plain_requests"]) == ("status", 0)


def test_a_fixed_pipeline_is_told_apart_and_checked_byte_by_byte(served: Nginx) -> None:
    """Three requests with answers of two lengths: six plain ones, and each matched with its own."""
    part = Part(served)
    found = ours(served, "pipeline", "-n", "606")
    assert (found["plain_requests"], found["requests"], found["errors"]) == (6, 606, {})
    assert found["load"]["pipeline"] == 3
    counted = Counter(line.split()[0] for line in part.lines(606))
    assert counted == {"/first": 202, "/empty": 202, "/third": 202}


def write(at: Path, text: str) -> str:
    """A script's file."""
    (at / "own.lua").write_text(text)
    return str(at / "own.lua")


def test_batches_made_under_load_are_counted_request_by_request(served: Nginx, tmp_path: Path) -> None:
    """Of several at once each has its answer, HEAD's without a body too; no more leave than were asked for."""
    script = write(
        tmp_path,
        """
        local n, seen = 0, {}
        function request()
           n = n + 1
           return wrk.format("GET", "/a" .. n) .. wrk.format("HEAD", "/b") .. wrk.format("POST", "/c", nil, "body")
        end
        """,
    )
    part = Part(served)
    found = load_json(served.url(), "-n", "100", "-c", "4", "-t", "1", "-s", script)
    lines = part.lines(100)
    assert (found["requests"], found["errors"], len(lines)) == (100, {}, 100)
    methods = Counter(line.split()[2] for line in lines)
    assert methods["GET"] in (34, 35, 36, 37)
    assert sum(methods.values()) == 100


def test_each_thread_has_its_own_state_and_tables_are_copied(served: Nginx, tmp_path: Path) -> None:
    """Two threads, tables from setup, and what init made of them."""
    script = write(
        tmp_path,
        """
        local threads = {}
        function setup(thread)
           thread:set("given", { number = #threads + 1, list = { "a", "b" } })
           given_here = "main"
           threads[#threads + 1] = thread
        end
        function init() made = { given.number * 10, given.list[2] } end
        function request() return wrk.format("GET", "/" .. made[1]) end
        function done()
           for _, thread in ipairs(threads) do
              local made = thread:get("made")
              print(made[1], made[2], thread:get("given_here"))
           end
        end
        """,
    )
    part = Part(served)
    found = load_json(served.url(), "-n", "60", "-c", "4", "-t", "2", "-s", script)
    if found["load"]["threads"] == 2:
        assert found["script"]["printed"] == "10\tb\tnil\n20\tb\tnil\n"
        assert {line.split()[0] for line in part.lines(60)} <= {"/10", "/20"}


def test_setup_chooses_where_a_thread_connects(served: Nginx, tmp_path: Path) -> None:
    """The URL names a port without a listener."""
    script = write(tmp_path, f'function setup(thread) thread.addr = wrk.lookup("127.0.0.1", {served.port})[1] end')
    found = load_json("http://127.0.0.1:1/", "-n", "20", "-c", "2", "-s", script)
    assert (found["requests"], found["errors"]) == (20, {})


@pytest.mark.parametrize("place", ["setup", "init"])
def test_a_thread_knows_the_address_that_it_connects_to(served: Nginx, tmp_path: Path, place: str) -> None:
    """In setup, in init and under load: the URL's until the script assigns another; as text it is wrk's host:port."""
    before, after = "127.0.0.1:1", f"127.0.0.1:{served.port}"
    hooks = {
        "setup": "thread.addr = wrk.lookup('127.0.0.1', PORT)[1] print(thread.addr)",
        "init": "wrk.thread.addr = wrk.lookup('127.0.0.1', PORT)[1]",
    }
    hooks = {name: text if name == place else "" for name, text in hooks.items()}
    script = write(
        tmp_path,
        f"""
        local threads = {{}}
        function setup(thread) threads[1] = thread print(thread.addr) {hooks["setup"]} end
        function init() print(wrk.thread.addr) {hooks["init"]} print(tostring(wrk.thread.addr)) end
        function response() wrk.thread.seen = tostring(wrk.thread.addr) seen = wrk.thread.seen end
        function done() print(threads[1]:get('seen'), threads[1].addr) end
        """.replace("PORT", str(served.port)),
    )
    found = load_json("http://127.0.0.1:1/", "-n", "5", "-c", "1", "-t", "1", "-s", script)
    assert (found["requests"], found["errors"]) == (5, {})
    then = {"setup": [before, after, after, after], "init": [before, before, after]}[place]
    assert found["script"]["printed"].split("\n") == [*then, f"{after}\t{after}", ""]


def test_an_address_of_ipv6_is_printed_as_wrk_does(served: Nginx, tmp_path: Path) -> None:
    """Without brackets: getnameinfo's words, a colon, the port."""
    script = write(tmp_path, "function init() print(wrk.lookup('::1', 8080)[1]) end")
    assert load_json(served.url(), "-n", "5", "-s", script, "-t", "1")["script"]["printed"] == "::1:8080\n"


def test_an_address_that_lookup_did_not_return_is_refused(served: Nginx, tmp_path: Path) -> None:
    """Where it is assigned, with file and line."""
    done = load(served.url(), "-n", "5", "-s", write(tmp_path, "function setup(t) t.addr = '127.0.0.1:80' end"))
    assert (done.returncode, "own.lua:1: thread.addr must be an address" in done.stderr) == (2, True), done.stderr


def test_quiet_leaves_a_scripts_own_words(served: Nginx, tmp_path: Path) -> None:
    """-q has no report of ours; what the script prints is not ours."""
    script = write(tmp_path, "function init() print('begun') end function done(s) print('done', s.requests) end")
    done = load(served.url(), "-n", "20", "-t", "1", "-c", "1", "-q", "-s", script)
    assert (done.returncode, done.stdout) == (0, "begun\ndone\t20\n"), done.stderr


def test_a_changed_body_leaves_the_status_to_be_checked(served: Nginx, tmp_path: Path) -> None:
    """What is made under load is right with any status from 200 to 399, and with --status only with that."""
    script = write(tmp_path, 'local n = 0 function request() n = n + 1 return wrk.format("GET", "/moved?" .. n) end')
    assert load_json(served.url(), "-n", "20", "-c", "2", "-s", script)["requests"] == 20
    found = load_json(served.url(), "-n", "20", "-c", "2", "-s", script, "--status", "200")
    assert (found["requests"], found["errors"]) == (0, {"wrong_status": 20})
    done = load(served.url(), "-n", "20", "-c", "2", "-s", script)
    assert "only statuses were checked, not bodies" in " ".join(done.stdout.split())


def test_statuses_alone_can_be_checked_without_a_script(served: Nginx) -> None:
    """Nothing is learned, so nothing is asked for before the load."""
    found = load_json(served.url("/moved"), "-n", "20", "-c", "2", "--check", "status")
    assert (found["plain_requests"], found["requests"], found["status_codes"]) == (0, 20, {"301": 20})


PROVED = {
    'function request() return wrk.format("GET", "/same") end': True,
    'local kept function request() kept = kept or wrk.format("GET", "/lazy") return kept end': True,
    "local t = { n = 1 } function request() t.n = t.n + 1 return wrk.format() end": False,
    'function request() return wrk.format("GET", "/" .. math.random(1)) end': False,
    'local clock = os.clock function request() clock() return wrk.format("GET", "/") end': False,
    "function request() print('x') return wrk.format() end": False,
    "function request() return wrk.format(nil, '/' .. tostring({}):sub(-4)) end": False,
    "local ffi = require 'ffi' function request() return wrk.format() end": False,
    "local c = coroutine.wrap(function() end) function request() return c and wrk.format() end": False,
    "local t = setmetatable({}, { __mode = 'k' }) function request() return t and wrk.format() end": False,
    "response = function() end": False,
}


@pytest.mark.thorough
@pytest.mark.parametrize("script", PROVED)
def test_only_what_is_proved_to_repeat_itself_is_made_before_the_load(
    served: Nginx, tmp_path: Path, script: str
) -> None:
    """Whatever could differ is made under load; the results are right either way."""
    found = load_json(served.url(), "-n", "20", "-c", "2", "-s", write(tmp_path, script))
    assert (found["script"]["made_under_load"], found["requests"]) == (not PROVED[script], 20)


REFUSED = {
    "x = = 3": (2, "own.lua:1:"),
    "\nfunction init(a)\n local t = nil; t.x = 1 end": (2, "own.lua:3: attempt to index"),
    "function request() end": (2, "request() returned nil"),
    "function request() return 'hello' end": (2, "its head has no end"),
    "local n = 0 function request() n = n + 1 return 'GET / HTTP/1.1' .. n end": (
        1,
        "not a valid HTTP/1.1 request",
    ),
    "local n = 0\nfunction request() n = n + 1\n if n > 9 then error('enough') end return wrk.format() end": (
        1,
        "own.lua:3: enough; the load was ended",
    ),
    "function response()\n local t = nil + 1 end": (1, "own.lua:2: attempt to perform arithmetic"),
    "function delay() return 'x' end": (1, "delay() returned x"),
    "function setup(thread) thread.addr = wrk.lookup('192.0.2.1', 80)[1] end": (2, "not a loopback address"),
    "function setup(thread) thread:set('f', print) end": (2, "a function can't be handed to another thread"),
    "debug.sethook()": (2, "bounds how long"),
    "local n = 0\nfunction request() n = n + 1\n while n > 3 do pcall(function() while true do end end) end "
    "return wrk.format() end": (1, "own.lua:3: ran for more than 1 s"),
}


@pytest.mark.parametrize("script", REFUSED)
def test_a_script_that_fails_ends_the_load_in_words(served: Nginx, tmp_path: Path, script: str) -> None:
    """File and line, an exit code, no traceback; endless functions are ended."""
    done = load(served.url(), "-d", "5s", "-c", "2", "-s", write(tmp_path, script))
    code, said = REFUSED[script]
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    assert "raceback" not in done.stderr


def test_a_done_that_fails_does_not_take_the_report_along(served: Nginx, tmp_path: Path) -> None:
    """The run was valid: it is reported, and the exit code is 1."""
    script = write(tmp_path, "function done(summary)\n return summary.nothing.there end")
    done = load(served.url(), "-n", "50", "-c", "2", "-s", script)
    assert done.returncode == 1
    assert "sent 50 correct responses" in " ".join(done.stdout.split())
    assert "own.lua:2: attempt to index" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--no-keepalive"], "--no-keepalive and -s can't be combined"),
        (["--close-after", "3"], "--close-after and -s can't be combined"),
        (["--pool", "p.toml"], "--pool and -s can't be combined"),
        (["-R", "100"], "made under load"),
    ],
)
def test_options_that_a_script_has_the_say_in_are_refused(
    served: Nginx, tmp_path: Path, words: list[str], said: str
) -> None:
    """Before anything is sent."""
    script = write(tmp_path, "response = function() end")
    done = load(served.url(), "-s", script, *words)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_words_behind_the_url_want_a_script() -> None:
    """They are a script's; else they are a mistake."""
    done = load("http://127.0.0.1:1/", "--", "one")
    assert (done.returncode, "unexpected extra argument (one)" in done.stderr) == (2, True), done.stderr


def test_ctrl_c_ends_a_load_with_an_endless_function(served: Nginx, tmp_path: Path) -> None:
    """In init as under load; nothing is left hanging."""
    for name in ("init", "response"):
        begun = tmp_path / name
        script = write(tmp_path, f"function {name}() io.open('{begun}', 'w'):close() while true do end end")
        words = [*DRAGSTRIP, served.url(), "-d", "60s", "-c", "2", "-s", script]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not begun.exists():  # pytest's own time limit ends it where that never comes
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode in (1, 130)


def test_style_wrk_has_the_scripts_words_where_wrk_has_them(served: Nginx) -> None:
    """What setup and init printed comes first, what done printed last; the distribution with --latency only."""
    script = str(SCRIPTS / "args.lua")
    done = load(
        served.url(), "-d", "1s", "-c", "4", "-t", "1", "-s", script, "--style", "wrk", "--latency", "--", "x", "y"
    )
    lines = done.stdout.splitlines()
    assert lines[:3] == ["address\ttrue", "arguments\t2\tx\ty\tfrom setup", f"Running 1s test @ {served.url()}"]
    assert lines[-1] == "over\ttrue"
    assert "  Latency Distribution" in lines
    plain = load(served.url(), "-d", "1s", "-c", "4", "-s", script, "--style", "wrk").stdout
    assert "Latency Distribution" not in plain
