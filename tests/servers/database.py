"""A server of the workload `db` with a planted fault: ``database.py PORT MODE``; wants psycopg.

Modes: "right"; "memory" reads the whole table at its start and asks no more; "caches" asks for each row once;
"sleeps" makes statements wait in the database for 50 ms if several are running.
"""

from __future__ import annotations

import os
import queue
import socket
import sys
import threading
from urllib.parse import parse_qs, urlsplit

import psycopg

ROW = "SELECT id, n FROM rows WHERE id = %s"
SLOW = "SELECT id, n FROM rows, pg_sleep(0.05) WHERE id = %s"

MODE = sys.argv[2]
CONNECTIONS = int(os.environ["DATABASE_CONNECTIONS"])
POOL: queue.SimpleQueue[psycopg.Connection] = queue.SimpleQueue()
KNOWN: dict[int, int] = {}


def read(number: int) -> int:
    if number in KNOWN:
        return KNOWN[number]
    connection = POOL.get()
    try:
        slow = MODE == "sleeps" and POOL.qsize() < CONNECTIONS - 2
        found = connection.execute(SLOW if slow else ROW, (number,), prepare=True).fetchone()
    finally:
        POOL.put(connection)
    assert found is not None
    if MODE == "caches":
        KNOWN[number] = found[1]
    return int(found[1])


def answer(target: str) -> tuple[str, str, str]:
    parts = urlsplit(target)
    if parts.path != "/db":
        return "404 Not Found", "text/plain", "not found\n"
    number = int(parse_qs(parts.query)["id"][0])
    return "200 OK", "application/json", f'{{"id":{number},"n":{read(number)}}}'


def serve(client: socket.socket) -> None:
    held = b""
    with client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while piece := client.recv(65536):
            held += piece
            while b"\r\n\r\n" in held:
                head, _, held = held.partition(b"\r\n\r\n")
                status, kind, body = answer(head.split()[1].decode())
                text = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n{body}"
                client.sendall(text.encode())
                if b"close" in head.lower():
                    return


def main() -> None:
    for _ in range(CONNECTIONS):
        POOL.put(psycopg.connect(autocommit=True))
    if MODE == "memory":
        connection = POOL.get()
        KNOWN.update(connection.execute("SELECT id, n FROM rows").fetchall())
        POOL.put(connection)
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=1024)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=serve, args=(client,), daemon=True).start()


main()
