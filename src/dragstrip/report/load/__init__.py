"""A run of ``dragstrip load`` as terminal text, JSON and other tools' reports."""
