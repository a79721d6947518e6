"""Writes the hand-made seeds of the response fuzzer's corpus; standard library only."""

from __future__ import annotations

from pathlib import Path

CORPUS = Path(__file__).parent / "corpus" / "response"
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


def main() -> None:
    """Writes them, the byte that picks a cut in the middle."""
    CORPUS.mkdir(parents=True, exist_ok=True)
    for name, (expected, data) in SEEDS.items():
        (CORPUS / name).write_bytes(bytes([expected, 128]) + data)


if __name__ == "__main__":
    main()
