"""The compiled engine through its doorway, against real servers: nginx, and one that goes wrong as told."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import pytest

_engine = pytest.importorskip("dragstrip._engine", reason="the engine is not built: make build")
from loads import as_started  # noqa: E402

from dragstrip._engine import (  # noqa: E402
    BlockPlan,
    Engine,
    Exchange,
    OpenLoop,
    RateStep,
    SessionPlan,
    Tally,
    Target,
    merge,
)
from dragstrip.errors import EngineError  # noqa: E402

FAULTY = Path(__file__).parents[1] / "servers" / "faulty.py"
HELLO = Exchange(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n", 200, b"hello world")
SECOND_NS = 1_000_000_000
HOUR_NS = 3600 * SECOND_NS


class Faulty:
    """``servers/faulty.py`` in a process of its own."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen([sys.executable, str(FAULTY), *words], stdout=subprocess.PIPE, text=True)
        self.port = int(self.line().removeprefix("port "))

    def line(self) -> str:
        """Its next line; waits for it."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        """Ends it at once, its connections reset."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def faulty() -> Iterator[Callable[..., Faulty]]:
    """Starts faulty servers, and ends them."""
    started: list[Faulty] = []

    def start(*words: str) -> Faulty:
        started.append(Faulty(*words))
        return started[-1]

    yield start
    for server in started:
        server.kill()


@pytest.fixture(params=["auto", "epoll", "auto, polling", "epoll, polling"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """One worker on the first core that is ours, over each back end (``auto``: io_uring where it works)."""
    io, _, polls = request.param.partition(", ")
    made = Engine([min(os.sched_getaffinity(0))], io=io, wait="poll" if polls else "sleep")
    yield made
    made.shutdown()


def connect(engine: Engine, port: int, connections: int = 4, **settings: object) -> int:
    chosen = {"keepalive": True, "timeout_ns": 5 * SECOND_NS} | settings
    plan = SessionPlan(Target("127.0.0.1", port), [HELLO], connections=connections, **chosen)  # type: ignore[arg-type]
    return engine.open(plan)


def counted(session: int, requests: int, limit_ns: int = HOUR_NS) -> BlockPlan:
    """A block that ends after this many requests; 0: after its time."""
    return BlockPlan(session, counted_ns=limit_ns, max_requests=requests)


def adds_up(tally: Tally) -> bool:
    return tally.sent == tally.answered + tally.failed + tally.in_flight and tally.in_flight == 0


NGINX = """
{user}worker_processes 1; daemon off; pid {at}/pid; error_log {at}/error.log; worker_rlimit_nofile 4096;
events {{ worker_connections 2048; }}
http {{
    access_log off; keepalive_requests 1000000000; default_type text/plain;
    client_body_temp_path {at}/a; proxy_temp_path {at}/b; fastcgi_temp_path {at}/c; uwsgi_temp_path {at}/d;
    scgi_temp_path {at}/e;
    server {{
        listen 127.0.0.1:{port} backlog=1024;
        location / {{ root {at}; access_log {at}/access.log; }}
        location = /ready {{ return 204; }}
    }}
}}
"""


@contextmanager
def nginx(at: Path) -> Iterator[int]:
    """Serves a folder's files until left, its log then complete."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    (at / "nginx.conf").write_text(NGINX.format(user=as_started(), at=at, port=port))
    process = subprocess.Popen(["nginx", "-p", str(at), "-c", str(at / "nginx.conf")], stderr=subprocess.DEVNULL)
    try:
        while True:  # pytest's own time limit ends it where nginx never comes
            assert process.poll() is None, (at / "error.log").read_text()
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
        yield port
    finally:
        process.send_signal(signal.SIGQUIT)
        process.wait()


@pytest.mark.live
@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
@pytest.mark.parametrize("connections", [1, 10, 500])
@pytest.mark.parametrize("size", [11, 1 << 20])
@pytest.mark.parametrize("io", ["auto", "epoll"])
def test_the_count_of_answers_is_nginx_own_count(tmp_path: Path, size: int, connections: int, io: str) -> None:
    """Exactly, over keep-alive, in timed and in counted blocks: one log line per answer, no more, no less."""
    body = bytes(at % 251 for at in range(size))
    (tmp_path / "body").write_bytes(body)
    engine = Engine([min(os.sched_getaffinity(0))] * 2, io)
    with nginx(tmp_path) as port:
        exchange = Exchange(b"GET /body HTTP/1.1\r\nHost: test\r\n\r\n", 200, body)
        target, timeout_ns = Target("127.0.0.1", port), 20 * SECOND_NS
        session = engine.open(
            SessionPlan(target, [exchange], connections=connections, keepalive=True, timeout_ns=timeout_ns)
        )
        timed = BlockPlan(session, lead_ns=10_000_000, counted_ns=30_000_000)
        tallies = engine.run([timed, counted(session, 600, 60 * SECOND_NS), timed])
        engine.shutdown()
    lines = (tmp_path / "access.log").read_text().splitlines()
    assert [line for line in lines if '" 200 ' not in line] == []
    assert all(adds_up(tally) and not tally.errors for tally in tallies), [tally.errors for tally in tallies]
    assert tallies[1].answered == 600
    assert sum(tally.answered for tally in tallies) == len(lines)
    assert sum(tally.connects for tally in tallies) == 0


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("close", "closed_early"),
        ("reset", "reset"),
        ("stall", "timeout"),
        ("garbage", "bad_response"),
        ("truncate", "closed_early"),
        ("status", "wrong_status"),
        ("body", "wrong_body"),
        ("length", "wrong_length"),
        ("twice", "bad_response"),
    ],
)
def test_each_fault_is_named_and_never_counted_as_an_answer(
    engine: Engine, faulty: Callable[..., Faulty], fault: str, kind: str
) -> None:
    """What came before the fault counts; what comes after is an error of its kind, with a sample."""
    # Ten connections stall side by side: so each may have a timeout that no slow machine passes.
    connections = 10 if kind == "timeout" else 2
    session = connect(engine, faulty(fault, "40").port, connections, timeout_ns=2 * SECOND_NS)
    (tally,) = engine.run([counted(session, 50, 20 * SECOND_NS)])
    assert adds_up(tally)
    assert (tally.sent, tally.answered, tally.requests) == (50, 40, 40)
    assert tally.errors == {kind: 10}
    assert tally.sample


def test_an_answer_that_drips_byte_by_byte_is_right(engine: Engine, faulty: Callable[..., Faulty]) -> None:
    """However the answer is cut, it is one answer."""
    session = connect(engine, faulty("drip").port)
    (tally,) = engine.run([counted(session, 40, 20 * SECOND_NS)])
    assert (tally.answered, tally.errors) == (40, {})


def test_blocks_on_several_sessions_interleave_in_one_run(engine: Engine, faulty: Callable[..., Faulty]) -> None:
    """Each tally belongs to its own session, in the order asked for, and no block begins before the last ended."""
    sessions = [connect(engine, faulty("none").port) for _ in range(3)]
    order = [sessions[at] for at in (0, 2, 1, 1, 0, 2)]
    tallies = engine.run(
        [BlockPlan(session, lead_ns=2_000_000, counted_ns=5_000_000) for session in order], steal_cores=[0]
    )
    assert [tally.session for tally in tallies] == order
    assert all(adds_up(tally) and tally.answered > 0 for tally in tallies)
    for one, after in pairwise(tallies):
        assert one.started_ns + one.duration_ns <= after.started_ns


def test_a_killed_server_ends_the_block_early_and_gave_up_says_so(
    engine: Engine, faulty: Callable[..., Faulty]
) -> None:
    """An hour's block on a server that dies ends at once; the next block on it does, too; others go on."""
    dying, living = faulty("die", "100"), faulty("none")
    dead, alive = connect(engine, dying.port, 8), connect(engine, living.port)
    first, second, third = engine.run([counted(dead, 0), counted(dead, 0), counted(alive, 100)])
    assert first.gave_up
    assert second.gave_up
    assert not third.gave_up
    assert (first.answered, third.answered) == (100, 100)
    assert all(adds_up(tally) for tally in (first, second, third))
    assert first.counted_ns < HOUR_NS // 60
    assert second.errors == {"refused": 24}
    assert "refused" in second.sample


def test_ctrl_c_keeps_the_finished_blocks(engine: Engine, faulty: Callable[..., Faulty]) -> None:
    """KeyboardInterrupt is raised, the current block is dropped, and the engine can be used again."""
    server = faulty("stall", "30")
    session = connect(engine, server.port, timeout_ns=HOUR_NS)

    def interrupt() -> None:
        assert server.line() == "fault"  # the third block is running and will not end
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        engine.run([counted(session, count) for count in (10, 20, 0, 0)])
    thread.join()
    assert [tally.answered for tally in engine.last_tallies()] == [10, 20]
    again = connect(engine, faulty("none").port)
    assert engine.run([counted(again, 10)])[0].answered == 10
    assert [tally.answered for tally in engine.last_tallies()] == [10]


def test_stop_from_another_thread_returns_what_is_finished(engine: Engine, faulty: Callable[..., Faulty]) -> None:
    """During a run, every call except stop() is refused, and Python's other threads go on."""
    server = faulty("stall", "10")
    session = connect(engine, server.port, timeout_ns=HOUR_NS)
    refusals: list[str] = []

    def stop() -> None:
        assert server.line() == "fault"
        try:
            engine.run([])
        except EngineError as error:
            refusals.append(str(error))
        engine.stop()

    thread = threading.Thread(target=stop)
    thread.start()
    tallies = engine.run([counted(session, 10), counted(session, 0)])
    thread.join()
    assert [tally.answered for tally in tallies] == [10]
    assert "busy" in refusals[0]


def test_the_servers_cpu_time_is_read_around_each_block(engine: Engine, faulty: Callable[..., Faulty]) -> None:
    """From its threads' schedstat; None after it has exited, None if no process was given."""
    watched, unwatched = faulty("none"), faulty("none")
    one, other = connect(engine, watched.port), connect(engine, unwatched.port)
    threads = [str(path / "schedstat") for path in Path(f"/proc/{watched.process.pid}/task").iterdir()]
    engine.watch(one, cgroup_cpu_stat=None, schedstats=threads)
    first, second = engine.run([counted(one, 1000), counted(other, 100)])
    assert first.server_cpu_ns is not None
    assert 0 < first.server_cpu_ns < first.duration_ns * 2
    assert first.server_wait_ns is not None
    assert first.server_runs is not None
    assert first.server_runs > 0
    assert (second.server_cpu_ns, second.server_wait_ns, second.server_runs) == (None, None, None)
    watched.kill()
    (third,) = engine.run([counted(one, 1000)])
    assert (third.server_cpu_ns, third.server_wait_ns) == (None, None)


def test_latencies_are_a_histogram_that_the_formats_own_library_reads(
    engine: Engine, faulty: Callable[..., Faulty]
) -> None:
    """V2 compressed, one entry per counted answer; merging adds them up."""
    histogram = pytest.importorskip("hdrh.histogram").HdrHistogram
    session = connect(engine, faulty("none").port)
    tallies = engine.run([BlockPlan(session, lead_ns=1_000_000, counted_ns=10_000_000)] * 3)
    for tally in tallies:
        read = histogram.decode(base64.b64encode(tally.latency_hdr))
        assert read.total_count == tally.requests <= tally.answered
        assert read.get_value_at_percentile(50) == tally.p50_ns
        assert tally.p50_ns <= tally.p90_ns <= tally.p99_ns <= tally.p999_ns <= tally.max_ns
        assert tally.latency_sum_ns == pytest.approx(read.get_mean_value() * tally.requests, rel=0.02)
    merged = histogram.decode(base64.b64encode(merge([tally.latency_hdr for tally in tallies])))
    assert merged.total_count == sum(tally.requests for tally in tallies)
    with pytest.raises(EngineError, match="histogram 1"):
        merge([tallies[0].latency_hdr, b"nonsense"])


def test_workers_are_pinned_to_their_cores() -> None:
    """One thread per core named, allowed on that core alone."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    engine = Engine(cores)
    allowed = {
        (task / "comm").read_text().strip(): os.sched_getaffinity(int(task.name))
        for task in Path("/proc/self/task").iterdir()
    }
    engine.shutdown()
    assert {name: pins for name, pins in allowed.items() if name.startswith("dragstrip-")} == {
        f"dragstrip-{at}": {core} for at, core in enumerate(cores)
    }


def test_the_back_end_is_chosen_at_the_start_and_named() -> None:
    """What runs is part of a record; io_uring asked for by name is never silently replaced."""
    core = [min(os.sched_getaffinity(0))]
    assert Engine(core, io="epoll").backend == "epoll"
    auto = Engine(core).backend
    assert auto.startswith(("io_uring (", "epoll (io_uring: "))
    if auto.startswith("io_uring"):
        # Left to itself, the engine may wait in another way where a worker has one connection.
        assert auto.startswith(Engine(core, "uring").backend)
    else:
        with pytest.raises(EngineError, match="io_uring was asked for"):
            Engine(core, "uring")
    with pytest.raises(EngineError, match='io: "ring" given; give auto, uring or epoll'):
        Engine(core, io="ring")
    assert (Engine(core).wait, Engine(core, wait="poll").wait) == ("sleep", "poll")
    with pytest.raises(EngineError, match='wait: "doze" given; give sleep or poll'):
        Engine(core, wait="doze")


@pytest.mark.parametrize("io", ["auto", pytest.param("epoll", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("connections", [1, pytest.param(4, marks=pytest.mark.thorough)])
def test_looking_in_vain_is_no_work_of_the_engine(io: str, connections: int, faulty: Callable[..., Faulty]) -> None:
    """Nothing is answered for most of a block: who polls spends its time all the same, and it is not in the tally."""
    engine = Engine([min(os.sched_getaffinity(0))], io=io, wait="poll")
    session = connect(engine, faulty("stall", "10").port, connections, timeout_ns=SECOND_NS)
    before, tallies = time.process_time_ns(), list[Tally]()
    # Beside other programs a second by the clock is little CPU time, and the ten answers would be most of it.
    while not tallies or (time.process_time_ns() - before < SECOND_NS // 2 and len(tallies) < 60):
        tallies += engine.run([counted(session, 0, SECOND_NS)])
    spent_ns = time.process_time_ns() - before
    assert sum(tally.answered for tally in tallies) == 10
    assert sum(tally.engine_cpu_ns for tally in tallies) < spent_ns / 2
    engine.shutdown()


def test_what_cannot_be_done_is_refused_in_words_and_by_kind(engine: Engine, faulty: Callable[..., Faulty]) -> None:
    """Each message names the field and what was given; a program tells them by their kind."""
    gone = faulty("none")
    gone.kill()
    with refused("refused", f"127.0.0.1:{gone.port}.*refused"):
        connect(engine, gone.port)
    with refused("cores", "cores"):
        Engine([])
    with refused("plan", "connections: 0"):
        connect(engine, gone.port, 0)
    with refused("connect", "No such file"):
        engine.open(SessionPlan(Target.unix("/no/such"), [HELLO], connections=1, keepalive=True, timeout_ns=SECOND_NS))
    with refused("address", r"no\.such\.name"):
        engine.open(SessionPlan(Target("no.such.name.", 1), [HELLO], connections=1, keepalive=True, timeout_ns=1))
    with refused("session", "session: 77"):
        engine.run([counted(77, 0, SECOND_NS)])
    with refused("watch", "no/such"):
        engine.watch(connect(engine, faulty("none").port), cgroup_cpu_stat="/no/such", schedstats=[])
    with refused("histogram", "histogram 0"):
        merge([b"nonsense"])
    engine.close(77)
    engine.shutdown()
    engine.shutdown()
    with refused("shut_down", "shut down"):
        engine.run([])


@contextmanager
def refused(kind: str, words: str) -> Iterator[None]:
    """The engine refuses what is done within."""
    with pytest.raises(EngineError, match=words) as caught:
        yield
    assert caught.value.kind == kind


@pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="no limits to be read")
def test_too_few_descriptors_are_of_a_kind_of_their_own() -> None:
    """Whether the limit is known beforehand or comes from the kernel; the server is not at fault."""
    code = """
import os, resource
from dragstrip._engine import Engine, Exchange, ReferenceServer, SessionPlan, Target
from dragstrip.errors import EngineError
core = [min(os.sched_getaffinity(0))]
server, engine = ReferenceServer(core), Engine(core)
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
hello, target = Exchange(b"GET / HTTP/1.1\\r\\n\\r\\n", 200, b"hello world\\n"), Target("127.0.0.1", server.port)
for connections, held in (1000, 0), (10, 180):
    kept = []
    try:
        while len(kept) < held:
            kept.append(os.dup(0))
    except OSError:
        pass
    try:
        engine.open(SessionPlan(target, [hello], connections=connections, keepalive=True, timeout_ns=10**9))
    except EngineError as error:
        print(error.kind)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["descriptors", "descriptors"]


def test_a_wrong_value_of_a_plan_is_refused_by_its_field() -> None:
    """A word by the engine's own message; a value of no such type by the note that Python shows below the error."""
    with refused("plan", 'arrivals: "often" given; give constant or poisson'):
        OpenLoop([], arrivals="often")
    with refused("plan", 'precision: "sharp" given; give precise, balanced or thrifty'):
        OpenLoop([], precision="sharp")
    for wrong, field in ((-1, "counted_ns"), ("long", "counted_ns")):
        with pytest.raises((TypeError, OverflowError)) as caught:
            BlockPlan(1, counted_ns=wrong)  # type: ignore[arg-type]
        assert field in "".join(caught.value.__notes__)
    with pytest.raises(AttributeError) as nothing:
        SessionPlan(Target("a", 1), [b"GET /"], connections=1, keepalive=True, timeout_ns=1)  # type: ignore[list-item]
    assert "exchanges" in "".join(nothing.value.__notes__)


def test_plans_are_values_that_can_be_read_back() -> None:
    """Equal where all of their fields are; shown as they are written."""
    step = RateStep(from_per_s=0, to_per_s=100, until_ns=SECOND_NS)
    ramp = OpenLoop([step], arrivals="poisson", precision="thrifty", seed=3)
    block = BlockPlan(7, lead_ns=1, counted_ns=2, max_requests=3, open_loop=ramp)
    assert block.open_loop == ramp
    assert (ramp.steps, ramp.arrivals, ramp.precision, ramp.seed) == ([step], "poisson", "thrifty", 3)
    assert (block.session, block.lead_ns, block.counted_ns, block.max_requests) == (7, 1, 2, 3)
    assert repr(block) == (
        "BlockPlan(7, counted_ns=2, lead_ns=1, max_requests=3, open_loop=OpenLoop([RateStep(from_per_s=0, "
        'to_per_s=100, until_ns=1000000000)], arrivals="poisson", precision="thrifty", seed=3))'
    )
    assert block != BlockPlan(7, lead_ns=1, counted_ns=2, max_requests=3)
    assert (Target("a", 1), Target.unix("/a")) == (Target("a", 1), Target.unix("/a"))
    assert Target("a", 1) != Target("a", 2)


def test_poisson_arrivals_are_each_blocks_own(faulty: Callable[..., Faulty]) -> None:
    """Of one seed, two blocks of a run offer different numbers of requests; the same run again offers the same."""
    engine = Engine([min(os.sched_getaffinity(0))])
    session = connect(engine, faulty("none").port)
    steps = [RateStep(from_per_s=2000, to_per_s=2000, until_ns=SECOND_NS // 4)]
    block = BlockPlan(session, counted_ns=SECOND_NS // 4, open_loop=OpenLoop(steps, arrivals="poisson", seed=1))
    first, again = ([tally.offered for tally in engine.run([block] * 4)] for _ in range(2))
    engine.shutdown()
    assert first == again
    assert len(set(first)) > 1


#: An open loop of ten requests over a server of its own, whose last answer comes long before the block's end.
SPARSE = """
import sys
from dragstrip._engine import BlockPlan, Engine, Exchange, OpenLoop, RateStep, ReferenceServer, SessionPlan, Target

core = int(sys.argv[1])
server, engine = ReferenceServer([core]), Engine([core])
hello = Exchange(b"GET / HTTP/1.1\\r\\nHost: test\\r\\n\\r\\n", 200, b"hello world\\n")
plan = SessionPlan(Target("127.0.0.1", server.port), [hello], connections=2, keepalive=True, timeout_ns=10**10)
step = RateStep(from_per_s=50, to_per_s=50, until_ns=10**9)
(tally,) = engine.run([BlockPlan(engine.open(plan), counted_ns=2 * 10**8, open_loop=OpenLoop([step]))])
print(tally.offered)
"""


def test_an_open_loop_ends_where_the_process_has_a_monotonic_clock_of_its_own() -> None:
    """As a restored container has: waits must end by that clock, or a run with nothing more to wait for hangs."""
    apart = ["unshare", "-T", "--monotonic", "1000000"]
    if shutil.which("unshare") is None or subprocess.run([*apart, "true"], capture_output=True).returncode:
        pytest.skip("time namespaces are not permitted here")
    words = [*apart, sys.executable, "-c", SPARSE, str(min(os.sched_getaffinity(0)))]
    assert subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout == "10\n"
