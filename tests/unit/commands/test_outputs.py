"""Every option that names a file to write, against each kind of target: right or refused, and nothing destroyed.

The options are read from the commands' declarations. Root tries devices, full disks and files of others, once as root
and once as an ordinary user; other users try what needs no preparation by root.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import multiprocessing
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import MISSING, dataclass, replace
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import click
import labs
import pytest
import samples
from commands import Done, dragstrip
from repositories import Made

from dragstrip.commands import bisect as bisect_command
from dragstrip.commands import doctor as doctor_command
from dragstrip.commands import main as cli_main
from dragstrip.commands import race as race_command
from dragstrip.commands.outputs import OutputFile
from dragstrip.contender.entries import serve_entry
from dragstrip.doctor.finding import Report
from dragstrip.extensions import PLACES
from dragstrip.extras.claims import command as claims_command
from dragstrip.extras.claims.report import chart as claims_chart
from dragstrip.record import Race
from dragstrip.report import history as history_report
from dragstrip.report.load import export as load_export
from dragstrip.report.race import page as race_page
from dragstrip.revision import difference
from dragstrip.revision.bisect import BisectStep, Measured
from dragstrip.store.database import Store

#: Paths that a command only reads, or in which it creates files that must not exist: each with its own tests.
NOT_WRITTEN = {
    "store_path", "folders", "fleet", "pool", "raw", "script", "cacert", "outputs", "show_path", "into", "folder",
    "file", "project", "matrix", "tls",
}  # fmt: skip

#: What makes the content of files slowly, and the same each time.
SLOW = (
    (claims_command, "rows"), (claims_chart, "svg"), (history_report, "page"),
    (load_export, "percentiles_text"), (race_page, "render"),
)  # fmt: skip

#: How to call each command so that it writes without measuring.
CALLS = {
    "bisect": "bisect HEAD~1 HEAD -q",
    "claims": "claims",
    "claims check": "claims check 2013-nginx-lua-node-30 -q",
    "compare": "compare 000000000001 000000000002",
    "diff": "diff HEAD~1 HEAD --anyway -q",
    "doctor": "doctor",
    "history": "history",
    "lab report": "lab report {at}/matrix.toml --folder {at}/lab",
    "load": "load http://127.0.0.1:1/ -q",
    "race": "race --serve 'one=true {{port}}' --serve 'other=true {{port}}' --workload hello -q",
    "report": "report 000000000001",
    "sweep": "sweep --show {at}/swept.json",
    "why": "why 000000000001 -q",
}
EXPORTS = ("record", "json", "csv", "html", "junit", "hlog")

NOBODY = 65534
ROOT = os.geteuid() == 0
EARLIER = b'{"an earlier report": 1}\n'


def declared(group: click.Group, context: click.Context, above: str = "") -> Iterator[tuple[str, click.Parameter]]:
    """Every parameter of every command, with the command's words."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        words = f"{above} {name}".strip()
        for param in command.params:
            yield words, param
        if isinstance(command, click.Group):
            yield from declared(command, context, words)


ALL = list(declared(cli_main.cli, click.Context(cli_main.cli)))  # type: ignore[arg-type]
WRITTEN = [(words, param.opts[0]) for words, param in ALL if isinstance(param.type, OutputFile)]


def test_every_path_of_a_command_is_an_output_or_is_known_not_to_be() -> None:
    """A new option with a path must choose; and every command with an output is tried below."""
    others = {str(param.name) for _, param in ALL if isinstance(param.type, click.Path)}
    assert others <= NOT_WRITTEN
    assert {words for words, _ in WRITTEN} == {*CALLS, "export"}
    assert len(WRITTEN) >= 20


def cases() -> Iterator[Any]:
    """A line of words for each output, ``{target}`` where the path goes; two of them are enough for a quick look."""
    for words, option in WRITTEN:
        lines = {f"{words} {option}": f"{CALLS.get(words)} {option} {{target}}"}
        if words == "export":
            lines = {f"export as {shape}": f"export 000000000001 {{target}} --as {shape}" for shape in EXPORTS}
        for name, line in lines.items():
            quick = name in ("report --json", "export as record")
            yield pytest.param(line, id=name, marks=() if quick else pytest.mark.thorough)


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that every user may enter, with stored races; a command that would measure gets a sample instead."""
    folder = Path(tempfile.mkdtemp(prefix="dragstrip-outputs-"))
    folder.chmod(0o777)
    with Store(folder / "store" / "races.sqlite") as store:
        for number in (1, 2):
            store.begin(replace(sample(), id=f"{number:012x}"))
        for number in (3, 4):  # with intervals, so that they have a history
            store.begin(samples.race(id=f"{number:012x}", rounds=12, passes=2))
    for place in (folder / "store", folder / "store" / "races.sqlite"):
        place.chmod(0o777)
    for name in ("state", "cache"):
        (folder / name).mkdir()
        (folder / name).chmod(0o777)
    (folder / "swept.json").write_text(json.dumps(swept()))
    labs.sampled(folder)
    for place in (folder / "lab", *(folder / "lab").iterdir()):
        place.chmod(0o777)
    made = Made(folder / "repository")
    made.commit("first", dragstrip_toml='[serve]\ncommand = "true {port}"\n[race]\nworkloads = ["hello"]\n')
    made.commit("second")
    measure_nothing(folder, monkeypatch)
    yield folder
    for place in (folder, *folder.rglob("*")):
        with suppress(OSError):
            place.chmod(0o700)
    shutil.rmtree(folder)


def sample() -> Race:
    return samples.race(rounds=2, passes=2)


def measure_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has this process's commands use the folder's store and write samples instead of measuring."""
    folders = {"DRAGSTRIP_STORE": "store/races.sqlite", "XDG_STATE_HOME": "state", "XDG_CACHE_HOME": "cache"}
    for name, value in folders.items():
        monkeypatch.setenv(name, str(folder / value))
    race = sample()

    def run(_request: object, *, store: Store, progress: object) -> Any:
        made = replace(race, id=os.urandom(6).hex())
        store.begin(made)
        return made

    monkeypatch.setattr(race_command.racing, "run", run)
    explained = replace(race, profiles=samples.profiles({"quick": 6.0, "steady": 9.0}, 2))
    monkeypatch.setattr("dragstrip.commands.why.explained", lambda *_, **__: explained)
    examined = Report(
        at="2026-01-02T03:04:05+00:00",
        software="1",
        machine=race.machine,
        server_cores=(1,),
        engine_cores=(0,),
        findings=(),
    )
    monkeypatch.setattr(doctor_command.examining, "examine", lambda *_, **__: examined)
    monkeypatch.setattr(doctor_command.examining, "with_null_race", lambda report, *_: report)
    monkeypatch.setattr("dragstrip.commands.load.loaded", lambda *_: loaded())
    measure_no_revision(folder / "repository", monkeypatch)
    monkeypatch.setattr("dragstrip.extras.claims.command.check", lambda *_, **__: None)
    for place, name in SLOW:
        monkeypatch.setattr(place, name, once(getattr(place, name)))


def measure_no_revision(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has commands that race revisions find them in a repository, which belongs to root, without a build of them."""
    monkeypatch.chdir(repository)
    for name, value in {"COUNT": "1", "KEY_0": "safe.directory", "VALUE_0": "*"}.items():
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    contender = serve_entry("a=true {port}")
    compared = difference.ComparedRevisions(revisions=(), entries=(contender, contender))
    monkeypatch.setattr(difference, "compare", lambda *_, **__: compared)
    monkeypatch.setattr(difference, "entry_of", lambda *_: contender)
    slower = Measured(ratio=0.9, low=0.89, high=0.91, workload="hello", race="000000000001")
    monkeypatch.setattr(
        bisect_command.searching,
        "resumed",
        lambda _, search: replace(search, steps=[BisectStep(commit=search.bad, measured=slower)]),
    )


def once(make: Callable[..., Any]) -> Callable[..., Any]:
    """The first outcome again and again."""
    made: list[Any] = []

    def first(*given: Any) -> Any:
        if not made:
            outcome = make(*given)
            made.append(outcome if isinstance(outcome, str) else list(outcome))
        return made[0]

    return first


def swept() -> dict[str, Any]:
    """A sweep's file without samples, which is shown as such."""
    from dragstrip.report.sweep import as_json
    from dragstrip.sweep.capacity import Objective
    from dragstrip.sweep.file import Sweep

    race = samples.race(rounds=1)
    return as_json(
        Sweep(
            id="s",
            seed=1,
            started=race.started,
            software="1",
            workload="hello",
            load=race.load,
            objective=Objective(quantile="p99", limit_us=5000.0),
            auto=True,
            launches=1,
            machine=race.machine,
            server_cores=(1,),
            engine_cores=(0,),
            entrants=race.entrants,
            closed_loop_per_s={},
            samples=(),
            events=(),
            finished="done",
        )
    )


def loaded() -> Any:
    """A run of load that sent nothing."""
    from dragstrip.loading.learn import given_response
    from dragstrip.loading.request import LoadRequest, Target
    from dragstrip.loading.result import LoadResult, Slice

    part: dict[str, Any] = {name: 1 for name, field in Slice.__dataclass_fields__.items() if field.default is MISSING}
    part |= {"errors": {}, "latency_hdr": samples.hdr(800_000), "gave_up": False, "statuses": {200: 1}, "samples": {}}
    return LoadResult(
        request=LoadRequest(url="http://127.0.0.1:1/"),
        target=Target(host="127.0.0.1", port=1, authority="127.0.0.1:1", path="/"),
        learned=given_response(200, b"hello"),
        started="2026-01-02T03:04:05+00:00",
        software="1",
        cores=(0,),
        connections=1,
        slices=(Slice(**part),),
        latency_hdr=samples.hdr(800_000),
        finished="count",
    )


@dataclass
class Target:
    """A target of one kind in a folder of its own.

    Args:
        code: 0: written, 2: refused, 3: no space.
        reader: collects what comes out of a pipe.
    """

    path: Path
    code: int
    reader: list[bytes] | None = None

    def state(self) -> dict[str, object]:
        """All that is in its folder: kind, mode, owner, and content of plain files."""
        content: dict[str, object] = {}
        for place in sorted(self.path.parent.rglob("*")):
            status = place.lstat()
            plain = stat.S_ISREG(status.st_mode)
            where = place.readlink().name if place.is_symlink() else (place.read_bytes() if plain else status.st_rdev)
            content[str(place.relative_to(self.path.parent))] = (status.st_mode, status.st_uid, where)
        return content


#: Kinds that only root can prepare, or that only root meets.
BY_ROOT = (
    "device",
    "full device",
    "disk",
    "owned by another",
    "of another, for all",
    "full disk",
    "full disk, earlier",
)
#: Kinds in which a plain file stands already: the record of a race is never written over one.
EARLIER_KINDS = ("earlier", "link", "in a folder for reading", "owned by another", "of another, for all")


def prepared(kind: str, at: Path, *, user: int) -> Target:
    """A target of a kind, in a new folder; as whoever prepares, for ``user``."""
    folder = at / f"{kind} {user}".replace(" ", "-").replace(",", "")
    folder.mkdir()
    folder.chmod(0o777)
    path = folder / "out"

    def plain(place: Path, content: bytes = EARLIER, mode: int = 0o640, owner: int = user) -> Path:
        place.write_bytes(content)
        if ROOT:
            os.chown(place, owner, owner)
        place.chmod(mode)
        return place

    target = Target(path, 0)
    match kind:
        case "new":
            pass
        case "earlier":
            plain(path)
        case "link":
            path.symlink_to(plain(folder / "linked").name)
        case "link to nothing yet":
            path.symlink_to("created")
        case "link to itself":
            path.symlink_to("out")
            target.code = 2
        case "pipe":
            os.mkfifo(path)
            path.chmod(0o666)
            target.reader = []
        case "device" | "full device":
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3 if kind == "device" else 7))
            path.chmod(0o666)
            target.code = 0 if kind == "device" else 3
        case "disk":  # of a number that no driver has
            os.mknod(path, stat.S_IFBLK | 0o666, os.makedev(240, 250))
            target.code = 2
        case "folder":
            path.mkdir()
            target.code = 2
        case "new in a folder for reading":
            folder.chmod(0o555)
            target.code = 0 if user == 0 else 2
        case "in a folder for reading":
            plain(path)
            folder.chmod(0o555)
        case "owned by another":
            plain(path, mode=0o644, owner=NOBODY if user == 0 else 0)
            target.code = 0 if user == 0 else 2
        case "of another, for all":
            plain(path, mode=0o666, owner=NOBODY if user == 0 else 0)
        case "full disk" | "full disk, earlier":
            filled(folder, plain if kind != "full disk" else None)
            target.code = 3
        case "store":
            plain(path, (at / "store" / "races.sqlite").read_bytes())
            target.code = 2
        case "definition":
            target = Target(plain(folder / "out.toml", b'title = "mine"\n'), 2)
        case "part of a contender":
            plain(folder / "contender.toml", b'title = "mine"\n')
            target = Target(plain(folder / "server.js"), 2)
        case "program":
            target = Target(plain(path, b"#!/bin/sh\n"), 2)
        case _:
            raise AssertionError(kind)
    return target


def filled(folder: Path, plain: Callable[[Path], Path] | None) -> None:
    """Mounts a file system of two pages, in this process's own namespace, and fills it."""
    libc = ctypes.CDLL(None, use_errno=True)
    size = f"size={2 * os.sysconf('SC_PAGE_SIZE')},mode=777".encode()
    if libc.mount(b"dragstrip", os.fsencode(folder), b"tmpfs", 0, size):
        raise OSError(ctypes.get_errno(), "mount")
    if plain:
        plain(folder / "out")
    with suppress(OSError), (folder / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(512))


KINDS = (
    "new", "earlier", "link", "link to nothing yet", "link to itself", "pipe", "device", "full device", "disk",
    "folder", "new in a folder for reading", "in a folder for reading", "owned by another", "of another, for all",
    "full disk", "full disk, earlier", "store", "definition", "part of a contender", "program",
)  # fmt: skip


def tried(line: str, at: Path, user: int) -> list[str]:
    """Runs a command with each kind of target; what was wrong. Ends as ``user``, in a namespace of its own."""
    os.environ.pop("PYTHONPATH", None)  # the server's own, see in_child
    tempfile.tempdir = str(at)  # where what can not be written elsewhere is kept
    measure_nothing(at, pytest.MonkeyPatch())
    kinds = [kind for kind in KINDS if ROOT or kind not in BY_ROOT]
    if ROOT:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(0x20000) or libc.mount(None, b"/", None, 0x44000, None):  # CLONE_NEWNS; MS_REC | MS_PRIVATE
            kinds = [kind for kind in kinds if not kind.startswith("full disk")]
    first = at / "first"
    # Loads what this user may not read later, where the checkout is root's alone; some parts load only when needed.
    commands = (f"dragstrip.commands.{file.stem}" for file in Path(cli_main.__file__).parent.glob("[!_]*.py"))
    for module in (*commands, *cli_main.MODULES.values(), *PLACES.values(), "click._textwrap"):
        importlib.import_module(module)
    right = command(line, at, first)
    assert right.returncode in (0, 1), right
    content = first.read_bytes()
    targets = {kind: prepared(kind, at, user=user) for kind in kinds}
    if ROOT and user:
        for place in (at / "store").iterdir():
            place.chmod(0o777)
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    wrong = []
    for kind, target in targets.items():
        if "--as record" in line and kind in (*EARLIER_KINDS, "full disk, earlier"):
            target.code = 2
        wrong += [f"{kind}: {fault}" for fault in faults(line, at, target, right.returncode, content, user)]
    return wrong


def command(line: str, at: Path, target: Path) -> Done:
    return dragstrip(*shlex.split(line.format(at=at, target=shlex.quote(str(target)))))


def faults(line: str, at: Path, target: Target, code: int, content: bytes, user: int) -> Iterator[str]:
    """What is wrong with one command's outcome."""
    before, path = target.state() if os.access(target.path.parent, os.R_OK) else {}, target.path
    if target.reader is not None:
        reading = threading.Thread(target=lambda: target.reader.append(path.read_bytes()), daemon=True)  # type: ignore[union-attr]
        reading.start()
    done = command(line, at, path)
    after = target.state()
    if done.returncode != (target.code or code):
        yield f"exit code {done.returncode}, not {target.code or code}: {done.stderr}"
    if "Traceback" in done.stderr:
        yield done.stderr
    if target.code:
        if after != before:
            yield f"was {before}, is {after}"
        if str(path) not in done.stderr or (target.code == 3) != ("No space left" in done.stderr):
            yield f"says {done.stderr!r}"
        return
    for name, (mode, owner, where) in before.items():  # type: ignore[misc]
        now_mode, now_owner, now_where = after[name]  # type: ignore[misc]
        if (mode, owner) != (now_mode, now_owner) or (not stat.S_ISREG(mode) and where != now_where):
            yield f"{name} was {mode:o} of {owner}, {where!r}; is {now_mode:o} of {now_owner}, {now_where!r}"
    if any(name.startswith(".") for name in after):
        yield f"left {list(after)}"
    if path.is_file():
        written = path.read_bytes()
        if not before and (path.stat().st_mode & 0o777, path.stat().st_uid) != (0o666 & ~MASK, user):
            yield f"a new file of mode {path.stat().st_mode:o}"
    elif target.reader is not None:
        reading.join(60)
        (written,) = target.reader or [b""]
    else:
        return
    if written[:8] != content[:8] or abs(len(written) - len(content)) > 0.1 * len(content):
        yield f"holds {written[:60]!r} and {len(written)} bytes, not {content[:60]!r} and {len(content)}"


MASK = os.umask(0)
os.umask(MASK)


def in_child(work: Callable[..., list[str]], *given: Any) -> list[str]:
    """Runs ``work(*given)`` in a new process, which may give up rights, and returns its result.

    The process is forked from a server that has no other threads. A fork of this process would stop forever in Vega's
    scripts, because the threads that run them are not in the copy.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with pytest.MonkeyPatch.context() as patch:
        # Without it the server leaves this module out without a word, and every child imports it again.
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        forkserver.ensure_running()
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(work, *given).result()


@pytest.mark.parametrize("who", ["root", "user"])
@pytest.mark.parametrize("line", list(cases()))
def test_every_output_is_written_or_refused_and_destroys_nothing(line: str, who: str, at: Path) -> None:
    """Each kind of target, as root and as an ordinary user."""
    if who == "root" and not ROOT:
        pytest.skip("only root can try what root does")
    user = 0 if who == "root" else NOBODY if ROOT else os.geteuid()
    assert not in_child(tried, line, at, user)


def without_namespaces() -> list[str]:
    return ["no"] if ctypes.CDLL(None).unshare(0x20000) else []


def test_this_machine_tries_every_kind() -> None:
    """Otherwise the table above has holes on this machine."""
    if not ROOT:
        pytest.skip("devices, full disks and files of others need root")
    if in_child(without_namespaces):
        pytest.skip("a full disk needs a mount namespace, which this container does not allow")


def test_an_output_is_never_another_file_of_the_same_command(at: Path) -> None:
    """An input, the store, a second output; by another name of the same file, too."""
    pool = at / "pool.jsonl"
    pool.write_text('{"path": "/"}\n')
    (at / "same").symlink_to(pool)
    lines = (
        f"load http://127.0.0.1:1/ --pool {pool} --json {pool}",
        f"load http://127.0.0.1:1/ --pool={pool} --json={at / 'same'}",
        f"load http://127.0.0.1:1/ -b @{pool} --hgrm {pool}",
        f"report 000000000001 --html {at}/new --json {at}/./new",
        f"race --serve 'one=sh {pool} {{port}}' --serve 'other=true {{port}}' --workload hello --json {pool}",
        f"report 000000000001 --json {at / 'store' / 'races.sqlite'}",
    )
    before = pool.read_bytes()
    for line in lines:
        done = dragstrip(*shlex.split(line))
        assert done.returncode == 2, line
        assert "give another path" in done.stderr or "needs a path of its own" in done.stderr
    assert (pool.read_bytes(), (at / "new").exists()) == (before, False)


def test_a_race_whose_files_can_not_be_written_is_kept_and_says_how_to_write_them(
    at: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other files are written all the same; the content is kept, and its code is that of a refusal."""
    run = race_command.racing.run

    def spoil(*words: Any, **more: Any) -> Any:
        (at / "out.json").mkdir()
        return run(*words, **more)

    monkeypatch.setattr(race_command.racing, "run", spoil)
    line = "race --serve 'one=true {port}' --serve 'other=true {port}' --workload hello -q "
    line += f"--json {at}/out.json --html {at}/p.html"
    done = dragstrip(*shlex.split(line))
    assert done.returncode == 2
    (kept,) = (at / "state" / "dragstrip").iterdir()
    assert str(kept) in done.stderr
    again = re.search(r"`dragstrip (report \w+) --html FILE --json FILE`", done.stderr)
    assert again is not None
    assert (at / "p.html").read_text().startswith("<!doctype")
    assert dragstrip(*again[1].split(), "--json", str(at / "again.json")).returncode == 0
    assert (at / "again.json").read_bytes() == kept.read_bytes()


def test_dev_stdout_is_the_standard_output_and_a_descriptor_is_written_into(at: Path) -> None:
    """Also if that is a plain file: what was printed before stays, and what follows is not lost."""
    out, other = at / "stdout", at / "other"
    code = "import sys; from dragstrip.commands.main import main; main()"
    with out.open("wb") as file, other.open("wb") as third:
        third.write(b"before\n")
        third.flush()
        words = ["--json", "/dev/stdout", "--html", f"/dev/fd/{third.fileno()}"]
        subprocess.run(
            [sys.executable, "-c", code, "report", "000000000001", *words],
            stdout=file, pass_fds=(third.fileno(),), check=True,
        )  # fmt: skip
    assert json.loads(out.read_text())["race"] == "000000000001"
    assert other.read_bytes().startswith(b"before\n<!doctype")


def test_a_store_is_a_plain_file_of_ours(at: Path) -> None:
    """A pipe, a folder and another program's file are refused, and left as they were."""
    os.mkfifo(at / "pipe")
    (at / "notes.txt").write_text("mine\n" * 100)
    for name, reason in (("pipe", "not a plain file"), ("state", "not a plain file"), ("notes.txt", "not a database")):
        done = dragstrip("runs", "--store", str(at / name))
        assert (done.returncode, reason in done.stderr) == (2, True), done.stderr
    assert (at / "notes.txt").read_text() == "mine\n" * 100


def test_what_dragstrip_creates_by_itself_replaces_no_file_of_others(at: Path) -> None:
    """doctor.json beside a store, a claim, a contender's folder."""
    mine = at / "doctor.json"
    mine.write_text('{"patients": []}')
    done = dragstrip("doctor", "--store", str(at / "races.sqlite"))
    assert (done.returncode, "not a report of `dragstrip doctor`" in done.stderr) == (2, True)
    claim = at / "mine.toml"
    claim.symlink_to("nowhere.toml")
    done = dragstrip("claims", "add", "mine", "nginx-return", "node", "--ratio", "2", "--to", str(at))
    assert (done.returncode, "already exists" in done.stderr) == (2, True)
    (at / "own").symlink_to("nowhere")
    done = dragstrip("new", "own", "--into", str(at))
    assert (done.returncode, "already exists" in done.stderr) == (2, True)
    done = dragstrip("new", "own", "--into", str(at / "not" / "yet"))
    assert (done.returncode, (at / "not" / "yet" / "own" / "contender.toml").is_file()) == (0, True)
    assert mine.read_text() == '{"patients": []}'
    assert not (at / "nowhere.toml").exists()
    assert (at / "own").is_symlink()


def on_full_disk(at: Path) -> list[str]:
    """Runs the commands that create files on a disk without space; what was wrong."""
    measure_nothing(at, pytest.MonkeyPatch())
    libc = ctypes.CDLL(None)
    if libc.unshare(0x20000) or libc.mount(None, b"/", None, 0x44000, None):
        return []
    disk = at / "disk"
    disk.mkdir()
    filled(disk, None)
    wrong = []
    for line in (
        f"race --serve 'one=true {{port}}' --serve 'other=true {{port}}' --workload hello --store {disk}/races.sqlite",
        f"doctor --store {disk}/races.sqlite",
        f"new mine --into {disk}",
        f"claims add mine nginx-return node --ratio 2 --to {disk}",
    ):
        done = dragstrip(*shlex.split(line))
        if done.returncode != 3 or str(disk) not in done.stderr or "Traceback" in done.stderr:
            wrong.append(f"{line}: {done.returncode}, {done.stderr}")
    left = {place.name for place in disk.iterdir()} - {"filler", "races.sqlite"}
    return wrong + [f"left {name}" for name in left]


@pytest.mark.skipif(not ROOT, reason="a full disk needs a mount")
def test_a_full_disk_ends_every_command_with_3(at: Path) -> None:
    """A store, a claim and a contender on a full disk: exit code 3, the path, and nothing half-written."""
    assert in_child(on_full_disk, at) == []
