"""A process of a strip: its input, its output and its end; the client sleeps until then."""

from __future__ import annotations

import os
import select
import selectors
import subprocess
import time

from dragstrip.errors import MachineLost

#: Bytes that a strip may print: the largest record as base64. A league of 60 contenders over 80 rounds has a fifth.
MOST_BYTES = 768 * 2**20

#: Bytes that are read at once, and the longest wait that poll(2) accepts, s.
PIECE, LONGEST_S = 1 << 16, 2e6


def talk(process: subprocess.Popen[bytes], text: bytes, limit_s: float, strip: str) -> bytes:
    """Gives a process its input, and returns what it has printed when it ends, or when the limit is over.

    It never looks for the end: ``Popen.wait`` with a limit does so 20 times a second, and a strip may be this machine.
    What a process has started, and what holds its streams open, is not waited for.

    Raises:
        MachineLost: it prints more than any record has.
    """
    until_s, left, printed, ended = time.monotonic() + limit_s, memoryview(text), bytearray(), False
    number = os.pidfd_open(process.pid)
    try:
        with selectors.DefaultSelector() as waiting:
            waiting.register(number, selectors.EVENT_READ)
            if process.stdin:
                waiting.register(process.stdin, selectors.EVENT_WRITE)
            if process.stdout:
                waiting.register(process.stdout, selectors.EVENT_READ)
            while ready := waiting.select(0 if ended else min(max(until_s - time.monotonic(), 0), LONGEST_S)):
                for key, _ in ready:
                    if key.fileobj == number:
                        ended = True
                        waiting.unregister(number)
                    elif key.fileobj is process.stdin:
                        try:
                            left = left[os.write(key.fd, left[: select.PIPE_BUF]) :]
                        except BrokenPipeError:
                            left = left[:0]
                        if not left:
                            waiting.unregister(process.stdin)
                            process.stdin.close()
                    else:
                        piece = os.read(key.fd, PIECE)
                        printed += piece
                        if not piece:
                            waiting.unregister(key.fileobj)
                        if len(printed) > MOST_BYTES:
                            raise MachineLost(strip, f"it printed more than {MOST_BYTES:,} bytes, the maximum")
        return bytes(printed)
    finally:
        os.close(number)
