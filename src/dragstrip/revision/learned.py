"""A workload of a path alone: what the first revision responds there is the correct response of all.

Two requests on connections of their own show whether the response is the same each time. If it is not, or if its body
is not a text, only its status is compared, and a line says so.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from dragstrip import machine, paths
from dragstrip.contender import Entry
from dragstrip.errors import StageError
from dragstrip.process.scratch import scratch_root
from dragstrip.racing.launching import Launching
from dragstrip.revision.project import toml_text
from dragstrip.scrutiny import TROUBLE, Deadline, Response, Server, describe_error, read_response
from dragstrip.workload import HOST, Workload, load

#: Bytes of a body that is compared whole; of a longer one the status alone.
MAX_BODY_BYTES = 2**20

#: Seconds for one of the two responses.
RESPONSE_S = 10.0


def workload_of_path(path: str, entry: Entry, folder: Path, say: Callable[[str], None]) -> Workload:
    """The workload ``GET path``, whose correct response is what a contender sends now.

    Args:
        path: with its query, like ``/users/1``.
        folder: of our own, for the workload's file, which later races of the same response find again.
        say: shows a line about what is not compared.

    Raises:
        StageError: the contender does not start, or sends no complete response.
    """
    name = _name(path)
    anything = _write(folder, name, _text(name, path, 'compare = "status"\n'))
    with ExitStack() as resources:
        supervisors = resources.enter_context(ExitStack())
        scratch = resources.enter_context(scratch_root())
        cores = machine.lanes(None, None).server
        launching = Launching(cores=cores, scratch=scratch, supervisors=supervisors, seed=secrets.randbits(32))
        launched = launching.launch(entry, load(anything), "1.1")
        try:
            first, second = _ask(launched.server, path, entry.name), _ask(launched.server, path, entry.name)
        finally:
            launched.running.stop()
    answer, lack = _answer(first, second)
    if lack:
        say(f"{path}: {lack}, so only the status of responses is compared; a workload file can say what is correct")
    return load(_write(folder, name, _text(name, path, answer)))


def _ask(server: Server, path: str, name: str) -> Response:
    request = f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode()
    deadline = Deadline(RESPONSE_S)
    try:
        with server.connect(deadline) as sock:
            return read_response(sock, request, body_bytes=MAX_BODY_BYTES, deadline=deadline)
    except TROUBLE as error:
        raise StageError(f"{name}: {path}: {describe_error(error)}") from error


def _answer(first: Response, second: Response) -> tuple[str, str]:
    """The ``[answer]`` of the workload, and why the body is not compared; "" if it is."""
    status = f"status = {first.status}\n"
    kind = (first.header("content-type") or "").split(";")[0].strip().lower()
    try:
        body = first.body.decode()
    except UnicodeDecodeError:
        body = ""
    lack = (
        "two responses differ"
        if (first.status, first.body) != (second.status, second.body)
        else f"the body has over {MAX_BODY_BYTES:,} bytes"
        if first.cut
        else "the body is not a text"
        if not body or "\0" in body
        else "the response has no content type"
        if not re.fullmatch(r"[a-z0-9.+-]+/[a-z0-9.+-]+", kind)
        else ""
    )
    if lack:
        return f'{status}compare = "status"\n', lack
    # Braces of the body don't begin a template.
    template = re.sub(r"\{(?=[{%#])", "{{ '{' }}", body)
    return f"{status}content_type = {toml_text(kind)}\nbody = {toml_text(template)}\n", ""


def _text(name: str, path: str, answer: str) -> str:
    template = re.sub(r"\{(?=[{%#])", "{{ '{' }}", path)
    head = f'name = "{name}"\ntitle = {toml_text(f"GET {path}")}\n'
    return f"{head}\n[request]\npath = {toml_text(template)}\n\n[answer]\n{answer}"


def _name(path: str) -> str:
    """A workload's name: the path's letters and digits, and a part of its hash so that no two paths share it."""
    plain = re.sub(r"[^a-z0-9.]+", "-", path.lower()).strip("-.")[:40] or "root"
    return f"{plain}-{hashlib.sha256(path.encode()).hexdigest()[:6]}"


def _write(folder: Path, name: str, text: str) -> Path:
    """The file of a workload, in a folder by its content: a race that runs keeps the file that it read."""
    place = folder / hashlib.sha256(text.encode()).hexdigest()[:12]
    place.mkdir(parents=True, exist_ok=True)
    file = place / f"{name}.toml"
    if not file.is_file():
        paths.write(file, text)
    return file
