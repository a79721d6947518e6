"""Races over several machines: servers on one, generators on others, an agent of ours on each.

``definition`` has ``fleet.toml``. ``agent`` runs on each machine and does what ``server_duties`` and
``generator_duties`` say; ``channel`` is this side's end of its pipe, ``messages`` what may come back through it.
``machines`` are all of them, ``place`` is what ``racing`` asks for. Page: ``docs/FLEET.md``.
"""
