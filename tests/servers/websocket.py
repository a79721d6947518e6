"""A small server that echoes messages over WebSocket at /ws, with one planted fault; standard library only.

usage: websocket.py PORT [FAULT]

FAULT: none; or one that cheats: constant (always the same message), proofless (a wrong Sec-WebSocket-Accept), careless
(upgrades every request), old (upgrades version 12), binary (text comes back as binary), masked (frames as clients send
them), short (at most 125 bytes come back), endless (no close frame), double (each message comes back twice), extended
(agrees to an extension that was not offered). Or one that is right: pieces (in fragments, with a ping between).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import ssl
import struct
import sys
from collections.abc import Mapping

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9


def frame(opcode: int, payload: bytes, *, last: bool = True, mask: bool = False) -> bytes:
    """One frame."""
    length = len(payload)
    form, more = (length, b"") if length < 126 else (127, struct.pack("!Q", length))
    if 125 < length < 65_536:
        form, more = 126, struct.pack("!H", length)
    return bytes([opcode | 0x80 * last, form | 0x80 * mask]) + more + bytes(4 * mask) + payload


async def message(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Opcode and payload of the next frame; the client's messages come in one frame each."""
    first, second = await reader.readexactly(2)
    length = second & 0x7F
    if length > 125:
        width = 2 if length == 126 else 8
        length = int.from_bytes(await reader.readexactly(width), "big")
    mask = await reader.readexactly(4)
    payload = await reader.readexactly(length)
    keys = (mask * (length // 4 + 1))[:length]
    plain = (int.from_bytes(payload, "big") ^ int.from_bytes(keys, "big")).to_bytes(length, "big")
    return first & 0x0F, plain


def upgraded(headers: Mapping[str, str], fault: str) -> str:
    """The response to a request for an upgrade, or a refusal."""
    right = headers.get("upgrade", "").lower() == "websocket" and headers.get("sec-websocket-version") == "13"
    if not (right or fault == "careless" or (fault == "old" and "upgrade" in headers)):
        return "HTTP/1.1 426 Upgrade Required\r\nSec-WebSocket-Version: 13\r\nContent-Length: 0\r\n\r\n"
    key = headers.get("sec-websocket-key", "") + ("x" if fault == "proofless" else "")
    proof = base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()
    more = "Sec-WebSocket-Extensions: permessage-deflate\r\n" if fault == "extended" else ""
    return (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {proof}\r\n{more}\r\n"
    )


def echo(opcode: int, payload: bytes, fault: str) -> bytes:
    """What comes back."""
    if fault == "constant":
        return frame(TEXT, b"hello")
    if fault == "pieces":
        return frame(opcode, payload[:1], last=False) + frame(PING, b"") + frame(0, payload[1:])
    if fault == "short":
        payload = payload[:125]
    return frame(BINARY if fault == "binary" else opcode, payload, mask=fault == "masked") * (1 + (fault == "double"))


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, fault: str = "none") -> None:
    """One connection."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        fields = (line.partition(":") for line in head.split("\r\n")[1:] if line)
        response = upgraded({name.lower(): value.strip() for name, _, value in fields}, fault)
        writer.write(response.encode())
        while " 101 " in response:
            opcode, payload = await message(reader)
            if opcode == CLOSE:
                writer.write(b"" if fault == "endless" else frame(CLOSE, payload))
                return
            if opcode in (TEXT, BINARY):
                writer.write(echo(opcode, payload, fault))
        await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def started(fault: str = "none", port: int = 0, tls: ssl.SSLContext | None = None) -> asyncio.Server:
    """A server, by default on a free port."""
    return await asyncio.start_server(lambda reader, writer: serve(reader, writer, fault), "127.0.0.1", port, ssl=tls)


async def main() -> None:
    """Serves until killed."""
    await (await started(sys.argv[2] if len(sys.argv) > 2 else "none", int(sys.argv[1]))).serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
