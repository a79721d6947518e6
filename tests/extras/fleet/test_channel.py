"""An agent on a hostile machine: whatever it replies, the race ends with a clear message and runs nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from dragstrip.errors import BadUsage, MachineLost, StageError
from dragstrip.extras.fleet import channel as channels
from dragstrip.extras.fleet import machines
from dragstrip.extras.fleet.channel import Channel, EngineRefusal
from dragstrip.extras.fleet.definition import Machine
from dragstrip.extras.fleet.duties import Duties
from dragstrip.extras.fleet.generator_duties import GeneratorDuties
from dragstrip.extras.fleet.messages import ClockReply

#: Reads calls, and replies to each with its first argument: ``{id}`` stands for the call's number.
REPLIES = """
import json, sys
for line in sys.stdin:
    number = json.loads(line)["id"]
    sys.stdout.write(sys.argv[1].replace("{id}", str(number)) + "\\n")
    sys.stdout.flush()
"""


def agent(reply: str, program: str = REPLIES) -> Channel:
    return Channel("far", [sys.executable, "-I", "-S", "-c", program, reply])


def loss(reply: str) -> str:
    """Why an agent that sends this reply is lost."""
    far = agent(reply)
    try:
        with pytest.raises(MachineLost) as caught:
            far.begin(Duties.clock)(20.0)
        assert caught.value.machine == "far"
        with pytest.raises(MachineLost):  # nothing of it is believed any more
            far.begin(Duties.clock)(20.0)
        return str(caught.value)
    finally:
        far.close()


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("invalid JSON", "invalid JSON"),
        ("[" * 100_000, "invalid JSON"),
        ("17", "an unknown message"),
        ('{"id": {id}}', "an unknown message"),
        ('{"id": {id}, "gives": {}}', "now_ns: Field required"),
        ('{"id": {id}, "gives": {"now_ns": "5"}}', "now_ns: Input should be a valid integer"),
        ('{"id": {id}, "gives": {"now_ns": -5}}', "now_ns: Input should be greater than or equal to 0"),
        ('{"id": {id}, "gives": {"now_ns": 1e400}}', "now_ns"),
        ('{"id": {id}, "gives": {"now_ns": 5, "more": 1}}', "more: Extra inputs are not permitted"),
        ('{"id": {id}, "gives": null}', "the whole"),
        ('{"id": {id}, "refused": 5}', "an invalid message (clock): the whole: Input should be a valid dictionary"),
        ('{"lost": "a signal ended it (SIGTERM)"}', "its agent ended: a signal ended it (SIGTERM)"),
    ],
)
def test_an_answer_that_no_agent_of_ours_gives_ends_it(reply: str, why: str) -> None:
    """The message names the machine and the fault."""
    assert why in loss(reply)


#: Shows its first argument twice before it replies.
SHOWS = """
import json, sys
for line in sys.stdin:
    number = json.loads(line)["id"]
    for text in ('{"id": {id}, "shows": ' + sys.argv[1] + "}",) * 2 + ('{"id": {id}, "gives": {"now_ns": 5}}',):
        sys.stdout.write(text.replace("{id}", str(number)) + "\\n")
    sys.stdout.flush()
"""


def run(_: object, show: Callable[[ClockReply], None] | None) -> ClockReply:
    """A duty that shows clocks, and returns one."""
    raise NotImplementedError


def test_what_an_agent_shows_comes_before_its_answer_in_its_order() -> None:
    """A call without progress gets only the reply."""
    far, seen = agent('{"now_ns": 3}', SHOWS), list[int]()
    try:
        assert far.begin(run, show=lambda shown: seen.append(shown.now_ns))(20.0).now_ns == 5
        assert seen == [3, 3]
        assert far.begin(run, show=None)(20.0).now_ns == 5
        assert seen == [3, 3]
    finally:
        far.close()


def test_an_agent_that_shows_what_none_of_ours_does_is_lost() -> None:
    """It is checked against a model, as a reply is."""
    far = agent('{"now_ns": "3"}', SHOWS)
    try:
        with pytest.raises(MachineLost, match="an invalid message \\(run\\): now_ns: Input should be a valid integer"):
            far.begin(run, show=lambda _: None)(20.0)
    finally:
        far.close()


def test_a_line_without_an_end_is_not_taken_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more of it is read than the longest line of ours has."""
    monkeypatch.setattr(channels, "MAX_LINE_BYTES", 1 << 16)
    endless = "import sys\nsys.stdin.readline()\nwhile True: sys.stdout.write('x' * 65536)"
    far = agent("", endless)
    try:
        with pytest.raises(MachineLost, match="a line of over 65,536 bytes"):
            far.begin(Duties.clock)(20.0)
    finally:
        far.close()


def test_refusals_of_ours_are_passed_on_and_others_are_faults_of_the_machine() -> None:
    """A class is chosen from a list, never looked up by what an agent says."""
    for kind, raised in (("StageError", StageError), ("engine:refused", EngineRefusal), ("SystemExit", MachineLost)):
        far = agent(f'{{"id": {{id}}, "refused": {{"kind": "{kind}", "text": "why"}}}}')
        try:
            with pytest.raises(raised, match="why"):
                far.begin(Duties.clock)(20.0)
        finally:
            far.close()


def test_who_does_not_answer_is_lost_and_whoever_else_waits_is_told_at_once() -> None:
    """The second call waits for much longer, and fails when the first gives up."""
    far = agent("", "import sys\nfor line in sys.stdin: pass")
    told: list[str] = []

    def wait() -> None:
        try:
            far.begin(GeneratorDuties.run, blocks=(), run=1)(200.0)
        except MachineLost as lost:
            told.append(str(lost))

    other = threading.Thread(target=wait)
    other.start()
    try:
        with pytest.raises(MachineLost, match="did not answer \\(clock\\)"):
            far.begin(Duties.clock)(0.3)
        other.join(30)
        assert told
    finally:
        far.close()


def test_an_agent_of_ours_that_is_told_to_end_says_so() -> None:
    """A real one, by its process: its last line is one that this side knows."""
    far = Channel("far", [sys.executable, "-m", "dragstrip", "fleet", "agent", "far", "load"])
    try:
        far.begin(Duties.clock)(60.0)
        os.kill(far._process.pid, signal.SIGTERM)
        far._threads[0].join(60)
        assert str(far.lost) == "far: its agent ended: a signal ended it (SIGTERM)"
    finally:
        far.close()


def test_a_machine_is_held_by_one_client_at_a_time() -> None:
    """A second client's agent is refused with the first's name; one of the same client is not; then it is free."""
    code = (
        "import sys; from dragstrip.extras.fleet import holder\n"
        f"holder._NAME = '\\0dragstrip-test-{os.getpid()}'\n"
        "holder.hold(sys.argv[1], sys.argv[2]); print('held', flush=True); sys.stdin.read()"
    )

    def client(session: str, name: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", code, session, name]
        pipe = subprocess.PIPE
        return subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    first, second = client("a", "anna on lab (process 1)"), client("a", "anna again")
    assert first.stdout is not None
    assert first.stdout.readline() == "held\n"
    out, err = client("b", "ben").communicate(timeout=60)
    assert out == ""
    assert "it is in use by anna" in err
    assert "dragstrip fleet down" in err
    for holder in (first, second):
        holder.communicate("", timeout=60)
    assert client("b", "ben").communicate("", timeout=60)[0] == "held\n"


@pytest.mark.thorough
def test_a_second_clients_agent_is_asked_until_the_first_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real agents: refused by name while it is held; taken once the first has heard nothing and ended by itself."""
    reached = Machine(name="far", role="server", dragstrip="x")
    code = (
        "from dragstrip.extras.fleet import agent, holder\n"
        f"holder._NAME = '\\0dragstrip-agent-{os.getpid()}'\nagent.main('load')"
    )
    first, second = (Channel(name, [sys.executable, "-c", code]) for name in ("first", "second"))
    try:
        first.begin(Duties.hold, "another", "anna on lab")(60.0)
        monkeypatch.setattr(machines, "HELD_S", 0.0)
        with pytest.raises(BadUsage, match="far: it is in use by anna on lab since 20"):
            machines._hold(reached, second, 60.0)
        monkeypatch.setattr(machines, "HELD_S", 60.0)
        machines._hold(reached, second, 60.0)
        assert first.lost is not None
    finally:
        first.close()
        second.close()


def test_the_last_words_of_one_that_ends_are_told() -> None:
    """As of an ssh that may not log in."""
    far = agent("", "import sys\nsys.stderr.write('Permission denied (publickey).\\n')\nsys.exit(255)")
    try:
        far._threads[0].join(60)
        with pytest.raises(MachineLost, match=r"exit status 255\): Permission denied \(publickey\)"):
            far.begin(Duties.hello)(20.0)
    finally:
        far.close()


def test_a_program_that_is_not_there_is_told() -> None:
    """Before anything is asked."""
    with pytest.raises(MachineLost, match="/no/such/ssh can't be run"):
        Channel("far", ["/no/such/ssh"])
