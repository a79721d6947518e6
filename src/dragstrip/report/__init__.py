"""Reads records and verdicts, shows them; never measures and never writes to the store."""
