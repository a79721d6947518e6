"""Scrutineering: a contender must prove that it does the same work before it may yield a number.

Talks plain sockets and reads with h11 and h2, not with the load engine: two independent readings of the same answers.
``reader`` and ``http2`` read one response within a deadline and a cap, ``server`` connects, ``answers`` judges one
response, ``correctness`` has a contender prove all of them. ``references`` learns what the engine compares with under
load, ``connections`` tries what a server does with connections, ``server_count`` reads its own count of requests. What
can't be equal between contenders becomes a fact for the parity sheet (``dragstrip.parity``).
"""

from dragstrip.scrutiny.answers import TROUBLE, Findings, describe_error, fault, fetch, is_right, nothing_right
from dragstrip.scrutiny.connections import BEHAVIOUR_S, connection_behaviour, fairness, plainest, resumption
from dragstrip.scrutiny.correctness import CORRECTNESS_S, check_correctness
from dragstrip.scrutiny.http2 import ALPN, Http2Session
from dragstrip.scrutiny.reader import Answer, AnswerError, Deadline, quoted, read_answer
from dragstrip.scrutiny.references import Head, compared, partiality, reference_heads, with_own_form
from dragstrip.scrutiny.server import Encryption, Server
from dragstrip.scrutiny.server_count import count_from_now
