"""Races and load over several machines: servers on one, generators on others, an agent of ours on each.

This side: ``definition`` reads ``fleet.toml``; ``machines`` are all of them, each at the end of a ``channel``.
``fleet_site`` is what ``racing`` asks before a race, ``setup`` around its rounds, ``remote_engine`` and
``remote_server`` within them; ``remote_load`` is ``dragstrip load``, ``remote_script`` its script's ``done``.
``packing`` puts Dragstrip on machines, ``down`` ends agents there.

The other side: an ``agent`` on each machine does what ``server_duties`` and ``generator_duties`` say, and what both
have of ``round_duties`` and a ``meter``; ``load_there`` is a generator's part of ``dragstrip load``.

Between them: ``sent`` is what an agent is told, ``messages`` what it may answer. Page: ``docs/FLEET.md``.
"""
