"""Both workloads as a plain ASGI application; MARK comes from the environment."""

import os
from urllib.parse import parse_qs

MARK = os.environ["MARK"]


def multiply(path, query):
    given = parse_qs(query.decode())
    try:
        a, b = int(given["a"][0]), int(given["b"][0])
    except (KeyError, ValueError):
        return 400, b"text/plain", b"a and b must be whole numbers\n"
    body = f"<html><body><p>Hello {MARK}!</p><p>PATH={path}</p><p>RESULT: {a}*{b}={a * b}</p></body></html>\n"
    return 200, b"text/html", body.encode()


async def application(scope, receive, send):
    path = scope["path"]
    if path == "/":
        status, kind, body = 200, b"text/plain", b"hello world\n"
    elif path == "/multiply":
        status, kind, body = multiply(path, scope["query_string"])
    else:
        status, kind, body = 404, b"text/plain", b"not found\n"
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
