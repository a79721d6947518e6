"""Other tools' words: their flags, their outputs, their reports, and wrk's scripts."""
