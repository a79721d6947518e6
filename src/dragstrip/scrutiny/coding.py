"""Decodes bodies that a server compressed, within a cap: a small body may decode to gigabytes."""

from __future__ import annotations

import zlib

#: zlib's window bits for gzip's format with its checksum (RFC 1952).
_GZIP = 16 + zlib.MAX_WBITS

#: Where a gzip header has the time of its making (RFC 1952, 2.3.1).
_MADE_AT = slice(4, 8)


def decoded(body: bytes, coding: str, *, at_most: int) -> bytes | None:
    """A body without its content coding; None if it is not valid, incomplete, or longer than ``at_most``.

    Args:
        coding: "gzip" or "br".
    """
    plain = _from_gzip(body, at_most) if coding == "gzip" else _from_brotli(body, at_most)
    return plain if plain is not None and len(plain) <= at_most else None


def _from_gzip(body: bytes, at_most: int) -> bytes | None:
    reader = zlib.decompressobj(_GZIP)
    try:
        plain = reader.decompress(body, at_most + 1)
    except zlib.error:
        return None
    return plain if reader.eof and not reader.unused_data else None


def _from_brotli(body: bytes, at_most: int) -> bytes | None:
    import brotli

    reader, plain = brotli.Decompressor(), b""
    try:
        piece: bytes = reader.process(body, output_buffer_limit=at_most + 1)
        while piece:
            plain += piece
            if len(plain) > at_most:
                return None
            piece = reader.process(b"", output_buffer_limit=at_most + 1)
    except brotli.error:
        return None
    return plain if reader.is_finished() else None


def names_time(body: bytes, coding: str) -> bool:
    """Whether a compressed body contains the time of its making, so that its bytes change from second to second."""
    return coding == "gzip" and any(body[_MADE_AT])
