"""Writes the hand-made seeds of both fuzzers' corpora; standard library only."""

from __future__ import annotations

from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
OK = b"HTTP/1.1 200 OK\r\n"
HELLO = b"hello world"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"

#: name: (what is expected, by its number in tests/oracle, bytes)
SEEDS: dict[str, tuple[int, bytes]] = {
    "length": (0, OK + b"Content-Length: 11\r\n\r\n" + HELLO),
    "two-glued": (0, 2 * (OK + b"Content-Length: 11\r\n\r\n" + HELLO)),
    "no-reason": (0, b"HTTP/1.1 200\r\ncontent-length:11\r\n\r\n" + HELLO),
    "bare-line-feeds": (0, b"HTTP/1.1 200 OK\nContent-Length: 11\n\n" + HELLO),
    "length-thrice": (0, OK + b"Content-Length: 11, 11\r\nContent-Length: 11\r\n\r\n" + HELLO),
    "lengths-differ": (0, OK + b"Content-Length: 11\r\nContent-Length: 12\r\n\r\n" + HELLO),
    "length-signed": (0, OK + b"Content-Length: +11\r\n\r\n" + HELLO),
    "length-hex": (0, OK + b"Content-Length: 0xb\r\n\r\n" + HELLO),
    "length-empty": (0, OK + b"Content-Length: \r\n\r\n" + HELLO),
    "length-huge": (0, OK + b"Content-Length: 18446744073709551616\r\n\r\n" + HELLO),
    "length-lies-more": (0, OK + b"Content-Length: 12\r\n\r\n" + HELLO),
    "length-lies-less": (0, OK + b"Content-Length: 10\r\n\r\n" + HELLO),
    "cut-in-head": (0, OK + b"Content-Le"),
    "cut-in-body": (0, OK + b"Content-Length: 11\r\n\r\nhello"),
    "chunked": (0, CHUNKED + b"b\r\nhello world\r\n0\r\n\r\n"),
    "chunked-small": (0, CHUNKED + b"".join(b"1\r\n%c\r\n" % byte for byte in HELLO) + b"0\r\n\r\n"),
    "chunked-extension": (0, CHUNKED + b'5;a="b";c\r\nhello\r\n6 ;x=y\r\n world\r\n00\r\n\r\n'),
    "chunked-trailers": (0, CHUNKED + b"B\r\nhello world\r\n0\r\nETag: x\r\nA: b\r\n\r\n"),
    "chunked-size-long": (0, CHUNKED + b"00000000000000b\r\nhello world\r\n0\r\n\r\n"),
    "chunked-size-huge": (0, CHUNKED + b"fffffffffffffffff\r\nhello"),
    "chunked-size-negative": (0, CHUNKED + b"-1\r\nhello"),
    "chunked-size-none": (0, CHUNKED + b"\r\nhello"),
    "chunked-no-line-end": (0, CHUNKED + b"b\r\nhello worldX0\r\n\r\n"),
    "chunked-line-feed": (0, CHUNKED + b"b\nhello world\n0\n\n"),
    "chunked-space": (0, CHUNKED + b"b \r\nhello world\r\n0\r\n\r\n"),
    "chunked-cut": (0, CHUNKED + b"b\r\nhello world\r\n0\r\n"),
    "chunked-and-length": (0, OK + b"Transfer-Encoding: chunked\r\nContent-Length: 11\r\n\r\n" + HELLO),
    "chunked-twice": (0, OK + b"Transfer-Encoding: chunked, chunked\r\n\r\n" + HELLO),
    "chunked-1.0": (0, b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n0\r\n\r\n"),
    "gzip": (0, OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    "until-close": (0, OK + b"Server: x\r\n\r\n" + HELLO),
    "until-close-1.0": (0, b"HTTP/1.0 200 OK\r\n\r\n" + HELLO),
    "keep-alive-1.0": (0, b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 11\r\n\r\n" + HELLO),
    "close": (0, OK + b"Connection: x, Close\r\nContent-Length: 11\r\n\r\n" + HELLO),
    "close-and-keep": (0, OK + b"Connection: close, keep-alive\r\nContent-Length: 11\r\n\r\n" + HELLO),
    "interim": (0, b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" + OK + b"Content-Length: 11\r\n\r\n" + HELLO),
    "interim-twice": (0, 2 * b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 11\r\n\r\n" + HELLO),
    "switching": (0, b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"),
    "status-other": (0, b"HTTP/1.1 500 Oh\r\nContent-Length: 3\r\n\r\nno!"),
    "status-strange": (0, b"HTTP/1.1 999 Oh\r\nContent-Length: 0\r\n\r\n"),
    "status-low": (0, b"HTTP/1.1 099 Oh\r\nContent-Length: 0\r\n\r\n"),
    "version-2": (0, b"HTTP/2 200\r\n\r\n"),
    "folded": (0, OK + b"A: b\r\n folded: c\r\nContent-Length: 11\r\n\r\n" + HELLO),
    "name-with-space": (0, OK + b"Content-Length : 11\r\n\r\n" + HELLO),
    "no-colon": (0, OK + b"nonsense\r\n\r\n" + HELLO),
    "not-utf-8": (0, OK + b"Server: \xff\xfe\r\nContent-Length: 11\r\n\r\n" + HELLO),
    "nul": (0, OK + b"Server: a\x00b\r\nContent-Length: 11\r\n\r\n" + HELLO),
    "garbage": (0, b"\x00\xff garbage\r\n\r\n"),
    "ssh": (0, b"SSH-2.0-OpenSSH_9.2\r\n"),
    "head-request": (1, OK + b"Content-Length: 11\r\n\r\n"),
    "head-request-chunked": (1, CHUNKED),
    "no-content": (2, b"HTTP/1.1 204 No Content\r\n\r\n"),
    "no-content-length": (2, b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n"),
    "not-found": (3, b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"),
    "not-modified": (3, b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n"),
    "empty": (4, OK + b"Content-Length: 0\r\n\r\n"),
    "empty-chunked": (4, CHUNKED + b"0\r\n\r\n"),
    "larger": (5, OK + b"Content-Length: 1000\r\n\r\n" + 1000 * b"x"),
    "larger-chunked": (5, CHUNKED + 2 * (b"1f4\r\n" + 500 * b"x" + b"\r\n") + b"0\r\n\r\n"),
    "many-fields": (0, OK + b"".join(b"X-%d: y\r\n" % n for n in range(130)) + b"Content-Length: 11\r\n\r\n" + HELLO),
}


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame of HTTP/2 (RFC 9113, 4.1)."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def setting(name: int, value: int) -> bytes:
    """One setting within a SETTINGS frame."""
    return name.to_bytes(2, "big") + value.to_bytes(4, "big")


DATA, HEADERS, PRIORITY, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END, ACK, END_HEADERS, PADDED, PRIORITISED = 1, 1, 4, 8, 0x20
#: ``:status 200`` out of the static table; with a length of 5; the same, put into the dynamic table.
STATUS, SIZED, LEARNED = b"\x88", b"\x88\x0f\x0d\x015", b"\x88\x5c\x015"
RIGHT = frame(HEADERS, END_HEADERS, 1, SIZED) + frame(DATA, END, 1, b"hello")
HUFFMAN = b"\x88\x40\x85\xf2\xb2\x4a\x84\xff\x84\x49\x50\x9f\xff"

#: What a server says to streams 1, 3 and 5, of which the second is a POST.
FRAMES: dict[str, bytes] = {
    "right": RIGHT,
    "three": b"".join(frame(HEADERS, END_HEADERS | END, stream, STATUS) for stream in (1, 3, 5)),
    "twice": RIGHT + frame(HEADERS, END_HEADERS, 7, SIZED) + frame(DATA, END, 7, b"again"),
    "learned": b"".join(frame(HEADERS, END_HEADERS | END, stream, LEARNED) for stream in (1, 3)),
    "referred": frame(HEADERS, END_HEADERS, 1, LEARNED) + frame(HEADERS, END_HEADERS, 3, b"\x88\xbe"),
    "no-such-field": frame(HEADERS, END_HEADERS | END, 1, b"\xff\x7f"),
    "table-emptied": frame(HEADERS, END_HEADERS | END, 1, b"\x20\x88"),
    "table-too-large": frame(HEADERS, END_HEADERS | END, 1, b"\x3f\xe2\x1f\x88"),
    "integer-too-large": frame(HEADERS, END_HEADERS | END, 1, b"\xff\xff\xff\xff\xff\xff\x7f"),
    "huffman": frame(HEADERS, END_HEADERS | END, 1, HUFFMAN),
    "bad-huffman": frame(HEADERS, END_HEADERS | END, 1, b"\x08\x84\xff\xff\xff\xff"),
    "upper-case": frame(HEADERS, END_HEADERS | END, 1, b"\x88\x00\x01X\x01y"),
    "of-http-1": frame(HEADERS, END_HEADERS | END, 1, b"\x88\x00\x0aconnection\x05close"),
    "no-status": frame(HEADERS, END_HEADERS | END, 1, b"\x0f\x0d\x015"),
    "two-lengths": frame(HEADERS, END_HEADERS | END, 1, SIZED + b"\x0f\x0d\x016"),
    "padded": frame(HEADERS, END_HEADERS | PADDED, 1, b"\x02" + SIZED + b"\0\0")
    + frame(DATA, END | PADDED, 1, b"\x03hello\0\0\0"),
    "padding-only": frame(HEADERS, END_HEADERS, 1, STATUS) + frame(DATA, END | PADDED, 1, b"\x02\0\0"),
    "bad-padding": frame(HEADERS, END_HEADERS, 1, STATUS) + frame(DATA, PADDED, 1, b"\x09x"),
    "bad-head-padding": frame(HEADERS, END_HEADERS | PADDED, 1, b"\x09\x88"),
    "priority-in-head": frame(HEADERS, END_HEADERS | END | PRIORITISED, 1, bytes(5) + STATUS),
    "priority": frame(PRIORITY, 0, 9, bytes(5)),
    "priority-short": frame(PRIORITY, 0, 1, bytes(4)),
    "interim": frame(HEADERS, END_HEADERS, 1, b"\x08\x03103") + RIGHT,
    "interims": 3 * frame(HEADERS, END_HEADERS, 1, b"\x08\x03100"),
    "trailers": frame(HEADERS, END_HEADERS, 1, STATUS) + frame(HEADERS, END_HEADERS | END, 1, b"\x00\x01a\x01b"),
    "continued": frame(HEADERS, END, 1, b"\x88") + frame(CONTINUATION, END_HEADERS, 1, b"\x0f\x0d\x010"),
    "continued-elsewhere": frame(HEADERS, END, 1, b"\x88") + frame(CONTINUATION, END_HEADERS, 3),
    "continuations": frame(HEADERS, END, 1, b"\x88") + 5 * frame(CONTINUATION, 0, 1),
    "continuation-alone": frame(CONTINUATION, END_HEADERS, 1, b"\x88"),
    "body-first": frame(DATA, END, 1, b"hello"),
    "empty-data": frame(HEADERS, END_HEADERS, 1, STATUS) + 3 * frame(DATA, 0, 1) + frame(DATA, END, 1),
    "reset": frame(RESET, 0, 1, b"\0\0\0\x08"),
    "refused": frame(RESET, 0, 3, b"\0\0\0\x07"),
    "reset-unknown": frame(RESET, 0, 99, b"\0\0\0\x01"),
    "reset-short": frame(RESET, 0, 1, b"\0"),
    "ping": frame(PING, 0, 0, b"12345678") + frame(PING, ACK, 0, b"12345678"),
    "ping-on-stream": frame(PING, 0, 1, b"12345678"),
    "goaway": frame(GOAWAY, 0, 0, b"\0\0\0\x01\0\0\0\0debug"),
    "goaway-short": frame(GOAWAY, 0, 0, b"\0\0\0\x01"),
    "window": frame(WINDOW, 0, 0, b"\0\1\0\0") + frame(WINDOW, 0, 3, b"\0\0\1\0"),
    "window-nothing": frame(WINDOW, 0, 0, bytes(4)),
    "window-beyond": frame(WINDOW, 0, 3, b"\x7f\xff\xff\xff"),
    "settings": frame(SETTINGS, 0, 0, setting(3, 1) + setting(4, 1 << 20) + setting(5, 1 << 15)),
    "settings-ack": frame(SETTINGS, ACK, 0) + RIGHT,
    "settings-no-window": frame(SETTINGS, 0, 0, setting(4, 0)) + RIGHT,
    "settings-bad-window": frame(SETTINGS, 0, 0, setting(4, 1 << 31)),
    "settings-bad-frame": frame(SETTINGS, 0, 0, setting(5, 1)),
    "settings-no-table": frame(SETTINGS, 0, 0, setting(1, 0)) + RIGHT,
    "settings-push": frame(SETTINGS, 0, 0, setting(2, 1)),
    "settings-cut": frame(SETTINGS, 0, 0, b"\0\1\0"),
    "push": frame(PUSH, END_HEADERS, 1, b"\0\0\0\2\x82"),
    "unknown": frame(77, 255, 1, b"whatever") + RIGHT,
    "too-long": b"\x00\x40\x01" + frame(DATA, 0, 1)[3:],
    "http-1": b"HTTP/1.1 400 Bad Request\r\n\r\n",
}


#: What a WebSocket server sends; the first expected message is the text "hello", the second 200 bytes of 7.
MESSAGES: dict[str, bytes] = {
    "hello": b"\x81\x05hello",
    "both": b"\x81\x05hello\x82\x7e\x00\xc8" + 200 * b"\x07",
    "fragments": b"\x01\x02he\x89\x04ping\x00\x00\x80\x03llo",
    "binary": b"\x82\x05hello",
    "shorter": b"\x81\x00",
    "longer": b"\x81\x06hello!",
    "other": b"\x81\x05HELLO",
    "ping": b"\x89\x00\x8a\x01x\x81\x05hello",
    "ping-in-pieces": b"\x09\x00",
    "ping-long": b"\x89\x7e\x00\x7e" + 126 * b"x",
    "close": b"\x88\x00",
    "close-code": b"\x88\x06\x03\xe8done",
    "close-half": b"\x88\x01x",
    "masked": b"\x81\x85\0\0\0\0hello",
    "reserved": b"\xc1\x05hello",
    "unknown": b"\x83\x05hello",
    "alone": b"\x80\x05hello",
    "within": b"\x01\x02he\x81\x05hello",
    "not-shortest": b"\x81\x7e\x00\x05hello",
    "not-shortest-long": b"\x81\x7f" + (5).to_bytes(8, "big") + b"hello",
    "large": b"\x81\x7f" + (1 << 20).to_bytes(8, "big") + b"hello",
    "too-large": b"\x81\x7f" + (1 << 62).to_bytes(8, "big") + b"hello",
    "http": b"HTTP/1.1 400 Bad Request\r\n\r\n",
}


def main() -> None:
    """Writes them, the byte that picks a cut in the middle."""
    for corpus in ("response", "frames", "messages"):
        (CORPUS / corpus).mkdir(parents=True, exist_ok=True)
    for name, (expected, data) in SEEDS.items():
        (CORPUS / "response" / name).write_bytes(bytes([expected, 128]) + data)
    for name, data in FRAMES.items():
        # After the server's SETTINGS, and byte by byte, too.
        (CORPUS / "frames" / name).write_bytes(bytes([128, 3]) + data)
    for name, data in MESSAGES.items():
        (CORPUS / "messages" / name).write_bytes(bytes([128]) + data)


if __name__ == "__main__":
    main()
