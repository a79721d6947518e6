"""Starts, watches and ends servers: launcher, supervisor, scratch folders."""
