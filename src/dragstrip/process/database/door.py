"""Lets a container reach the race's database over TCP, with the address and the names that its program has built in.

A stand-alone script that needs only the standard library, run as ``python -I -S door.py SOCKET USER DATABASE``. It
makes a network of its own, which the container joins, and listens there on PostgreSQL's usual port. It passes on to the
database's unix socket what arrives there, and replaces user and database of each connection. It logs in by itself, with
the password on the first line of its stdin: programs have another one built in. It ends when its stdin closes, so that
it also ends with the race after ``kill -9``.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import fcntl
import hashlib
import hmac
import os
import secrets
import selectors
import socket
import struct
import sys

HOST, PORT = "127.0.0.1", 5432

CLONE_NEWNET, CLONE_NEWUSER, SIOCSIFFLAGS, IFF_UP = 0x40000000, 0x10000000, 0x8914, 1

#: The first message of a connection: the usual one, and requests for TLS and GSSAPI (PostgreSQL's manual, 55.7).
STARTUP, TLS, GSS = 196_608, 80_877_103, 80_877_104

#: The longest first message, and bytes that may wait for a slow reader.
MAX_STARTUP, MAX_WAITING = 10_000, 2**20


#: Rounds of hashing that RFC 7677 asks for at least; some drivers refuse fewer.
ITERATIONS = 4096

#: Kinds of a message about a login (PostgreSQL's manual, 55.7), and the method's name.
OK, SASL, SASL_CONTINUE, SASL_FINAL, METHOD = 0, 10, 11, 12, b"SCRAM-SHA-256"


def _keys(password: str, salt: bytes, iterations: int) -> tuple[bytes, bytes]:
    """A client's and a server's key of a password (RFC 5802, 3)."""
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
    client, server = (hmac.digest(salted, word, "sha256") for word in (b"Client Key", b"Server Key"))
    return client, server


def verifier(password: str) -> str:
    """What PostgreSQL stores to check a password; a login needs the password itself (its manual, 53.8)."""
    salt = secrets.token_bytes(16)
    client, server = _keys(password, salt, ITERATIONS)
    stored = hashlib.sha256(client).digest()
    salt_text, stored_text, server_text = (base64.b64encode(part).decode() for part in (salt, stored, server))
    return f"SCRAM-SHA-256${ITERATIONS}:{salt_text}${stored_text}:{server_text}"


class Login:
    """A client's side of SCRAM-SHA-256 without channel binding (RFC 5802), in PostgreSQL's messages."""

    def __init__(self, password: str) -> None:
        self._password, self._first = password, b"n=,r=" + base64.b64encode(secrets.token_bytes(18))

    def reply(self, kind: int, content: bytes) -> bytes:
        """The message with which to reply to one about the login; b"" for none.

        Raises:
            ValueError: the server wants something else.
        """
        if kind == SASL and METHOD in content.split(b"\0"):
            first = b"n,," + self._first
            return self._message(METHOD + b"\0" + struct.pack("!I", len(first)) + first)
        if kind == SASL_CONTINUE:
            given = dict(part.split(b"=", 1) for part in content.split(b","))
            client, _ = _keys(self._password, base64.b64decode(given[b"s"]), int(given[b"i"]))
            last = b"c=biws,r=" + given[b"r"]
            signed = b",".join((self._first, content, last))
            signature = hmac.digest(hashlib.sha256(client).digest(), signed, "sha256")
            proof = bytes(a ^ b for a, b in zip(client, signature, strict=True))
            return self._message(last + b",p=" + base64.b64encode(proof))
        if kind in (OK, SASL_FINAL):
            return b""
        raise ValueError(f"the database asks for a login of kind {kind}")

    @staticmethod
    def _message(content: bytes) -> bytes:
        return b"p" + struct.pack("!I", len(content) + 4) + content


def enter_own_network() -> None:
    """Makes a network with loopback alone, in which every program may bind every port.

    An ordinary user may do that only in a user namespace; the supervisor of the container may enter that one, too.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWNET) != 0:
        if libc.unshare(CLONE_NEWNET | CLONE_NEWUSER) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123
                file.write(text)
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))
    with open("/proc/sys/net/ipv4/ip_unprivileged_port_start", "w") as file:  # noqa: PTH123
        file.write("0")


def rewritten(message: bytes, user: str, database: str) -> bytes:
    """A startup message with another user and database; its other parameters stay."""
    words = message[8:].rstrip(b"\0").split(b"\0")
    given = dict(zip(words[::2], words[1::2], strict=False))
    given |= {b"user": user.encode(), b"database": database.encode()}
    body = b"".join(name + b"\0" + value + b"\0" for name, value in given.items()) + b"\0"
    return struct.pack("!II", len(body) + 8, STARTUP) + body


class DoorSide:
    """One end of a connection, and what has yet to be sent there."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock, self.waiting = sock, bytearray()
        self.peer: DoorSide | None = None
        #: Of the database's end, until the login is over: how it goes on, what arrived, what its client sent.
        self.login: Login | None = None
        self.arrived = self.early = b""


class Door:
    """All connections of one container."""

    def __init__(self, path: str, user: str, database: str, password: str) -> None:
        self.path, self.user, self.database, self.password = path, user, database, password
        self.selector = selectors.DefaultSelector()
        self.begun: dict[DoorSide, bytes] = {}

    def serve(self, listener: socket.socket) -> None:
        """Serves until stdin closes."""
        self.selector.register(sys.stdin.fileno(), selectors.EVENT_READ, None)
        self.selector.register(listener, selectors.EVENT_READ, listener)
        while True:
            for key, events in self.selector.select():
                if key.data is None:
                    return
                if key.data is listener:
                    client = listener.accept()[0]
                    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    side = DoorSide(client)
                    self.begun[side] = b""
                    self.selector.register(client, selectors.EVENT_READ, side)
                    continue
                try:
                    self._step(key.data, events)
                except (OSError, ValueError, KeyError):
                    self._close(key.data)

    def _step(self, side: DoorSide, events: int) -> None:
        if side.sock.fileno() < 0:
            return  # its other end was closed in the same turn
        if events & selectors.EVENT_WRITE:
            self._send(side, b"")
        if events & selectors.EVENT_READ:
            data = side.sock.recv(65_536)
            if not data:
                self._close(side)
            elif side in self.begun:
                self._begin(side, data)
            elif side.login is not None:
                self._log_in(side, side.login, data)
            elif side.peer is not None:
                self._send(side.peer, data)

    def _begin(self, side: DoorSide, data: bytes) -> None:
        """Reads a client's first messages, and connects it to the database."""
        given = self.begun[side] + data
        while len(given) >= 8:
            length, code = struct.unpack("!II", given[:8])
            if not 8 <= length <= MAX_STARTUP or code not in (STARTUP, TLS, GSS):
                self._close(side)
                return
            if len(given) < length:
                break
            message, given = given[:length], given[length:]
            if code == STARTUP:
                del self.begun[side]
                other = DoorSide(socket.socket(socket.AF_UNIX))
                other.login = Login(self.password)
                other.sock.connect(self.path)
                side.peer, other.peer = other, side
                self.selector.register(other.sock, selectors.EVENT_READ, other)
                other.early = given
                self._send(other, rewritten(message, self.user, self.database))
                return
            self._send(side, b"N")
        self.begun[side] = given

    def _log_in(self, side: DoorSide, login: Login, data: bytes) -> None:
        """Replies to the database's messages about the login; the last one, or an error, goes to the client."""
        side.arrived += data
        while side.arrived[:1] == b"R":
            if len(side.arrived) < 9:
                return
            length, kind = struct.unpack("!II", side.arrived[1:9])
            if kind == OK:
                break
            if not 8 <= length <= MAX_STARTUP:
                self._close(side)
                return
            if len(side.arrived) <= length:
                return
            content, side.arrived = side.arrived[9 : length + 1], side.arrived[length + 1 :]
            self._send(side, login.reply(kind, content))
        if side.arrived and side.peer is not None:
            side.login = None
            self._send(side.peer, side.arrived)
            self._send(side, side.early)

    def _send(self, side: DoorSide, data: bytes) -> None:
        side.waiting += data
        with contextlib.suppress(BlockingIOError):
            del side.waiting[: side.sock.send(side.waiting)]
        for end in (side, side.peer):
            if end is not None and end.sock.fileno() >= 0:
                self._await(end)

    def _await(self, side: DoorSide) -> None:
        """Waits for what a side can do: send what waits, and read unless the other end is too slow, or logs in."""
        slow = side.peer is not None and (side.peer.login is not None or len(side.peer.waiting) > MAX_WAITING)
        events = (selectors.EVENT_WRITE if side.waiting else 0) | (0 if slow else selectors.EVENT_READ)
        with contextlib.suppress(KeyError):  # nothing was awaited from it
            self.selector.unregister(side.sock)
        if events:
            self.selector.register(side.sock, events, side)

    def _close(self, side: DoorSide) -> None:
        for end in (side, side.peer):
            if end is not None and end.sock.fileno() >= 0:
                self.begun.pop(end, None)
                with contextlib.suppress(KeyError):
                    self.selector.unregister(end.sock)
                end.sock.close()


def main() -> None:
    """Writes "ready", or why it can't serve."""
    path, user, database = sys.argv[1:]
    try:
        enter_own_network()
        listener = socket.create_server((HOST, PORT), backlog=1024)
    except OSError as error:
        os.write(1, f"a network for its container can't be made ({error.strerror})\n".encode())
        return
    os.write(1, b"ready\n")
    Door(path, user, database, sys.stdin.readline().strip()).serve(listener)


if __name__ == "__main__":
    main()
