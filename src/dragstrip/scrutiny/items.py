"""Judges responses with HttpArena's items: each must be an item of the contender's table, as it is now."""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

from dragstrip.scrutiny.reader import QUOTED, Response, quoted
from dragstrip.workload import Exchange, Written

#: The header of a response that may come from the server's cache, and its two values.
CACHE, HIT, MISS = "X-Cache", "HIT", "MISS"


def parsed(body: bytes) -> object:
    """A JSON text's value; None if it is not JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def several(exchange: Exchange, body: bytes) -> str | None:
    """What is wrong with a response that has items within a range of prices."""
    page, tables = parsed(body), exchange.tables
    if not isinstance(page, dict) or set(page) != {"items", "count"} or not isinstance(page["items"], list):
        return f"sent {quoted(body)}; expected an object with items and count, as JSON"
    count = min(exchange.count, tables.items_within(exchange.low, exchange.high))
    if page["count"] != len(page["items"]) or len(page["items"]) != count:
        return (
            f"sent {len(page['items']):,} items and the count {str(page['count'])[:QUOTED]}; expected {count:,} of each"
        )
    numbers = set()
    for item in page["items"]:
        number = item.get("id") if isinstance(item, dict) else None
        right = tables.current(number, exchange.written) if type(number) is int else None
        if number in numbers:
            return f"sent the item {_shown(item)} twice; expected it once"
        if not _equal(right, item):
            return _difference(right, item)
        if not exchange.low <= item["price"] <= exchange.high:
            return (
                f"sent an item with the price {item['price']:,}; expected prices from {exchange.low:,} to "
                f"{exchange.high:,}"
            )
        numbers.add(number)
    return None


def single(exchange: Exchange, body: bytes) -> str | None:
    """What is wrong with a response that has the item whose id ends the path."""
    right = exchange.tables.current(number_of(exchange), exchange.written)
    given = parsed(body)
    if given is None:
        return f"sent {quoted(body)}; expected an item, as JSON"
    return None if _equal(right, given) else _difference(right, given)


def listed(exchange: Exchange, body: bytes) -> str | None:
    """What is wrong with a response that has a page of a category's items."""
    query = {name: values[0] for name, values in parse_qs(urlsplit(exchange.path).query).items()}
    number, limit = int(query["page"]), int(query["limit"])
    ids = exchange.tables.listed(query["category"], number, limit)
    page = parsed(body)
    if not isinstance(page, dict) or set(page) != {"items", "total", "page", "limit"}:
        return f"sent {quoted(body)}; expected an object with items, total, page and limit, as JSON"
    rest = {name: page[name] for name in ("total", "page", "limit")}
    if not _equal(right := {"total": len(ids), "page": number, "limit": limit}, rest):
        return f"sent {_shown(rest)}; expected {_shown(right)}"
    given = page["items"] if isinstance(page["items"], list) else []
    if len(given) != len(ids):
        return f"sent {len(given):,} items; expected {len(ids):,}"
    for item, due in zip(given, ids, strict=True):
        if not isinstance(item, dict) or item.get("id") != due:
            return f"sent the item {_shown(item)}; expected the category's items in the order of ids, here {due:,}"
        if not _equal(row := exchange.tables.current(due, exchange.written), item):
            return _difference(row, item)
    return None


def written(exchange: Exchange, body: bytes) -> str | None:
    """What is wrong with a response to an item that was sent; a correct one changes what the table must have."""
    sent, given = values_of(exchange), parsed(body)
    if not isinstance(given, dict) or not _equal(sent, {name: given.get(name) for name in sent}):
        return f"sent {quoted(body)}; expected an object with the values that were sent: {_shown(sent)}"
    exchange.written[number_of(exchange)] = Written(sent, exchange.tables.raised)
    return None


def number_of(exchange: Exchange) -> int:
    """The id of the item that an exchange reads, updates or creates."""
    if exchange.compare == "created":
        return int(json.loads(exchange.sends)["id"])
    return int(urlsplit(exchange.path).path.rpartition("/")[2])


def values_of(exchange: Exchange) -> Mapping[str, str | int]:
    """The values that a request writes."""
    return dict(json.loads(exchange.sends))


def needs_statement(exchange: Exchange, response: Response) -> bool:
    """Whether a correct response says that it does not come from the server's cache, although it might."""
    return exchange.cached_ms > 0 and cached(response) == MISS


def cached(response: Response) -> str:
    """What a response says of the server's cache."""
    return (response.header(CACHE.lower()) or "none").strip().upper()[:QUOTED]


def _shown(value: object) -> str:
    return quoted(json.dumps(value).encode())


def _difference(right: Mapping[str, object] | None, given: object) -> str:
    """How an item is not the table's: by the first value that differs, if it has the same keys."""
    if right is None or not isinstance(given, dict) or set(given) != set(right):
        return f"sent the item {_shown(given)}; expected it as the table has it: {_shown(right)}"
    name = next(name for name in right if not _equal(right[name], given[name]))
    return (
        f"sent {name} {_shown(given[name])} of the item {right['id']}; expected {_shown(right[name])}, as the table "
        "has it"
    )


def _equal(right: object, given: object) -> bool:
    """Whether two JSON values are the same: 1, 1.0 and true are equal in Python."""
    return right == given and _types(right) == _types(given)


def _types(value: object) -> object:
    if isinstance(value, dict):
        return {key: _types(part) for key, part in value.items()}
    return [_types(part) for part in value] if isinstance(value, list) else type(value)
