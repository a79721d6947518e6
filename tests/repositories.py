"""Git repositories that tests make: small servers whose commits are known."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

#: A server of Python's own library: it answers any path with one JSON text, as slowly as its source says.
SERVER = """\
import asyncio, re, sys, time

BODY = b'{"id":1}'
HEAD = b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n" % len(BODY)

async def serve(reader, writer):
    try:
        while True:
            request = await reader.readuntil(b"\\r\\n\\r\\n")
            if length := re.search(rb"content-length: *(\\d+)", request.lower()):
                await reader.readexactly(int(length[1]))
            sum(range(LOOPS))
            closes = b"connection: close" in request.lower()
            writer.write(HEAD + (b"Connection: close\\r\\n" if closes else b"") + b"\\r\\n" + CONTENT)
            if closes:
                break
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()

async def main():
    async with await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1])) as server:
        await server.serve_forever()

asyncio.run(main())
"""

#: It needs no build.
PROJECT = """\
[serve]
command = "python3 server.py {port}"

[race]
workloads = ["/users/1"]
"""


class Made:
    """A repository in a folder, on the branch main."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch", "main")
        self.git("config", "user.email", "nobody@localhost")
        self.git("config", "user.name", "nobody")

    def git(self, *words: str) -> str:
        """What git prints."""
        command = ["git", "-C", str(self.folder), *words]
        quiet = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}  # `git status` would write the index
        return subprocess.run(command, env=quiet, capture_output=True, text=True, check=True).stdout.rstrip("\n")

    def write(self, **files: str) -> None:
        """Files by their names, in which ``_`` stands for a dot."""
        for name, text in files.items():
            (self.folder / name.replace("_", ".")).write_text(text)

    def commit(self, subject: str, **files: str) -> str:
        """A commit with these files; returns its full name."""
        self.write(**files)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", subject)
        return self.git("rev-parse", "HEAD")

    def state(self) -> tuple[str, ...]:
        """What a command must leave as it is: status, branches, worktrees, and the index's own bytes."""
        index = (self.folder / ".git" / "index").read_bytes().hex()
        refs = self.git("for-each-ref")
        return self.git("status", "--porcelain", "--ignored"), refs, self.git("worktree", "list"), index


def server(loops: int = 0, content: str = "BODY") -> str:
    """The server's source, which counts up to a number for each request and responds with an expression of 8 bytes."""
    return SERVER.replace("LOOPS", str(loops)).replace("CONTENT)", f"{content})")
