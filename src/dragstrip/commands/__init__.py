"""The command line: one file a command; ``main`` starts it, ``options`` has what several commands share."""
