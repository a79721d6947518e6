"""Accepts connections for a server's program, over TLS if it was given a certificate; standard library only."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn


def serve_all(
    listener: socket.socket, serve: Callable[[socket.socket], None], words: Sequence[str], protocol: str
) -> NoReturn:
    """Serves each connection in a thread of its own.

    Args:
        words: the program's; ``tls=FILE`` names a certificate with its key. protocol: by ALPN, over TLS.
    """
    context: ssl.SSLContext | None = None
    for pem in (word.removeprefix("tls=") for word in words if word.startswith("tls=")):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        context.set_alpn_protocols([protocol])

    def attend(sock: socket.socket) -> None:
        with suppress(OSError):
            serve(context.wrap_socket(sock, server_side=True) if context else sock)

    while True:
        threading.Thread(target=attend, args=(listener.accept()[0],), daemon=True).start()
