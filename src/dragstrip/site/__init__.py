"""The history as a local page: what ``dragstrip serve`` shows. Reads the store, writes nothing, asks no one else."""

from dragstrip.site.app import app
from dragstrip.site.connections import BACKLOG, Bounded

__all__ = ["BACKLOG", "Bounded", "app"]
