"""Whole checks of planted claims through the command line, with servers that are started."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import samples
from claims import EVEN, FAST, all_blocks, changed, claims_command, planted, purpose_event
from commands import process
from rich.console import Console

from dragstrip.contender import serve_entry
from dragstrip.extras.claims import counted_run
from dragstrip.extras.claims import definition as definitions
from dragstrip.extras.claims import run as claim_run
from dragstrip.extras.claims.assess import is_done
from dragstrip.extras.claims.definition import PUBLISHED
from dragstrip.extras.claims.finding import Outcome
from dragstrip.extras.claims.grouping import groups
from dragstrip.record import Ending, Race
from dragstrip.report.race.live import LiveProgress
from dragstrip.store.database import Store
from dragstrip.workload import load as load_workload

PYTHON = "/usr/bin/python3"  # one that an unprivileged user may execute


def _given_up(race: Race, reason: str) -> Race:
    """A race whose last rounds were void."""
    rounds = [changed(one, void=samples.voided(reason)) if one.index > 6 else one for one in race.rounds]
    return changed(race, rounds=tuple(rounds), finished=Ending.VOID)


def _even(race: Race) -> Race:
    """The race as one of two that can't be told apart, by rounds that scatter."""
    return changed(race, rounds=samples.race(EVEN, noise=0.1).rounds)


#: What became of a race, and whether a second check leaves it as it is.
KEPT, AGAIN = True, False


ENDS: dict[str, tuple[Callable[[Race], Race], bool]] = {
    "sound": (lambda race: race, KEPT),
    # What is decided is valid, however disturbed the machine was.
    "others had the engine's core": (lambda race: all_blocks(race, engine_wait_ns=20_000_000), KEPT),
    "steal": (lambda race: all_blocks(race, steal_ns=8_000_000), KEPT),
    "undecided": (_even, KEPT),
    "undecided, others had the engine's core": (lambda race: all_blocks(_even(race), engine_wait_ns=20_000_000), AGAIN),
    "undecided, steal": (lambda race: all_blocks(_even(race), steal_ns=16_000_000), AGAIN),
    "passes lost to a clock that was set": (
        lambda race: all_blocks(race, void=samples.voided("clock")),
        AGAIN,
    ),
    "given up for a clock that was set": (lambda race: _given_up(race, "clock"), AGAIN),
    "too few rounds": (lambda race: changed(race, rounds=race.rounds[:6]), AGAIN),
    "another version": (
        lambda race: changed(race, entrants=tuple(changed(one, version="0.9") for one in race.entrants)),
        AGAIN,
    ),
    "the generator is the limit": (
        lambda race: all_blocks(race, engine_cpu_ns=25_000_000, server_cpu_ns=12_000_000),
        KEPT,
    ),
    "wrong answers": (
        lambda race: all_blocks(race, errors={"wrong_body": 3}, failed=3, sent=1403, answered=1400),
        KEPT,
    ),
    "passes lost to the generator": (lambda race: all_blocks(race, void=samples.voided("generator the limit")), KEPT),
    "given up for the generator": (lambda race: _given_up(race, "generator the limit"), KEPT),
    # The generator is the limit, by CPU time, which no wait of its own adds to.
    "both": (
        lambda race: all_blocks(race, engine_wait_ns=20_000_000, engine_cpu_ns=25_000_000, server_cpu_ns=12_000_000),
        KEPT,
    ),
    "nobody left": (
        lambda race: changed(
            race, finished=Ending.TOO_FEW, entrants=tuple(changed(one, out="died") for one in race.entrants)
        ),
        KEPT,
    ),
}


@pytest.mark.live
@pytest.mark.parametrize("how", ENDS)
def test_what_was_void_by_what_may_pass_is_raced_again_and_what_would_be_void_again_is_kept(
    tmp_path: Path, how: str
) -> None:
    """A second check is cheap where all is decided; both contenders end at once, so that a new race is soon over."""
    claim = planted(tmp_path)
    planned = groups([claim], (PUBLISHED,))
    change, kept = ENDS[how]
    event = purpose_event(planned[0])
    race = samples.race(FAST, events=[event])
    hashes = {one.name: one.definition_hash for one in planned[0].entries}
    entrants = (changed(one, definition_hash=hashes[one.name], version="unknown") for one in race.entrants)
    with Store(tmp_path / "races.sqlite") as store:
        store.begin(change(changed(race, entrants=tuple(entrants))))

        @contextmanager
        def show(_group: Any) -> Iterator[LiveProgress]:
            with LiveProgress(Console(), quiet=True) as progress:
                yield progress

        claim_run.check(planned, store=store, budget_s=15, resume=True, show=show, say=lambda line: None)
        assert (len(store.runs()) == 1) == kept
        (row,) = claim_run.rows([claim], store)
        assert (row.published.race == race.id) or not kept


@pytest.mark.live
def test_a_run_whose_server_forgets_some_connections_ends_and_says_how_many_waited_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What hung the published run: every 500th connection is accepted, asked and never answered."""
    monkeypatch.setattr(counted_run, "TIMEOUT_S", 3.0)
    server = f"{PYTHON} {Path(__file__).parents[2]}/servers/misbehaving.py {{port}} forgets"
    load = definitions.ClaimLoad(http="1.0", keepalive=False, connections=100, requests=2002)
    made = counted_run.run_to_count(serve_entry(f"mine={server}"), load_workload("hello"), load)
    assert made.finished == "count"
    assert made.stuck
    assert (made.sent, made.errors) == (2002, {"timeout": 4})
    assert "4 waited 3 s in vain for a response" in made.text


LIVE = """\
statement = "planted"
source = "a test"
year = 2026
kind = "{kind}"
contenders = {contenders}
{more}

[load]
http = "{http}"
keepalive = false
connections = 8
requests = 2000
{published}

[serve]
swift = "{server} none"
twin = "{server} none"
slow = "{server} slow"
"""


@pytest.mark.live
@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_planted_claims_are_raced_together_and_judged_again_from_the_store(tmp_path: Path) -> None:
    """A true one, a reversed one, a tie, a run to a count and a missing one: one race, resumed without another.

    A very disturbed machine may leave one open; then its verdict must say so. Nothing else may come out.
    """
    server = f"{PYTHON} {Path(__file__).parents[2]}/servers/misbehaving.py {{port}}"
    wanted = {
        "true": ("direction", '["swift", "slow"]', Outcome.HOLDS),
        "reversed": ("direction", '["slow", "swift"]', Outcome.OVERTURNED),
        "tie": ("direction", '["swift", "twin"]', None),
        "ends": ("ends", '["swift", "slow"]', Outcome.OVERTURNED),
    }
    for name, (kind, contenders, _) in wanted.items():
        text = LIVE.format(kind=kind, contenders=contenders, more="", http="1.1", published="", server=server)
        (tmp_path / f"{name}.toml").write_text(text)
    text = LIVE.format(
        kind="direction", contenders='["gone", "swift"]', more="", http="1.1", published="", server=server
    )
    (tmp_path / "missing.toml").write_text(text + 'gone = "/nowhere/to/be/found {port}"\n')
    files = [str(tmp_path / f"{name}.toml") for name in (*wanted, "missing")]
    words = (*files, "--setting", "published", "--budget", "30s", "--json", str(tmp_path / "out.json"))
    done = claims_command(tmp_path, "check", "--yes", *words, run=process)
    told = {one["claim"]: one["published"] for one in json.loads((tmp_path / "out.json").read_text())}
    with Store(tmp_path / "races.sqlite") as store:
        (line,) = store.runs()
        race = store.load(line.race)
    left_open = {
        name for name in wanted if told[name]["verdict"] == Outcome.UNDECIDED and "--resume" in told[name]["detail"]
    }
    assert done.returncode in (0, 3), done.stderr
    for name, (_, _, outcome) in wanted.items():
        assert told[name]["race"] == race.id
        if name not in left_open:
            assert told[name]["verdict"] == outcome or name == "tie", told[name]
    assert told["tie"]["verdict"] in (Outcome.SAME, Outcome.UNDECIDED, Outcome.HOLDS, Outcome.OVERTURNED)
    assert told["missing"]["verdict"] == Outcome.CANNOT
    assert "missing gone" in told["missing"]["detail"]
    assert "2,000 requests over 8 connections at a time, one for each request" in told["ends"]["detail"]
    assert (race.load.keepalive, race.load.connections) == (False, 8)

    again = claims_command(tmp_path, "check", "--yes", *words, "--budget", "5s", "--resume")
    assert json.loads((tmp_path / "out.json").read_text())[-1]["published"]["verdict"] == Outcome.CANNOT, again.stderr
    with Store(tmp_path / "races.sqlite") as store:
        # What is decided is kept; what others on the machine voided, or cut short, is run again.
        done = all(is_done(definitions.load(file), PUBLISHED, race) for file in files[:-1])
        assert (len(store.runs()) == 1) == done


@pytest.mark.live
@pytest.mark.timeout(300)
@pytest.mark.thorough
def test_a_check_that_was_interrupted_goes_on_with_the_same_race(tmp_path: Path) -> None:
    """Ctrl-C after the first round ends with 130 and keeps it; --resume adds rounds to that race and makes no other."""
    server = f"{PYTHON} {Path(__file__).parents[2]}/servers/misbehaving.py {{port}}"
    text = LIVE.format(
        kind="direction", contenders='["swift", "slow"]', more="", http="1.1", published="", server=server
    )
    (tmp_path / "one.toml").write_text(text)
    env = {**os.environ, "DRAGSTRIP_STORE": str(tmp_path / "races.sqlite"), "COLUMNS": "160"}
    words = ["claims", "check", str(tmp_path / "one.toml"), "--setting", "published", "--budget", "25s", "--yes"]
    with subprocess.Popen(
        [sys.executable, "-m", "dragstrip", *words],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as checking:
        assert checking.stdout is not None
        seen = next((line for line in checking.stdout if line.startswith("round 1")), "")
        checking.send_signal(signal.SIGINT)
        rest = checking.stdout.read()
    assert seen, rest
    assert checking.returncode == 130, rest
    with Store(tmp_path / "races.sqlite") as store:
        (before,) = store.runs()
    assert before.finished == "interrupted"
    done = claims_command(tmp_path, "check", *words[2:], "--resume")
    with Store(tmp_path / "races.sqlite") as store:
        (after,) = store.runs()
    assert after.race == before.race, done.stderr
    assert after.rounds > before.rounds
    assert after.finished != "interrupted"


@pytest.mark.live
@pytest.mark.timeout(300)
@pytest.mark.skipif(
    bool(shutil.which("openresty")) or not Path("/usr/lib/nginx/modules/ngx_http_lua_module.so").exists(),
    reason="wants Debian's nginx and its Lua module, and no OpenResty of the machine's own",
)
@pytest.mark.thorough
def test_a_program_that_comes_on_path_races_for_its_claim_without_further_settings(tmp_path: Path) -> None:
    """Its place is taken by one that serves as it does: Debian's nginx, its Lua modules loaded for it beforehand."""
    folder = Path(tempfile.mkdtemp(prefix="claims-"))  # user ``nobody`` can't enter pytest's own folders
    folder.chmod(0o755)
    # OpenResty's -V, too, begins with its name and version; its module's own stands among the arguments.
    told = "nginx version: openresty/9.9.9.1\\nconfigure arguments: --add-module=../ngx_lua-0.10.99"
    modules = "".join(
        f"load_module /usr/lib/nginx/modules/{name}.so; " for name in ("ndk_http_module", "ngx_http_lua_module")
    )
    (folder / "openresty").write_text(
        f"""#!/bin/sh
case "$1" in -[vV]) printf '{told}\\n' >&2; exit;; esac
exec /usr/sbin/nginx -g '{modules}' "$@"
"""
    )
    (folder / "openresty").chmod(0o755)
    name = "2023-mod-lua-openresty"
    env = {"PATH": f"{folder}:{os.environ['PATH']}"}
    words = (name, "--setting", "published", "--budget", "20s", "--json", str(tmp_path / "out.json"))
    try:
        done = claims_command(tmp_path, "check", "--yes", *words, env=env)
    finally:
        shutil.rmtree(folder)
    assert done.returncode in (0, 3), done.stderr
    ((found,),) = (json.loads((tmp_path / "out.json").read_text()),)
    with Store(tmp_path / "races.sqlite") as store:
        race = store.load(found["published"]["race"])
    assert {one.name: one.version for one in race.entrants}["openresty"] == "9.9.9.1 (ngx_lua-0.10.99)"
    assert not any(one.out for one in race.entrants)
    assert found["published"]["stand_ins"] == []
    decided = (Outcome.HOLDS, Outcome.DIRECTION, Outcome.OVERTURNED, Outcome.SAME)
    # A disturbed machine may leave it open, and says so.
    assert found["published"]["verdict"] in decided or not is_done(definitions.load(name), PUBLISHED, race)
