"""Kernel memory in the buffers of a server's TCP connections, by the kernel's own list of sockets (sock_diag(7)).

Any user may read it, and it is of this network namespace.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

#: Constants of the kernel (linux/sock_diag.h, linux/inet_diag.h, linux/netlink.h).
_NETLINK_SOCK_DIAG, _BY_FAMILY, _DONE, _ERROR, _DUMP = 4, 20, 3, 2, 0x301
_ESTABLISHED, _MEMORY = 1 << 1, 7

#: Of the memory's numbers: received and not read, kept ahead, to be sent, and of options.
_HELD = (0, 4, 5, 6)

_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")

#: The length of ``struct inet_diag_msg``.
_MESSAGE_BYTES = 72

#: Bytes that one answer may have.
_ANSWER_BYTES = 1 << 18


def buffer_bytes(port: int) -> tuple[int, int]:
    """Kernel memory in buffers of the established connections at a port of this machine, and how many there are.

    Raises:
        OSError: the kernel does not list sockets.
    """
    held = [numbers for family in (socket.AF_INET, socket.AF_INET6) for numbers in _listed(family, port)]
    return sum(numbers[at] for numbers in held for at in _HELD), len(held)


def _listed(family: int, port: int) -> Iterator[tuple[int, ...]]:
    """The memory's numbers of each connection."""
    question = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 1 << (_MEMORY - 1), 0, _ESTABLISHED)
    question += struct.pack("!HH", port, 0) + bytes(44)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as asking:
        asking.settimeout(5.0)
        asking.send(_HEADER.pack(_HEADER.size + len(question), _BY_FAMILY, _DUMP, 0, 0) + question)
        while True:
            answer, at = asking.recv(_ANSWER_BYTES), 0
            while at < len(answer):
                length, kind, *_ = _HEADER.unpack_from(answer, at)
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    (code,) = struct.unpack_from("=i", answer, at + _HEADER.size)
                    raise OSError(-code, "the kernel does not list sockets")
                yield from _memory(answer[at + _HEADER.size + _MESSAGE_BYTES : at + length])
                at += -(-length // 4) * 4


def _memory(attributes: bytes) -> Iterator[tuple[int, ...]]:
    at = 0
    while at + _ATTRIBUTE.size <= len(attributes):
        length, kind = _ATTRIBUTE.unpack_from(attributes, at)
        if kind == _MEMORY:
            yield struct.unpack_from(f"={(length - _ATTRIBUTE.size) // 4}I", attributes, at + _ATTRIBUTE.size)
        at += max(-(-length // 4) * 4, _ATTRIBUTE.size)
