"""Makes a race's data directory, once: initialised, configured, and filled with rows that the seed drew."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from dragstrip.errors import StageError
from dragstrip.process.database import schemas
from dragstrip.process.database.door import verifier
from dragstrip.process.database.programs import TITLE, Programs
from dragstrip.process.launcher import unprivileged_user
from dragstrip.process.supervisor import PR_SET_PDEATHSIG
from dragstrip.workload import Tables, drawn_tables

#: The rows' owner, which is the superuser; the role that all contenders' roles belong to; the database's name.
OWNER, CONTENDERS, DATABASE = "dragstrip", "contenders", "postgres"

#: Who may log in (its manual, 21.1); everyone else is rejected. The owner's password never leaves the race's process.
#: `peer` would not do: a container of an ordinary user runs as that user.
LOGINS = f"""\
local {DATABASE} {OWNER} scram-sha-256
local {DATABASE} +{CONTENDERS} scram-sha-256
host {DATABASE} +{CONTENDERS} 127.0.0.1/32 scram-sha-256
"""

#: Seconds within which it must be made; a quiet core takes one or two.
MAKING_S = 120.0

_SETTINGS: Mapping[str, str] = {
    # No data needs to outlive the instance.
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    # It is in memory; workloads that write would fill a gigabyte.
    "max_wal_size": "96MB",
    # Work in the background would be measured as a contender's.
    "autovacuum": "off",
    "jit": "off",
    "bgwriter_lru_maxpages": "0",
    "checkpoint_timeout": "1d",
    "max_parallel_workers_per_gather": "0",
    "max_logical_replication_workers": "0",
    "logging_collector": "off",
    "ssl": "off",
    # Two scans of the same rows return them in the same order.
    "synchronize_seqscans": "off",
    # Enough for every contender's connections, and for a user's.
    "max_connections": "1000",
    "shared_buffers": "64MB",
    # In the data directory, which is removed with the instance; a killed instance would leave files in /dev/shm.
    "dynamic_shared_memory_type": "mmap",
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track_utility": "off",
    "pg_stat_statements.save": "off",
}


_libc = ctypes.CDLL(None)


def settings() -> dict[str, str]:
    """The settings that differ from PostgreSQL's defaults, by name (its manual, chapter 20)."""
    return dict(_SETTINGS)


def drawn_rows(seed: int) -> list[int]:
    """``n`` of each row, from id 1 on: drawn from the seed, so that a copy of another race's rows is incorrect."""
    return drawn_tables("rows", seed).numbers


def make(programs: Programs, tables: Tables, into: Path, password: str) -> Path:
    """Makes and fills the data directory in ``into``, an empty folder; returns its path.

    As root it is made by the user that the server will run as, because PostgreSQL refuses root. Then root owns it:
    contenders may run as the same user, and root copies it for each round.

    Args:
        password: the owner's; only what checks it gets into the directory.

    Raises:
        StageError: it can't be made; the message has the program's last lines.
    """
    data = into / "data"
    if os.geteuid() == 0 and (user := unprivileged_user()):
        os.chown(into, *user)
    _run(
        into, programs.place("initdb"), "--pgdata", str(data), "--username", OWNER, "--auth", "reject",
        "--encoding", "UTF8", "--locale", "C", "--wal-segsize", "1", "--no-sync", "--no-instructions",
    )  # fmt: skip
    lines = "".join(f"{name} = '{value}'\n" for name, value in _SETTINGS.items())
    # By that user, who could have put links there: root would follow them.
    _run(into, "tee", "--append", str(data / "postgresql.conf"), script=lines)
    _run(into, "tee", str(data / "pg_hba.conf"), script=LOGINS)
    filling = _filling(tables, password)
    _run(into, programs.place("postgres"), "--single", "-j", "-D", str(data), DATABASE, script=filling)
    if os.geteuid() == 0:
        for path in (into, *into.rglob("*")):
            os.chown(path, 0, 0, follow_symlinks=False)
    return data


def _filling(tables: Tables, password: str) -> str:
    """Statements for a server in single-user mode; with ``-j`` a semicolon and an empty line end each."""
    statements = (
        f"ALTER ROLE {OWNER} PASSWORD '{verifier(password)}'",
        f"CREATE ROLE {CONTENDERS}",
        # Before version 15 everyone could, also functions that the owner would then call.
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
        "CREATE EXTENSION pg_stat_statements",
        "CREATE EXTENSION pg_prewarm",
        *schemas.filling(tables),
    )
    return "".join(f"{statement};\n\n" for statement in statements)


def _run(folder: Path, *command: str, script: str = "") -> None:
    """Runs a program and waits for its end."""
    user = unprivileged_user() if os.geteuid() == 0 else None
    try:
        done = subprocess.run(
            command,
            input=script, capture_output=True, text=True, errors="replace", timeout=MAKING_S, cwd=folder,
            env={"PATH": os.defpath, "LANG": "C.UTF-8", "TZ": "UTC"}, umask=0o077,
            preexec_fn=lambda: _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),  # it ends with this process
            user=user[0] if user else None, group=user[1] if user else None, extra_groups=[] if user else None,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise StageError(f"{TITLE}: its data directory can't be made: {error}") from error
    if done.returncode or "ERROR:" in done.stderr or "FATAL:" in done.stderr:
        last = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        name = Path(command[0]).name
        raise StageError(f"{TITLE}: {name} failed with exit status {done.returncode}; its last lines:\n{last}")
