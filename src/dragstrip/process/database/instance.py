"""One running PostgreSQL per round, on a fresh copy of the race's data, under a supervisor like contenders.

It counts each contender's use: counters that only grow, and their difference over a period of load.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from dragstrip.contender import Start
from dragstrip.errors import StageError
from dragstrip.process.database import door, schemas, template
from dragstrip.process.database.programs import NAME, TITLE, Programs
from dragstrip.process.launcher import Launcher, ServerProcess, scratch_root
from dragstrip.process.ports import HOST, free_port
from dragstrip.process.scratch import MEMORY
from dragstrip.record import LaunchCount
from dragstrip.workload import OWN_CHANGING, Schema, Tables, drawn_fortunes, drawn_tables

if TYPE_CHECKING:
    import psycopg

#: Connections that the server of each contender may open, over all its workers.
CONNECTIONS = 16

#: Folders of the owner's socket, which only the database's user and root may enter, and of the contenders' socket.
OWN, SOCKET = "own", "socket"

#: Seconds from its start to the first connection. Its stop signal ends sessions and writes nothing back.
WAKE_S, STOP_SIGNAL = 30.0, "QUIT"

#: Bytes that must be free in memory for an instance: its data and what a race adds; more if rows are written.
ROOM_BYTES: Mapping[Schema, int] = {"rows": 48 * 2**20, "hello_world": 48 * 2**20, "items": 160 * 2**20}
WRITTEN_BYTES = 208 * 2**20

#: Executions of statements that name a table of the schema, and their time in ms, by role. Each row that is written
#: counts, since one statement may write many.
_STATEMENTS = r"""
    SELECT role.rolname,
        sum(CASE WHEN statement.query ~* '^\s*(INSERT|UPDATE)' THEN statement.rows ELSE statement.calls END)::bigint,
        sum(statement.total_exec_time)
    FROM pg_stat_statements AS statement JOIN pg_roles AS role ON role.oid = statement.userid
    WHERE statement.query ~* %s GROUP BY role.rolname
"""

_libc = ctypes.CDLL(None)

#: shmctl(2).
_IPC_RMID = 0

_BACKENDS = "SELECT usename, pid FROM pg_stat_activity WHERE backend_type = 'client backend'"


class DatabaseGoneError(StageError):
    """The database ended, or lost its connections, while it was needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseUsage:
    """One contender's use of the database so far.

    Args:
        statements: executions of statements that name a table of the schema; of writing ones, the rows written.
        exec_ns: time of these executions, including waits for a lock, a sleep or a core.
        cpu_ns: CPU time of the contender's backends, by process id.
    """

    statements: int = 0
    exec_ns: int = 0
    cpu_ns: Mapping[int, int] = field(default_factory=dict)


def spent(before: DatabaseUsage, after: DatabaseUsage) -> dict[str, int]:
    """A contender's use of the database between two moments, by ``LaunchCount``."""
    used: dict[str, int] = {
        LaunchCount.DATABASE_STATEMENTS: after.statements - before.statements,
        LaunchCount.DATABASE_EXEC_NS: after.exec_ns - before.exec_ns,
        LaunchCount.DATABASE_CONNECTIONS: len(after.cpu_ns),
    }
    if not before.cpu_ns.keys() - after.cpu_ns.keys():  # the count of a backend that ended in between is lost
        used[LaunchCount.DATABASE_CPU_NS] = sum(now - before.cpu_ns.get(pid, 0) for pid, now in after.cpu_ns.items())
    return used


class Database:
    """The race's database: a template that is made once, and one instance at a time.

    Args:
        seed: the race's; it draws the rows.
        cores: the cores that it may run on.
        scratch: the race's folder. resources: closed when the race ends.
        room_bytes: free memory that an instance needs (``room_of``); with less, its data is in the race's folder.
    """

    def __init__(
        self,
        programs: Programs,
        *,
        seed: int,
        cores: tuple[int, ...],
        scratch: Path,
        resources: ExitStack,
        room_bytes: int = ROOM_BYTES["rows"],
    ) -> None:
        self._room_bytes = room_bytes
        self.programs, self.cores = programs, cores
        self._seed, self._scratch, self._resources = seed, scratch, resources
        self._making = threading.Lock()
        self._data: dict[Schema, Path] = {}
        self._launcher: Launcher | None = None
        self._process: ServerProcess | None = None
        self._root = scratch
        self._password = secrets.token_hex(32)
        self._count = 0

    def launch(self, schema: Schema = "rows", *, writes: bool = False) -> Instance:
        """Starts a fresh instance and waits until it accepts connections.

        Args:
            writes: contenders change rows, so that each gets tables of its own.

        Raises:
            StageError: it can't be made or started.
        """
        with self._making:
            if schema not in self._data:
                self._prepare(schema)
        assert self._launcher is not None
        self._count += 1
        folder = self._root / f"{NAME}-{self._count:03d}"
        folder.mkdir()
        (folder / OWN).mkdir(mode=0o700)
        (folder / SOCKET).mkdir()
        try:
            shutil.copytree(self._data[schema], folder / "data", symlinks=True)
        except OSError as error:
            raise StageError(f"{TITLE}: its data can't be copied to {folder} ({error})") from error
        port = free_port()
        start = Start(
            name=TITLE,
            command=(
                *(self.programs.place("postgres"), "-D", str(folder / "data"), "-h", HOST, "-p", str(port)),
                *("-k", f'"{folder / OWN}","{folder / SOCKET}"'),
            ),
            cwd=folder,
            port=port,
            wake_s=WAKE_S,
            stop_signal=STOP_SIGNAL,
        )
        process = self._process = self._launcher.launch(
            start,
            scratch=folder,
            cores=self.cores,
            is_right=lambda _, port: _why_not_ready(folder, port, self._password),
        )
        tables = drawn_tables(schema, self._seed)
        if writes:
            tables.changing = OWN_CHANGING
        drawn_by = f"{self._seed} {self._count}"
        return Instance(
            process=process, folder=folder, tables=tables, drawn_by=drawn_by, writes=writes, password=self._password,
            segment=_segment_of(folder / "data"),
        )  # fmt: skip

    def log_tail(self) -> str:
        """The end of the latest instance's output, also after its end; "" before the first instance."""
        return self._process.log_tail() if self._process else ""

    def _prepare(self, schema: Schema) -> None:
        making = self._scratch / f"{NAME}-{schema}-template"
        making.mkdir()
        self._data[schema] = template.make(self.programs, drawn_tables(schema, self._seed), making, self._password)
        if self._launcher is not None:
            return
        if self._moves_to_memory():
            self._root = self._resources.enter_context(scratch_root(MEMORY))
        self._launcher = self._resources.enter_context(Launcher(name=TITLE, scratch_root=self._root))

    @property
    def place(self) -> str:
        """The folder with its data: in memory, or the race's own."""
        return str(MEMORY if self._moves_to_memory() else self._scratch.parent)

    def _moves_to_memory(self) -> bool:
        return _has_room(MEMORY, self._room_bytes) and not _in_memory(self._scratch)


@dataclass(kw_only=True)
class Instance:
    """One running database; leaving the ``with`` stops it and removes its data.

    Args:
        tables: the current rows. drawn_by: the text that draws rows which differ from launch to launch.
        writes: contenders change rows, each in tables of its own.
        password: the owner's. segment: System V shared memory with which it guards its data, read before a contender
            runs: one that runs as the same user could change the file.
    """

    process: ServerProcess
    folder: Path
    tables: Tables
    password: str = field(repr=False)
    segment: int | None
    drawn_by: str = ""
    writes: bool = False
    _roles: dict[str, str] = field(default_factory=dict)
    _passwords: dict[str, str] = field(default_factory=dict, repr=False)
    _asking: threading.RLock = field(default_factory=threading.RLock)
    _connection: psycopg.Connection[Any] | None = None
    _doors: list[subprocess.Popen[str]] = field(default_factory=list)

    def __enter__(self) -> Instance:
        try:
            self._fill()
        except BaseException:
            self.stop()  # otherwise no further instance could be launched
            raise
        return self

    def _fill(self) -> None:
        """Writes what differs from launch to launch, and reads all tables into memory."""
        if self.tables.schema == "hello_world":
            self.tables.fortunes[:] = drawn_fortunes(self.drawn_by)
        for statement, values in schemas.launching(self.tables):
            self.ask(statement, *values)
        for name in schemas.TABLES[self.tables.schema]:
            index = f"{name.rstrip(chr(34))}_pkey{name[-1] if name[-1] == chr(34) else ''}"
            self.ask("SELECT pg_prewarm(%s), pg_prewarm(%s)", name, index)

    @property
    def rows(self) -> list[int]:
        """The current number of each row, in the order of ids."""
        return self.tables.numbers

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends it at once, without saving its data."""
        for process in self._doors:
            process.kill()
            process.communicate()
        if self._connection is not None:
            self._connection.close()
        self.process.stop()
        if self.segment is not None:
            # A killed PostgreSQL leaves this segment of 56 bytes behind (its manual, 19.4.1).
            _libc.shmctl(self.segment, _IPC_RMID, None)

    def alive(self) -> bool:
        """Whether it runs and its first connection still works."""
        try:
            self.ask("SELECT 1")
        except DatabaseGoneError:
            return False
        return self.process.alive()

    def values(self, name: str) -> Mapping[str, str | int]:
        """Placeholders for a contender's definition.

        Each contender has its own role, by which its use is counted, with a password that this instance draws.
        """
        with self._asking:
            role = self._roles.get(name)
            if role is None:
                role = self._roles[name] = f"contender_{len(self._roles) + 1}"
                password = self._passwords[name] = secrets.token_hex(32)
                self.ask(f"CREATE ROLE {role} LOGIN IN ROLE {template.CONTENDERS} PASSWORD '{door.verifier(password)}'")
                for statement in schemas.own_copies(role, self.tables.schema) if self.writes else ():
                    self.ask(statement)
        return {
            "database_host": HOST,
            "database_port": self.process.port,
            "database_socket": str(self.folder / SOCKET),
            "database_user": role,
            "database_password": self._passwords[name],
            "database_name": template.DATABASE,
            "database_connections": CONNECTIONS,
        }

    def network_for(self, name: str) -> str:
        """A network for a contender in a container, in which it reaches the database over TCP; see ``door``.

        Raises:
            StageError: it can't be made.
        """
        place = self.values(name)
        path = self.folder / SOCKET / f".s.PGSQL.{self.process.port}"
        command = [sys.executable, "-I", "-S", door.__file__, str(path), place["database_user"], place["database_name"]]
        process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self._doors.append(process)
        assert process.stdin is not None
        process.stdin.write(f"{place['database_password']}\n")  # every user can read a command
        process.stdin.flush()
        os.sched_setaffinity(process.pid, os.sched_getaffinity(self.process.pid))
        said = process.stdout.readline().strip() if process.stdout else ""
        if said != "ready":
            raise StageError(f"{name}: {said or 'the network for its container ended'}")
        return f"/proc/{process.pid}/ns/net"

    def change_rows(self) -> None:
        """Gives every row another value; all are changed when this returns.

        Raises:
            DatabaseGoneError: it ended, or closed the connection.
        """
        self.drawn_by = f"{self.drawn_by} changed"
        self.tables.change(self.drawn_by)
        owners = list(self._roles.values()) if self.writes and self.tables.schema == "items" else []
        for statement, values in schemas.changing(self.tables, owners):
            self.ask(statement, *values)

    def own_numbers(self, name: str) -> list[dict[int, int]]:
        """The numbers in a contender's own tables, by id; it uses one of the tables.

        Raises:
            DatabaseGoneError: it ended, or closed the connection.
        """
        return [dict(self.ask(query)) for query in schemas.own_numbers(self._roles[name], self.tables.schema)]

    def usage(self) -> dict[str, DatabaseUsage]:
        """Each contender's use so far, by its name.

        Raises:
            DatabaseGoneError: it ended, or closed the connection.
        """
        named = rf"\m({schemas.COUNTED[self.tables.schema]})\M"
        counted = {role: (int(calls), round(ms * 1e6)) for role, calls, ms in self.ask(_STATEMENTS, named)}
        cpu_ns: dict[str, dict[int, int]] = {}
        for role, pid in self.ask(_BACKENDS):
            with contextlib.suppress(OSError, ValueError, IndexError):
                cpu_ns.setdefault(role, {})[pid] = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
        usages = {}
        for name, role in self._roles.items():
            statements, exec_ns = counted.get(role, (0, 0))
            usages[name] = DatabaseUsage(statements=statements, exec_ns=exec_ns, cpu_ns=cpu_ns.get(role, {}))
        return usages

    def ask(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Runs a statement and returns its rows.

        Raises:
            DatabaseGoneError: it ended, or closed the connection.
        """
        import psycopg

        with self._asking:
            try:
                if self._connection is None:
                    self._connection = _as_owner(self.folder, self.process.port, self.password)
                cursor = self._connection.execute(statement.encode(), values or None)
                return cursor.fetchall() if cursor.description else []
            except psycopg.OperationalError as error:
                raise DatabaseGoneError(f"{TITLE} is gone: {str(error).strip()}") from error


def _segment_of(data: Path) -> int | None:
    """The System V shared memory with which an instance guards its data, from its ``postmaster.pid``."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int((data / "postmaster.pid").read_text().splitlines()[6].split()[1])
    return None


def _as_owner(folder: Path, port: int, password: str) -> psycopg.Connection[Any]:
    import psycopg

    return psycopg.connect(
        host=str(folder / OWN), port=port, user=template.OWNER, password=password, dbname=template.DATABASE,
        connect_timeout=5, autocommit=True,
    )  # fmt: skip


def _why_not_ready(folder: Path, port: int, password: str) -> str | None:
    """Why the database is not ready yet; None once it is ready."""
    import psycopg

    try:
        _as_owner(folder, port, password).close()
    except psycopg.OperationalError as error:
        return str(error).strip()
    return None


def room_of(schema: Schema, *, writes: bool) -> int:
    """Bytes of memory that an instance with these tables needs."""
    return ROOM_BYTES[schema] + (WRITTEN_BYTES if writes else 0)


def _has_room(folder: Path, room_bytes: int) -> bool:
    try:
        state = os.statvfs(folder)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK) and state.f_bavail * state.f_frsize >= room_bytes


def _in_memory(folder: Path) -> bool:
    """Whether a folder is on a tmpfs, by the mount point that is the longest part of its path (proc(5))."""
    mounts = [mount for mount in psutil.disk_partitions(all=True) if folder.is_relative_to(mount.mountpoint)]
    return max(mounts, key=lambda mount: len(mount.mountpoint)).fstype == "tmpfs" if mounts else False
