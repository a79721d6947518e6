"""``extras.fleet.toml``: its contents, and the message for each mistake in it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dragstrip import __version__
from dragstrip.errors import BadDefinition
from dragstrip.extras.fleet.channel import words_to_reach
from dragstrip.extras.fleet.definition import load

GOOD = """
[[machines]]
name = "server"
role = "server"
ssh = "bench@10.0.0.2"
address = "192.168.7.2"
cores = "2-3,7"
dragstrip = "~/dragstrip/bin/dragstrip"

[[machines]]
name = "one"
role = "load"
ssh = "ssh://bench@10.0.0.3:2222"

[[machines]]
name = "here"
role = "load"

[ssh]
options = ["-F", "ssh_config", "-i", "/keys/fleet"]
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "fleet.toml"
    file.write_text(text)
    return file


def test_a_fleet_has_its_machines_in_order_and_says_how_each_is_reached(tmp_path: Path) -> None:
    """Words go through the remote shell quoted; a home folder there stays one; a machine without ssh is this one."""
    fleet = load(written(tmp_path, GOOD))
    assert [machine.name for machine in fleet.machines] == ["server", "one", "here"]
    assert (fleet.server.address, fleet.server.cores) == ("192.168.7.2", "2-3,7")
    assert fleet.ssh_options == ("-F", str(tmp_path / "ssh_config"), "-i", "/keys/fleet")
    words = words_to_reach(fleet.server, fleet, ["fleet", "agent", "it's"])
    assert words[-3:] == ["--", "bench@10.0.0.2", "~/dragstrip/bin/dragstrip fleet agent 'it'\"'\"'s'"]
    assert {"BatchMode=yes", "ServerAliveInterval=0"} <= set(words)
    assert words_to_reach(fleet.generators[0], fleet, ["fleet"])[-1] == "dragstrip fleet"


def test_dragstrip_on_this_machine_is_the_one_that_runs_unless_it_is_said(tmp_path: Path) -> None:
    """Also if no PATH leads to it, and whatever the current folder contains."""
    (tmp_path / "dragstrip.py").write_text("raise SystemExit('another one')")
    fleet = load(written(tmp_path, GOOD))
    words = words_to_reach(fleet.generators[1], fleet, ["--version"])
    done = subprocess.run(words, cwd=tmp_path, env={"PATH": "/nowhere"}, capture_output=True, text=True, timeout=60)
    assert __version__ in done.stdout, done.stderr
    said = load(written(tmp_path, GOOD.replace('name = "here"', 'name = "here"\ndragstrip = "/opt/d -x"')))
    assert words_to_reach(said.generators[1], said, ["fleet"]) == ["/opt/d", "-x", "fleet"]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('role = "server"', 'role = "load"', "0 machines have the role `server`"),
        ('role = "load"', 'role = "server"\naddress = "10.0.0.9"', "3 machines have the role `server`"),
        ('name = "one"', 'name = "server"', "machines.1.name: 'server' is given twice"),
        ('address = "192.168.7.2"', "", "a server's machine needs one"),
        ('address = "192.168.7.2"', 'address = "lab-2"', "not an IPv4 address"),
        ('address = "192.168.7.2"', 'address = "0.0.0.0"', "not the address of a single machine"),
        ('cores = "2-3,7"', 'cores = "7-2"', "machines.0.cores: given '7-2'"),
        ('ssh = "bench@10.0.0.2"', 'ssh = "-oProxyCommand=evil"', "give a host as ssh takes it"),
        ('ssh = "bench@10.0.0.2"', 'ssh = "a b"', "give a host as ssh takes it"),
        ('dragstrip = "~/dragstrip/bin/dragstrip"', 'dragstrip = "it\'s"', "give words as in a shell"),
        ('ssh = "ssh://', 'shh = "ssh://', "did you mean ssh?"),
        ('role = "load"', 'role = "database"', "machines.1.role"),
    ],
)
def test_each_mistake_is_told_with_its_field_and_what_would_do(tmp_path: Path, old: str, new: str, told: str) -> None:
    """File and field stand first."""
    assert old in GOOD
    with pytest.raises(BadDefinition) as caught:
        load(written(tmp_path, GOOD.replace(old, new)))
    assert told in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}/fleet.toml")
