"""A Dask scheduler and a worker for all strips, as a child process of the client; all ports are on loopback.

A worker for each strip would take a second each to start. A worker only waits, and if it is killed, its races live on.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dask
from distributed import Nanny, Scheduler, SpecCluster

LOOPBACK, SILENT = "127.0.0.1", logging.CRITICAL
#: Dask opens the port for its pages whether there are any or not.
NO_PAGES = {"dashboard": False, "dashboard_address": f"{LOOPBACK}:0"}


class LocalStrips(SpecCluster):
    """A worker for the strips that are there at the start, and another one for those that join; they end with it.

    Args:
        security: certificates, so that other users of this machine can't send tasks. folder: for workers' files.
    """

    def __init__(self, security: Any, folder: Path) -> None:
        self._strips: set[str] = set()
        self._waiting: list[str] = []
        self._certificates = security
        # By default three workers may be killed before Dask gives a task up, and a worker has 15 s to start again.
        dask.config.set(
            {
                "distributed.scheduler.allowed-failures": 20,
                "distributed.deploy.lost-worker-timeout": "120s",
                # Pages of Dask would answer any user of this machine, and any name that leads here.
                "distributed.scheduler.http.routes": [],
                "distributed.worker.http.routes": [],
                "temporary-directory": str(folder),
            }
        )
        options = {"host": LOOPBACK, "port": 0, "security": security, **NO_PAGES}
        super().__init__(
            scheduler={"cls": Scheduler, "options": options}, workers={}, security=security, silence_logs=SILENT
        )

    def add(self, strips: Sequence[str]) -> None:
        """Starts a worker for the strips that have none, and workers that were given up."""
        self._waiting = [strip for strip in strips if strip not in self._strips]
        self._strips.update(self._waiting)
        self.scale(len(self.worker_spec) + bool(self._waiting))

    def new_worker_spec(self) -> dict[str, object]:
        """The next worker; two threads for each strip let the client look into an outbox while a race runs."""
        options = {
            "host": LOOPBACK,
            **NO_PAGES,
            "nthreads": 2 * len(self._waiting),
            "memory_limit": 0,
            "resources": {f"strip-{strip}": 1 for strip in self._waiting},
            "security": self._certificates,
            "silence_logs": SILENT,
        }
        return {f"strips-{len(self.worker_spec)}": {"cls": Nanny, "options": options}}
