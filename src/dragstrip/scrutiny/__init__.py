"""Scrutineering: a contender must prove that it does the same work before it may yield a number.

It uses plain sockets and reads with h11 and h2, not with the load engine: two independent readings of the same
responses. ``reader`` and ``http2`` read one response within a deadline and a cap, ``server`` connects, ``session`` has
the register of protocols, ``responses`` judges one response, ``correctness`` checks all of a contender's responses,
``caching`` what a server keeps. ``references`` learns the responses that the engine compares with under load,
``connections`` tries how a server treats connections, ``server_count`` reads the server's own count of requests.
Differences between contenders become facts for the parity sheet (``dragstrip.parity``).
"""

from dragstrip.scrutiny.connections import BEHAVIOUR_S, connection_behaviour, fairness, plainest, resumption
from dragstrip.scrutiny.correctness import CORRECTNESS_S, check_correctness
from dragstrip.scrutiny.reader import Deadline, Response, ResponseError, quoted, read_response
from dragstrip.scrutiny.references import Head, compared, partiality, reference_heads, with_own_form
from dragstrip.scrutiny.responses import (
    TROUBLE,
    Findings,
    describe_error,
    difference,
    fault,
    fetch,
    is_right,
    nothing_right,
)
from dragstrip.scrutiny.server import ALPN, Encryption, Server, refused_certificate
