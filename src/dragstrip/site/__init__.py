"""The history as a local page: what ``dragstrip serve`` shows. Only reads the store, and contacts no other machine."""

from dragstrip.site.app import app
from dragstrip.site.connections import BACKLOG, Bounded

__all__ = ["BACKLOG", "Bounded", "app"]
