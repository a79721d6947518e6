"""Entries of TechEmpower and HttpArena, imported as contenders."""
