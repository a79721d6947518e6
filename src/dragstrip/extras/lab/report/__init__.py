"""A lab as reports show it: its progress, and heat maps of its races."""
