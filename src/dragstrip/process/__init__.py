"""Starts, watches and ends servers and the database: launcher, supervisor, scratch folders."""
