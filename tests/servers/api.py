"""A user's API server, honest or with one fault: ``api.py PORT [FAULT]``.

POST or GET of ``/users/N`` is answered with status 201 or 200 and JSON of which two fields change by themselves.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import socket
import sys
import threading
import time
import uuid

#: Responses after which faults under load begin: scrutineering has sent its requests by then.
HONEST = 400

count = itertools.count(1)


def body_of(number: str, fault: str) -> bytes:
    user = {"id": int(number or 0), "name": "Ada", "at": time.time(), "trace": str(uuid.uuid4()), "tags": ["a", "b"]}
    asked = next(count)
    late = asked > HONEST
    if fault == "dies" and asked == 2:
        print("out of memory", flush=True)
        os._exit(3)
    if fault == "error":
        return b'{"error":"no such user"}'
    if fault == "page" and late:
        return b"<html><title>502 Bad Gateway</title></html>"
    if fault == "missing":
        del user["tags"]
    if fault == "type":
        user["at"] = str(user["at"])
    if fault == "stale":
        user |= {"at": 1.5, "trace": "0"}
    if fault == "cached":
        user["id"] = 1
    if (fault == "bytes" and late) or fault.endswith("value"):
        user["name"] = "Bob"
    if fault == "later-type" and late:
        user["trace"] = None
    if fault == "order":
        user = dict(reversed(user.items()))
    return json.dumps(user, separators=(",", ":") if fault == "order" else None).encode()


def serve(peer: socket.socket, fault: str) -> None:
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    held = b""
    while True:
        while b"\r\n\r\n" not in held:
            if not (more := peer.recv(65536)):
                return
            held += more
        head, _, rest = held.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        method, path, _ = lines[0].split(" ")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        length = int(fields.get("content-length", 0))
        closes = fields.get("connection", "").lower() == "close"
        if fault == "early":
            respond(peer, method, path, fault, closes=closes)
        while len(rest) < length:
            rest += peer.recv(65536)
        held = rest[length:]
        if fault != "early":
            respond(peer, method, path, fault, closes=closes)
        if closes:
            peer.close()
            return


def respond(peer: socket.socket, method: str, path: str, fault: str, *, closes: bool) -> None:
    body = body_of(path.rpartition("/")[2].partition("?")[0], fault)
    status = "201 Created" if method == "POST" and fault != "status" else "200 OK"
    status = "404 Not Found" if fault == "absent" else status
    if fault in ("endless", "drips"):
        endless(peer, 2**16 if fault == "endless" else 1)
    zipped = fault.startswith("gzip")
    more = "Content-Encoding: gzip\r\n" if zipped else ""
    body = gzip.compress(body) if zipped else body
    more += "Connection: close\r\n" if closes else ""
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{more}Content-Length: {len(body)}\r\n\r\n"
    peer.sendall(head.encode() + body + (b"\r\n" if fault == "surplus" else b""))


def endless(peer: socket.socket, count: int) -> None:
    peer.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        peer.sendall(b"%x\r\n%b\r\n" % (count, b"x" * count))
        time.sleep(0 if count > 1 else 0.05)


def main() -> None:
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=1024)
    fault = sys.argv[2] if len(sys.argv) > 2 else ""
    while True:
        peer, _ = listener.accept()
        threading.Thread(target=_guarded, args=(peer, fault), daemon=True).start()


def _guarded(peer: socket.socket, fault: str) -> None:
    try:
        serve(peer, fault)
    except OSError:
        peer.close()


if __name__ == "__main__":
    main()
