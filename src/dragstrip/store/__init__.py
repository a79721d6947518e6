"""Races on disk, and the examination of this machine that is kept next to them."""
