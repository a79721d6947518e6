"""Races over several machines: network namespaces of the test's own, with an sshd, a cgroup and a clock each.

Numbers of such races mean nothing: all machines are two cores. What is looked at is what was started, sent and counted.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import fleets
import pytest
from fleets import Machines, begin_run, finish_run
from hdrh.histogram import HdrHistogram

from dragstrip import _engine
from dragstrip.extras.fleet.machines import BEAT_S
from dragstrip.process import certificate
from dragstrip.record import EventKind, Race, VoidKind
from dragstrip.store.database import Store

pytestmark = [pytest.mark.live, pytest.mark.skipif(fleets.why_not() is not None, reason=str(fleets.why_not()))]

needs_lua = pytest.mark.skipif(not hasattr(_engine, "Script"), reason="this engine was built without Lua")

#: Seconds after which nothing may be left on any machine.
GONE_S = 15.0


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    yield from fleets.machines()


@pytest.fixture(scope="module")
def logging_nginx(machines: Machines) -> Path:
    """nginx-return with an access log of its own: a line for each request that it had."""
    from dragstrip.contender import shipped

    source, folder = shipped()["nginx-return"].folder, machines.folder / "logged"
    folder.mkdir()
    (machines.folder / "log").mkdir()
    (machines.folder / "log").chmod(0o777)  # nginx runs as ``nobody``
    for file in source.iterdir():
        text = file.read_text().replace('name = "nginx-return"', 'name = "logged"')
        text = text.replace("access_log off;", f"access_log {machines.folder}/log/access.log combined;")
        (folder / file.name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def raced(machines: Machines) -> tuple[Race, str]:
    """One race of nginx against node over both generators, and what the terminal said."""
    done = machines.client(
        "race", "nginx-return", "node", "--fleet", str(machines.fleet()), "--rounds", "10", "--connections", "9",
        "--html", str(machines.folder / "page.html"), timeout=280,
    )  # fmt: skip
    assert done.returncode in (0, 3), done.stdout + done.stderr
    return stored(machines), done.stdout


def stored(machines: Machines, race: str = "last") -> Race:
    with Store(machines.folder / "dragstrip" / "races.sqlite", write=False) as store:
        return store.load(race)


def ids(machines: Machines) -> set[str]:
    try:
        with Store(machines.folder / "dragstrip" / "races.sqlite", write=False) as store:
            return {line.race for line in store.runs()}
    except Exception:
        return set()


class Racing:
    """A race that runs on the client and has completed a round."""

    def __init__(self, machines: Machines, *more: str) -> None:
        self.machines, before = machines, ids(machines)
        words = ("race", "nginx-return", "node", "--fleet", str(machines.fleet()), "--budget", "200s", *more)
        self.process = machines.begin_client(*words)
        until = time.monotonic() + 150
        while True:
            newest = ids(machines) - before
            if newest and stored(machines, next(iter(newest))).rounds:
                self.id = newest.pop()
                return
            if self.process.poll() is not None or time.monotonic() > until:
                self.process.kill()
                raise AssertionError(self.process.communicate()[0])
            time.sleep(0.2)

    def race(self) -> Race:
        return stored(self.machines, self.id)

    def end(self) -> str:
        """Interrupts it as a user does, and waits."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return str(self.process.communicate(timeout=60)[0])
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


def nothing_runs(machines: Machines, *names: str) -> None:
    for name in names or ("server", "one", "two"):
        assert machines.idle_within(name, GONE_S), (name, machines.ours(name))


@pytest.mark.soak
def test_a_race_over_three_machines_ends_with_a_verdict(raced: tuple[Race, str], machines: Machines) -> None:
    """Ten rounds, two contenders, a sentence; every machine is in the record and on the page."""
    race, told = raced
    assert race.finished == "rounds"
    assert sum(not one.void for one in race.rounds) == 10
    assert re.search(r"nginx-return .* node", told)
    assert set(race.machine.machines or {}) == {"server", "one", "two"}
    assert all(launch.address.startswith("10.78.0.2:") for one in race.rounds for launch in one.launches)
    page = (machines.folder / "page.html").read_text()
    assert all(name in page for name in ("server", "one", "two"))
    nothing_runs(machines)


@pytest.mark.soak
def test_clocks_of_different_machines_are_never_compared_raw(raced: tuple[Race, str], machines: Machines) -> None:
    """Every block lies within its round, though each machine's clock is days apart from the others'."""
    if not machines.clocks_apart:
        pytest.skip("this kernel has no time namespaces")
    race, _ = raced
    for this in race.rounds:
        for block in this.blocks:
            assert this.started_ns < block.started_ns < this.ended_ns
            assert block.duration_ns < this.ended_ns - this.started_ns


@pytest.mark.soak
def test_the_servers_cpu_time_is_read_on_its_own_machine(raced: tuple[Race, str]) -> None:
    """Each block has it; it is never more than its core has."""
    race, _ = raced
    for this in race.rounds:
        for block in this.blocks:
            assert block.server_cpu_ns is not None
            assert 0 <= block.server_cpu_ns <= block.duration_ns + 50_000_000


@pytest.mark.soak
def test_each_generators_share_is_recorded(raced: tuple[Race, str]) -> None:
    """Both loaded in every round, and their answers add up to the blocks'."""
    race, _ = raced
    shares: dict[str, list[Any]] = {}
    for event in race.events:
        if event.kind is EventKind.GENERATOR:
            shares.setdefault(event.subject, []).append(event.numbers)
    assert set(shares) == {"one", "two"}
    for index, this in enumerate(race.rounds):
        both = sum(shares[name][index]["answered"] for name in shares)
        assert both == sum(block.answered for block in this.blocks)


@pytest.mark.thorough
def test_the_servers_own_log_has_exactly_what_both_generators_sent(machines: Machines, logging_nginx: Path) -> None:
    """A closed loop and an open one; and the merged histogram holds each generator's latencies, bucket by bucket."""
    log = machines.folder / "log" / "access.log"
    done = finish_run(begin_run(machines, str(logging_nginx), "9", str(log), "0.5", "0", "2000"))
    assert done["logged"] == sum(map(sum, done["sent"])) > 0
    for at, merged in enumerate(done["merged"]):
        parts = [HdrHistogram.decode(own[at].encode()) for own in done["own"]]
        whole = HdrHistogram.decode(merged.encode())
        assert whole.get_total_count() == sum(one.get_total_count() for one in parts) == done["requests"][at]
        for part in parts[1:]:
            parts[0].add(part)
        assert buckets(whole) == buckets(parts[0])


def buckets(histogram: HdrHistogram) -> dict[int, int]:
    """What was counted at each value."""
    return {item.value_iterated_to: item.count_added_in_this_iter_step for item in histogram.get_recorded_iterator()}


@contextmanager
def own_nginx(machines: Machines, settings: str = "") -> Iterator[tuple[str, Path]]:
    """A server of the user's own on the servers' machine: where it listens, and its log, complete once this is left."""
    folder = Path(tempfile.mkdtemp(dir=machines.folder))
    at, log = f"{machines.data('server')}:18080", folder / "access.log"
    (folder / "nginx.conf").write_text(
        f"user root; worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/error.log;\n"
        f"events {{ worker_connections 100; }}\nhttp {{ access_log {log}; server {{\n"
        f"listen {at}{settings}; location / {{ return 200 'hello'; }} }} }}\n"
    )
    words = ("nginx", "-p", str(folder), "-c", str(folder / "nginx.conf"))
    server = subprocess.Popen(machines.inside("server", *words), stderr=subprocess.DEVNULL)
    try:
        while at not in machines.run("server", "ss", "-Hltn").stdout:  # pytest's own limit ends it
            assert server.poll() is None, (folder / "error.log").read_text()
            time.sleep(0.1)
        yield at, log
    finally:
        server.send_signal(signal.SIGQUIT)  # nginx's word for: when all is answered
        server.wait(60)


@pytest.mark.thorough
def test_load_over_a_fleet_counts_what_the_servers_own_log_has(machines: Machines) -> None:
    """A closed loop and an open one: all that both generators sent, plain requests included."""
    with own_nginx(machines) as (at, log):
        load = ("load", f"http://{at}/", "--fleet", str(machines.fleet()), "-c", "9", "-d", "1s", "--json", "-")
        runs = [machines.client(*load), machines.client(*load, "-R", "1001")]
    sent = 0
    for done in runs:
        assert done.returncode == 0, done.stdout + done.stderr
        told = json.loads(done.stdout)
        assert told["load"]["generators"] == ["one", "two"]
        assert (told["plain_requests"], told["failed"], told["load"]["connections"]) == (4, 0, 9)
        assert told["sent"] == told["requests"]
        sent += told["sent"]
    assert told["open_loop"]["offered"] == 1001
    assert log.read_bytes().count(b"\n") == sent


@pytest.mark.soak
def test_a_count_over_a_fleet_is_the_servers_own(machines: Machines) -> None:
    """Closed loop, pipelined, open loop, fewer requests than connections: the log has exactly this many each time."""
    runs = (("-n", "1001"), ("-n", "1002", "--pipeline", "3"), ("-n", "503", "-R", "1000"), ("-n", "7", "-c", "9"))
    with own_nginx(machines) as (at, log):
        for number, words in enumerate(runs):
            load = ("load", f"http://{at}/?run={number}", "--fleet", str(machines.fleet()), "-c", "9", *words)
            done = machines.client(*load, "--json", "-")
            assert done.returncode == 0, done.stdout + done.stderr
            told = json.loads(done.stdout)
            assert (told["finished"], told["sent"], told["requests"]) == ("count", int(words[1]), int(words[1]))
        refused = machines.client("load", f"http://{at}/?run=none", "--fleet", str(machines.fleet()), "-n", "5")
    assert refused.returncode == 2
    assert "give 6 or more" in refused.stderr
    logged = Counter(re.findall(r"run=(\w+)", log.read_text()))
    assert logged == {str(number): int(words[1]) for number, words in enumerate(runs)}


#: Another path each time, and what was printed where.
VARIED = """
print("loaded")
local sent = 0
function init(args) print("init", #args, args[1]) end
function request()
   sent = sent + 1
   return wrk.format("GET", "/?script=varied&n=" .. sent)
end
function done(summary, latency, requests)
   print("done", summary.requests, #latency > 0, #requests > 0, wrk.host)
end
"""
#: The same two requests each time, sent together.
FIXED = """
local both
function init(args) both = wrk.format("GET", "/?script=fixed") .. wrk.format("GET", "/?script=fixed&other") end
function request() return both end
function done(summary, latency, requests) print("done", summary.requests) end
"""
SETS_UP = """
local threads = {}
function setup(thread) threads[#threads + 1] = thread; thread:set("id", #threads); print("setup", #threads) end
function init() made = {count = 0} end
function request() made.count = made.count + 1; return wrk.format(nil, "/?script=numbered&id=" .. id) end
function done(summary)
   local all = 0
   for _, thread in ipairs(threads) do
      local count = thread:get("made").count
      all = all + count
      print("thread", thread:get("id"), count)
   end
   print("done", all, summary.requests)
end
"""
FAILS = """
local sent = 0
function request()
   sent = sent + 1
   if sent > 100 then error("no more of this") end
   return wrk.format("GET", "/?script=fails&n=" .. sent)
end
"""


@needs_lua
@pytest.mark.soak
def test_a_script_over_a_fleet_runs_on_each_generator_and_its_done_once(machines: Machines) -> None:
    """With all answers of both, as the log has them: requests made under load, and the same ones each time."""
    for name, text in (("varied", VARIED), ("fixed", FIXED), ("fails", FAILS), ("sets_up", SETS_UP)):
        (machines.folder / f"{name}.lua").write_text(text)
    with own_nginx(machines) as (at, log):
        load = ("load", f"http://{at}/", "--fleet", str(machines.fleet()), "-c", "5", "--json", "-", "-s")
        runs = [
            machines.client(*load, "varied.lua", "-d", "1s", "--", "own"),
            machines.client(*load, "varied.lua", "-n", "501"),
            machines.client(*load, "fixed.lua", "-n", "1001"),
        ]
        failed = machines.client(*load, "fails.lua", "-d", "30s")
        numbered = machines.client(*load, "sets_up.lua", "-n", "300")
    for done in runs:
        assert done.returncode == 0, done.stdout + done.stderr
    timed, counted, fixed = (json.loads(done.stdout) for done in runs)
    # A state for done here, and one for each thread there: a core on each machine, which has loaded the file.
    assert timed["script"]["printed"].splitlines() == [
        *["loaded", "loaded", "init\t1\town"], "loaded", "init\t1\town",
        f"done\t{timed['requests']}\ttrue\ttrue\t10.78.0.2",
    ]  # fmt: skip
    assert (counted["sent"], counted["plain_requests"], counted["script"]["made_under_load"]) == (501, 0, True)
    assert (fixed["sent"], fixed["plain_requests"], fixed["script"]["made_under_load"]) == (1001, 8, False)
    assert fixed["script"]["printed"] == "done\t1001\n"
    logged = Counter(re.findall(r"script=(\w+)", log.read_text()))
    assert logged["varied"] == timed["sent"] + 501
    assert logged["fixed"] == 1001
    assert failed.returncode == 1
    assert re.search(r"(one|two): fails.lua:5: no more of this; the load was ended", failed.stderr)
    assert numbered.returncode == 0, numbered.stdout + numbered.stderr
    told = json.loads(numbered.stdout)
    *setups, first, second, whole = told["script"]["printed"].splitlines()
    assert setups == ["setup\t1", "setup\t2"]
    made = [int(line.split("\t")[2]) for line in (first, second)]
    assert [line.split("\t")[:2] for line in (first, second)] == [["thread", "1"], ["thread", "2"]]
    assert sum(made) == 300
    assert min(made) > 0
    assert whole == f"done\t300\t{told['sent']}"


@pytest.mark.thorough
def test_on_a_terminal_load_over_a_fleet_shows_how_it_stands(machines: Machines) -> None:
    """A line that is redrawn with the requests of both so far, and removed before the report."""
    with own_nginx(machines) as (at, log):
        load = ("load", f"http://{at}/", "--fleet", str(machines.fleet()), "-d", "4s", "-R", "1000", "--json", "-")
        seen, done = on_a_terminal(machines, *load)
    assert json.loads(done)["open_loop"]["offered"] == 4000
    drawn = re.findall(r"\r([^\r\x1b]*)\x1b\[K", seen)
    assert drawn[0].endswith("loading")
    assert drawn[-1] == ""
    assert any(re.fullmatch(r"\d s of 4 s . [\d.,]+k?/s . p99 .* . no error", line) for line in drawn[1:-1]), drawn
    assert log.read_bytes().count(b"\n") == 4004


def on_a_terminal(machines: Machines, *words: str) -> tuple[str, str]:
    """Runs ``dragstrip`` on the client with a terminal as standard error; what it showed there, and its output."""
    ours, theirs = os.openpty()
    running = subprocess.Popen(
        machines.inside("client", *machines.dragstrip(), *words), text=True, env=machines.environment(),
        cwd=machines.folder, stdout=subprocess.PIPE, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    try:
        with suppress(OSError):  # the other end is closed
            while piece := os.read(ours, 4096):
                shown += piece
        output = running.communicate(timeout=60)[0]
        assert running.returncode == 0, shown.decode()
        return shown.decode(), output
    finally:
        os.close(ours)
        running.kill()
        running.wait()


@pytest.mark.soak
def test_a_load_that_nobody_can_end_any_more_ends_by_itself(machines: Machines) -> None:
    """The client's only link is cut: every generator stops long before its time is up, and the client says so."""
    with own_nginx(machines) as (at, log):
        load = ("load", f"http://{at}/", "--fleet", str(machines.fleet()), "-d", "10m", "-R", "100", "--quiet")
        loading = machines.begin_client(*load)
        try:
            while log.read_bytes().count(b"\n") < 50:  # pytest's own limit ends it
                assert loading.poll() is None, loading.communicate()[0]
                time.sleep(0.1)
            machines.cut("client", "control")
            nothing_runs(machines, "one", "two")
            said = str(loading.communicate(timeout=60)[0])
        finally:
            machines.mend("client", "control")
            loading.kill()
            loading.wait()
    assert loading.returncode == 3, said
    assert re.search(r"(server|one|two): its agent did not answer \(beat\)", said)


@pytest.mark.soak
def test_load_over_a_fleet_takes_https_and_sends_who_may_sign(machines: Machines) -> None:
    """An authority that only the client has: its certificate is for another name, and that alone is refused."""
    made = certificate.make(machines.folder)
    (machines.folder / "cert.pem").write_bytes(made.identity.certificate)
    (machines.folder / "key.pem").write_bytes(made.identity.key)
    tls = f" ssl; ssl_certificate {machines.folder}/cert.pem; ssl_certificate_key {machines.folder}/key.pem"
    with own_nginx(machines, tls) as (at, _):
        load = ("load", f"https://{at}/", "--fleet", str(machines.fleet()), "-d", "1s")
        unknown = machines.client(*load)
        known = machines.client(*load, "--cacert", str(made.file))
        taken = machines.client(*load, "--insecure", "--json", "-")
    assert "has an unknown issuer" in unknown.stderr
    assert "is for another name" in known.stderr
    assert json.loads(taken.stdout)["load"]["tls"]["verified"] is False


@pytest.mark.soak
def test_a_race_over_tls_runs_over_a_fleet(machines: Machines) -> None:
    """Each launch has its authority's certificate made on the servers' machine, and both generators trust it."""
    done = machines.client(
        "race", "nginx-return", "node", "--tls", "--fleet", str(machines.fleet()), "--rounds", "2", "--connections", "4"
    )
    assert done.returncode in (0, 3), done.stdout + done.stderr
    race = stored(machines)
    assert [entrant.name for entrant in race.entrants] == ["nginx-return:tls=on", "node:tls=on"]
    assert all(block.answered > 0 and not block.errors for this in race.rounds for block in this.blocks)
    nothing_runs(machines)


@pytest.mark.soak
def test_a_race_is_raced_again_over_a_fleet(machines: Machines) -> None:
    """The same plan and seed, on the same machines, and compared."""
    words = ("--fleet", str(machines.fleet()), "-q")
    first = machines.client("race", "nginx-return", "node", "--rounds", "2", "--connections", "4", *words)
    assert first.returncode in (0, 3), first.stdout + first.stderr
    before = stored(machines)
    again = machines.client("rerun", before.id, *words)
    assert again.returncode in (0, 3), again.stdout + again.stderr
    after = stored(machines)
    assert after.id != before.id
    assert (after.seed, after.load, after.machine.fleet) == (before.seed, before.load, before.machine.fleet)
    nothing_runs(machines)


@pytest.mark.thorough
def test_what_a_machine_lacks_is_told_with_its_name(machines: Machines) -> None:
    """Dragstrip, cores, an address of its own: what the file says and what would do."""
    text = machines.fleet().read_text()
    lacking = {
        "`dragstrip fleet install lacking.toml` puts Dragstrip there": (sys.executable, "/nosuch/python"),
        "lacking.toml: one: cores = '4095': this user may use cores": ('cores = "0"', 'cores = "4095"'),
        "address = '10.78.0.99': the servers' machine can't listen there": ('"10.78.0.2"', '"10.78.0.99"'),
    }
    for told_of, (was, now) in lacking.items():
        (machines.folder / "lacking.toml").write_text(text.replace(was, now))
        done = machines.client("race", "nginx-return", "node", "--fleet", "lacking.toml")
        assert done.returncode in (2, 3), done.stdout + done.stderr
        assert told_of in done.stderr


@pytest.mark.thorough
def test_an_open_loop_is_split_exactly_and_each_generators_lateness_is_told(machines: Machines) -> None:
    """20,000/s for a second are 20,000 offers, half from each; an odd rate is exact, too."""
    done = finish_run(begin_run(machines, "nginx-return", "64", "-", "1.0", "20000", "15001"))
    assert done["offered"] == [20_000, 15_001]
    one, two = done["offered_each"]
    assert one[0] == two[0] == 10_000
    assert abs(one[1] - two[1]) == 1
    assert all(lag is not None for own in done["lag_p99_ns"] for lag in own)


@pytest.mark.soak
def test_generators_with_clocks_days_apart_run_each_block_together(machines: Machines) -> None:
    """By the observer's clock no generator begins a block before the one before it has ended on every generator.

    How near to each other they begin is measured by ``tests/soak/fleet_timing.py``.
    """
    done = finish_run(begin_run(machines, "nginx-return", "4", "-", "0.1", *["0"] * 8))
    began, ended = (list(zip(*done[name], strict=True)) for name in ("began_ns", "ended_ns"))
    assert len(began) == 8
    for before, after in itertools.pairwise(range(8)):
        assert max(ended[before]) < min(began[after]), (before, ended[before], began[after])
    assert all(sent > 0 for own in done["sent"] for sent in own)


@pytest.mark.soak
def test_nothing_is_sent_on_the_control_link_while_a_block_runs(machines: Machines) -> None:
    """Beats would be due several times over; marks and load go over the data link."""
    running = begin_run(machines, "nginx-return", "4", "-", "10", "0")
    assert running.stdin is not None
    running.stdin.write("go\n")
    running.stdin.flush()
    time.sleep(2.0)
    before = {(name, link): machines.packets(name, link) for name in ("server", "one") for link in ("control", "data")}
    time.sleep(3 * BEAT_S)
    sent = {at: machines.packets(*at) - count for at, count in before.items()}
    done = finish_run(running)
    assert sum(done["requests"]) > 0
    # Neighbours look each other up now and then (ARP, IPv6 router solicitation): the kernel's own, and a handful.
    assert max(sent["server", "control"], sent["one", "control"]) <= 6, sent
    assert min(sent["server", "data"], sent["one", "data"]) > 100, sent


@pytest.mark.soak
def test_check_tells_of_each_machine_and_idle_agents_cost_next_to_nothing(machines: Machines) -> None:
    """All there, the same version, clocks apart as they are, marks answered; at most 0.1 % of a core."""
    done = machines.client("fleet", "check", str(machines.fleet()), "--idle", "5")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("pass") == 3 + 3 + 2 + 3
    if machines.clocks_apart:
        ahead = re.findall(r"two +clock +pass +its clock is \+([\d,.]+) s", done.stdout)
        assert [round(float(one.replace(",", ""))) for one in ahead] == [1_000_000], done.stdout
    nothing_runs(machines)


@pytest.mark.thorough
def test_without_the_key_nothing_is_started_and_nothing_is_read(machines: Machines) -> None:
    """A stranger's key is refused by each sshd, and the race says so; no process of it was on any machine."""
    done = machines.client("race", "nginx-return", "node", "--fleet", str(machines.fleet(key="stranger")))
    assert done.returncode == 3
    assert "Permission denied" in done.stderr
    assert machines.processes("server") == []
    for command in ("id", f"cat {machines.folder}/dragstrip/races.sqlite"):
        config = str(machines.folder / "ssh_config_stranger")
        tried = machines.run("client", "ssh", "-F", config, "-o", "BatchMode=yes", "root@10.77.0.2", command)
        assert tried.returncode == 255
        assert tried.stdout == ""


@pytest.mark.thorough
def test_a_server_machine_has_no_other_port_than_those_told(machines: Machines) -> None:
    """With a race open: sshd on the control link; contender and observer on the data link, who answers no stranger."""
    running = begin_run(machines, "nginx-return", "4", "-", "0.1", "0")
    try:
        listening = machines.run("server", "ss", "-Hltun").stdout.splitlines()
        tcp = {line.split()[4] for line in listening if line.startswith("tcp")}
        udp = {line.split()[4] for line in listening if line.startswith("udp")}
        assert {at.rpartition(":")[0] for at in udp} == {"10.78.0.2"}, udp
        assert {at.rpartition(":")[0] for at in tcp} == {"10.77.0.2", "10.78.0.2"}, tcp
        assert len(udp) == 1
        assert len(tcp) == 2
        for name in ("one", "two"):
            assert "udp" not in machines.run(name, "ss", "-Hlun").stdout
            assert len(machines.run(name, "ss", "-Hltn").stdout.splitlines()) == 1
        (observer,) = udp
        assert machines.run("two", sys.executable, "-c", STRANGER, observer.rpartition(":")[2]).stdout == "silence\n"
    finally:
        finish_run(running)


#: Sends the observer marks with another token, and other bytes; says what comes back.
STRANGER = """
import socket, sys
asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asker.settimeout(1.0)
for text in (b"", b"DSQ1" + bytes([2, 0, 1, 0]) + bytes(56), b"x" * 64, bytes(60000)):
    asker.sendto(text, ("10.78.0.2", int(sys.argv[1])))
try:
    print(asker.recv(1000))
except TimeoutError:
    print("silence")
"""


@pytest.mark.soak
@pytest.mark.timeout(500)
def test_a_generator_that_is_killed_is_named_and_the_race_goes_on_with_it(machines: Machines) -> None:
    """Its round is void and committed; its agent is started again, on the same machine since the same boot."""
    racing = Racing(machines, "--node-wait", "200s")
    rounds = len(racing.race().rounds)
    machines.kill("one")
    until = time.monotonic() + 250
    while len([one for one in racing.race().rounds if not one.void]) < rounds + 2 and time.monotonic() < until:
        time.sleep(0.5)
    said = racing.end()
    race = racing.race()
    assert any(why.kind is VoidKind.MACHINE_LOST for this in race.rounds for why in this.void), said
    assert [event.subject for event in race.events if event.kind is EventKind.MACHINE_LOST] == ["one"]
    assert [event.subject for event in race.events if event.kind is EventKind.MACHINE_BACK] == ["one"]
    assert not race.rounds[-1].void
    nothing_runs(machines)


@pytest.mark.soak
@pytest.mark.timeout(700)  # a race, its end, and one that goes on
def test_a_server_machine_that_is_cut_off_ends_the_race_with_what_it_has(machines: Machines) -> None:
    """The client can't reach it: it stops by itself. ``--resume`` then continues with the stored rounds."""
    racing = Racing(machines, "--node-wait", "5s")
    done = len(racing.race().rounds)
    machines.cut("server")
    try:
        said = str(racing.process.communicate(timeout=150)[0])
        nothing_runs(machines)
    finally:
        racing.process.kill()
        machines.mend("server")
    race = racing.race()
    assert race.finished == "machine lost", said
    assert "server" in [event.subject for event in race.events if event.kind is EventKind.MACHINE_LOST]
    assert len(race.rounds) >= done
    assert machines.client("show", racing.id).returncode in (0, 3)
    again = machines.begin_client("race", "--resume", racing.id, "--fleet", str(machines.fleet()), "--budget", "+20s")
    try:
        said = str(again.communicate(timeout=200)[0])
    finally:
        again.kill()
    after = racing.race()
    assert len(after.rounds) > len(race.rounds), said
    assert not after.rounds[-1].void


@pytest.mark.soak
def test_down_ends_an_agent_that_hangs(machines: Machines) -> None:
    """Stopped, it can neither see the end of its pipe nor its own silence."""
    running = begin_run(machines, "nginx-return", "4", "-", "0.1", "0")
    try:
        agents = [
            pid
            for pid in machines.processes("one")
            if b"\0fleet\0agent\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
            and b"sh\0-c" not in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        assert agents
        for pid in agents:
            os.kill(pid, signal.SIGSTOP)
        done = machines.client("fleet", "down", str(machines.fleet()))
        assert done.returncode == 0, done.stderr
        assert re.findall(r"(\w+): (\d+) ended", done.stdout) == [("server", "1"), ("one", "1"), ("two", "1")]
        nothing_runs(machines)
    finally:
        running.kill()
        running.wait()


@pytest.mark.soak
def test_a_sweep_runs_over_a_fleet_as_a_race_does(machines: Machines) -> None:
    """One rate, three launches: every sample has what both generators offered."""
    done = machines.client(
        "sweep",
        "nginx-return",
        "--fleet",
        str(machines.fleet()),
        "--rates",
        "500,1000",
        "--launches",
        "3",
        "--json",
        "-",
    )
    assert done.returncode in (0, 3), done.stderr
    swept = json.loads(done.stdout)
    assert set(swept["machine"]["machines"]) == {"server", "one", "two"}
    nothing_runs(machines)


@pytest.mark.soak
def test_a_client_that_is_killed_leaves_nothing_running_and_its_rounds_readable(machines: Machines) -> None:
    """kill -9 at any time: every agent sees the end of its pipe."""
    racing = Racing(machines)
    racing.process.kill()
    racing.process.wait()
    nothing_runs(machines)
    rounds = racing.race().rounds
    assert rounds
    assert all(block.answered for this in rounds for block in this.blocks)
    assert machines.client("race", "--resume", racing.id, "--budget", "+20s").returncode == 2  # not without the fleet


@pytest.mark.soak
def test_over_a_slow_link_a_generator_counts_what_the_link_carried(machines: Machines, logging_nginx: Path) -> None:
    """Its own share is no more than its link lets through, nothing is lost, and the check looks at both links.

    How much less it is than the other's is measured by ``tests/soak/fleet_timing.py``.
    """
    log, block_s = machines.folder / "log" / "access.log", 0.2
    with machines.slow("one") as why_not:
        if why_not:
            pytest.skip(why_not)
        done = finish_run(begin_run(machines, str(logging_nginx), "2", str(log), str(block_s), "0"))
        checked = machines.client("fleet", "check", str(machines.fleet()), "--idle", "1").stdout
    sent = [sum(own) for own in done["sent"]]
    assert done["logged"] == sum(sent)
    assert min(sent) > 0
    # One connection: before its next request leaves, the last one has come through, in a frame of its own.
    carried = int((fleets.SLOW_BYTES_PER_S * block_s + fleets.SLOW_BURST) / LEAST_FRAME)
    assert sent[0] <= carried + 1, sent
    assert set(re.findall(r"(one|two) +link +\w+ .*within [\d,]+ µs", checked)) == {"one", "two"}, checked


#: Bytes of the shortest request in a frame: heads of Ethernet, IP and TCP, and a first line with its end.
LEAST_FRAME = 14 + 20 + 20 + len("GET / HTTP/1.1\r\n\r\n")


@pytest.mark.thorough
def test_a_host_elsewhere_is_loaded_only_where_it_was_named(machines: Machines) -> None:
    """From a generator's machine: refused without its name, bounded with it, and what can't be known is said."""
    address = machines.data("server")
    words = ("-m", "http.server", "--bind", address, "--directory", str(machines.folder / "empty"), "0")
    (machines.folder / "empty").mkdir()
    log = (machines.folder / "http.log").open("w+")
    server = subprocess.Popen(machines.inside("server", sys.executable, "-u", *words), stderr=log, stdout=log)
    try:
        while (port := re.search(r"port (\d+)", Path(log.name).read_text())) is None:  # pytest's own limit ends it
            assert server.poll() is None, Path(log.name).read_text()
            time.sleep(0.1)
        url = f"http://{address}:{port[1]}/"
        load = ("env", f"PYTHONPATH={fleets.SOURCE}", *machines.dragstrip(), "load", url)
        refused = machines.run("one", *load)
        assert refused.returncode == 2
        assert "--allow-host" in refused.stderr
        assert "GET" not in Path(log.name).read_text()
        done = machines.run("one", *load, "--allow-host", f"{address}:rate=50", "-d", "1s", "--no-keepalive")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "is another machine" in done.stdout
        assert Path(log.name).read_text().count('"GET / HTTP/1.1" 200') == 50 + 2  # and two that learn the right answer
    finally:
        server.kill()
        server.wait()
        log.close()


@pytest.mark.thorough
def test_a_race_on_one_machine_loads_nothing_of_fleets() -> None:
    """Nor dask, which no race needs."""
    probe = (
        "import sys; import dragstrip.commands.race; "
        "print([name for name in sys.modules if name.startswith(('dragstrip.extras.fleet', 'dask', 'distributed'))])"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done.stderr
