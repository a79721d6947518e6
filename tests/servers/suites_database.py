"""A small server of TechEmpower's and HttpArena's workloads with a database, with one planted fault; wants psycopg.

usage: suites_database.py PORT FAULT [PORT FAULT]...

Each port has a server with its own fault; a port of 0 is chosen by the kernel. Prints a line with all ports.

FAULT: none; or one that cheats: cached (fortunes are read once), kept (the same, and reads them), unsorted,
unescaped, undated (fortunes without the added message), stale (rows from a copy of the table, and a statement for
each), joined (one statement for many rows), favourite (always the same row), unwritten (returns new numbers and
writes none), same (writes the old numbers), cheap (items beyond the range), floats (prices with a fraction), invented
(numbers that no row has).
"""

from __future__ import annotations

import html
import json
import os
import queue
import random
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg

CONNECTIONS = int(os.environ["DATABASE_CONNECTIONS"])
POOL: queue.SimpleQueue[psycopg.Connection] = queue.SimpleQueue()
CACHE: dict[int, int] = {}
ITEM = "SELECT id, name, category, price, quantity, active, tags, rating_score, rating_count FROM items"


def count_of(text: str, most: int) -> int:
    return min(max(int(text), 1), most) if text.isdigit() else 1


def totals(count: int, m: int) -> dict[str, object]:
    rows = json.loads((Path(os.environ["DATA"]) / "dataset.json").read_text())[:count]
    return {"items": [row | {"total": row["price"] * row["quantity"] * m} for row in rows], "count": count}


class Handler:
    """The answers with one fault."""

    def __init__(self, fault: str) -> None:
        self.fault, self.page = fault, b""

    def read(self, connection: psycopg.Connection, number: int) -> int:
        """The number of a row."""
        row = connection.execute("SELECT randomnumber FROM world WHERE id = %s", (number,), prepare=True).fetchone()
        assert row is not None
        return CACHE[number] if self.fault == "stale" else int(row[0])

    def worlds(self, connection: psycopg.Connection, count: int) -> list[dict[str, int]]:
        if self.fault == "joined":
            ids = random.sample(range(1, 10_001), count)
            rows = connection.execute("SELECT id, randomnumber FROM world WHERE id = ANY(%s)", (ids,)).fetchall()
            return [{"id": number, "randomNumber": value} for number, value in rows]
        ids = [7 if self.fault == "favourite" else random.randint(1, 10_000) for _ in range(count)]
        more = self.fault == "invented"
        return [{"id": number, "randomNumber": self.read(connection, number) + more} for number in ids]

    def updates(self, connection: psycopg.Connection, count: int) -> list[dict[str, int]]:
        rows = self.worlds(connection, count)
        for row in rows if self.fault != "same" else ():
            row["randomNumber"] = random.randint(1, 10_000)
        # Statements that wait for each other's rows would end in a deadlock, unless all have one order.
        changed = sorted({row["id"]: row["randomNumber"] for row in rows}.items())
        ids, values = zip(*changed, strict=True)
        if self.fault == "unwritten":
            ids = tuple(-number for number in ids)
        connection.execute(
            "UPDATE world SET randomnumber = new.value FROM unnest(%s::int[], %s::int[]) AS new(number, value)"
            " WHERE id = number",
            (list(ids), list(values)),
        )
        last = dict(changed)
        return [row | {"randomNumber": last[row["id"]]} for row in rows]

    def fortunes(self, connection: psycopg.Connection) -> bytes:
        fault = self.fault
        if fault == "cached" and self.page:
            return self.page
        rows = connection.execute("SELECT id, message FROM fortune").fetchall()
        rows += [] if fault == "undated" else [(0, "Additional fortune added at request time.")]
        rows.sort(key=lambda row: row[0] if fault == "unsorted" else row[1])
        text: Callable[[str], str] = (lambda message: message) if fault == "unescaped" else html.escape
        cells = "".join(f"<tr><td>{number}</td><td>{text(message)}</td></tr>" for number, message in rows)
        head = "<title>Fortunes</title></head><body><table><tr><th>id</th><th>message</th></tr>"
        made = f"<!DOCTYPE html><html><head>{head}{cells}</table></body></html>".encode()
        self.page = self.page if fault == "kept" and self.page else made
        return self.page

    def items(self, connection: psycopg.Connection, low: int, high: int, limit: int) -> dict[str, object]:
        low = 1 if self.fault == "cheap" else low
        rows = connection.execute(f"{ITEM} WHERE price BETWEEN %s AND %s LIMIT %s", (low, high, limit)).fetchall()
        names = ("id", "name", "category", "price", "quantity", "active", "tags")
        made = [dict(zip(names, row[:7], strict=True)) | {"rating": {"score": row[7], "count": row[8]}} for row in rows]
        if self.fault == "floats":
            made = [item | {"price": float(item["price"])} for item in made]
        return {"items": made, "count": len(made)}

    def answer(self, target: str) -> tuple[str, str, bytes]:
        """Status, content type and body."""
        connection = POOL.get()
        try:
            return self.made(connection, target)
        finally:
            POOL.put(connection)

    def made(self, connection: psycopg.Connection, target: str) -> tuple[str, str, bytes]:
        url = urlsplit(target)
        given = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        made: object
        if url.path == "/fortunes":
            return "200 OK", "text/html; charset=utf-8", self.fortunes(connection)
        if url.path == "/db":
            made = self.worlds(connection, 1)[0]
        elif url.path == "/queries":
            made = self.worlds(connection, count_of(given["queries"], 500))
        elif url.path == "/updates":
            made = self.updates(connection, count_of(given["queries"], 500))
        elif url.path == "/cached-queries":
            ids = random.sample(range(1, 10_001), count_of(given["count"], 500))
            made = [{"id": number, "randomNumber": CACHE[number]} for number in ids]
        elif url.path == "/baseline11":
            return "200 OK", "text/plain", b"%d" % (int(given["a"]) + int(given["b"]))
        elif url.path.startswith("/json/"):
            made = totals(int(url.path.removeprefix("/json/")), int(given["m"]))
        elif url.path == "/async-db":
            made = self.items(connection, int(given["min"]), int(given["max"]), int(given["limit"]))
        else:
            return "404 Not Found", "text/plain", b"not found\n"
        return "200 OK", "application/json", json.dumps(made, separators=(",", ":")).encode()


def serve(handler: Handler, client: socket.socket) -> None:
    held = b""
    with client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while piece := client.recv(65536):
            held += piece
            while b"\r\n\r\n" in held:
                head, _, held = held.partition(b"\r\n\r\n")
                status, kind, body = handler.answer(head.split()[1].decode())
                lines = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
                more = "Server: suites\r\nDate: Wed, 25 Nov 2026 00:00:00 GMT\r\n\r\n"
                client.sendall(f"{lines}{more}".encode() + body)
                if b"close" in head.lower():
                    return


def accept(listener: socket.socket, handler: Handler) -> None:
    while True:
        client, _ = listener.accept()
        threading.Thread(target=serve, args=(handler, client), daemon=True).start()


def main() -> None:
    for _ in range(CONNECTIONS):
        POOL.put(psycopg.connect(autocommit=True))
    connection = POOL.get()
    exists = connection.execute("SELECT to_regclass('world')").fetchone()
    if exists and exists[0]:
        CACHE.update(connection.execute("SELECT id, randomnumber FROM world").fetchall())
    POOL.put(connection)
    listeners = []
    for port, fault in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        listeners.append(socket.create_server(("127.0.0.1", int(port)), backlog=1024))
        threading.Thread(target=accept, args=(listeners[-1], Handler(fault)), daemon=True).start()
    print(*(listener.getsockname()[1] for listener in listeners), flush=True)
    threading.Event().wait()


main()
