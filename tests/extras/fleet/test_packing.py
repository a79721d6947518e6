"""What `dragstrip fleet install` copies, where to, and what it shows; nothing runs on any machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragstrip.errors import BadUsage, MachineLost
from dragstrip.extras.fleet import packing
from dragstrip.extras.fleet.channel import words_for_shell
from dragstrip.extras.fleet.definition import load
from dragstrip.extras.fleet.duties import PACKAGE

TEXT = """
[[machines]]
name = "server"
role = "server"
ssh = "bench@10.0.0.2"
address = "192.168.7.2"
dragstrip = "~/dragstrip/bin/dragstrip"

[[machines]]
name = "pod"
role = "load"
via = ["kubectl", "exec", "-i", "load-0", "--"]
dragstrip = "/opt/dragstrip/bin/dragstrip"

[[machines]]
name = "here"
role = "load"
"""


def written(folder: Path, text: str = TEXT) -> Path:
    file = folder / "fleet.toml"
    file.write_text(text)
    return file


def test_every_package_that_dragstrip_needs_goes_along_and_nothing_of_the_rest() -> None:
    """Its own files are those that run here; of others none from outside their packages."""
    sent = {name: place for place, name in packing.files()}
    assert sent["dragstrip/commands/main.py"] == PACKAGE / "commands" / "main.py"
    for module in ("click/__init__.py", "scipy/__init__.py", "pydantic_core/__init__.py", "hdrh/histogram.py"):
        assert module in sent
    assert not any(name.startswith(("..", "/", "pytest/", "ruff/")) or "__pycache__" in name for name in sent)


def test_each_machine_gets_a_folder_of_its_own_by_the_way_it_is_reached(tmp_path: Path) -> None:
    """In order: an environment, the files, the command; contenders' needs last. Nothing for this machine itself."""
    fleet = load(written(tmp_path))
    steps = packing.plan(fleet, ("node", "nginx-return"))
    assert [step.machine.name for step in steps] == ["server"] * 3 + ["pod"] * 3 + ["server"]
    assert [step.sends for step in steps] == [False, True, False, False, True, False, False]
    assert steps[0].script == f'{packing.PYTHON} -m venv --clear --without-pip "$HOME"/dragstrip'
    assert steps[-1].script == '"$HOME"/dragstrip/bin/dragstrip install --yes node nginx-return'
    words = words_for_shell(fleet.generators[0], fleet, steps[3].script)
    assert words[:5] == ["kubectl", "exec", "-i", "load-0", "--"]
    assert words[5:] == ["sh", "-c", f"{packing.PYTHON} -m venv --clear --without-pip /opt/dragstrip"]


@pytest.mark.parametrize(
    "command", ["dragstrip", "/usr/bin/dragstrip", "~/bin/dragstrip", "~/a/b", "env A=b dragstrip"]
)
def test_a_copy_never_goes_over_a_folder_that_may_hold_other_things(tmp_path: Path, command: str) -> None:
    """`venv --clear` empties the folder: only one that the fleet's file gives to Dragstrip alone will do."""
    fleet = load(written(tmp_path, TEXT.replace("~/dragstrip/bin/dragstrip", command)))
    with pytest.raises(BadUsage, match="has no folder of its own"):
        packing.plan(fleet, ())


def test_a_step_that_fails_is_told_with_its_last_words(tmp_path: Path) -> None:
    fleet = load(written(tmp_path))
    here = fleet.generators[1]
    with pytest.raises(MachineLost, match=r"here.*ended with 3: no room"):
        packing.run(fleet, packing.PackingStep(here, "echo no room >&2; exit 3", 20.0))
    with pytest.raises(MachineLost, match="timed out"):
        packing.run(fleet, packing.PackingStep(here, "sleep 20", 0.2))
    sent = tmp_path / "sent"
    sent.write_bytes(b"all of it")
    with sent.open("rb") as file:
        file.read()
        assert packing.run(fleet, packing.PackingStep(here, "cat", 20.0), file) == "all of it"


@pytest.mark.parametrize(
    ("via", "said"),
    [
        ('["true"]', "ran no python3.11 there, but printed ''"),
        ('["echo", "hello"]', "ran no python3.11 there, but printed 'hello sh -c python3.11"),
        ('["false"]', "ended with 1: (no output)"),
        ('["sh", "-c", "echo no such pod >&2; exit 3", "--"]', "ended with 3: no such pod"),
        ('["no-such-kubectl"]', "No such file or directory: 'no-such-kubectl'"),
    ],
)
def test_a_via_that_runs_nothing_there_is_named_with_what_it_did(tmp_path: Path, via: str, said: str) -> None:
    """The machine, the words that reach it, what they printed; not as if the machine were of another kind."""
    pod = f'[[machines]]\nname = "pod"\nrole = "load"\nvia = {via}\ndragstrip = "/opt/dragstrip/bin/dragstrip"\n'
    server = '[[machines]]\nname = "server"\nrole = "server"\naddress = "127.0.0.1"\n'
    fleet = load(written(tmp_path, server + pod))
    with pytest.raises((BadUsage, MachineLost)) as refused:
        packing.refuse_others(fleet)
    text = str(refused.value)
    assert f"pod: via = {via}" in text
    assert said.replace("python3.11", packing.PYTHON) in text
    assert "this machine" not in text
