"""A Dask scheduler and one worker for each strip, as child processes of the client; all ports are on loopback."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dask
from distributed import Nanny, Scheduler, SpecCluster

LOOPBACK, SILENT = "127.0.0.1", logging.CRITICAL


class LocalStrips(SpecCluster):
    """Its workers end with the client.

    Args:
        security: certificates, so that other users of this machine can't send tasks. folder: for workers' files.
    """

    def __init__(self, security: Any, folder: Path) -> None:
        self._waiting: list[str] = []
        self._certificates = security
        # By default three workers may be killed before Dask gives a task up.
        dask.config.set({"distributed.scheduler.allowed-failures": 20, "temporary-directory": str(folder)})
        options = {"host": LOOPBACK, "port": 0, "dashboard_address": f"{LOOPBACK}:0", "security": security}
        super().__init__(
            scheduler={"cls": Scheduler, "options": options}, workers={}, security=security, silence_logs=SILENT
        )

    def add(self, strips: Sequence[str]) -> None:
        """Starts the workers of strips that have none."""
        self._waiting = [strip for strip in strips if strip not in self.worker_spec]
        self.scale(len(self.worker_spec) + len(self._waiting))

    def new_worker_spec(self) -> dict[str, object]:
        """The next strip's worker; its two threads let the client look into an outbox while a race runs."""
        strip = self._waiting.pop(0)
        options = {
            "host": LOOPBACK,
            "dashboard_address": f"{LOOPBACK}:0",
            "nthreads": 2,
            "memory_limit": 0,
            "resources": {f"strip-{strip}": 1},
            "security": self._certificates,
            "silence_logs": SILENT,
        }
        return {strip: {"cls": Nanny, "options": options}}
