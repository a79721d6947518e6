"""Scrutineering: a contender must prove that it does the same work before it may yield a number.

Talks plain sockets and reads with h11, not with the load engine: two independent readings of the same answers.
``reader`` reads one within a deadline and a cap, ``answers`` judges it, ``proof`` has a contender prove them,
``habits`` tries what it does with connections, ``own_count`` asks it how many requests it had. What can't be equal
between contenders is collected as facts for the parity sheet.
"""

from dragstrip.scrutiny.answers import Findings, fault, fetch, is_right, nothing_right
from dragstrip.scrutiny.habits import HABITS_S, fairness, habits
from dragstrip.scrutiny.own_count import count_from_now
from dragstrip.scrutiny.proof import PROOF_S, scrutineer
from dragstrip.scrutiny.reader import Answer, AnswerError, Deadline, quoted, read_answer

__all__ = [
    "HABITS_S",
    "PROOF_S",
    "Answer",
    "AnswerError",
    "Deadline",
    "Findings",
    "count_from_now",
    "fairness",
    "fault",
    "fetch",
    "habits",
    "is_right",
    "nothing_right",
    "quoted",
    "read_answer",
    "scrutineer",
]
