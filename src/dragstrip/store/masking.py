"""What is kept out of stored loads, logs and exports: values of secret headers, and secret values of URLs and bodies.

A name is secret if it is one of those that carry credentials (RFC 9110, 11: Authorization; RFC 6265: Cookie), or ends
with a word for one: ``X-Api-Key``, ``access_token``, ``clientSecret``. Masking too much costs a reader a detail;
masking too little can't be taken back.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from contextlib import suppress

#: Replaces a secret value.
MASK = "***"

#: Names without other characters than letters and digits, in lower case: whole ones, and ends of them.
_WHOLE = frozenset({"cookie", "jwt", "pass", "pwd", "sid", "sig", "xsrf"})
_ENDS = (
    *(
        "auth",
        "authorization",
        "cookies",
        "setcookie",
        "credential",
        "credentials",
        "key",
        "passphrase",
        "passwd",
        "password",
    ),
    *("secret", "session", "sessionid", "signature", "token"),
)

#: ``name=value`` of a query, and of a form; a member of a JSON object; a line of a message's head.
_PAIR = re.compile(r"(?P<before>(?<=[?&;])(?P<name>[^?&;=\s]+)=)(?P<value>[^&;#\s]+)")
_FIELD = re.compile(r"(?P<before>(?:^|(?<=[&\s]))(?P<name>[^&=\s]+)=)(?P<value>[^&]+)")
_MEMBER = re.compile(r'(?P<before>"(?P<name>(?:[^"\\]|\\.)*)"\s*:\s*)(?P<value>"(?:[^"\\]|\\.)*"?|[^\s,{}\[\]"]+)')
_LINE = re.compile(r"(?P<before>^(?P<name>[!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*)(?P<value>[^\r\n]+)", re.MULTILINE)

#: The part of a URL before its host that has a name and a password (RFC 3986, 3.2.1).
_USERINFO = re.compile(r"(?<=://)[^/?#\s]*@")


#: Rounds of PBKDF2 (RFC 8018) with SHA-256, about 50 ms, so that a record's hash can't be searched quickly.
_ROUNDS = 100_000

#: Secret values that this process was given, and their parts of at least so many characters.
_known: set[str] = set()
_LEAST = 6

#: Schemes of Authorization, which are no secret (RFC 9110, 11.1).
_SCHEMES = {"basic", "bearer", "digest", "negotiate", "token"}


def parts_of(value: str) -> list[str]:
    """A secret value and its parts, which a server may say by themselves (RFC 6265; RFC 7617), the longest first."""
    words = [word for word in re.split(r"[\s;,]+", value) if word.lower() not in _SCHEMES]
    # A name before "=" is no secret; "=" at the end is base64's.
    parts = {value, *(re.sub(r"^[^=]+=(?=[^=])", "", word) for word in words)}
    with suppress(ValueError):
        parts.add(plain := base64.b64decode(value.removeprefix("Basic "), validate=True).decode())
        parts.update(plain.partition(":"))
    return sorted((part for part in parts if len(part) >= _LEAST), key=lambda part: (-len(part), part))


def salted(value: str) -> str:
    """A secret value as a record keeps it: the salt, and a hash of both (PBKDF2, RFC 8018), in hexadecimal digits."""
    salt = secrets.token_hex(16)
    return f"{salt}:{_hash(value, salt)}"


def is_same(value: str, kept: str) -> bool:
    """Whether a value is the one that ``salted`` was given."""
    salt, _, digest = kept.partition(":")
    return hmac.compare_digest(_hash(value, salt), digest)


def _hash(value: str, salt: str) -> str:
    return hashlib.pbkdf2_hmac("sha256", value.encode("utf-8", "surrogateescape"), salt.encode(), _ROUNDS).hex()


def know(value: str) -> None:
    """Keeps a secret value for the length of this process, so that ``hide`` finds it in what a server says."""
    _known.update(parts_of(value))


def hide(text: str) -> str:
    """A server's words without the secret values that this process was given."""
    for part in sorted(_known, key=len, reverse=True):
        text = text.replace(part, MASK)
    return text


def is_secret(name: str) -> bool:
    """Whether the values of a header, of a query or of a body by this name are secret."""
    plain = re.sub(r"[^a-z0-9]", "", re.sub(r"%[0-9A-Fa-f]{2}", "", name).lower())
    return plain in _WHOLE or plain.endswith(_ENDS)


def url(text: str) -> str:
    """A URL without its name and password, and without secret values of its query."""
    return _PAIR.sub(_masked, _USERINFO.sub(f"{MASK}@", text))


def headers(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Headers with the values of secret ones masked."""
    return [(name, MASK if is_secret(name) else value) for name, value in pairs]


def body(text: str) -> str:
    """A body with secret members of JSON, or secret fields of a form, masked."""
    members = _MEMBER.sub(lambda found: _masked(found, '"'), text)
    return members if text.lstrip()[:1] in ("{", "[") else _FIELD.sub(_masked, members)


def message(text: str) -> str:
    """The beginning of a response, with its secret headers (``Set-Cookie``) and secret members of JSON masked."""
    return _MEMBER.sub(lambda found: _masked(found, '"'), _LINE.sub(_masked, text))


def _masked(found: re.Match[str], quote: str = "") -> str:
    return f"{found['before']}{quote}{MASK}{quote}" if is_secret(found["name"]) else found[0]
