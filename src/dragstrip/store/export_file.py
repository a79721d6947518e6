"""One race in its own file: written with a seal, and checked before it is imported."""

from __future__ import annotations

import base64
import hashlib
import json
import lzma
import shutil
import sqlite3
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from dragstrip.errors import StoreError
from dragstrip.store.messages import AGAIN, constraint_in_words
from dragstrip.store.schema import create, refuse_foreign, refuse_other_versions, roll_back, version_of

TABLES = ("race", "column", "contender", "round", "launch", "block", "profile", "event")

#: Tables to which rows may be added after a race has ended: a verdict, another tool's figure, an extra launch.
ADDED_LATER = ("profile", "event")

SEAL = "CREATE TABLE seal (race TEXT NOT NULL, sha256 TEXT NOT NULL)"

#: The maximum bytes and digits of a histogram of latencies; the engine's have fewer. A small compressed histogram may
#: be a large one in disguise.
MAX_HISTOGRAM_BYTES, MAX_DIGITS = 2**20, 3

#: Counts that determine the size of arrays and loops, with their maximum.
MAX_COUNTS = (
    ("column", "index", 1_000),
    ("column", "passes", 10_000),
    ("race", "planned_rounds", 100_000),
    ("race", "connections", 1_000_000),
    ("round", "index", 100_000),
    ("block", "seq", 1_000_000),
    ("block", "pass_index", 10_000),
    ("block", "position", 10_000),
    ("profile", "index", 100_000),
)

#: The largest export, which holds one race; the largest so far have some 30 MB.
MAX_BYTES = 2 * 2**30


#: The first bytes of a file that xz compressed (The .xz File Format 1.2.1, section 2.1.1.1).
_XZ = b"\xfd7zXZ\0"

#: Bytes that are decompressed at a time.
_PIECE = 2**20


def copied(path: Path, copy: Path) -> None:
    """Copies an exported file, decompressed if xz compressed it.

    Raises:
        StoreError: it can't be read, is not whole, or has more than ``MAX_BYTES`` when decompressed.
    """
    try:
        with path.open("rb") as stream:
            compressed = stream.read(len(_XZ)) == _XZ
        if not compressed:
            shutil.copyfile(path, copy)
            return
        with lzma.open(path) as source, copy.open("wb") as target:
            while piece := source.read(_PIECE):
                if target.tell() + len(piece) > MAX_BYTES:
                    raise StoreError(
                        f"import of {path}: decompressed it has more than {MAX_BYTES:,} bytes, the maximum"
                    )
                target.write(piece)
    except OSError as error:
        raise StoreError(f"import of {path}: it can't be read ({error.strerror})") from error
    except (lzma.LZMAError, EOFError) as error:
        raise StoreError(f"import of {path}: it is a damaged xz file ({error}); copy it again") from error


@contextmanager
def attached(db: sqlite3.Connection, path: Path, name: str) -> Iterator[None]:
    """Another file's tables under a name, while the block lasts."""
    db.execute(f"ATTACH DATABASE ? AS {name}", (str(path),))
    try:
        yield
    finally:
        db.execute(f"DETACH DATABASE {name}")


def copy_race(db: sqlite3.Connection, race_id: str, source: str, target: str) -> None:
    """Copies a race's rows between two attached stores of the same version; events get new numbers."""
    for table in TABLES:
        columns, key = _columns_and_key(db, source, table)
        db.execute(
            f"INSERT INTO {target}.{table} ({columns})"
            f" SELECT {columns} FROM {source}.{table} WHERE {key} = ? ORDER BY rowid",
            (race_id,),
        )


def _columns_and_key(db: sqlite3.Connection, store: str, table: str) -> tuple[str, str]:
    """A table's columns, without the numbers of events, and the column with the race's id."""
    names = [row[1] for row in db.execute(f"PRAGMA {store}.table_info({table})")]
    columns = ", ".join(f'"{name}"' for name in names if (table, name) != ("event", "id"))
    return columns, "id" if table == "race" else "race"


def differing(db: sqlite3.Connection, race_id: str, source: str, target: str, but_events: Sequence[str]) -> str | None:
    """The first table in which a race of two attached stores differs; None if its rows are the same.

    The target may have more rows of ``ADDED_LATER``.
    """
    for table in TABLES:
        columns, key = _columns_and_key(db, source, table)
        but = f" AND kind NOT IN ({','.join('?' * len(but_events))})" if table == "event" else ""
        values = (race_id, *but_events) if but else (race_id,)
        rows = f"SELECT {columns} FROM {{}}.{table} WHERE {key} = ?{but}"
        ways = [(source, target)] if table in ADDED_LATER else [(source, target), (target, source)]
        for first, second in ways:
            if db.execute(f"{rows.format(first)} EXCEPT {rows.format(second)} LIMIT 1", values * 2).fetchone():
                return table
    return None


#: Tables whose rows a race gains as it goes on, and the column with the number of the rows' round.
_GROWING = {"round": "index", "launch": "round", "block": "round"}


def continues(db: sqlite3.Connection, race_id: str, source: str, target: str) -> bool:
    """Whether a race in ``source`` is the race in ``target`` with further rounds."""
    for table in (name for name in TABLES if name not in ADDED_LATER):
        columns, key = _columns_and_key(db, source, table)
        rows = f"SELECT {columns} FROM {{}}.{table} WHERE {key} = ?"
        ways = [(target, source)] if table in (*_GROWING, "profile") else [(source, target), (target, source)]
        for first, second in ways:
            if db.execute(f"{rows.format(first)} EXCEPT {rows.format(second)} LIMIT 1", (race_id,) * 2).fetchone():
                return False
    return True


def add_continuation(db: sqlite3.Connection, race_id: str, source: str, target: str) -> None:
    """Adds to a race the rounds, profiles and events of its continuation that it lacks; see ``continues``."""
    last = f'SELECT coalesce(max("index"), -1) FROM {target}.round WHERE race = ?'
    (known,) = db.execute(last, (race_id,)).fetchone()
    for table, number in _GROWING.items():
        columns, _ = _columns_and_key(db, source, table)
        db.execute(
            f"INSERT INTO {target}.{table} ({columns}) SELECT {columns} FROM {source}.{table} WHERE race = ? AND "
            f'"{number}" > ? ORDER BY rowid',
            (race_id, known),
        )
    columns, _ = _columns_and_key(db, source, "profile")
    db.execute(
        f"INSERT INTO {target}.profile ({columns}) SELECT {columns} FROM {source}.profile WHERE race = ? AND "
        f'"index" > (SELECT coalesce(max("index"), -1) FROM {target}.profile WHERE race = ?) ORDER BY "index"',
        (race_id, race_id),
    )
    columns, _ = _columns_and_key(db, source, "profile")
    db.execute(
        f"INSERT OR IGNORE INTO {target}.profile ({columns}) SELECT {columns} FROM {source}.profile WHERE race = ?",
        (race_id,),
    )
    columns, _ = _columns_and_key(db, source, "event")
    same = " AND ".join(f"known.{name} IS more.{name}" for name in columns.split(", "))
    db.execute(
        f"INSERT INTO {target}.event ({columns}) SELECT {columns} FROM {source}.event AS more WHERE race = ? AND "
        f"NOT EXISTS (SELECT 1 FROM {target}.event AS known WHERE {same}) ORDER BY id",
        (race_id,),
    )


def write_export(db: sqlite3.Connection, race_id: str, path: Path) -> None:
    """Writes one race and its seal into a new file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as made:
        create(made, path)
    with attached(db, path, "outgoing"):
        db.execute("BEGIN")
        try:
            copy_race(db, race_id, "main", "outgoing")
            db.execute("COMMIT")
        except BaseException:
            roll_back(db)
            raise
    with closing(sqlite3.connect(path, isolation_level=None)) as made:
        # SQLite's own check detects broken pages, but not a changed digit; a seal over the contents does.
        made.execute(SEAL)
        made.execute("INSERT INTO seal VALUES (?, ?)", (race_id, _digest(made, race_id)))


def _digest(db: sqlite3.Connection, race_id: str) -> str:
    total = hashlib.sha256()
    known = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for table in TABLES:
        if table not in known:
            continue  # an older schema had none
        key = "id" if table == "race" else "race"
        for row in db.execute(f"SELECT * FROM {table} WHERE {key} = ? ORDER BY rowid", (race_id,)):
            total.update(repr(row).encode())
    return total.hexdigest()


def checked_export(copy: Path, path: Path) -> str:
    """Checks an export; returns the id of its race.

    Args:
        copy: the file that is read; messages name ``path``, which it is a copy of.

    Raises:
        StoreError: it is not a valid export.
    """
    refuse_other_versions(copy, path)
    try:
        with closing(sqlite3.connect(copy, isolation_level=None)) as db:
            if not version_of(db):
                create(db, path)  # an empty file, which has no seal
            # When the race's rows are copied later, messages name the values that a CHECK refuses.
            db.execute("PRAGMA ignore_check_constraints = ON")
            if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'seal'").fetchone():
                raise StoreError(f"import of {path}: it is not one exported race; `dragstrip export` makes one")
            refuse_foreign(db, path, (SEAL,))
            (result,) = db.execute("PRAGMA integrity_check(1)").fetchone()
            (race_id, sealed), *more = db.execute("SELECT race, sha256 FROM seal").fetchall()
            if result != "ok":
                raise StoreError(f"import of {path}: it is damaged ({constraint_in_words(result)}); {AGAIN}")
            if more or _digest(db, race_id) != sealed:
                raise StoreError(f"import of {path}: it is damaged (its contents don't match its seal); {AGAIN}")
            create(db, path)  # brings an older schema up to date
            _refuse_impossible_counts(db)
            _refuse_odd_histograms(db)
            return str(race_id)
    except (sqlite3.Error, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise StoreError(f"import of {path}: it is damaged or no exported race ({error}); {AGAIN}") from error


def _refuse_impossible_counts(db: sqlite3.Connection) -> None:
    """Refuses counts beyond ``MAX_COUNTS``, because judging a race creates tables of the size of its counts.

    Raises:
        ValueError: a count is larger than in any race.
    """
    for table, name, maximum in MAX_COUNTS:
        (beyond,) = db.execute(f'SELECT count(*) FROM {table} WHERE "{name}" NOT BETWEEN 0 AND {maximum}').fetchone()
        if beyond:
            raise ValueError(f"{table}.{name} is not between 0 and {maximum:,}")


def _refuse_odd_histograms(db: sqlite3.Connection) -> None:
    """Refuses histograms that are too large, because a report creates an array of a size given in the compressed bytes.

    Raises:
        ValueError, TypeError, KeyError: a histogram is damaged, or larger than the engine's.
    """
    for kinds, *of_block in db.execute("SELECT kinds, latency_hdr, lag_hdr, latency_sent_hdr FROM block"):
        of_kinds = (
            [base64.b64decode(histogram["latency_hdr"]) for histogram in json.loads(kinds).values()] if kinds else []
        )
        for histogram in filter(None, (*of_block, *of_kinds)):
            decoder = zlib.decompressobj()
            try:
                plain = decoder.decompress(histogram[8:], MAX_HISTOGRAM_BYTES)
            except zlib.error as error:
                raise ValueError(f"a histogram can't be decompressed: {error}") from error
            digits, _, highest = struct.unpack_from(">iqq", plain.ljust(40, b"\0"), 12)
            if decoder.unconsumed_tail or not 1 <= digits <= MAX_DIGITS or highest < 2:
                raise ValueError("a histogram is larger than the engine makes them, or empty")
