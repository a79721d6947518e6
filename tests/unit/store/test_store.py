"""The store: what goes in comes out, nothing is rewritten, and whatever can't be stood behind is refused."""

from __future__ import annotations

import lzma
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
import samples

from dragstrip.errors import StoreError, Unreadable
from dragstrip.record import Backend, Ending, Event, EventKind, Round, Void, VoidKind
from dragstrip.store import export_file
from dragstrip.store.database import Store, default_path
from dragstrip.store.schema import OLDEST_SCHEMA, SCHEMA_VERSION

HERE = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new folder" / "races.sqlite"


def test_a_store_that_can_not_grow_says_why(tmp_path: Path) -> None:
    """SQLite undoes by itself what no disk takes; to undo it again is an error that would hide the cause."""
    code = (
        "import resource, sys; from pathlib import Path; from dragstrip.store.database import Store\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))\n"
        "with Store(Path(sys.argv[1])): pass\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "x.sqlite"], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].endswith("x.sqlite can't be opened: disk I/O error")


def test_a_race_comes_back_equal(path: Path) -> None:
    """Every field of every part, in order: maps, tuples, bytes, None, void reasons, events, non-ASCII text."""
    voided = (
        *samples.voided("errors", **{"too much – steal": 2}),
        Void(kind=VoidKind.ERRORS, numbers={"failed": 2, "sent": 9}, errors={"reset": 2}),
        Void(kind=VoidKind.TOO_FEW_BLOCKS, numbers={"valid": 0, "blocks": 9}, cause=VoidKind.ERRORS),
    )
    first = samples.block("quick", errors={"reset": 2}, void=voided, sample="<é>", server_cpu_ns=None)
    odd = Round(
        index=12,
        started_ns=1,
        ended_ns=2,
        launches=(
            samples.launch(
                "quick", 12, {"database_wanted": 0.1 + 0.2, "later": 3}, exit_status=-9, died=True, log_tail="a\nb"
            ),
        ),
        blocks=(replace(first, round=12),),
        void=samples.voided("database"),
    )
    events = (
        samples.noted(EventKind.FOREIGN, "d – é"),
        samples.noted(EventKind.GROWING, subject="a: b", numbers={"bytes_per_s": 1e7, "share_per_s": 0.25}),
        samples.noted(EventKind.CLAIMS, subject="published", names=("one", "two")),
        samples.noted(EventKind.VERDICT, "FASTER"),
    )
    race = samples.race(out={"dud": "body differs"}, events=events, definition='path = "/é"\n')
    profiles = (*samples.profiles({"quick": 6.0}), samples.profile("steady", 6, **samples.stacks({"a": 3, "b": 1})))
    race = replace(race, rounds=(*race.rounds, odd), seed=2**63 - 1, backend=Backend.BEST, profiles=profiles)
    with Store(path) as store:
        store.begin(race)
    with Store(path) as store:
        assert store.load(race.id) == race


def test_a_stack_of_frames_that_do_not_exist_is_refused_by_the_races_name(path: Path) -> None:
    """An index past the frames, as only a changed file can have it."""
    made = samples.profile("quick", **samples.stacks({"a": 3}))
    race = replace(samples.race(rounds=1), profiles=(replace(made, frames=made.frames[:1]),))
    with Store(path) as store:
        store.begin(race)
        with pytest.raises(Unreadable, match="profile 0 has a stack with a frame that is not among its frames"):
            store.load(race.id)


def test_a_race_grows_by_rounds_and_what_came_later_is_folded_in(path: Path) -> None:
    """Rounds are appended; a contender going out and the end are events, seen in the race that is read."""
    whole = samples.race(rounds=3)
    with Store(path) as store:
        store.begin(replace(whole, rounds=(), finished=Ending.NONE))
        assert store.load(whole.id) == replace(whole, rounds=(), finished=Ending.NONE)
        for round_ in whole.rounds:
            store.append_round(whole.id, round_)
        store.entrant_out(whole.id, "steady", "died under load", 2, 0)
        store.finish(whole.id, Ending.INTERRUPTED)
        read = store.load(whole.id)
    assert read.rounds == whole.rounds
    assert read.finished == "interrupted"
    assert [e.name for e in read.entrants] == ["quick", "steady"]
    assert [(e.out, e.out_round) for e in read.entrants] == [("", None), ("died under load", 2)]
    assert read.events == ()


def test_a_resumed_race_is_running_again_until_it_ends_again(path: Path) -> None:
    """The order of events decides: interrupted, resumed, budget."""
    race = samples.race(rounds=1, finished=Ending.INTERRUPTED)
    with Store(path) as store:
        store.begin(race)
        store.append_event(race.id, Event(at_ns=1, kind=EventKind.RESUMED))
        assert (store.load("last").finished, store.runs()[0].finished) == ("", "")
        store.finish(race.id, Ending.BUDGET)
        assert (store.load("last").finished, store.runs()[0].finished) == ("budget", "budget")


@pytest.mark.parametrize("table", [*export_file.TABLES, "load"])
def test_the_file_itself_refuses_to_rewrite_a_record(path: Path, table: str) -> None:
    """Triggers stop UPDATE and DELETE, whoever holds the file."""
    race = replace(samples.race(rounds=1), profiles=(samples.profile("quick"),))
    with Store(path) as store:
        store.begin(race)
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO load VALUES ('00000000000a', '2026-01-02', 'http://127.0.0.1/', 'ok', '{}')")
        for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET rowid = rowid"):
            with pytest.raises(sqlite3.IntegrityError, match="append only"):
                db.execute(statement)
    with Store(path) as store:
        assert store.load(race.id) == race


def test_a_round_is_kept_once(path: Path) -> None:
    """The same round again is refused, and leaves the store as it was."""
    race = samples.race(rounds=2)
    with Store(path) as store:
        store.begin(race)
        with pytest.raises(StoreError, match="UNIQUE"):
            store.append_round(race.id, race.rounds[1])
        with pytest.raises(StoreError, match="already in"):
            store.begin(race)
        assert store.load(race.id) == race


def test_a_killed_writer_leaves_every_committed_round(path: Path) -> None:
    """kill -9 while it appends: each round that it had reported is there, whole."""
    code = (
        "import sys, samples; from pathlib import Path; from dataclasses import replace\n"
        "from dragstrip.record import Ending; from dragstrip.store.database import APPLICATION_ID, Store\n"
        "race = samples.race(rounds=40)\n"
        "store = Store(Path(sys.argv[1])); store.begin(replace(race, rounds=(), finished=Ending.NONE))\n"
        "for round in race.rounds:\n"
        "    store.append_round(race.id, round); print(round.index, flush=True)\n"
        "    if round.index == 20: sys.stdin.read()\n"
    )
    places = os.pathsep.join([str(HERE), str(HERE.parent / "src")])
    writer = subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": places},
    )  # fmt: skip
    assert writer.stdout is not None
    told = []
    for line in writer.stdout:
        told.append(int(line))
        if told[-1] == 7:
            writer.kill()
    writer.communicate()
    whole = samples.race(rounds=40)
    with Store(path) as store:
        read = store.load("last")
    assert len(read.rounds) >= len(told) >= 8
    assert read.rounds == whole.rounds[: len(read.rounds)]
    assert read.finished == ""


def test_a_reader_sees_finished_rounds_while_a_writer_writes(path: Path) -> None:
    """Neither waits for the other; the reader sees the last commit, never half a round."""
    race = samples.race(rounds=2)
    with Store(path) as writer, Store(path) as reader:
        writer.begin(replace(race, rounds=race.rounds[:1], finished=Ending.NONE))
        with writer._transaction():
            writer._put_round(race.id, race.rounds[1])
            assert len(reader.load(race.id).rounds) == 1
        assert reader.load(race.id).rounds == race.rounds


def test_a_race_is_found_by_a_unique_beginning_or_as_the_last(path: Path) -> None:
    """Ambiguous and unknown ids are refused with the ids that come near. The clock goes back before the third race."""
    with Store(path) as store:
        with pytest.raises(StoreError, match="is empty"):
            store.load("last")
        for number, day in ((0xABC000000001, 1), (0xABD000000002, 3), (0x123000000003, 2)):
            started = f"2026-01-0{day}T00:00:00+00:00"
            store.begin(replace(samples.race(rounds=0), id=f"{number:012x}", started=started))
        assert store.resolve("abc") == "abc000000001"
        assert store.resolve("last") == "123000000003"
        assert [run.race for run in store.runs()] == ["123000000003", "abd000000002", "abc000000001"]
        with pytest.raises(StoreError, match="is ambiguous: abd000000002, abc000000001"):
            store.resolve("ab")
        with pytest.raises(StoreError, match="nearest are abc000000001"):
            store.resolve("abc000000009")
        with pytest.raises(StoreError, match="newest are"):
            store.resolve("%")
        with pytest.raises(StoreError, match="newest are"):
            store.resolve("")


def test_races_are_listed_without_touching_a_block(path: Path) -> None:
    """The listing reads heads and counts alone, so that it stays quick however much was measured."""
    one = samples.race(rounds=3)
    with Store(path) as store:
        for number in range(20):
            store.begin(replace(one, id=f"{number:012x}"))
        touched = set()

        def note(action: int, table: str | None, *_: object) -> int:
            touched.add(table if action == sqlite3.SQLITE_READ else None)
            return sqlite3.SQLITE_OK

        store._db.set_authorizer(note)
        runs = store.runs()
    assert len(runs) == 20
    assert {(run.contenders, run.rounds, run.finished) for run in runs} == {(("quick", "steady"), 3, "decided")}
    assert touched - {None} == {"race", "column", "contender", "round", "event"}


def test_a_race_moves_to_another_store_as_one_file(path: Path, tmp_path: Path) -> None:
    """Export and import keep it equal, what was folded in included; twice is refused on both sides."""
    race, moved = samples.race(out={"dud": "never started"}), tmp_path / "moved.race"
    with Store(path) as store:
        store.begin(replace(race, finished=Ending.NONE))
        store.entrant_out(race.id, "steady", "died", 4, 0)
        store.finish(race.id, Ending.BUDGET)
        store.begin(samples.race(seed=8))
        assert store.export_race(race.id[:11] + race.id[11], moved) == race.id
        expected = store.load(race.id)
        with pytest.raises(StoreError, match="already exists"):
            store.export_race(race.id, moved)
    assert [p.name for p in tmp_path.iterdir() if p.name != path.parent.name] == ["moved.race"]
    with Store(tmp_path / "other.sqlite") as other:
        assert other.import_race(moved) == race.id
        assert other.load("last") == replace(expected, imported=True)
        other.append_event(race.id, Event(at_ns=1, kind=EventKind.VERDICT, text="told later"))
        assert other.import_race(moved) == race.id  # the same race: nothing to do
        assert len(other.runs()) == 1
        other.append_round(race.id, replace(race.rounds[0], index=99, launches=(), blocks=()))
        with pytest.raises(StoreError, match=f"another race {race.id} is already in .* rounds differ"):
            other.import_race(moved)


def test_an_imported_race_is_as_old_as_it_says(path: Path, tmp_path: Path) -> None:
    with Store(tmp_path / "theirs.sqlite") as theirs:
        theirs.begin(replace(samples.race(rounds=1), id="abc000000001", started="2026-01-02T00:00:00+00:00"))
        theirs.export_race("last", tmp_path / "theirs.race")
    with Store(path) as store:
        for number, day in ((1, 3), (2, 4)):
            started = f"2026-01-0{day}T00:00:00+00:00"
            store.begin(replace(samples.race(rounds=0), id=f"{number:012x}", started=started))
        store.import_race(tmp_path / "theirs.race")
        assert [run.race for run in store.runs()] == ["000000000002", "000000000001", "abc000000001"]


def test_an_imported_race_grows_by_the_rounds_that_it_got_elsewhere(path: Path, tmp_path: Path) -> None:
    """Twice is the same; a race that both stores went on with, or that was raced here, is refused unchanged."""
    race, outbox = samples.race(rounds=12), tmp_path / "outbox"
    outbox.mkdir()
    with Store(path) as store, Store(tmp_path / "other.sqlite") as other:
        store.begin(replace(race, rounds=race.rounds[:10], finished=Ending.NONE))
        store.finish(race.id, Ending.INTERRUPTED)
        assert other.import_race(store.seal_into(race.id, outbox)) == race.id
        other.append_event(race.id, Event(at_ns=1, kind=EventKind.VERDICT, text="so far"))
        store.append_event(race.id, Event(at_ns=2, kind=EventKind.RESUMED))
        for round_ in race.rounds[10:]:
            store.append_round(race.id, round_)
        store.finish(race.id, Ending.DECIDED)
        sealed = store.seal_into(race.id, outbox)
        for _ in range(2):
            assert other.import_race(sealed) == race.id
        grown, whole = other.load(race.id), store.load(race.id)
        assert (grown.rounds, grown.finished) == (whole.rounds, Ending.DECIDED)
        assert [event.text for event in grown.events if event.kind is EventKind.VERDICT] == ["so far"]
        other.append_round(race.id, replace(race.rounds[0], index=98, launches=(), blocks=()))
        store.append_round(race.id, replace(race.rounds[0], index=99, launches=(), blocks=()))
        with pytest.raises(StoreError, match="rounds differ"):
            other.import_race(store.seal_into(race.id, outbox))
        assert len(other.load(race.id).rounds) == 13
    assert [file.name for file in outbox.iterdir()] == [f"{race.id}.race"]
    with Store(tmp_path / "own.sqlite") as own:
        own.begin(replace(race, rounds=race.rounds[:10], finished=Ending.NONE))
        with pytest.raises(StoreError, match="another race"):
            own.import_race(sealed)
        assert len(own.load(race.id).rounds) == 10


def _exported(folder: Path) -> Path:
    with Store(folder / "source.sqlite") as store:
        store.begin(samples.race(rounds=4))
        store.export_race("last", folder / "one.race")
    return folder / "one.race"


@pytest.mark.thorough
def test_a_damaged_export_is_refused_and_nothing_is_taken_in(tmp_path: Path) -> None:
    """Cut short, one bit turned anywhere in its contents, or a figure changed through SQL."""
    good = _exported(tmp_path).read_bytes()
    bad = tmp_path / "bad.race"
    refused = 0
    for number, at in enumerate(range(150, len(good), len(good) // 60)):
        bad.write_bytes(good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :])
        with Store(tmp_path / f"{number}.sqlite") as store:
            try:
                store.import_race(bad)
            except StoreError:
                refused += 1
                assert not store.runs()
            else:  # the bit lay in a page's unused space: what was taken in is the race, unharmed
                assert store.load("last") == replace(samples.race(rounds=4), imported=True)
    assert refused >= 5
    packed = lzma.compress(good)
    with Store(tmp_path / "packed.sqlite") as store:
        bad.write_bytes(packed[: len(packed) // 2])
        with pytest.raises(StoreError, match="damaged xz file"):
            store.import_race(bad)
        bad.write_bytes(packed)
        assert store.load(store.import_race(bad)) == replace(samples.race(rounds=4), imported=True)
    with Store(tmp_path / "target.sqlite") as store:
        bad.write_bytes(good[: len(good) // 2])
        with pytest.raises(StoreError, match="damaged"):
            store.import_race(bad)
        bad.write_bytes(good)
        with sqlite3.connect(bad) as db:
            db.execute("DROP TRIGGER block_update")
            db.execute("UPDATE block SET requests = requests + 1 WHERE seq = 3 AND round = 1")
        with pytest.raises(StoreError, match="seal"):
            store.import_race(bad)


def _resealed(file: Path, *statements: str) -> None:
    """Changes an export as anybody can, seal included."""
    with samples.unguarded(file) as db:
        for statement in statements:
            db.execute(statement)
        (race,) = db.execute("SELECT race FROM seal").fetchone()
        db.execute("UPDATE seal SET sha256 = ?", (export_file._digest(db, race),))


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("CREATE VIEW evil AS SELECT 1", "view 'evil'"),
        ("CREATE TRIGGER evil BEFORE INSERT ON race BEGIN SELECT 1; END", "trigger 'evil'"),
        ("CREATE TABLE evil (a)", "table 'evil'"),
        ("UPDATE block SET latency_hdr = x'1c84930400000000'", "histogram"),
        (f"UPDATE block SET latency_hdr = x'1c84930400000000{zlib.compress(bytes(2**24)).hex()}'", "histogram"),
    ],
)
def test_an_export_that_a_stranger_changed_and_sealed_again_is_refused(
    tmp_path: Path, statement: str, told: str
) -> None:
    """What reading would run of SQL, and histograms that would take all memory."""
    export = _exported(tmp_path)
    _resealed(export, statement)
    with Store(tmp_path / "other.sqlite") as other, pytest.raises(StoreError, match=told):
        other.import_race(export)


@pytest.mark.parametrize(
    ("contents", "told"), [(b"", "not one exported race"), (b"hello", "damaged"), (b"x" * 5000, "damaged")]
)
def test_what_is_no_export_is_refused(tmp_path: Path, contents: bytes, told: str) -> None:
    """An empty file, text, noise, a whole store, a missing file."""
    (tmp_path / "odd").write_bytes(contents)
    with Store(tmp_path / "store.sqlite") as store:
        with pytest.raises(StoreError, match=told):
            store.import_race(tmp_path / "odd")
        with pytest.raises(StoreError, match="not one exported race"):
            store.import_race(store.path)
        with pytest.raises(StoreError, match="no such file"):
            store.import_race(tmp_path / "nowhere")


@pytest.mark.parametrize("version", [OLDEST_SCHEMA - 1, SCHEMA_VERSION + 1, 14])
@pytest.mark.parametrize("killed", [False, True], ids=["closed", "with a log next to it"])
def test_a_store_of_a_schema_that_is_not_known_is_refused_by_name_and_left_as_it_was(
    tmp_path: Path, version: int, killed: bool
) -> None:
    """Byte by byte, and with nothing next to it; the message names the Dragstrip that wrote it."""
    made, folder = Path(_exported(tmp_path)), tmp_path / "theirs"
    folder.mkdir()
    with Store(tmp_path / "source.sqlite") as store:
        store.append_event(store.resolve("last"), Event(at_ns=1, kind=EventKind.VERDICT, text="in the log"))
        for file in tmp_path.glob("source.sqlite*" if killed else "none"):
            shutil.copyfile(file, folder / file.name.replace("source", "races"))
    path = folder / "races.sqlite"
    shutil.copyfile(tmp_path / "source.sqlite", path)
    for file in (made, path):
        with file.open("r+b") as head:  # the header's user version
            head.seek(60)
            head.write(version.to_bytes(4))
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert len(before) == (3 if killed else 1)
    said = (
        rf"races\.sqlite has store schema {version}, this Dragstrip reads schemas {OLDEST_SCHEMA} to {SCHEMA_VERSION}; "
    )
    for write in (True, False):
        with pytest.raises(StoreError, match=rf"{said}use the Dragstrip that wrote it \(version 0\.1"):
            Store(path, write=write)
    with Store(tmp_path / "target.sqlite") as store, pytest.raises(StoreError, match=rf"one\.race has .* {version}, "):
        store.import_race(made)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_a_python_whose_sqlite_has_no_strict_tables_is_refused_by_both_versions(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is made."""
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    with pytest.raises(StoreError, match=r"Python's SQLite is .*, and stores need 3\.37 or later"):
        Store(path)
    assert not path.parent.exists()


def test_a_race_of_two_workloads_comes_back_equal(path: Path, tmp_path: Path) -> None:
    """Columns, the column of each round and event, and of each contender that is out; an export includes them."""
    race = samples.race_of_two()
    with Store(path) as store:
        store.begin(race)
        assert store.load("last") == race
        store.entrant_out(race.id, "quick", "it died", 3, column=1)
        read = store.load("last")
        assert [[e.name for e in column.entrants if e.out] for column in read.columns] == [[], ["quick"]]
        assert not any(entrant.out for entrant in read.entrants)
        store.entrant_out(race.id, "quick", "it died again", 4, column=0)
        read = store.load("last")
        assert [entrant.name for entrant in read.entrants if entrant.out] == ["quick"]
        store.export_race(race.id, tmp_path / "two.race")
    with Store(tmp_path / "other.sqlite") as other:
        assert other.load(other.import_race(tmp_path / "two.race")) == replace(read, imported=True)


def test_columns_of_one_name_and_rounds_of_none_are_refused(path: Path) -> None:
    """The schema refuses both when they are written."""
    race = samples.race_of_two()
    with Store(path) as store:
        with pytest.raises(StoreError, match=r"UNIQUE .*column\.name"):
            store.begin(replace(race, columns=(race.columns[0], race.columns[0])))
        with pytest.raises(StoreError, match="FOREIGN KEY"):
            store.begin(replace(race, columns=race.columns[:1]))
        assert store.runs() == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("DELETE FROM column", "it has no column"),
        ('DELETE FROM column WHERE "index" = 1', "round 1 is of column 1, of 1"),
        ("DELETE FROM contender WHERE name = 'slow'", "round 0 has a launch of 'slow', no contender"),
        ("UPDATE column SET blocks = '{\"quick\": [1, 2]}'", r"blocks: a value is \[1, 2\], expected a list of 3"),
        ("UPDATE column SET blocks = '{\"quick\": 7}'", "blocks: a value is 7, expected a list of 3"),
        ("UPDATE column SET absent = '{}'", "absent: a value is {}, expected a list"),
        ("UPDATE column SET absent = '[3]'", "absent: a value is 3, expected text"),
        ('UPDATE launch SET counts = \'{"threads": "2"}\'', "counts: a value is '2', expected a number"),
        ("UPDATE launch SET counts = '{\"served\": 1e999}'", "counts: a value is inf, expected a number"),
        (f"UPDATE launch SET counts = '{{\"served\": 1{'0' * 400}}}'", "counts: a value is 1000.*, expected a number"),
        ('UPDATE block SET errors = \'{"reset": "3"}\'', "errors: a value is '3', expected a whole number"),
    ],
)
def test_columns_that_are_none_are_refused_by_the_races_name(path: Path, change: str, said: str) -> None:
    """The store's other races go on being read."""
    race = samples.race_of_two()
    with Store(path) as store:
        store.begin(race)
    with samples.unguarded(path) as db:
        db.execute(change)
    with Store(path) as store:
        store.begin(samples.race(seed=9))
        with pytest.raises(Unreadable, match=said):
            store.load(race.id)
        assert store.load("000000000009").seed == 9


def test_other_files_are_never_written_to(tmp_path: Path) -> None:
    """Another program's database, a text file, a folder, a path below a file: refused, and left as they were."""
    foreign, text = tmp_path / "foreign.sqlite", tmp_path / "notes.txt"
    with sqlite3.connect(foreign) as db:
        db.execute("CREATE TABLE theirs (x)")
    text.write_text("my notes, at least a hundred characters of them, " * 3)
    before = foreign.read_bytes(), text.read_bytes()
    with pytest.raises(StoreError, match="another program's"):
        Store(foreign)
    with pytest.raises(StoreError, match=r"notes\.txt .*not a database"):
        Store(text)
    with pytest.raises(StoreError, match="not a plain file"):
        Store(tmp_path)
    with pytest.raises(StoreError, match="folder can't be created"):
        Store(text / "races.sqlite")
    assert (foreign.read_bytes(), text.read_bytes()) == before


def test_a_locked_store_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer that doesn't let go is named as the reason, with what to do."""
    monkeypatch.setattr("dragstrip.store.database.BUSY_S", 0.05)
    race = samples.race(rounds=1)
    with Store(path) as holder, Store(path) as other:
        holder._db.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"locked for 0\.05 s; wait"):
            other.begin(race)
        holder._db.execute("COMMIT")
        other.begin(race)


def test_text_that_is_not_unicode_is_kept_readable(path: Path) -> None:
    """A server may log any bytes; the record keeps them as escapes instead of failing."""
    race = samples.race(rounds=0)
    with Store(path) as store:
        store.begin(race)
        store.append_event(race.id, samples.noted(EventKind.DATABASE, b"\xff".decode(errors="surrogateescape")))
        assert store.load("last").events[-1].text == r"\udcff"


def test_a_race_that_ended_in_an_unknown_way_is_refused(path: Path) -> None:
    """As any other word that this version does not know."""
    race = samples.race(rounds=0)
    with Store(path) as store:
        store.begin(race)
        store.finish(race.id, "exploded")
        with pytest.raises(StoreError, match="exploded"):
            store.load(race.id)


def test_the_default_place_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """$DRAGSTRIP_STORE first, then $XDG_DATA_HOME, then ~/.local/share."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("DRAGSTRIP_STORE", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert default_path() == tmp_path / ".local/share/dragstrip/races.sqlite"
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_path() == Path("/data/dragstrip/races.sqlite")
    monkeypatch.setenv("DRAGSTRIP_STORE", "/x.sqlite")
    assert default_path() == Path("/x.sqlite")


def test_tests_use_no_store_that_their_environment_names() -> None:
    """Neither a user's own one, nor one that two processes of tests share."""
    tests = Path(__file__).resolve().parents[2]
    code = "import conftest; from dragstrip.store.database import default_path; print(default_path())"
    given = {**os.environ, "DRAGSTRIP_STORE": "/users/races.sqlite", "XDG_DATA_HOME": os.environ["XDG_DATA_HOME"]}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tests, env=given, capture_output=True, text=True, check=True
    )
    place = Path(done.stdout.strip())
    assert place.parts[-3].startswith("dragstrip-data-")
    assert place != default_path()
    assert default_path().parts[-3].startswith("dragstrip-data-")


def test_more_budget_is_an_event_that_the_plan_shows(path: Path) -> None:
    """The race's own row is never rewritten; each extension keeps the last round that was planned before it."""
    race = samples.race(rounds=2)
    with Store(path) as store:
        store.begin(replace(race, finished=Ending.NONE))
        store.extend(race.id, budget_s=180.0, planned_rounds=50)
        store.extend(race.id, budget_s=240.0, planned_rounds=70)
        read = store.load(race.id)
        with pytest.raises(ValueError, match="the store's own"):
            store.append_event(race.id, Event(at_ns=0, kind=EventKind.EXTENDED, text="{}"))
    assert (read.plan.budget_s, read.plan.planned_rounds) == (240.0, 70)
    assert read.plan.extensions == (race.plan.planned_rounds, 50)
    assert read.events == race.events


def test_blocks_by_contender_come_back_as_they_were(path: Path) -> None:
    """JSON has lists for the record's tuples."""
    race = samples.race(rounds=1)
    race = samples.changed(race, plan=replace(race.plan, blocks={"quick": (2_000_000, 5_000_000, 40)}))
    with Store(path) as store:
        store.begin(race)
        assert store.load(race.id).plan.blocks == race.plan.blocks


def test_a_block_given_up_before_its_counted_part_is_kept_and_any_other_without_one_refused(path: Path) -> None:
    """A server may die in a lead-in: this is reported, and the race goes on."""
    race = samples.race(rounds=1)
    (this,) = race.rounds
    first = replace(this.blocks[0], counted_ns=0, requests=0)
    died = replace(this, blocks=(replace(first, gave_up=True), *this.blocks[1:]))
    impossible = replace(this, blocks=(first, *this.blocks[1:]))
    with Store(path) as store:
        store.begin(replace(race, rounds=()))
        with pytest.raises(StoreError, match=r"block\.counted_ns must be above 0"):
            store.append_round(race.id, impossible)
        store.append_round(race.id, died)
        assert store.load(race.id).rounds == (died,)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("void", '[{"kind": "none such"}]'),
        ("void", '[{"kind": "errors", "numbers": {"sent": "x"}}]'),
        ("void", "[7]"),
        ("void", '[{"kind": "errors", "errors": {"reset": 1.5}}]'),
        ("void", '[{"numbers": {}}]'),
        ("facts", '{"subject": 7, "names": [], "numbers": {}}'),
        ("facts", '{"subject": "", "names": [], "numbers": {"share": true}}'),
        ("facts", "{}"),
        ("kind", "none such"),
        ("backend", "none such"),
    ],
)
def test_facts_of_another_shape_are_refused_by_name(column: str, value: str, tmp_path: Path) -> None:
    """An imported file may hold anything."""
    race = samples.race(rounds=1, events=[samples.noted(EventKind.HEAT)])
    table = {"void": "round", "backend": "race"}.get(column, "event")
    with Store(tmp_path / "races.sqlite") as store:
        store.begin(race)
    with samples.unguarded(tmp_path / "races.sqlite") as db:
        db.execute(f"UPDATE {table} SET {column} = ?", (value,))
    with Store(tmp_path / "races.sqlite") as store, pytest.raises(Unreadable, match=column):
        store.load(race.id)


class InterruptedAt(sqlite3.Connection):
    """A connection during whose statement of one kind a signal arrives; Python raises it when the statement is done."""

    kind = ""

    def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
        result = super().execute(sql, *values)
        if self.kind and sql.startswith(self.kind):
            self.kind = ""
            signal.raise_signal(signal.SIGINT)
        return result


@pytest.mark.parametrize("kind", ["BEGIN", "INSERT", "ROLLBACK", "COMMIT"])
def test_a_signal_at_any_statement_leaves_a_store_that_can_be_written(
    path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A race that is interrupted while a round is written still notes its end."""
    monkeypatch.setattr(sqlite3, "connect", lambda place, **more: InterruptedAt(place, **more))
    race = samples.race(finished=None)
    with Store(path) as store:
        store.begin(replace(race, rounds=()))
        connection = store._db
        assert isinstance(connection, InterruptedAt)
        connection.kind = kind
        unwritable = replace(race.rounds[0], index=-1)  # the schema refuses it, and what was begun is undone
        with pytest.raises(KeyboardInterrupt):
            store.append_round(race.id, unwritable if kind == "ROLLBACK" else race.rounds[0])
        store.finish(race.id, Ending.INTERRUPTED)
        assert store.load(race.id).finished == "interrupted"
        assert len(store.load(race.id).rounds) == (kind == "COMMIT")
