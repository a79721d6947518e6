"""A small server of TechEmpower's and HttpArena's workloads without a database, with one planted fault.

usage: suites.py PORT DATA [FAULT [CERTIFICATE KEY]]

It speaks HTTP/1.1, and HTTP/2 to those who begin with its preface; over TLS if it has a certificate.

FAULT: none; or one that cheats: dateless (no Date header), uncoded (ignores Accept-Encoding), always (gzip for
everybody), deflated (a coding that no request accepts), mislabelled (says br and sends gzip), stored (gzip that saves
nothing), torn (half of the gzip), announced (an upload's size from its head), early (the same before the body has
come), ones (all products as if m was 1), pool (adds right only what the load asks for). Or one that is right: timed
(gzip with the time in it).
"""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import brotli
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded

TYPES = {".css": "text/css", ".js": "application/javascript", ".json": "application/json", ".html": "text/html"}
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@dataclass(frozen=True)
class Suites:
    """What it answers, from the files of one launch."""

    files: Mapping[str, bytes]
    fault: str = "none"

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> tuple[int, str, bytes]:
        """Status, head lines and body."""
        url = urlsplit(target)
        status, kind, made = self._made(method, url.path, parse_qs(url.query), headers, body)
        accepted = headers.get("accept-encoding", "")
        coding, made = self._coded(url.path.lstrip("/"), kind, made, accepted)
        lines = f"Content-Type: {kind}\r\nServer: suites\r\n"
        lines += "" if self.fault == "dateless" else "Date: Wed, 25 Nov 2026 00:00:00 GMT\r\n"
        return status, lines + (f"Content-Encoding: {coding}\r\n" if coding else ""), made

    def _made(
        self, method: str, path: str, given: Mapping[str, list[str]], headers: Mapping[str, str], body: bytes
    ) -> tuple[int, str, bytes]:
        first, _, rest = path.strip("/").partition("/")
        if first == "plaintext":
            return 200, "text/plain", b"Hello, World!"
        if path == "/json":
            return 200, "application/json", b'{"message":"Hello, World!"}'
        if first == "pipeline":
            return 200, "text/plain", b"ok"
        if first in ("baseline11", "baseline2"):
            sum_ = int(given["a"][0]) + int(given["b"][0]) + int(body or b"0")
            return 200, "text/plain", b"%d" % (sum_ if sum_ < 1000 or self.fault != "pool" else 7)
        if first == "upload" and method == "POST":
            return 200, "text/plain", b"%d" % self._size(headers, body)
        if first == "json":
            return 200, "application/json", self._items(int(rest), int(given["m"][0]))
        if (file := self.files.get(path.lstrip("/"))) is not None:
            return 200, TYPES.get(Path(path).suffix, "application/octet-stream"), file
        return 404, "text/plain", b"not found\n"

    def _size(self, headers: Mapping[str, str], body: bytes) -> int:
        return int(headers.get("content-length", 0)) if self.fault in ("announced", "early") else len(body)

    def _items(self, count: int, m: int) -> bytes:
        rows = json.loads(self.files["dataset.json"])[:count]
        m = 1 if self.fault == "ones" else m
        items = [row | {"total": row["price"] * row["quantity"] * m} for row in rows]
        return json.dumps({"items": items, "count": count}, separators=(",", ":")).encode()

    def _coded(self, path: str, kind: str, body: bytes, accepted: str) -> tuple[str, bytes]:
        fault = self.fault
        if f"{path}.br" in self.files and "br" in accepted:
            return "br", self.files[f"{path}.br"]
        if kind != "application/json" or fault == "uncoded" or not (accepted or fault == "always"):
            return "", body
        if fault == "deflated":
            return "deflate", zlib.compress(body)
        if fault == "stored":
            return "gzip", gzip.compress(body, 0)
        if fault == "timed":
            return "gzip", gzip.compress(body)
        if "br" in accepted and fault == "none":
            return "br", brotli.compress(body, quality=2)
        coded = gzip.compress(body, 3, mtime=0)
        return "br" if fault == "mislabelled" else "gzip", coded[: len(coded) // 2] if fault == "torn" else coded


async def body_of(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding") != "chunked":
        return await reader.readexactly(int(headers.get("content-length", 0)))
    pieces = []
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        pieces.append((await reader.readexactly(size + 2))[:-2])
    await reader.readuntil(b"\r\n")
    return b"".join(pieces)


async def serve(suites: Suites, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection's requests, one after the other."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            if head == PREFACE[: len(head)]:
                await Framed(suites, reader, writer).serve(head)
                break
            first, *lines = head.decode("latin-1").strip().split("\r\n")
            method, target, _ = first.split(" ")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            close = headers.get("connection") == "close"
            early = suites.fault == "early" and "content-length" in headers
            status, more, body = suites.answer(
                method, target, headers, b"" if early else await body_of(reader, headers)
            )
            reason = "OK" if status == 200 else "Not Found"
            more += "Connection: close\r\n" if close else ""
            writer.write(f"HTTP/1.1 {status} {reason}\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            await writer.drain()
            if early:
                await body_of(reader, headers)
            if close:
                break
    except (asyncio.IncompleteReadError, ConnectionError, ValueError, KeyError):
        pass
    writer.close()


class Framed:
    """A connection of HTTP/2."""

    def __init__(self, suites: Suites, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.suites, self.reader, self.writer = suites, reader, writer
        self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding="latin-1"))
        self.asked: dict[int, dict[str, str]] = {}
        self.unsent: dict[int, bytes] = {}

    async def serve(self, begun: bytes) -> None:
        self.h2.initiate_connection()
        given = begun
        while given:
            for event in self.h2.receive_data(given):
                if isinstance(event, RequestReceived) and event.stream_id is not None:
                    self.asked[event.stream_id] = dict(event.headers or ())
                elif isinstance(event, DataReceived):
                    self.h2.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id or 0)
                elif isinstance(event, StreamEnded) and event.stream_id is not None:
                    self._respond(event.stream_id)
            for stream in list(self.unsent):
                self._send(stream)
            self.writer.write(self.h2.data_to_send())
            await self.writer.drain()
            given = await self.reader.read(1 << 16)

    def _respond(self, stream: int) -> None:
        headers = self.asked.pop(stream)
        status, lines, body = self.suites.answer(headers[":method"], headers[":path"], headers, b"")
        fields = [line.split(": ", 1) for line in lines.strip().split("\r\n")]
        named = [(name.lower(), value) for name, value in fields]
        self.h2.send_headers(stream, [(":status", str(status)), *named, ("content-length", str(len(body)))])
        self.unsent[stream] = body

    def _send(self, stream: int) -> None:
        while stream in self.unsent:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            piece, rest = self.unsent[stream][:room], self.unsent[stream][room:]
            if room <= 0 and rest:
                return
            self.h2.send_data(stream, piece, end_stream=not rest)
            self.unsent[stream] = rest
            if not rest:
                del self.unsent[stream]


def encryption(certificate: str, key: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


async def started(suites: Suites, port: int = 0, tls: ssl.SSLContext | None = None) -> asyncio.Server:
    return await asyncio.start_server(
        lambda reader, writer: serve(suites, reader, writer), "127.0.0.1", port, backlog=4096, ssl=tls, limit=2**20
    )


async def main() -> None:
    """Serves until killed."""
    folder = Path(sys.argv[2])
    files = {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    suites = Suites(files, sys.argv[3] if len(sys.argv) > 3 else "none")
    server = await started(suites, int(sys.argv[1]), encryption(*sys.argv[4:6]) if len(sys.argv) > 4 else None)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
