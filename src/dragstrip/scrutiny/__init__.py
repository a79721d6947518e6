"""Scrutineering: a contender must prove that it does the same work before it may yield a number.

Talks plain sockets and the standard library's HTTP reader, not the load engine: two independent
readings of the same answers. ``answers`` reads and judges single ones, ``proof`` has a contender prove them,
``habits`` tries what it does with connections, ``own_count`` asks it how many requests it had. What can't be equal
between contenders is collected as facts for the parity sheet.
"""

from dragstrip.scrutiny.answers import Answer, Findings, fault, fetch, is_right, says_keep
from dragstrip.scrutiny.habits import fairness, habits
from dragstrip.scrutiny.own_count import count_from_now
from dragstrip.scrutiny.proof import scrutineer

__all__ = [
    "Answer",
    "Findings",
    "count_from_now",
    "fairness",
    "fault",
    "fetch",
    "habits",
    "is_right",
    "says_keep",
    "scrutineer",
]
