"""Nothing secret is kept of a request: each kind of place in which one may be, and what stays readable."""

from __future__ import annotations

import pytest

from dragstrip.store import masking


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("http://127.0.0.1/a?x=1&y=2#z", "http://127.0.0.1/a?x=1&y=2#z"),
        ("http://me:hidden@127.0.0.1/", "http://***@127.0.0.1/"),
        ("http://me:hid@den@127.0.0.1/", "http://***@127.0.0.1/"),
        ("http://127.0.0.1/me:x@y", "http://127.0.0.1/me:x@y"),
        ("http://127.0.0.1/?token=hidden&page=2", "http://127.0.0.1/?token=***&page=2"),
        ("http://127.0.0.1/?page=2&api_key=hidden#end", "http://127.0.0.1/?page=2&api_key=***#end"),
        ("http://127.0.0.1/?a=1;clientSecret=hidden", "http://127.0.0.1/?a=1;clientSecret=***"),
        ("http://127.0.0.1/?access%5Ftoken=hidden", "http://127.0.0.1/?access%5Ftoken=***"),
        ("http://127.0.0.1/?keyword=shown&token=", "http://127.0.0.1/?keyword=shown&token="),
    ],
)
def test_a_url_keeps_neither_passwords_nor_secret_values(given: str, kept: str) -> None:
    assert masking.url(given) == kept


def test_headers_of_credentials_lose_their_values() -> None:
    secret = ("Authorization", "cookie", "Proxy-Authorization", "X-Api-Key", "X-CSRF-Token", "X-Auth", "Set-Cookie")
    plain = ("Accept", "Host", "Content-Type", "If-None-Match", "X-Request-Id")
    assert masking.headers((name, "value") for name in secret) == [(name, "***") for name in secret]
    assert masking.headers((name, "value") for name in plain) == [(name, "value") for name in plain]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ('{"user": "me", "password": "hid\\"den", "n": 1}', '{"user": "me", "password": "***", "n": 1}'),
        ('[{"a": {"token": 5, "b": 2}}]', '[{"a": {"token": "***", "b": 2}}]'),
        ('{"text": "token=shown"}', '{"text": "token=shown"}'),
        ("user=me&password=hid den&page=2", "user=me&password=***&page=2"),
        ("plain text", "plain text"),
        ("", ""),
    ],
)
def test_a_body_keeps_its_form_without_secret_members_or_fields(given: str, kept: str) -> None:
    assert masking.body(given) == kept


def test_the_beginning_of_a_response_keeps_no_cookie() -> None:
    text = 'HTTP/1.1 500 No\r\nServer: one\r\nSet-Cookie: sid=hidden; Path=/\r\n\r\n{"token": "hid'
    assert masking.message(text) == 'HTTP/1.1 500 No\r\nServer: one\r\nSet-Cookie: ***\r\n\r\n{"token": "***"'
