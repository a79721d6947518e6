"""Races and load over several machines: servers on one, generators on others, an agent of ours on each.

This side: ``definition`` reads ``fleet.toml``; ``machines`` are all of them, each at the end of a ``channel``.
``fleet_site`` is what ``racing`` asks before a race and around its rounds, ``remote_engine`` and ``remote_server``
within them; ``remote_load`` is ``dragstrip load``. ``packing`` puts Dragstrip on machines, ``down`` ends agents there.

The other side: an ``agent`` on each machine has ``duties``: ``server_duties`` or ``generator_duties``, and a ``meter``.

Between them: a call names a duty, and ``wire`` makes lines of JSON of its arguments and of what it returns;
``messages`` are the replies with several fields. ``merging`` adds up what several generators saw. Page:
``docs/FLEET.md``.
"""
