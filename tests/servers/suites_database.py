"""A small server of TechEmpower's and HttpArena's workloads with a database, with one planted fault; wants psycopg.

usage: suites_database.py PORT FAULT [PORT FAULT]...

Each port has a server with its own fault; a port of 0 is chosen by the kernel. Prints a line with all ports.

FAULT: none; or one that cheats: cached (fortunes are read once), kept (the same, and reads them), unsorted,
unescaped, undated (fortunes without the added message), stale (rows from a copy of the table, and a statement for
each), joined (one statement for many rows), favourite (always the same row), unwritten (returns new numbers and
writes none), same (writes the old numbers), cheap (items beyond the range), floats (prices with a fraction), invented
(numbers that no row has). With items: forever (kept until they are updated), prolonged (a read keeps an item longer),
deaf (an update does not end what is kept), uncached, copied (items come from a copy, as if from the table), imagined
(updates and creates nothing, and remembers it), unpaged (always the first page), remembered (lists are kept).
"""

from __future__ import annotations

import contextlib
import html
import json
import os
import queue
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg

CONNECTIONS = int(os.environ["DATABASE_CONNECTIONS"])
POOL: queue.SimpleQueue[psycopg.Connection] = queue.SimpleQueue()
CACHE: dict[int, int] = {}
COLUMNS = "id, name, category, price, quantity, active, tags, rating_score, rating_count"
ITEM = f"SELECT {COLUMNS} FROM items"
#: One value, since a hundred thousand rows take a busy machine longer than a response may take.
ALL_ITEMS = f"SELECT json_agg(json_build_array({COLUMNS})) FROM items"

COPY: dict[int, list[object]] = {}


def written(made: object) -> bytes:
    return json.dumps(made, separators=(",", ":")).encode()


def shaped(row: Sequence[object]) -> dict[str, object]:
    """An item of a row of the table."""
    names = ("id", "name", "category", "price", "quantity", "active", "tags")
    return dict(zip(names, row[:7], strict=True)) | {"rating": {"score": row[7], "count": row[8]}}


def count_of(text: str, most: int) -> int:
    return min(max(int(text), 1), most) if text.isdigit() else 1


def totals(count: int, m: int) -> dict[str, object]:
    rows = json.loads((Path(os.environ["DATA"]) / "dataset.json").read_text())[:count]
    return {"items": [row | {"total": row["price"] * row["quantity"] * m} for row in rows], "count": count}


class Handler:
    """The answers with one fault."""

    def __init__(self, fault: str) -> None:
        self.fault, self.page = fault, b""
        self.kept: dict[int, tuple[float, bytes]] = {}
        self.lists: dict[tuple[str, int, int], object] = {}
        self.imagined: dict[int, dict[str, object]] = {}

    def number(self, connection: psycopg.Connection, number: int) -> int:
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
        return [{"id": number, "randomNumber": self.number(connection, number) + more} for number in ids]

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
        made = [shaped(row) for row in rows]
        if self.fault == "floats":
            made = [item | {"price": float(item["price"])} for item in made]
        return {"items": made, "count": len(made)}

    def item(self, connection: psycopg.Connection, number: int) -> dict[str, object] | None:
        """An item of the table."""
        if self.fault == "copied" and not COPY:
            found = connection.execute(ALL_ITEMS).fetchone()
            COPY.update((row[0], row) for row in (found[0] if found else ()))
        if self.fault == "copied" and number in COPY:
            return shaped(COPY[number])
        if number in self.imagined:
            return self.imagined[number]
        row = connection.execute(f"{ITEM} WHERE id = %s", (number,), prepare=True).fetchone()
        return row and shaped(row)

    def read(self, connection: psycopg.Connection, number: int) -> tuple[str, str, bytes]:
        """An item that is kept for 200 ms, or comes from the table."""
        now = time.monotonic()
        until, body = self.kept.get(number, (0.0, b""))
        if self.fault == "forever" and body:
            until = now + 1
        if now < until and self.fault != "uncached":
            if self.fault == "prolonged":
                self.kept[number] = (now + 0.2, body)
            return "200 OK", "application/json\r\nX-Cache: HIT", body
        item = self.item(connection, number)
        if item is None:
            return "404 Not Found", "text/plain", b"not found\n"
        body = written(item)
        self.kept[number] = (now + 0.2, body)
        return "200 OK", "application/json\r\nX-Cache: MISS", body

    def update(self, connection: psycopg.Connection, number: int, given: dict[str, object]) -> tuple[str, str, bytes]:
        values = [given[name] for name in ("name", "price", "quantity")]
        if self.fault == "imagined":
            item = self.item(connection, number)
            if item is not None:
                self.imagined[number] = item | given
            count = int(item is not None)
        else:
            statement = "UPDATE items SET name = %s, price = %s, quantity = %s WHERE id = %s"
            count = connection.execute(statement, (*values, number)).rowcount
        if not count:
            return "404 Not Found", "text/plain", b"not found\n"
        if self.fault == "copied" and number in COPY:
            COPY[number][1], COPY[number][3], COPY[number][4] = values
        if self.fault != "deaf":
            self.kept.pop(number, None)
        return "200 OK", "application/json", written({"id": number} | given)

    def create(self, connection: psycopg.Connection, given: dict[str, object]) -> tuple[str, str, bytes]:
        rest = {"active": True, "tags": ["bench"], "rating": {"score": 0, "count": 0}}
        if self.fault == "imagined":
            self.imagined[int(str(given["id"]))] = given | rest
        else:
            connection.execute(
                "INSERT INTO items VALUES (%s, %s, %s, %s, %s, true, '[\"bench\"]', 0, 0)"
                " ON CONFLICT (id) DO UPDATE SET name = excluded.name, price = excluded.price,"
                " quantity = excluded.quantity",
                [given[name] for name in ("id", "name", "category", "price", "quantity")],
            )
        return "201 Created", "application/json", written(given)

    def list(self, connection: psycopg.Connection, category: str, page: int, limit: int) -> object:
        if self.fault == "remembered" and (category, page, limit) in self.lists:
            connection.execute("SELECT 1 FROM items WHERE id = 1")
            return self.lists[category, page, limit]
        place = 0 if self.fault == "unpaged" else (page - 1) * limit
        rows = connection.execute(
            f"{ITEM} WHERE category = %s ORDER BY id LIMIT %s OFFSET %s", (category, limit, place)
        ).fetchall()
        made = {"items": [shaped(row) for row in rows], "total": len(rows), "page": page, "limit": limit}
        self.lists[category, page, limit] = made
        return made

    def answer(self, method: str, target: str, sent: bytes) -> tuple[str, str, bytes]:
        """Status, content type and body."""
        connection = POOL.get()
        try:
            return self.made(connection, method, target, sent)
        finally:
            POOL.put(connection)

    def made(self, connection: psycopg.Connection, method: str, target: str, sent: bytes) -> tuple[str, str, bytes]:
        url = urlsplit(target)
        given = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        made: object
        if method == "PUT":
            return self.update(connection, int(url.path.rpartition("/")[2]), json.loads(sent))
        if method == "POST":
            return self.create(connection, json.loads(sent))
        if url.path.startswith("/crud/items/"):
            return self.read(connection, int(url.path.rpartition("/")[2]))
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
        elif url.path == "/crud/items":
            made = self.list(connection, given["category"], int(given["page"]), int(given["limit"]))
        else:
            return "404 Not Found", "text/plain", b"not found\n"
        return "200 OK", "application/json", written(made)


def body_of(head: bytes, held: bytes, client: socket.socket) -> tuple[bytes, bytes]:
    """A request's body, and the bytes after it."""

    def more(until: Callable[[], bool]) -> None:
        nonlocal held
        while not until():
            piece = client.recv(65536)
            if not piece:
                raise ConnectionResetError
            held += piece

    if b"transfer-encoding: chunked" in head:
        body = b""
        while True:
            more(lambda: b"\r\n" in held)  # noqa: B023 - called at once
            line, _, held = held.partition(b"\r\n")
            size = int(line, 16)
            more(lambda: len(held) >= size + 2)  # noqa: B023 - called at once
            body, held = body + held[:size], held[size + 2 :]
            if not size:
                return body, held
    if b"content-length: " not in head:
        return b"", held
    size = int(head.partition(b"content-length: ")[2].split()[0])
    more(lambda: len(held) >= size)
    return held[:size], held[size:]


def serve(handler: Handler, client: socket.socket) -> None:
    held = b""
    with client, contextlib.suppress(ConnectionError):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while piece := client.recv(65536):
            held += piece
            while b"\r\n\r\n" in held:
                head, _, held = held.partition(b"\r\n\r\n")
                sent, held = body_of(head.lower(), held, client)
                method, target = head.decode().split()[:2]
                status, kind, body = handler.answer(method, target, sent)
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
