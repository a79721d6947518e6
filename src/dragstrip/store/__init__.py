"""Races on disk, and what is kept of this machine beside them."""
