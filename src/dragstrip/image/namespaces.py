"""Linux namespaces: sockets in a container's network, and the user namespace that lets an ordinary user make them."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

#: clone(2)'s flags, prctl(2)'s options, and the version of capset(2).
_NEW_NET, _NEW_USER = 0x40000000, 0x10000000
_PR_CAP_AMBIENT, _RAISE, _CLEAR_ALL = 47, 2, 4

_libc = ctypes.CDLL(None, use_errno=True)

#: Set for the program that ``enter_user_namespace`` starts.
ENTERED = "DRAGSTRIP_IN_USER_NAMESPACE"


def may_enter() -> bool:
    """Whether this process may enter the networks of containers that it starts, and return to its own."""
    from dragstrip.machine.network_namespace import within  # started as a program, this file finds no package

    try:
        with within(Path("/proc/thread-self/ns/net")):
            return True
    except OSError:
        return False


def enter_user_namespace() -> None:
    """Starts this program again in a user namespace and a network of its own; then it may enter containers' networks.

    The user stays the same; nothing outside of the namespace can be done with the rights that it gives. The network of
    its own has loopback alone, because the kernel would not let a thread return to the machine's network. A process
    with several threads can't enter a user namespace, so a small program does that and becomes this one.

    Raises:
        OSError: the system does not let this user make one.
    """
    if error := why_no_user_namespace():
        raise OSError(error)
    # Not the first word of the command, which PATH was searched for: here it would be a file of the current folder.
    command = [sys.executable, "-I", "-S", __file__, sys.executable, *sys.orig_argv[1:]]
    os.execve(sys.executable, command, {**os.environ, ENTERED: "1"})


def why_no_user_namespace() -> str | None:
    """Why this user can't make a user namespace, tried in a child process; None if it works."""
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            _make_user_namespace()
        except BaseException as error:
            os.write(writing, (str(error) or "failed").encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, errors="replace") as output:
        why = output.read()
    os.waitpid(pid, 0)
    return why or None


def drop_inherited_rights() -> None:
    """Keeps the rights of the user namespace for this process alone: the programs that it starts don't inherit them."""
    if os.environ.pop(ENTERED, None):
        _libc.prctl(_PR_CAP_AMBIENT, _CLEAR_ALL, 0, 0, 0)


def _make_user_namespace() -> None:
    user, group = os.geteuid(), os.getegid()
    if _libc.unshare(_NEW_USER | _NEW_NET) != 0:
        raise OSError(f"unshare: {os.strerror(ctypes.get_errno())}")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123
            file.write(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        _set_up_loopback(any_socket)


def _set_up_loopback(any_socket: socket.socket) -> None:
    """Switches loopback on (netdevice(7)); it has its addresses then."""
    up = struct.pack("16sh22x", b"lo", 0x1 | 0x8 | 0x40)  # up, loopback, running
    fcntl.ioctl(any_socket, 0x8914, up)  # SIOCSIFFLAGS


def _keep_rights() -> None:
    """Lets the next program inherit this process's rights (capset(2), then the ambient set of capabilities(7))."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    rights = (ctypes.c_uint32 * 6)()
    if _libc.capget(header, rights) != 0:
        raise OSError(f"capget: {os.strerror(ctypes.get_errno())}")
    for half in (0, 3):
        rights[half + 2] = rights[half + 1]  # inheritable: what is permitted
    if _libc.capset(header, rights) != 0:
        raise OSError(f"capset: {os.strerror(ctypes.get_errno())}")
    for number in range(64):
        if rights[3 * (number // 32) + 1] >> (number % 32) & 1:
            _libc.prctl(_PR_CAP_AMBIENT, _RAISE, number, 0, 0)


if __name__ == "__main__":
    _make_user_namespace()
    _keep_rights()
    os.execv(sys.argv[1], sys.argv[1:])
