"""Scrutineering: a contender must prove that it does the same work before it may yield a number.

Talks plain sockets and reads with h11 and h2, not with the load engine: two independent readings of the same answers.
``reader`` and ``http2`` read one within a deadline and a cap, ``encryption`` has TLS, ``answers`` judges it,
``correctness`` has a contender prove them, ``own_form`` learns how it writes its JSON.
``heads`` learns with which heads the engine compares those under load. ``connections`` tries what it does with
connections, ``server_count`` asks it how many requests it had. What can't be equal between contenders is
collected as facts for the parity sheet (``dragstrip.parity``).
"""

from dragstrip.scrutiny.answers import TROUBLE, Findings, describe_error, fault, fetch, is_right, nothing_right
from dragstrip.scrutiny.connections import BEHAVIOUR_S, connection_behaviour, fairness, plainest, resumption
from dragstrip.scrutiny.correctness import CORRECTNESS_S, check_correctness
from dragstrip.scrutiny.encryption import Encryption
from dragstrip.scrutiny.heads import Head, compared, partiality, reference_heads
from dragstrip.scrutiny.http2 import ALPN, read_http2_answer
from dragstrip.scrutiny.own_form import with_own_form
from dragstrip.scrutiny.reader import Answer, AnswerError, Deadline, quoted, read_answer
from dragstrip.scrutiny.server_count import count_from_now

__all__ = [
    "ALPN",
    "BEHAVIOUR_S",
    "CORRECTNESS_S",
    "TROUBLE",
    "Answer",
    "AnswerError",
    "Deadline",
    "Encryption",
    "Findings",
    "Head",
    "check_correctness",
    "compared",
    "connection_behaviour",
    "count_from_now",
    "describe_error",
    "fairness",
    "fault",
    "fetch",
    "is_right",
    "nothing_right",
    "partiality",
    "plainest",
    "quoted",
    "read_answer",
    "read_http2_answer",
    "reference_heads",
    "resumption",
    "with_own_form",
]
