"""What Dragstrip offers around races, each with its command, report and data in one folder; the core imports none."""
