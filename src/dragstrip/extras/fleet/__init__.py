"""Races and load over several machines: servers on one, generators on others, an agent of ours on each.

The client: ``definition`` reads ``extras.fleet.toml``; ``machines`` connects to every machine, each over a ``channel``.
``racing`` uses ``fleet_site`` before a race and around its rounds, and ``remote_engine`` and ``remote_server`` within
them; ``remote_load`` is ``dragstrip load``. ``packing`` puts Dragstrip on machines, ``down`` ends agents there.

The agent: each machine runs an ``agent``, which has ``duties``: ``server_duties`` or ``generator_duties``, and a
``meter``.

Between them: a call names a duty, and ``wire`` encodes its arguments and its result as lines of JSON; ``messages`` has
the replies with several fields. ``merging`` adds up the counts of several generators. Page:
``docs/FLEET.md``.
"""
