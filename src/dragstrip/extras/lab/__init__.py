"""Many races on many machines: a matrix of cells, each raced once, in slices, and what has come of them.

``matrix`` has the file's keys and its cells. ``task`` is what a strip is given for one slice, ``strip_side`` runs it on
the strip and leaves its record in an outbox. ``strips`` reaches strips. ``ledger`` holds what was tried and what is
stored; only one client writes it. ``choice`` picks the next slice, ``runner`` drives all strips.
"""
