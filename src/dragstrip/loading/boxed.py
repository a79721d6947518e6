"""A container for the time of a load: its image's program is started, and the load's URL leads into its network."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import urlsplit

from dragstrip import contender, machine
from dragstrip.contender import LOOPBACK, boxes
from dragstrip.errors import BadUsage, NotReady
from dragstrip.loading.request import LoadRequest
from dragstrip.process.launcher import Launcher, scratch_root

#: The container's name in messages.
_NAME = "container"


@contextmanager
def started(request: LoadRequest, image: str, *, wake_s: float | None = None) -> Iterator[LoadRequest]:
    """The request for a container, which runs on the servers' cores while the block lasts.

    Args:
        image: a saved image's file, or an image's name. wake_s: as for ``contender.image_entry``.

    Raises:
        BadUsage: the URL is not one of this machine. NotReady: the image or bubblewrap is missing.
        StageError: the program does not listen. NeedsUserNamespace: its network can't be entered.
    """
    _refuse_elsewhere(request)
    entry = contender.image_entry(f"{_NAME}={image}", wake_s=wake_s)
    if isinstance(state := contender.check(entry), contender.Missing):
        raise NotReady(f"{state.reason}; {state.remedy}")
    contender.build(entry)
    cores = machine.lanes(None, None).server
    with scratch_root() as root, Launcher(name=_NAME, scratch_root=root) as launcher:
        scratch = root / _NAME
        scratch.mkdir()
        start = contender.prepare(entry, scratch=scratch, port=0, cores=cores, workload="")
        start = replace(start, port=urlsplit(request.url).port or start.port)
        running = launcher.launch(start, scratch=scratch, cores=cores, is_right=_listens)
        named = boxes.facts(entry)["image"]
        yield replace(request, url=_with_port(request.url, start.port), namespace=running.namespace, container=named)


def _refuse_elsewhere(request: LoadRequest) -> None:
    parts = urlsplit(request.url)
    if parts.hostname not in ("localhost", LOOPBACK):
        raise BadUsage(f"--image: {request.url} is not in the container; use http://localhost/ and a path")
    if request.unix is not None:
        raise BadUsage(f"--image can't be combined with --unix {request.unix}: a container has its own files")


def _with_port(url: str, port: int) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"{parts.hostname}:{port}").geturl()


def _listens(host: str, port: int) -> None:
    """Passes as soon as a connection is accepted; the load's reference requests then check the response."""
    socket.create_connection((host, port), timeout=5).close()
